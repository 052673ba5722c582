// What Array and Tensor share: a shape, a buffer of contiguous elements in row-major order, and their place in a
// payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <mobula/detail/buffer.h>
#include <mobula/detail/payload.h>
#include <mobula/dtype.h>

namespace mobula::detail {

inline std::size_t checked_count(const Shape& shape, std::size_t bytes_each) {
  std::size_t count = 0;
  if (shape.size() > kRankMax || !count_elements(shape, bytes_each, count)) {
    throw_invalid("an array of shape " + mobula::to_string(shape) + " is too large to exist");
  }
  return count;
}

// A moved-from one has no element; its shape is empty, which costs no memory.
struct Elements {
  Shape shape{0};
  std::size_t size = 0;
  Buffer buffer;

  Elements() = default;
  Elements(Shape extents, std::size_t bytes_each) : shape(std::move(extents)), size(checked_count(shape, bytes_each)) {
    buffer = Buffer::allocate(size * bytes_each);
  }
  Elements(const Elements&) = default;
  Elements& operator=(const Elements&) = default;
  Elements(Elements&& other) noexcept
      : shape(std::move(other.shape)), size(std::exchange(other.size, 0)), buffer(std::move(other.buffer)) {}
  Elements& operator=(Elements&& other) noexcept {
    shape = std::move(other.shape);
    size = std::exchange(other.size, 0);
    buffer = std::move(other.buffer);
    return *this;
  }
  ~Elements() = default;

  Elements reshaped(Shape extents, std::size_t bytes_each) const {
    if (checked_count(extents, bytes_each) != size) {
      throw_invalid("an array of shape " + mobula::to_string(shape) + " cannot become " + mobula::to_string(extents));
    }
    Elements other = *this;
    other.shape = std::move(extents);
    return other;
  }
};

inline void encode_elements(Encoder& out, const Elements& elements, std::size_t bytes_each) {
  if (elements.size == 0 && elements.shape.empty()) {  // moved from
    out.write_varint(1);
    out.write_varint(0);
  } else {
    out.write_varint(elements.shape.size());
    for (const std::size_t extent : elements.shape) out.write_varint(extent);
  }
  out.write_buffer(elements.buffer.data(), elements.size * bytes_each);
}

// The elements stay where they lie when the payload lives on and they are aligned; otherwise they are copied.
inline void decode_elements(Decoder& in, Elements& elements, std::size_t bytes_each, std::size_t alignment) {
  Shape shape;
  const std::size_t rank = in.read_count(1);
  if (rank > kRankMax) throw_damaged("an array has too many dimensions");
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(static_cast<std::size_t>(in.read_varint()));
  std::size_t count = 0;
  const BufferView view = in.read_buffer();
  if (!count_elements(shape, bytes_each, count) || count != view.bytes / bytes_each || view.bytes % bytes_each != 0) {
    throw_damaged("an array's shape does not fit its bytes");
  }
  elements.shape = std::move(shape);
  elements.size = count;
  elements.buffer = Buffer();
  if (view.bytes == 0) return;
  if (view.owner != nullptr && reinterpret_cast<std::uintptr_t>(view.data) % alignment == 0) {
    elements.buffer = Buffer::view(*view.owner, view.data);
  } else {
    elements.buffer = Buffer::allocate(view.bytes);
    std::memcpy(elements.buffer.writable(view.bytes), view.data, view.bytes);
  }
}

}  // namespace mobula::detail
