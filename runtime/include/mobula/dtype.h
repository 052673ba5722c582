// Element types of arrays and tensors, and their shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include <mobula/detail/category.h>

namespace mobula {

// Numbers travel in payloads: they only grow.
enum class DType : std::uint8_t {
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUInt8 = 6,
  kUInt16 = 7,
  kUInt32 = 8,
  kUInt64 = 9,
  kFloat16 = 10,   // carried, not computed with: C++20 has no such type
  kBFloat16 = 11,  // likewise
  kFloat32 = 12,
  kFloat64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
};

// Bytes of one element; 0 for a number that is no DType.
constexpr std::size_t bytes_of(DType type) {
  constexpr std::uint8_t kBytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  const auto index = static_cast<std::size_t>(type);
  return index < sizeof(kBytes) ? kBytes[index] : 0;
}

// As NumPy calls it: "float32".
constexpr const char* name_of(DType type) {
  constexpr const char* kNames[] = {"none",    "bool",    "int8",      "int16",     "int32",   "int64",
                                    "uint8",   "uint16",  "uint32",    "uint64",    "float16", "bfloat16",
                                    "float32", "float64", "complex64", "complex128"};
  return kNames[bytes_of(type) == 0 ? 0 : static_cast<std::size_t>(type)];
}

namespace detail {

template <class T>
constexpr DType find_dtype() {
  constexpr DType kSigned[] = {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
  constexpr DType kUnsigned[] = {DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};
  constexpr std::size_t kIndex = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<T, std::byte>)
    return DType::kUInt8;
  else if constexpr (std::is_same_v<T, float>)
    return DType::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kFloat64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) <= 8)
    return (std::is_signed_v<T> ? kSigned : kUnsigned)[kIndex];
  else if constexpr (ComplexLike<T>) {
    if constexpr (std::is_same_v<typename T::value_type, float>)
      return DType::kComplex64;
    else if constexpr (std::is_same_v<typename T::value_type, double>)
      return DType::kComplex128;
    else
      return DType{};
  } else
    return DType{};
}

}  // namespace detail

// The DType of T; DType{} when it has none.
template <class T>
inline constexpr DType kDTypeOf = detail::find_dtype<T>();

// Extents of an n-dimensional array, outermost first. {} is a single number (rank 0); {0} has no element.
using Shape = std::vector<std::size_t>;

// Dimensions of an array at most: what a reader accepts from others.
inline constexpr std::size_t kRankMax = 32;

// "(2, 3)".
inline std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

// The number of elements; false when `bytes_each` times that many bytes exceed the address space.
constexpr bool count_elements(const Shape& shape, std::size_t bytes_each, std::size_t& count) {
  count = 1;
  std::size_t bytes = bytes_each;
  bool fits = true;
  for (const std::size_t extent : shape) {
    if (extent == 0) {
      count = 0;
      return true;
    }
    fits = fits && !__builtin_mul_overflow(count, extent, &count) && !__builtin_mul_overflow(bytes, extent, &bytes);
  }
  return fits && bytes <= (std::size_t{1} << 62);
}

}  // namespace mobula
