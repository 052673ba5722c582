// Opens a payload for reading: framing, alignment and limits are checked here, and Cap'n Proto's exceptions end here.
#pragma once

#include <capnp/message.h>
#include <kj/exception.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/result.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/context.h"

namespace mobula::wire::detail {

static_assert(std::endian::native == std::endian::little, "frames lie in memory as they travel");

// Collecting a stack trace costs more than all the rest of a refusal, and nobody reads it.
class WithoutStackTraces : public kj::ExceptionCallback {
 public:
  StackTraceMode stackTraceMode() override { return StackTraceMode::NONE; }
};

inline ErrorInfo refusal(const char* what, const std::string& why) {
  return make_error(ErrorKind::kInvalid, std::string(what) + " refused: " + why);
}

// What is wrong with a payload's size and framing, or nullopt.
std::optional<std::string> framing_error(const Bytes& payload, std::size_t size_max);

// A payload whose data is aligned: itself, or a copy.
Bytes aligned(const Bytes& payload);

// Calls `read(root, context)` on a payload's root struct. `what` names it in errors ("frame").
template <class Root, class Read>
Status read_payload(const char* what, const Bytes& unaligned, std::size_t size_max, Read read) {
  if (auto error = framing_error(unaligned, size_max)) return refusal(what, *error);
  const Bytes payload = aligned(unaligned);
  Context context(payload, payload.size() * kMemoryFactor + kMemoryFloor);
  WithoutStackTraces quiet;
  try {
    const std::size_t words = payload.size() / sizeof(capnp::word);
    const kj::ArrayPtr<const capnp::word> segment(reinterpret_cast<const capnp::word*>(payload.data()) + 1, words - 1);
    const kj::ArrayPtr<const capnp::word> segments[1] = {segment};
    capnp::ReaderOptions options;
    options.traversalLimitInWords = words * kTraversalFactor;
    options.nestingLimit = kNestingMax;
    capnp::SegmentArrayMessageReader reader(kj::arrayPtr(segments, 1), options);
    read(reader.getRoot<Root>(), context);
  } catch (const kj::Exception& exception) {
    return refusal(what, context.where() + ": " + exception.getDescription().cStr());
  }
  if (context.failed()) return refusal(what, context.error());
  return {};
}

}  // namespace mobula::wire::detail
