// Whatever is encoded comes back: every message and record, full, sparse and default, alone and in batches.
#include <string>
#include <variant>
#include <vector>

#include "tests/runtime/wire/dump.h"
#include "tests/runtime/wire/envelopes.h"

namespace mobula::test {
namespace {

// Equality alone does not see what operator== leaves out (Peer::node); the dump does.
void check_round_trip(const Envelope& envelope) {
  const Bytes frame = encode_one(envelope);
  CHECK(frame.size() == wire::kFrameOverhead + wire::encoded_size(envelope));
  const Envelope back = decode_one(frame);
  CHECK(back == envelope);
  CHECK(Dump::of("", back) == Dump::of("", envelope));
  CHECK(encode_one(back) == frame);
}

TEST_CASE("every message with every member set comes back") {
  for (std::size_t index = 0; index < kMessages; ++index) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Generator generator(seed * 1000 + index);
      const Envelope envelope = make_envelope(generator, index);
      INFO(name_of(envelope.message), " seed ", seed);
      check_round_trip(envelope);
    }
  }
}

TEST_CASE("every message with some members set comes back") {
  for (std::size_t index = 0; index < kMessages; ++index) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Generator generator(seed * 1000 + index, false, 40);
      const Envelope envelope = make_envelope(generator, index);
      INFO(name_of(envelope.message), " seed ", seed);
      check_round_trip(envelope);
    }
  }
}

template <std::size_t... I>
void check_defaults(std::index_sequence<I...>) {
  (check_round_trip(envelope_of(Message(std::variant_alternative_t<I, AnyMessage>()))), ...);
}

TEST_CASE("every default message comes back") {
  check_defaults(std::make_index_sequence<kMessages>());
}

TEST_CASE("one frame carries every message, in order") {
  std::vector<Envelope> envelopes;
  std::size_t size = wire::kFrameOverhead;
  for (std::size_t index = 0; index < kMessages; ++index) {
    Generator generator(index);
    envelopes.push_back(index % 2 == 0 ? make_envelope(generator, index) : envelope_of(generator.make_message(index)));
    size += wire::encoded_size(envelopes.back());
  }
  const auto frame = wire::encode(envelopes);
  REQUIRE(frame.ok());
  CHECK(frame->size() == size);
  std::vector<Envelope> back(3);
  REQUIRE(wire::decode(*frame, back).ok());
  CHECK(back == envelopes);
}

TEST_CASE("an empty frame is a frame") {
  const auto frame = wire::encode({});
  REQUIRE(frame.ok());
  CHECK(frame->size() == wire::kFrameOverhead);
  const auto back = wire::decode(*frame);
  REQUIRE(back.ok());
  CHECK(back->empty());
}

TEST_CASE("frames are appended one after the other") {
  Generator generator(7);
  const std::vector<Envelope> first = {make_envelope(generator, 3)};
  const std::vector<Envelope> second = {make_envelope(generator, 4), make_envelope(generator, 60)};
  std::vector<std::byte> out;
  REQUIRE(wire::append(first, out).ok());
  const std::size_t middle = out.size();
  REQUIRE(wire::append(second, out).ok());
  const Bytes all = Bytes::adopt(std::move(out));
  CHECK(*wire::decode(all.slice(0, middle)) == first);
  CHECK(*wire::decode(all.slice(middle, all.size() - middle)) == second);
}

TEST_CASE("values are slices of the frame") {
  CallsDone done;
  done.results.resize(2);
  done.results[0].returns.emplace_back(InlineValue{Bytes::copy_of("a value"), {}});
  done.results[1].returns.emplace_back(InlineValue{Bytes::copy_of(std::string(1000, 'x')), {}});
  const Bytes frame = encode_one(envelope_of(done));
  const Envelope back = decode_one(frame);
  for (const CallResult& result : std::get<CallsDone>(back.message).results) {
    const Bytes& value = std::get<InlineValue>(result.returns.at(0)).bytes;
    CHECK(value.owner() == frame.owner());
    CHECK(value.data() > frame.data());
    CHECK(value.data() + value.size() <= frame.data() + frame.size());
    CHECK(reinterpret_cast<std::uintptr_t>(value.data()) % wire::kAlignment == 0);
  }
  CHECK(back == envelope_of(done));
}

TEST_CASE("a frame that is not aligned, or that nobody owns, is copied") {
  Generator generator(11);
  const Envelope envelope = make_envelope(generator, 4);
  const Bytes frame = encode_one(envelope);
  std::vector<std::byte> shifted(frame.size() + 1);
  std::memcpy(shifted.data() + 1, frame.data(), frame.size());
  const Bytes all = Bytes::adopt(std::move(shifted));
  CHECK(decode_one(all.slice(1, frame.size())) == envelope);

  std::vector<std::uint64_t> words = words_of_frame(frame);
  const Envelope back = decode_one(Bytes(nullptr, reinterpret_cast<const std::byte*>(words.data()), frame.size()));
  std::fill(words.begin(), words.end(), 0);
  CHECK(back == envelope);
}

TEST_CASE("ten thousand references of one owner take eight bytes each") {
  PushCalls push;
  auto& value = std::get<InlineValue>(push.calls.emplace_back().arguments.emplace_back());
  for (std::uint64_t i = 0; i < 10000; ++i) value.refs.push_back({{77, i}, NodeId{5}, JobId{6}});
  const Envelope envelope = envelope_of(push);
  CHECK(wire::encoded_size(envelope) < 10000 * 8 + 400);
  check_round_trip(envelope);

  value.refs.back().id.maker = 78;
  value.refs.front().owner_node = NodeId{9};
  check_round_trip(envelope_of(push));
}

TEST_CASE("every record comes back") {
  for (std::size_t index = 0; index < std::variant_size_v<Record>; ++index) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      Generator generator(seed * 1000 + index, seed % 2 == 0);
      const Record record = generator.make_record(index);
      INFO("record ", index, " seed ", seed);
      const auto bytes = wire::encode_record(record);
      REQUIRE(bytes.ok());
      const auto back = wire::decode_record(*bytes);
      REQUIRE_MESSAGE(back.ok(), back.error().message);
      CHECK(*back == record);
      CHECK(Dump::of("", *back) == Dump::of("", record));
      CHECK(key_of(*back) == key_of(record));
    }
  }
}

}  // namespace
}  // namespace mobula::test
