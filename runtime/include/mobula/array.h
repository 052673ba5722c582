// Array<T>: a big block of numbers that crosses processes without being copied on the way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/archive.h>
#include <mobula/detail/npy.h>
#include <mobula/detail/storage.h>
#include <mobula/dtype.h>

namespace mobula {

class Tensor;

// A contiguous n-dimensional array in row-major order, a value: an Array never sees what is written to another one.
//
// Copies share their memory until one of them is written to. put() copies the elements once into shared memory; an
// Array that get() returns, or that a task receives, is a view of those very pages, for reading: it pins them while it
// or a copy of it lives, and the first mutable access (mutable_data(), mutable_span(), at_mutable()) copies them into
// memory of its own. Threads may read one Array at once, or write different Arrays, copies of one another included.
template <class T>
class Array {
  static_assert(
      kDTypeOf<T> != DType{},
      "mobula: Array<T> holds bool, integers, float, double and std::complex of these. Use std::vector<T> for "
      "other types");

 public:
  using value_type = T;

  // Shape {0}: no element.
  Array() = default;
  // All elements are zero.
  explicit Array(Shape shape) : Array(uninitialized(std::move(shape))) {
    if (elements_.size != 0) std::memset(static_cast<void*>(mutable_data()), 0, bytes());
  }
  // Copies `values`, whose number must be that of the shape: else Invalid.
  Array(Shape shape, std::span<const T> values) : Array(uninitialized(std::move(shape))) {
    if (values.size() != elements_.size) {
      detail::throw_invalid(std::to_string(values.size()) + " values for an array of shape " +
                            to_string(elements_.shape));
    }
    if (elements_.size != 0) std::memcpy(static_cast<void*>(mutable_data()), values.data(), bytes());
  }
  Array(Shape shape, std::initializer_list<T> values) : Array(std::move(shape), std::span<const T>(values)) {}
  // One dimension: a copy of `values`.
  static Array from(std::span<const T> values) { return Array(Shape{values.size()}, values); }
  // To be filled by the caller; until then its elements are undefined.
  static Array uninitialized(Shape shape) { return Array(detail::Elements(std::move(shape), sizeof(T))); }

  const Shape& shape() const { return elements_.shape; }
  std::size_t rank() const { return elements_.shape.size(); }
  std::size_t size() const { return elements_.size; }
  std::size_t bytes() const { return elements_.size * sizeof(T); }
  bool empty() const { return elements_.size == 0; }
  static constexpr DType dtype() { return kDTypeOf<T>; }
  // Do the elements lie in memory that this array does not own?
  bool is_view() const { return elements_.buffer.is_view(); }

  const T* data() const { return reinterpret_cast<const T*>(elements_.buffer.data()); }
  std::span<const T> span() const { return {data(), elements_.size}; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + elements_.size; }
  // The element at that place in row-major order; unchecked.
  const T& operator[](std::size_t index) const { return data()[index]; }
  // The element at (i, j, ...), as many as there are dimensions; unchecked.
  template <class... Index>
  const T& operator()(Index... index) const {
    return data()[offset(index...)];
  }
  // Likewise, Invalid when it lies outside.
  template <class... Index>
  const T& at(Index... index) const {
    check(index...);
    return data()[offset(index...)];
  }

  // For writing: copies first when the elements are shared or a view. Take the pointer once, outside loops.
  T* mutable_data() { return reinterpret_cast<T*>(elements_.buffer.writable(bytes())); }
  std::span<T> mutable_span() { return {mutable_data(), elements_.size}; }
  template <class... Index>
  T& at_mutable(Index... index) {
    check(index...);
    return mutable_data()[offset(index...)];
  }

  // The same elements in another shape; Invalid when the number of elements differs.
  Array reshape(Shape shape) const { return Array(elements_.reshaped(std::move(shape), sizeof(T))); }

  // A .npy file as NumPy writes it (version 1 or 2). Invalid when it is no such file, holds another element type, is in
  // Fortran order or is cut off.
  static Array load_npy(const std::string& path) {
    detail::NpyFile file(path, "rb");
    detail::NpyHeader header = detail::read_npy_header(file, path);
    if (header.dtype != dtype()) {
      detail::throw_invalid("'" + path + "' holds " + name_of(header.dtype) + ", not " + name_of(dtype()));
    }
    if (detail::checked_count(header.shape, sizeof(T)) > file.left() / sizeof(T)) {
      detail::throw_invalid("'" + path + "' is cut off: its header promises shape " + to_string(header.shape));
    }
    Array array = uninitialized(std::move(header.shape));
    if (!array.empty()) file.read(array.mutable_data(), array.bytes());
    return array;
  }
  void save_npy(const std::string& path) const { detail::write_npy(path, dtype(), elements_.shape, data(), bytes()); }

  // Same shape and equal elements.
  friend bool operator==(const Array& a, const Array& b) {
    if (a.shape() != b.shape()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(a[i] == b[i])) return false;
    }
    return true;
  }

 private:
  friend struct detail::Native<Array<T>>;
  friend class Tensor;

  explicit Array(detail::Elements elements) : elements_(std::move(elements)) {}

  template <class... Index>
  std::size_t offset(Index... index) const {
    static_assert((std::is_integral_v<Index> && ...), "mobula: an array is indexed by integers");
    std::size_t at = 0;
    std::size_t dimension = 0;
    ((at = at * elements_.shape[dimension++] + static_cast<std::size_t>(index)), ...);
    return at;
  }

  template <class... Index>
  void check(Index... index) const {
    bool inside = sizeof...(Index) == elements_.shape.size();
    std::size_t dimension = 0;
    ((inside = inside && static_cast<std::size_t>(index) < elements_.shape[dimension++]), ...);
    if (!inside) detail::throw_invalid("an index lies outside an array of shape " + to_string(elements_.shape));
  }

  detail::Elements elements_;
};

template <class T>
struct detail::Native<Array<T>> {
  static constexpr std::uint64_t kFingerprint =
      combine(hash_text("mobula.array"), static_cast<std::uint64_t>(kDTypeOf<T>));
  static void encode(Encoder& out, const Array<T>& array) { encode_elements(out, array.elements_, sizeof(T)); }
  static void decode(Decoder& in, Array<T>& array) {
    decode_elements(in, array.elements_, sizeof(T), alignof(T));
    if constexpr (std::is_same_v<T, bool>) {
      for (const std::uint8_t byte : std::span(reinterpret_cast<const std::uint8_t*>(array.data()), array.size())) {
        if (byte > 1) throw_damaged("a bool is neither false nor true");
      }
    }
  }
};

}  // namespace mobula
