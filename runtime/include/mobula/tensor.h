// Tensor: an array whose element type and place are known only at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <mobula/array.h>

namespace mobula {

// Where a tensor's elements lie. In this version always the host.
struct Device {
  enum class Kind : std::uint8_t { kHost = 0, kCuda = 1 };
  Kind kind = Kind::kHost;
  std::uint16_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

// Shares, views, pins and copies as Array<T> does: a value whose copies share memory until one is written to. Bridges
// to other libraries through data(), shape() and dtype(), and to Array<T> without a copy.
class Tensor {
 public:
  // No element, float32.
  Tensor() = default;
  // All elements are zero.
  Tensor(DType dtype, Shape shape) : Tensor(uninitialized(dtype, std::move(shape))) {
    if (!empty()) std::memset(mutable_data(), 0, bytes());
  }
  static Tensor uninitialized(DType dtype, Shape shape) {
    if (bytes_of(dtype) == 0) detail::throw_invalid("a tensor of an unknown element type");
    return Tensor(dtype, detail::Elements(std::move(shape), bytes_of(dtype)));
  }
  // The same elements, shared.
  template <class T>
  explicit Tensor(const Array<T>& array) : Tensor(kDTypeOf<T>, array.elements_) {}

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return elements_.shape; }
  std::size_t rank() const { return elements_.shape.size(); }
  std::size_t size() const { return elements_.size; }
  std::size_t bytes() const { return elements_.size * bytes_of(dtype_); }
  bool empty() const { return elements_.size == 0; }
  bool is_view() const { return elements_.buffer.is_view(); }

  const void* data() const { return elements_.buffer.data(); }
  // For writing: copies first when the elements are shared or a view.
  void* mutable_data() { return elements_.buffer.writable(bytes()); }

  // The elements as numbers of type T, shared. Invalid when T is not dtype().
  template <class T>
  Array<T> as() const {
    if (kDTypeOf<T> != dtype_) {
      detail::throw_invalid(std::string("a tensor of ") + name_of(dtype_) + " read as " + name_of(kDTypeOf<T>));
    }
    return Array<T>(elements_);
  }

  Tensor reshape(Shape shape) const { return Tensor(dtype_, elements_.reshaped(std::move(shape), bytes_of(dtype_))); }

  // As Array::load_npy, of whatever element type the file has.
  static Tensor load_npy(const std::string& path) {
    detail::NpyFile file(path, "rb");
    detail::NpyHeader header = detail::read_npy_header(file, path);
    const std::size_t each = bytes_of(header.dtype);
    if (detail::checked_count(header.shape, each) > file.left() / each) {
      detail::throw_invalid("'" + path + "' is cut off: its header promises shape " + to_string(header.shape));
    }
    Tensor tensor = uninitialized(header.dtype, std::move(header.shape));
    if (!tensor.empty()) file.read(tensor.mutable_data(), tensor.bytes());
    return tensor;
  }
  // Invalid for bfloat16, which NumPy does not have.
  void save_npy(const std::string& path) const { detail::write_npy(path, dtype_, elements_.shape, data(), bytes()); }

 private:
  friend struct detail::Native<Tensor>;

  Tensor(DType dtype, detail::Elements elements) : dtype_(dtype), elements_(std::move(elements)) {}

  DType dtype_ = DType::kFloat32;
  Device device_{};
  detail::Elements elements_;
};

template <>
struct detail::Native<Tensor> {
  static constexpr std::uint64_t kFingerprint = hash_text("mobula.tensor");
  static void encode(Encoder& out, const Tensor& tensor) {
    out.write_plain(tensor.dtype_);
    out.write_plain(tensor.device_.kind);
    out.write_varint(tensor.device_.index);
    encode_elements(out, tensor.elements_, bytes_of(tensor.dtype_));
  }
  static void decode(Decoder& in, Tensor& tensor) {
    in.read_plain(tensor.dtype_);
    in.read_plain(tensor.device_.kind);
    const std::uint64_t index = in.read_varint();
    const std::size_t each = bytes_of(tensor.dtype_);
    if (each == 0) throw_damaged("a tensor of an unknown element type");
    if (tensor.device_.kind != Device::Kind::kHost || index != 0) throw_damaged("a tensor that is not in host memory");
    tensor.device_ = {};
    decode_elements(in, tensor.elements_, each, each);
  }
};

}  // namespace mobula
