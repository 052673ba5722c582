// Outcome<T>: a value, or the error that an object holds instead of one.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include <mobula/error.h>

namespace mobula {

// What get_all() and try_get() give per ref. A ref that was not ready in time has an error of kind kTimeout.
template <class T>
class Outcome {
  using Held = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

 public:
  // A success; for ObjectRef<void> without a value.
  Outcome() requires std::is_void_v<T>
  = default;
  explicit Outcome(Held value) : held_(std::in_place_index<0>, std::move(value)) {}
  explicit Outcome(ErrorInfo error) : held_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value; throws the error, as get() would, when there is none.
  const Held& value() const& {
    check();
    return *std::get_if<0>(&held_);
  }
  Held&& value() && {
    check();
    return std::move(*std::get_if<0>(&held_));
  }
  const Held& operator*() const& { return value(); }

  // The error; needs !ok().
  const ErrorInfo& error() const { return std::get<1>(held_); }

 private:
  void check() const {
    if (const ErrorInfo* error = std::get_if<1>(&held_)) throw_error(*error);
  }

  std::variant<Held, ErrorInfo> held_;
};

}  // namespace mobula
