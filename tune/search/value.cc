#include <mobula/tune/value.h>

#include <charconv>
#include <cmath>

#include <mobula/error.h>

#include "runtime/base/result.h"

namespace mobula::tune {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;  // the shortest that reads back the same
  return std::string(buffer, end);
}

}  // namespace

namespace detail {

void throw_wrong_type(std::string_view name, std::string_view wanted, std::string_view held) {
  const std::string text = std::string(name) + " is " + std::string(held) + ", which is no " + std::string(wanted);
  throw_error(make_error(ErrorKind::kInvalid, text + ": read it as the type that the space gives it"));
}

void throw_out_of_range(std::string_view name, std::string_view held) {
  throw_error(make_error(ErrorKind::kInvalid, std::string(name) + " is " + std::string(held) +
                                                  ", which does not fit the integer type it is read as"));
}

}  // namespace detail

bool Value::number(double& out) const {
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) {
    out = static_cast<double>(*integer);
    return true;
  }
  if (const auto* real = std::get_if<double>(&data_)) {
    out = *real;
    return true;
  }
  return false;
}

std::string Value::text() const {
  switch (data_.index()) {
    case 0: return std::get<bool>(data_) ? "true" : "false";
    case 1: return std::to_string(std::get<std::int64_t>(data_));
    case 2: return number_text(std::get<double>(data_));
    default: return std::get<std::string>(data_);
  }
}

std::int64_t Value::as_integer(std::string_view name) const {
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return *integer;
  // 2^63 itself does not fit; every double below it that is whole does.
  if (const auto* real = std::get_if<double>(&data_);
      real != nullptr && *real == std::floor(*real) && *real >= -0x1.0p63 && *real < 0x1.0p63) {
    return static_cast<std::int64_t>(*real);
  }
  detail::throw_wrong_type(name, "whole number", text());
}

double Value::as_double(std::string_view name) const {
  double value = 0;
  if (!number(value)) detail::throw_wrong_type(name, "number", text());
  return value;
}

bool Value::as_bool(std::string_view name) const {
  if (const auto* flag = std::get_if<bool>(&data_)) return *flag;
  detail::throw_wrong_type(name, "truth value", text());
}

const std::string& Value::as_string(std::string_view name) const {
  if (const auto* string = std::get_if<std::string>(&data_)) return *string;
  detail::throw_wrong_type(name, "string", text());
}

NamedValues::NamedValues(std::initializer_list<Entry> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

const Value* NamedValues::find(std::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

const Value& NamedValues::at(std::string_view name) const {
  if (const Value* value = find(name)) return *value;
  std::string names;
  for (const auto& entry : entries_) names += (names.empty() ? "" : ", ") + entry.first;
  throw_error(make_error(ErrorKind::kInvalid, "there is no '" + std::string(name) +
                                                  "'; there is: " + (names.empty() ? std::string("nothing") : names)));
}

void NamedValues::set(std::string_view name, Value value) {
  for (auto& entry : entries_) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::string(name), std::move(value));
}

std::string NamedValues::text() const {
  std::string text;
  for (const auto& [name, value] : entries_) {
    if (!text.empty()) text += ',';
    text += name + "=" + value.text();
  }
  return text;
}

}  // namespace mobula::tune
