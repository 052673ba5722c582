// A number for the structure of a type or signature, computed by the compiler.
//
// Two programs agree on an encoding when their fingerprints agree, whatever they call their types: member names and the
// kind of container do not count, the order and kinds of members do. Types that encode themselves count by name.
#pragma once

#include <cstdint>
#include <string_view>

#include <mobula/detail/category.h>
#include <mobula/detail/type_name.h>
#include <mobula/ids.h>

namespace mobula::detail {

constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return mix(hash);
}

constexpr std::uint64_t combine(std::uint64_t hash) {
  return hash;
}
template <class... Rest>
constexpr std::uint64_t combine(std::uint64_t hash, std::uint64_t next, Rest... rest) {
  return combine(mix(hash * 31 + next + 0x9e3779b97f4a7c15U), rest...);
}

template <class T, class... Outer>
constexpr std::uint64_t fingerprint_inside();

template <class... Outer, class... Fields>
constexpr std::uint64_t fingerprint_fields(FieldList<Fields...>) {
  return combine(hash_text("struct"), sizeof...(Fields),
                 fingerprint_inside<std::remove_const_t<Fields>, Outer...>()...);
}
template <class... Outer, class... Ts>
constexpr std::uint64_t fingerprint_list(std::uint64_t kind, const std::tuple<Ts...>*) {
  return combine(kind, sizeof...(Ts), fingerprint_inside<Ts, Outer...>()...);
}
template <class... Outer, class... Ts>
constexpr std::uint64_t fingerprint_list(std::uint64_t kind, const std::variant<Ts...>*) {
  return combine(kind, sizeof...(Ts), fingerprint_inside<Ts, Outer...>()...);
}

// How many of `Outer` stand before T, plus 1; 0 when T is not among them.
template <class T, class... Outer>
constexpr std::uint64_t depth_of() {
  std::uint64_t depth = 0;
  std::uint64_t found = 0;
  ((++depth, found = (std::is_same_v<T, Outer> && found == 0 ? depth : found)), ...);
  return found;
}

template <class T>
constexpr std::uint64_t fingerprint_scalar() {
  if constexpr (std::is_enum_v<T>)
    return fingerprint_scalar<std::underlying_type_t<T>>();
  else if constexpr (std::is_floating_point_v<T>)
    return combine(hash_text("float"), sizeof(T));
  else
    return combine(hash_text(std::is_signed_v<T> ? "signed" : "unsigned"), sizeof(T));
}

// `Outer`: the aggregates that T lies in, innermost first; one that holds itself (through a container or pointer) is
// its distance.
template <class T, class... Outer>
constexpr std::uint64_t fingerprint_inside() {
  constexpr Category kind = kCategory<T>;
  if constexpr (std::is_void_v<T>)
    return hash_text("void");
  else if constexpr (kind == Category::kNative)
    return Native<T>::kFingerprint;
  else if constexpr (kind == Category::kBool)
    return hash_text("bool");
  else if constexpr (kind == Category::kScalar)
    return fingerprint_scalar<T>();
  else if constexpr (kind == Category::kMember || kind == Category::kSaveLoad || kind == Category::kFree)
    return combine(hash_text("custom"), hash_text(type_text<T>()));
  else if constexpr (kind == Category::kText)
    return combine(hash_text("text"), sizeof(typename T::value_type));
  else if constexpr (kind == Category::kPath)
    return hash_text("path");
  else if constexpr (kind == Category::kBits)
    return hash_text("bits");
  else if constexpr (kind == Category::kSequence)
    return combine(hash_text("sequence"), fingerprint_inside<typename T::value_type, Outer...>());
  else if constexpr (kind == Category::kSet)
    return combine(hash_text("set"), fingerprint_inside<typename T::key_type, Outer...>());
  else if constexpr (kind == Category::kMap)
    return combine(hash_text("map"), fingerprint_inside<typename T::key_type, Outer...>(),
                   fingerprint_inside<typename T::mapped_type, Outer...>());
  else if constexpr (kind == Category::kPair)
    return combine(hash_text("tuple"), 2, fingerprint_inside<std::remove_const_t<typename T::first_type>, Outer...>(),
                   fingerprint_inside<typename T::second_type, Outer...>());
  else if constexpr (kind == Category::kTuple)
    return fingerprint_list<Outer...>(hash_text("tuple"), static_cast<const T*>(nullptr));
  else if constexpr (kind == Category::kVariant)
    return fingerprint_list<Outer...>(hash_text("variant"), static_cast<const T*>(nullptr));
  else if constexpr (std::is_array_v<T>)
    return combine(hash_text("array"), std::extent_v<T>, fingerprint_inside<std::remove_extent_t<T>, Outer...>());
  else if constexpr (kind == Category::kFixed)
    return combine(hash_text("array"), std::tuple_size_v<T>, fingerprint_inside<typename T::value_type, Outer...>());
  else if constexpr (kind == Category::kOptional)
    return combine(hash_text("optional"), fingerprint_inside<typename T::value_type, Outer...>());
  else if constexpr (kind == Category::kUnique)
    return combine(hash_text("optional"),
                   fingerprint_inside<std::remove_const_t<typename T::element_type>, Outer...>());
  else if constexpr (kind == Category::kShared)
    return combine(hash_text("shared"), fingerprint_inside<std::remove_const_t<typename T::element_type>, Outer...>());
  else if constexpr (kind == Category::kDuration)
    return combine(hash_text("duration"), fingerprint_inside<typename T::rep>(),
                   static_cast<std::uint64_t>(T::period::num), static_cast<std::uint64_t>(T::period::den));
  else if constexpr (kind == Category::kTimePoint)
    return combine(hash_text("time"), fingerprint_inside<typename T::duration>());
  else if constexpr (kind == Category::kComplex)
    return combine(hash_text("complex"), fingerprint_inside<typename T::value_type>());
  else if constexpr (kind == Category::kUnit)
    return hash_text("unit");
  else if constexpr (kind == Category::kAggregate) {
    if constexpr (depth_of<T, Outer...>() != 0)
      return combine(hash_text("again"), depth_of<T, Outer...>());
    else
      return fingerprint_fields<T, Outer...>(FieldsOf<T>{});
  } else
    return hash_text("unsendable");
}

template <class T>
inline constexpr std::uint64_t kFingerprint = fingerprint_inside<T>();

}  // namespace mobula::detail
