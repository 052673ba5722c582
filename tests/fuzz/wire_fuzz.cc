// Frames and records from outside. The first byte chooses; the rest, at an aligned address, is what arrived. What is
// taken must encode again, and to bytes that decode to the same.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/wire/codec.h"

namespace {

mobula::Bytes aligned_copy(const std::uint8_t* data, std::size_t size) {
  auto words = std::make_shared<std::vector<std::uint64_t>>((size + 7) / 8);
  if (size > 0) std::memcpy(words->data(), data, size);
  const auto* start = reinterpret_cast<const std::byte*>(words->data());
  return {std::move(words), start, size};
}

void frame(const mobula::Bytes& bytes) {
  const auto envelopes = mobula::wire::decode(bytes);
  if (!envelopes) return;
  // What decodes is at most kTraversalFactor times the frame once encoded: parts that were shared are written apart.
  const auto again = mobula::wire::encode(*envelopes);
  if (!again) return;
  const auto back = mobula::wire::decode(*again);
  MOBULA_CHECK(back.ok() && *back == *envelopes, "a frame changed when it was sent on");
}

void record(const mobula::Bytes& bytes) {
  const auto decoded = mobula::wire::decode_record(bytes);
  if (!decoded) return;
  const auto again = mobula::wire::encode_record(*decoded);
  if (!again) return;
  const auto back = mobula::wire::decode_record(*again);
  MOBULA_CHECK(back.ok() && *back == *decoded, "a record changed when it was kept again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const mobula::Bytes bytes = aligned_copy(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    frame(bytes);
  } else {
    record(bytes);
  }
  return 0;
}
