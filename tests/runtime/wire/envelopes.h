// Shorthands of the codec's tests.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/wire/codec.h"
#include "tests/runtime/wire/generate.h"

namespace mobula::test {

inline constexpr std::size_t kMessages = std::variant_size_v<AnyMessage>;

inline Envelope envelope_of(Message message) {
  Envelope envelope;
  envelope.message = std::move(message);
  return envelope;
}

inline Envelope make_envelope(Generator& generator, std::size_t index) {
  Envelope envelope;
  visit_members(envelope, [&](const std::string&, auto& member) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(member)>, Message>) generator.fill(member);
  });
  while (envelope.from.kind == PeerKind::kNone) generator.fill(envelope.from);
  while (envelope.to.kind == PeerKind::kNone) generator.fill(envelope.to);
  envelope.message = generator.make_message(index);
  return envelope;
}

inline Bytes encode_one(const Envelope& envelope) {
  Result<Bytes> frame = wire::encode(std::span(&envelope, 1));
  REQUIRE_MESSAGE(frame.ok(), frame.error().message);
  return *frame;
}

inline Envelope decode_one(const Bytes& frame) {
  auto envelopes = wire::decode(frame);
  REQUIRE_MESSAGE(envelopes.ok(), envelopes.error().message);
  REQUIRE(envelopes->size() == 1);
  return std::move(envelopes->front());
}

// Bytes as they would arrive: a buffer of their own, which can be changed.
inline Bytes frame_of(std::vector<std::uint64_t> words, std::size_t size) {
  auto owner = std::make_shared<std::vector<std::uint64_t>>(std::move(words));
  const auto* start = reinterpret_cast<const std::byte*>(owner->data());
  return Bytes(std::move(owner), start, size);
}
inline std::vector<std::uint64_t> words_of_frame(const Bytes& frame) {
  std::vector<std::uint64_t> words((frame.size() + 7) / 8);
  std::memcpy(words.data(), frame.data(), frame.size());
  return words;
}

}  // namespace mobula::test
