// A Cap'n Proto builder whose one segment is memory of exactly the right size, given from outside.
#pragma once

#include <capnp/message.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/base/check.h"

namespace mobula::wire::detail {

static_assert(sizeof(capnp::word) == 8);

class FlatBuilder : public capnp::MessageBuilder {
 public:
  // `words` must be zero.
  explicit FlatBuilder(std::span<capnp::word> words) : words_(words) {}

  kj::ArrayPtr<capnp::word> allocateSegment(unsigned minimum) override {
    MOBULA_CHECK(!taken_ && minimum <= words_.size(), "a message is larger than its computed size");
    taken_ = true;
    return kj::arrayPtr(words_.data(), words_.size());
  }

  void check_full() {
    MOBULA_CHECK(getSegmentsForOutput()[0].size() == words_.size(), "a message is smaller than its computed size");
  }

 private:
  std::span<capnp::word> words_;
  bool taken_ = false;
};

// Standard framing of a message of one segment: number of segments less one, and the segment's words.
inline constexpr std::size_t kSegmentTable = 8;

inline void write_segment_table(std::byte* at, std::size_t segment_words) {
  const std::uint32_t table[2] = {0, static_cast<std::uint32_t>(segment_words)};
  std::memcpy(at, table, sizeof table);
}

}  // namespace mobula::wire::detail
