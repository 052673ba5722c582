// What a parameter or a metric can hold, and ordered sets of named ones.
//
// Four types, because those four survive JSON, CSV and the journal without a guess. A class around the variant rather
// than the variant itself, so that `{"epoch", 3}` and `{"loss", 0.5F}` just work and a pointer never turns into a bool.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace mobula::tune {

namespace detail {
[[noreturn]] void throw_wrong_type(std::string_view name, std::string_view wanted, std::string_view held);
[[noreturn]] void throw_out_of_range(std::string_view name, std::string_view held);
}  // namespace detail

class Value {
 public:
  using Data = std::variant<bool, std::int64_t, double, std::string>;

  Value() : data_(false) {}
  Value(bool value) : data_(value) {}                           // NOLINT(google-explicit-constructor)
  Value(const char* value) : data_(std::string(value)) {}       // NOLINT(google-explicit-constructor)
  Value(std::string value) : data_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Value(std::string_view value) : data_(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  template <std::floating_point T>
  Value(T value) : data_(static_cast<double>(value)) {}  // NOLINT(google-explicit-constructor)
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value)
      : data_(static_cast<std::int64_t>(value)) {  // NOLINT(google-explicit-constructor)
    if (!std::in_range<std::int64_t>(value)) detail::throw_out_of_range("a value", std::to_string(value));
  }

  const Data& data() const { return data_; }
  bool is_bool() const { return data_.index() == 0; }
  bool is_int() const { return data_.index() == 1; }
  bool is_double() const { return data_.index() == 2; }
  bool is_string() const { return data_.index() == 3; }
  // Integers and doubles, as a double; false for the rest.
  bool number(double& out) const;

  // As people read it: 0.05, adam, true.
  std::string text() const;
  // As T; throws Invalid naming `name` when it holds something else. An integer is read as a double gladly; a double as
  // an integer only when it is whole.
  template <class T>
  T as(std::string_view name = "the value") const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(data_);
  }
  friend bool operator==(const Value&, const Value&) = default;

 private:
  std::int64_t as_integer(std::string_view name) const;
  double as_double(std::string_view name) const;
  bool as_bool(std::string_view name) const;
  const std::string& as_string(std::string_view name) const;

  Data data_;
};

// Named values in the order in which they were added; a name appears once. Small: look-up is a walk.
class NamedValues {
 public:
  using Entry = std::pair<std::string, Value>;

  NamedValues() = default;
  NamedValues(std::initializer_list<Entry> entries);

  const Value* find(std::string_view name) const;
  // Throws Invalid, with the names there are, when `name` is not among them.
  const Value& at(std::string_view name) const;
  template <class T>
  T get(std::string_view name) const {
    return at(name).as<T>(name);
  }
  // Adds it, or replaces the value that the name had.
  void set(std::string_view name, Value value);

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  // "lr=0.05,depth=3"
  std::string text() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(entries_);
  }
  friend bool operator==(const NamedValues&, const NamedValues&) = default;

 private:
  std::vector<Entry> entries_;
};

// The drawn parameters of a trial.
using Params = NamedValues;
// What a trial reports.
using Metrics = NamedValues;

template <class T>
T Value::as(std::string_view name) const {
  if constexpr (std::is_same_v<T, bool>) {
    return as_bool(name);
  } else if constexpr (std::is_integral_v<T>) {
    const std::int64_t value = as_integer(name);
    if (!std::in_range<T>(value)) detail::throw_out_of_range(name, text());
    return static_cast<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(as_double(name));
  } else {
    static_assert(std::is_same_v<T, std::string>,
                  "a parameter is read as bool, an integer, a floating-point number or std::string");
    return as_string(name);
  }
}

}  // namespace mobula::tune
