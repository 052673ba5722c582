// Bytes: an immutable slice of a buffer that somebody keeps alive. Copying it copies no data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mobula {

class Bytes {
 public:
  Bytes() = default;
  // A slice of memory that lives at least as long as `owner`.
  Bytes(std::shared_ptr<const void> owner, const std::byte* data, std::size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}

  static Bytes copy_of(const void* data, std::size_t size) {
    if (size == 0) return {};
    // operator new aligns to 16; the value encoding asks for no more.
    auto buffer = std::make_shared_for_overwrite<std::byte[]>(size);
    std::memcpy(buffer.get(), data, size);
    const std::byte* start = buffer.get();
    return Bytes(std::move(buffer), start, size);
  }
  static Bytes copy_of(std::string_view text) { return copy_of(text.data(), text.size()); }
  static Bytes adopt(std::vector<std::byte> buffer) {
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(buffer));
    const std::byte* start = owner->data();
    const std::size_t size = owner->size();
    return Bytes(std::move(owner), start, size);
  }

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::byte> span() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The part that starts at `offset`; shares the owner.
  Bytes slice(std::size_t offset, std::size_t size) const { return Bytes(owner_, data_ + offset, size); }

  friend bool operator==(const Bytes& a, const Bytes& b) {
    return a.size_ == b.size_ && (a.size_ == 0 || std::memcmp(a.data_, b.data_, a.size_) == 0);
  }

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mobula
