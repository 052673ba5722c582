// Watch: calls a function whenever a descriptor is readable. For descriptors that are no links: pidfds, eventfds,
// signalfds, pipes.
#pragma once

#include <functional>
#include <memory>

#include "runtime/net/loop.h"

namespace mobula::net {

class Watch {
 public:
  // `fn` runs as a handler each time `descriptor` is readable (or at end of file), until the Watch is destroyed; level
  // triggered, so fn should read what is there. The descriptor stays the caller's and must outlive the Watch.
  // Made and destroyed in handlers or before the loop runs (anywhere the token is held); fn may destroy its Watch.
  Watch(Loop& loop, int descriptor, std::function<void()> fn);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mobula::net
