// What one decoding shares: the frame whose bytes values borrow, the memory it may still ask for, and the first thing
// found wrong. The error sticks instead of being thrown: readers go on with defaults and the caller looks once at the
// end, so that no field read needs a branch for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/bytes.h"

namespace mobula::wire::detail {

class Context {
 public:
  Context(const Bytes& frame, std::size_t memory) : frame_(frame), memory_(memory) {}

  // Of the message being read, for errors.
  void set_message(const char* name) { message_ = name; }

  // "PushCalls": what is being read.
  std::string where() const { return message_; }

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

  void fail(std::string_view field, std::string_view what);
  void fail_enum(std::string_view field, std::string_view type, unsigned value);

  // Room for `count` elements of `size` bytes; false, and failed, when that is more than the frame can be worth.
  bool take(std::string_view field, std::size_t count, std::size_t size) {
    if (failed()) return false;
    if (count != 0 && size > memory_ / count) {
      fail_memory(field, count);
      return false;
    }
    memory_ -= count * size;
    return true;
  }

  // A part of the frame. Shares its owner; copies only when nobody owns the frame.
  Bytes share(const void* data, std::size_t size) const {
    if (size == 0) return {};
    if (!frame_.owner()) return Bytes::copy_of(data, size);
    return Bytes(frame_.owner(), static_cast<const std::byte*>(data), size);
  }

 private:
  void fail_memory(std::string_view field, std::size_t count);

  const Bytes& frame_;
  std::size_t memory_;
  const char* message_ = "frame";
  std::string error_;
};

}  // namespace mobula::wire::detail
