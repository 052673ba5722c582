// wait: which refs are ready?
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <mobula/get.h>
#include <mobula/object_ref.h>
#include <mobula/options.h>

namespace mobula {

// Each part keeps the order in which the refs were given.
template <class T>
struct WaitResult {
  std::vector<ObjectRef<T>> ready;  // with a value or an error
  std::vector<ObjectRef<T>> pending;
};

// Returns when `.count` of `refs` are ready (1 unless told otherwise), or when `.timeout` has passed; `ready` may hold
// more than `.count`. Takes its refs and gives them back sorted: pass std::move(refs), else they are copied.
//   while (!refs.empty()) {
//     auto [ready, pending] = mobula::wait(std::move(refs));
//     for (auto& ref : ready) use(mobula::get(ref));
//     refs = std::move(pending);
//   }
// Invalid when `.count` exceeds the number of refs or a ref is empty. Never throws for what an object holds.
template <class T>
WaitResult<T> wait(std::vector<ObjectRef<T>> refs, WaitOptions options = {}) {
  if (options.count > refs.size()) {
    detail::throw_invalid("wait for " + std::to_string(options.count) + " of " + std::to_string(refs.size()) + " refs");
  }
  const std::vector<bool> ready =
      detail::wait(detail::handles_of<T>(refs), options.count, options.timeout, options.fetch);
  WaitResult<T> result;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    (ready[i] ? result.ready : result.pending).push_back(std::move(refs[i]));
  }
  return result;
}

// wait({a, b}, {.count = 1, .timeout = 5s}).
template <class T>
WaitResult<T> wait(std::initializer_list<ObjectRef<T>> refs, WaitOptions options = {}) {
  return wait(std::vector<ObjectRef<T>>(refs), options);
}

}  // namespace mobula
