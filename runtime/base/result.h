// Result<T>: a value or an ErrorInfo. What everything inside returns; exceptions exist only at the public API.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <mobula/error.h>

#include "runtime/base/check.h"

namespace mobula {

// Makes an ErrorInfo from its two commonest parts.
inline ErrorInfo make_error(ErrorKind kind, std::string message) {
  ErrorInfo info;
  info.kind = kind;
  info.message = std::move(message);
  return info;
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(ErrorInfo error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    MOBULA_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    MOBULA_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    MOBULA_CHECK(ok(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const ErrorInfo& error() const& { return std::get<1>(state_); }
  ErrorInfo&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::string error_text() const { return ok() ? std::string() : std::get<1>(state_).message; }
  std::variant<T, ErrorInfo> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(ErrorInfo error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const ErrorInfo& error() const& { return *error_; }
  ErrorInfo&& error() && { return *std::move(error_); }

 private:
  std::optional<ErrorInfo> error_;
};

using Status = Result<void>;

}  // namespace mobula
