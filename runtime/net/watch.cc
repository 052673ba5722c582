#include "runtime/net/watch.h"

#include <utility>

#include "runtime/net/asio.h"

namespace mobula::net {

struct Watch::State : std::enable_shared_from_this<Watch::State> {
  State(Loop& loop, int descriptor, std::function<void()> fn_)
      : stream(loop.context(), descriptor), fn(std::move(fn_)) {}
  ~State() {
    if (stream.is_open()) stream.release();
  }

  asio::posix::stream_descriptor stream;
  std::function<void()> fn;
  bool cancelled = false;

  void arm() {
    stream.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const asio::error_code& error) {
                        if (error || self->cancelled) return;
                        self->fn();
                        if (!self->cancelled) self->arm();
                      });
  }
};

Watch::Watch(Loop& loop, int descriptor, std::function<void()> fn)
    : state_(std::make_shared<State>(loop, descriptor, std::move(fn))) {
  state_->arm();
}

Watch::~Watch() {
  // The function may be running right now, so it is left alone; the pending wait ends and drops the state.
  state_->cancelled = true;
  state_->stream.release();
}

}  // namespace mobula::net
