// Frames: a list of envelopes, each with one message. The messages themselves are in codec_*.cc, one for each group.
#include "runtime/wire/codec.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "runtime/wire/fields_common.h"
#include "runtime/wire/flat_builder.h"
#include "runtime/wire/flat_reader.h"
#include "runtime/wire/messages.h"

namespace mobula::wire {
namespace {

using detail::Context;
using detail::FlatBuilder;
using detail::kSegmentTable;

#define MOBULA_WIRE_COUNT(Type, ARM) +1
static_assert(0 MOBULA_WIRE_MESSAGES(MOBULA_WIRE_COUNT) == std::variant_size_v<AnyMessage>,
              "a message is missing from MOBULA_WIRE_MESSAGES (messages.h)");
#undef MOBULA_WIRE_COUNT

constexpr std::size_t kWord = sizeof(capnp::word);

// Table, root pointer, Frame's one pointer, and the tag of its list.
static_assert(kFrameOverhead == kSegmentTable + (1 + capnp::sizeInWords<schema::Frame>() + 1) * kWord);

struct InitArm {
  schema::Envelope::Builder at;
#define MOBULA_WIRE_INIT(Type, ARM)                  \
  void operator()(const Type& message) {             \
    detail::write_message(at.init##Type(), message); \
  }
  MOBULA_WIRE_MESSAGES(MOBULA_WIRE_INIT)
#undef MOBULA_WIRE_INIT
};

void write_envelope(schema::Envelope::Builder at, const Envelope& envelope) {
  const auto& [from, to, cause, epoch, message] = envelope;
  if (from.kind != PeerKind::kNone) detail::write_struct<Peer>(at.initFrom(), from);
  if (to.kind != PeerKind::kNone) detail::write_struct<Peer>(at.initTo(), to);
  at.setCause(cause);
  at.setEpoch(epoch);
  std::visit(InitArm{at}, message);
}

// By value: a default Message is a Hello, and making and ending one costs more than moving what was read.
Message read_message(schema::Envelope::Reader at, Context& context) {
  switch (at.which()) {
#define MOBULA_WIRE_READ(Type, ARM)                         \
  case schema::Envelope::ARM: {                             \
    context.set_message(#Type);                             \
    Type message;                                           \
    detail::read_message(at.get##Type(), context, message); \
    return message;                                         \
  }
    MOBULA_WIRE_MESSAGES(MOBULA_WIRE_READ)
#undef MOBULA_WIRE_READ
  }
  context.fail_enum("message", "message", static_cast<unsigned>(at.which()));
  return {};
}

Envelope read_envelope(schema::Envelope::Reader at, Context& context) {
  context.set_message("Envelope");
  Peer from;
  Peer to;
  if (at.hasFrom()) detail::read_struct<Peer>(at.getFrom(), context, from);
  if (at.hasTo()) detail::read_struct<Peer>(at.getTo(), context, to);
  return {from, to, at.getCause(), at.getEpoch(), read_message(at, context)};
}

// `at` is zero, aligned and of exactly `size` bytes.
void build(std::span<const Envelope> envelopes, std::byte* at, std::size_t size) {
  const std::size_t words = (size - kSegmentTable) / kWord;
  detail::write_segment_table(at, words);
  FlatBuilder builder({reinterpret_cast<capnp::word*>(at + kSegmentTable), words});
  auto list = builder.initRoot<schema::Frame>().initMessages(static_cast<unsigned>(envelopes.size()));
  unsigned i = 0;
  for (const Envelope& envelope : envelopes) write_envelope(list[i++], envelope);
  builder.check_full();
}

ErrorInfo too_large(std::span<const Envelope> envelopes, std::size_t size) {
  const auto largest = std::max_element(envelopes.begin(), envelopes.end(), [](const Envelope& a, const Envelope& b) {
    return encoded_size(a) < encoded_size(b);
  });
  return make_error(ErrorKind::kInvalid,
                    "a frame of " + std::to_string(envelopes.size()) + " messages would take " + std::to_string(size) +
                        " bytes, at most " + std::to_string(kFrameMax) + " fit; the largest is a " +
                        name_of(largest->message) + " of " + std::to_string(encoded_size(*largest)) +
                        " bytes: send fewer at a time, or large values through the object store (put)");
}

Result<std::size_t> frame_size(std::span<const Envelope> envelopes) {
  std::size_t size = kFrameOverhead;
  for (const Envelope& envelope : envelopes) size += encoded_size(envelope);
  if (size > kFrameMax) return too_large(envelopes, size);
  return size;
}

}  // namespace

std::size_t encoded_size(const Envelope& envelope) {
  std::size_t words = capnp::sizeInWords<schema::Envelope>();
  if (envelope.from.kind != PeerKind::kNone) words += capnp::sizeInWords<schema::Peer>();
  if (envelope.to.kind != PeerKind::kNone) words += capnp::sizeInWords<schema::Peer>();
  words += std::visit([](const auto& message) { return detail::message_words(message); }, envelope.message);
  return words * kWord;
}

Result<Bytes> encode(std::span<const Envelope> envelopes) {
  const Result<std::size_t> size = frame_size(envelopes);
  if (!size) return size.error();
  auto words = std::make_shared_for_overwrite<std::uint64_t[]>(*size / kWord);
  std::memset(words.get(), 0, *size);
  auto* start = reinterpret_cast<std::byte*>(words.get());
  build(envelopes, start, *size);
  return Bytes(std::move(words), start, *size);
}

Status append(std::span<const Envelope> envelopes, std::vector<std::byte>& out) {
  MOBULA_CHECK(out.size() % kAlignment == 0, "frames are appended at multiples of 8");
  const Result<std::size_t> size = frame_size(envelopes);
  if (!size) return size.error();
  const std::size_t start = out.size();
  out.resize(start + *size);
  build(envelopes, out.data() + start, *size);
  return {};
}

Status decode(const Bytes& payload, std::vector<Envelope>& out) {
  out.clear();
  Status status = detail::read_payload<schema::Frame>("frame", payload, kFrameMax,
                                                      [&out](schema::Frame::Reader frame, Context& context) {
                                                        const auto list = frame.getMessages();
                                                        if (!context.take("messages", list.size(), sizeof(Envelope)))
                                                          return;
                                                        out.reserve(list.size());
                                                        for (const auto envelope : list) {
                                                          out.push_back(read_envelope(envelope, context));
                                                          if (context.failed()) return;
                                                        }
                                                      });
  if (!status.ok()) out.clear();
  return status;
}

Result<std::vector<Envelope>> decode(const Bytes& payload) {
  std::vector<Envelope> envelopes;
  if (Status status = decode(payload, envelopes); !status.ok()) return std::move(status).error();
  return envelopes;
}

}  // namespace mobula::wire
