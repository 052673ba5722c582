// put: gives a value to the cluster.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <mobula/detail/call.h>
#include <mobula/object_ref.h>

namespace mobula {

namespace detail {
// Text of any kind becomes a std::string.
template <class T>
using PutValue =
    std::conditional_t<std::is_convertible_v<const std::decay_t<T>&, std::string_view>, std::string, std::decay_t<T>>;
}  // namespace detail

// Copies `value` into the object store, once, and returns a ref to it. Pass the ref to many tasks instead of the value:
// it reaches each node once. Throws StoreFull when there is no room, even after spilling.
template <class T>
ObjectRef<detail::PutValue<T>> put(const T& value) {
  using Value = detail::PutValue<T>;
  if constexpr (!std::is_same_v<T, Value>) {
    return put<Value>(Value(value));
  } else {
    detail::check_result<Value>();
    std::unique_ptr<detail::PutBuffer> buffer;
    std::vector<detail::RefHandle> refs = detail::encode_into(value, [&buffer](std::size_t bytes) {
      buffer = detail::begin_put(bytes);
      return buffer->room();
    });
    return detail::RefAccess::make<Value>(detail::finish_put(std::move(buffer), std::move(refs)));
  }
}

}  // namespace mobula
