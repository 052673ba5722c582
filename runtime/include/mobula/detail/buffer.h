// The memory under Array and Tensor: owned, or a view of memory that something else keeps alive.
//
// A count of its own instead of std::shared_ptr's, because "am I the only one who reads this?" decides whether a writer
// must copy first, and shared_ptr::use_count() does not synchronise with those who have let go.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace mobula::detail {

inline constexpr std::size_t kArrayAlignment = 64;

class Buffer {
 public:
  Buffer() = default;

  // Memory of its own, aligned to 64; its contents are undefined.
  static Buffer allocate(std::size_t bytes) {
    Buffer buffer;
    if (bytes == 0) return buffer;
    void* memory = ::operator new(kHeaderBytes + bytes, std::align_val_t(kArrayAlignment));
    buffer.block_ = ::new (memory) Block;
    buffer.data_ = static_cast<std::byte*>(memory) + kHeaderBytes;
    return buffer;
  }

  // Memory that lives as long as `owner`, for reading only.
  static Buffer view(std::shared_ptr<const void> owner, const std::byte* data) {
    Buffer buffer;
    void* memory = ::operator new(kHeaderBytes, std::align_val_t(kArrayAlignment));
    buffer.block_ = ::new (memory) Block;
    buffer.block_->owner = std::move(owner);
    buffer.data_ = data;
    return buffer;
  }

  Buffer(const Buffer& other) noexcept : block_(other.block_), data_(other.data_) {
    if (block_ != nullptr) block_->count.fetch_add(1, std::memory_order_relaxed);
  }
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(block_, other.block_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Buffer() {
    if (block_ == nullptr || block_->count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    block_->~Block();
    ::operator delete(block_, std::align_val_t(kArrayAlignment));
  }

  const std::byte* data() const { return data_; }
  bool is_view() const { return block_ != nullptr && block_->owner != nullptr; }

  // The memory for writing: first copied when it is a view or others share it.
  std::byte* writable(std::size_t bytes) {
    if (block_ == nullptr) return nullptr;
    if (is_view() || block_->count.load(std::memory_order_acquire) != 1) {
      Buffer copy = allocate(bytes);
      if (bytes != 0) std::memcpy(const_cast<std::byte*>(copy.data_), data_, bytes);
      *this = std::move(copy);
    }
    return const_cast<std::byte*>(data_);  // allocated by this class, not const
  }

 private:
  struct Block {
    std::atomic<std::size_t> count{1};
    std::shared_ptr<const void> owner;  // of a view
  };
  static constexpr std::size_t kHeaderBytes = kArrayAlignment;
  static_assert(sizeof(Block) <= kHeaderBytes);

  Block* block_ = nullptr;
  const std::byte* data_ = nullptr;
};

}  // namespace mobula::detail
