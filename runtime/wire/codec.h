// Bytes for messages and records, and back. The one place that knows Cap'n Proto; its types do not pass this header.
//
// A frame's payload is one Cap'n Proto message of one segment (standard framing, so that `capnp decode` reads it): a
// list of envelopes. Sizes are computed exactly before anything is written, so a frame is built in place in one buffer
// of its final size; the alternative, a growing builder, copies every frame once more and cannot refuse a large one
// early.
//
// Decoding trusts nothing: sizes, enum values, union arms, list lengths and the memory the result takes are checked,
// and whatever is wrong comes back as ErrorInfo of kind kInvalid that names it. Values (InlineValue::bytes and other
// Bytes) are slices of the frame: they share its owner, are aligned to 8 and not copied. Who keeps a small one for long
// keeps the whole frame, and copies it if that matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/protocol/message.h"
#include "runtime/base/protocol/records.h"
#include "runtime/base/result.h"

namespace mobula::wire {

inline constexpr std::size_t kFrameMax = 16 * 1024 * 1024;  // bytes of one payload
inline constexpr std::size_t kRecordMax = kFrameMax;        // bytes of one record
inline constexpr std::size_t kAlignment = 8;                // of a payload's start and size
inline constexpr std::size_t kTraversalFactor = 4;          // words a decoder may follow, per word of the frame
inline constexpr int kNestingMax = 32;                      // pointers inside pointers
// Memory that decoding may ask for, per byte of the frame and at least: a short list of empty structs must not become a
// large vector. Honest frames stay below a third of it.
inline constexpr std::size_t kMemoryFactor = 32;
inline constexpr std::size_t kMemoryFloor = 64 * 1024;

// What an empty frame takes; a frame takes kFrameOverhead and encoded_size() of each envelope, exactly.
inline constexpr std::size_t kFrameOverhead = 4 * 8;
std::size_t encoded_size(const Envelope& envelope);

// One frame's payload. Fails with kInvalid, naming the largest message, when it would exceed kFrameMax.
Result<Bytes> encode(std::span<const Envelope> envelopes);
// The same, appended to `out`, whose size must be a multiple of kAlignment. On failure `out` is as it was.
Status append(std::span<const Envelope> envelopes, std::vector<std::byte>& out);

// `out` is cleared first and keeps its capacity. A payload that is not aligned is copied once. After a failure `out` is
// empty: a frame is taken whole or not at all.
Status decode(const Bytes& payload, std::vector<Envelope>& out);
Result<std::vector<Envelope>> decode(const Bytes& payload);

Result<Bytes> encode_record(const Record& record);
Result<Record> decode_record(const Bytes& bytes);

}  // namespace mobula::wire
