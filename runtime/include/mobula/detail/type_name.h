// How the compiler spells a type or a function, as text that lives as long as the program.
//
// Only names that people read, and the names by which programs of different builds find each other, are made of it;
// within one build an invoker's address is the identity.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace mobula::detail {

template <class T>
constexpr const char* raw_type_name() {
  return __PRETTY_FUNCTION__;
}

template <auto Value>
constexpr const char* raw_value_name() {
  return __PRETTY_FUNCTION__;
}

// What stands between "= " and the closing bracket: "[with T = int]" of g++, "[T = int]" of clang.
constexpr std::string_view between_brackets(std::string_view raw) {
  const std::size_t start = raw.find(" = ") + 3;
  std::string_view text = raw.substr(start, raw.rfind(']') - start);
  constexpr std::string_view kClosure = "<lambda closure object>";
  if (text.starts_with(kClosure)) {
    text.remove_prefix(kClosure.size());
    if (text.ends_with("()") || text.ends_with("{}")) text.remove_suffix(2);
  }
  if (text.starts_with('&')) text.remove_prefix(1);
  return text;
}

template <class T>
constexpr std::string_view type_text() {
  return between_brackets(raw_type_name<T>());
}

// A closure is named by its type: clang spells the value as "{}".
template <auto Value>
constexpr std::string_view value_text() {
  if constexpr (std::is_class_v<decltype(Value)>) {
    return type_text<std::remove_cv_t<decltype(Value)>>();
  } else {
    return between_brackets(raw_value_name<Value>());
  }
}

template <std::size_t Size>
constexpr std::array<char, Size + 1> with_terminator(std::string_view text) {
  std::array<char, Size + 1> copy{};
  for (std::size_t i = 0; i < Size; ++i) copy[i] = text[i];
  return copy;
}

template <class T>
struct TypeName {
  static constexpr auto kText = with_terminator<type_text<T>().size()>(type_text<T>());
};

template <auto Value>
struct ValueName {
  static constexpr auto kText = with_terminator<value_text<Value>().size()>(value_text<Value>());
};

// False for what no other program can name: lambdas and everything in an anonymous namespace.
constexpr bool names_are_external(std::string_view text) {
  return text.find("lambda") == std::string_view::npos && text.find("{anonymous}") == std::string_view::npos &&
         text.find("(anonymous") == std::string_view::npos && text.find("<unnamed>") == std::string_view::npos;
}

}  // namespace mobula::detail
