// A message as lines "path = value", one for each scalar: what the golden bytes are compared by. A member added later
// adds lines and changes none.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tests/runtime/wire/members.h"

namespace mobula::test {

class Dump {
 public:
  template <class T>
  static std::string of(const char* name, T object) {
    Dump dump;
    dump.put(name, object);
    return dump.text_;
  }

 private:
  void line(const std::string& path, const std::string& value) { text_ += path + " = " + value + "\n"; }

  static std::string hex(const void* data, std::size_t size) {
    std::string text = "x";
    for (std::size_t i = 0; i < size; ++i) {
      const unsigned byte = static_cast<const unsigned char*>(data)[i];
      text += "0123456789abcdef"[byte >> 4U];
      text += "0123456789abcdef"[byte & 15U];
    }
    return text;
  }

  template <class T>
  void put(const std::string& path, T& value) {
    if constexpr (std::is_enum_v<T>) {
      line(path, std::to_string(static_cast<unsigned>(value)));
    } else if constexpr (std::is_integral_v<T>) {
      line(path, std::to_string(value));
    } else {
      visit_members(value, [&](const std::string& name, auto& member) { put(path + "." + name, member); });
    }
  }
  void put(const std::string& path, Quantity& value) { line(path, std::to_string(value.units)); }
  template <class Tag>
  void put(const std::string& path, Id<Tag>& id) {
    line(path, to_string(id));
  }
  template <class Tag>
  void put(const std::string& path, PairId<Tag>& id) {
    line(path, to_string(id));
  }
  void put(const std::string& path, std::string& text) { line(path, hex(text.data(), text.size())); }
  void put(const std::string& path, Bytes& bytes) { line(path, hex(bytes.data(), bytes.size())); }
  template <class T>
  void put(const std::string& path, std::optional<T>& value) {
    if (value) return put(path, *value);
    line(path, "none");
  }
  template <class T>
  void put(const std::string& path, std::vector<T>& values) {
    line(path + ".size", std::to_string(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) put(path + "[" + std::to_string(i) + "]", values[i]);
  }
  template <class A, class B>
  void put(const std::string& path, std::pair<A, B>& value) {
    put(path + ".first", value.first);
    put(path + ".second", value.second);
  }
  void put(const std::string& path, Message& message) { put(path, static_cast<AnyMessage&>(message)); }
  template <class... T>
  void put(const std::string& path, std::variant<T...>& value) {
    line(path + ".index", std::to_string(value.index()));
    std::visit([&](auto& alternative) { put(path, alternative); }, value);
  }

  std::string text_;
};

}  // namespace mobula::test
