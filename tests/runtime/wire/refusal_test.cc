// What arrives from outside never crashes and never costs much: truncated, flipped, made up, too deep, too large.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/wire/envelope.capnp.h"
#include "runtime/wire/records.capnp.h"
#include "tests/runtime/wire/envelopes.h"

namespace mobula::test {
namespace {

namespace schema = wire::schema;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The error of a frame that must be refused.
std::string refusal(const Bytes& frame) {
  std::vector<Envelope> envelopes(2);
  const Status status = wire::decode(frame, envelopes);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().kind == ErrorKind::kInvalid);
  CHECK(envelopes.empty());
  return status.error().message;
}

// A frame whose one envelope `fill` makes by hand, as a sender of another version or with bad intent would.
template <class Fill>
Bytes handmade(Fill fill) {
  capnp::MallocMessageBuilder builder(1 << 16);
  fill(builder.initRoot<schema::Frame>().initMessages(1)[0]);
  const auto flat = capnp::messageToFlatArray(builder);
  const auto bytes = flat.asBytes();
  return Bytes::copy_of(bytes.begin(), bytes.size());
}

// Sets 16 bits of a struct's data section, past all checks of the setters.
template <class Struct>
void poke(Struct at, std::size_t byte_offset, std::uint16_t value) {
  auto data = capnp::toAny(at).getDataSection();
  REQUIRE(byte_offset + 2 <= data.size());
  std::memcpy(data.begin() + byte_offset, &value, sizeof value);
}

// The offset of the first byte in which two structs of the same schema differ.
template <class Schema, class A, class B>
std::size_t differing_byte(A a, B b) {
  capnp::MallocMessageBuilder first, second;
  auto left = first.initRoot<Schema>();
  auto right = second.initRoot<Schema>();
  a(left);
  b(right);
  const auto x = capnp::toAny(left.asReader()).getDataSection();
  const auto y = capnp::toAny(right.asReader()).getDataSection();
  const auto [at, _] = std::mismatch(x.begin(), x.end(), y.begin());
  return static_cast<std::size_t>(at - x.begin());
}

// ---- damage
// ----------------------------------------------------------------------------------------------------------

Bytes everything() {
  std::vector<Envelope> envelopes;
  for (std::size_t index = 0; index < kMessages; ++index) {
    Generator generator(index, true, 2);
    envelopes.push_back(make_envelope(generator, index));
  }
  auto frame = wire::encode(envelopes);
  REQUIRE(frame.ok());
  return *frame;
}

TEST_CASE("truncated frames are refused") {
  for (std::size_t index = 0; index < kMessages; ++index) {
    Generator generator(index);
    const Bytes frame = encode_one(make_envelope(generator, index));
    for (std::size_t size = 0; size < frame.size(); ++size) {
      std::vector<std::uint64_t> words = words_of_frame(frame.slice(0, size));
      refusal(frame_of(words, size));
      // The same with a segment table that admits to it: pointers now lead out of the frame.
      if (size < 16 || size % 8 != 0) continue;
      words[0] = (size / 8 - 1) << 32U;
      static_cast<void>(wire::decode(frame_of(words, size)).ok());
    }
  }
}

TEST_CASE("flipped bits are refused or read as something else, and never crash") {
  const std::vector<std::uint64_t> original = words_of_frame(everything());
  Rng rng(1);
  std::vector<Envelope> out;
  int taken = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::uint64_t> words = original;
    for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      words[1 + rng.below(words.size() - 1)] ^= std::uint64_t{1} << rng.below(64);
    }
    if (!wire::decode(frame_of(words, words.size() * 8), out).ok()) continue;
    ++taken;
    const auto again = wire::encode(out);
    REQUIRE(again.ok());
    CHECK(wire::decode(*again).ok());
  }
  CHECK(taken > 0);
}

TEST_CASE("junk is refused") {
  Rng rng(2);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint64_t> words(2 + rng.below(40));
    for (std::uint64_t& word : words) word = rng.chance(1, 2) ? rng.next() : rng.below(64);
    if (rng.chance(3, 4)) words[0] = (words.size() - 1) << 32U;
    static_cast<void>(wire::decode(frame_of(words, words.size() * 8)).ok());
    static_cast<void>(wire::decode_record(frame_of(words, words.size() * 8)).ok());
  }
}

TEST_CASE("framing is checked before anything is read") {
  CHECK(contains(refusal({}), "no whole message"));
  CHECK(contains(refusal(frame_of({0}, 8)), "no whole message"));
  CHECK(contains(refusal(frame_of({std::uint64_t{1} << 32U, 0, 0}, 20)), "no whole message"));
  CHECK(contains(refusal(frame_of({1, 0}, 16)), "more than one segment"));
  CHECK(contains(refusal(frame_of({std::uint64_t{9} << 32U, 0}, 16)), "it says 9 words and has 1"));
  const std::vector<std::uint64_t> large(wire::kFrameMax / 8 + 1);
  CHECK(contains(refusal(frame_of(large, large.size() * 8)), "at most 16777216"));
}

// ---- other versions
// --------------------------------------------------------------------------------------------------

TEST_CASE("an arm of a later version is refused by its number") {
  const std::size_t arm =
      differing_byte<schema::Envelope>([](auto at) { at.initHello(); }, [](auto at) { at.initQueryReply(); });
  for (const std::uint16_t number : {std::uint16_t{kMessages}, std::uint16_t{500}, std::uint16_t{65535}}) {
    const std::string error = refusal(handmade([&](schema::Envelope::Builder at) {
      at.initHello();
      poke(at, arm, number);
    }));
    CHECK_MESSAGE(contains(error, std::to_string(number) + " is no message that this version knows"), error);
  }
}

TEST_CASE("an unknown kind of value or outcome is refused") {
  const std::size_t value_arm =
      differing_byte<schema::Value>([](auto at) { at.initInline(0); }, [](auto at) { at.initStored(); });
  std::string error = refusal(handmade([&](schema::Envelope::Builder at) {
    auto value = at.initPushCalls().initCalls(1)[0].initArguments(1)[0];
    poke(value, value_arm, 2);
  }));
  CHECK_MESSAGE(contains(error, "PushCalls.value: 2 is no kind of value"), error);

  const std::size_t outcome_arm = differing_byte<schema::ObjectResolved>(
      [](auto at) { at.initOutcome().initInline(0); }, [](auto at) { at.initOutcome().initError(); });
  error = refusal(handmade(
      [&](schema::Envelope::Builder at) { poke(at.initObjectsResolved().initObjects(1)[0], outcome_arm, 3); }));
  CHECK_MESSAGE(contains(error, "ObjectsResolved.outcome: 3 is no kind of outcome"), error);
}

TEST_CASE("every enum is checked") {
  const auto unknown = [](auto number) { return static_cast<decltype(number)>(77); };
  CHECK(contains(refusal(handmade([&](auto at) { at.initHello().setRole(unknown(schema::Role::HEAD)); })),
                 "Hello.role: 77 is no Role"));
  CHECK(contains(refusal(handmade([&](auto at) { at.initFrom().setKind(unknown(schema::PeerKind::HEAD)); })),
                 "Envelope.kind: 77 is no PeerKind"));
  CHECK(contains(refusal(handmade([&](auto at) { at.initLeaseLost().initError().setKind(schema::ErrorKind::UNUSED); })),
                 "LeaseLost.kind: 0 is no ErrorKind"));
  CHECK(contains(
      refusal(handmade([&](auto at) { at.initActorUpdate().initInfo().setPhase(unknown(schema::ActorPhase::DEAD)); })),
      "ActorUpdate.phase: 77 is no ActorPhase"));
  CHECK(contains(refusal(handmade([&](auto at) { at.initActorEnded().setEnd(unknown(schema::ActorEnd::EXITED)); })),
                 "ActorEnded.end: 77 is no ActorEnd"));
  CHECK(contains(
      refusal(handmade([&](auto at) { at.initDriverStatus().setPhase(unknown(schema::SubmissionPhase::FAILED)); })),
      "DriverStatus.phase: 77 is no SubmissionPhase"));
  CHECK(contains(refusal(handmade([&](auto at) { at.initQuery().setKind(unknown(schema::QueryKind::STOP)); })),
                 "Query.kind: 77 is no QueryKind"));
  // 256 + a known number must not pass by being cut to eight bits.
  CHECK(contains(refusal(handmade([&](auto at) { at.initQuery().setKind(static_cast<schema::QueryKind>(257)); })),
                 "257 is no QueryKind"));
}

// A struct of an older version that knew no fields at all: what it lacks reads as the C++ default.
template <std::size_t I>
void check_empty_struct() {
  const Bytes frame = handmade([](schema::Envelope::Builder at) {
    at.initHello();
    const std::size_t arm =
        differing_byte<schema::Envelope>([](auto x) { x.initHello(); }, [](auto x) { x.initQueryReply(); });
    poke(at, arm, static_cast<std::uint16_t>(I));
    // All arms share one pointer; let it lead to a struct of no words.
    capnp::toAny(at).getPointerSection()[2].initAsAnyStruct(0, 0);
  });
  const Envelope back = decode_one(frame);
  CHECK_MESSAGE(back == envelope_of(Message(std::variant_alternative_t<I, AnyMessage>())), name_of(back.message));
}
template <std::size_t... I>
void check_empty_structs(std::index_sequence<I...>) {
  (check_empty_struct<I>(), ...);
}

TEST_CASE("the schema's defaults are those of the structs") {
  check_empty_structs(std::make_index_sequence<kMessages>());
}

// ---- limits
// ----------------------------------------------------------------------------------------------------------

TEST_CASE("many pointers to one part do not multiply it") {
  // A list of texts that are all one text of 1 MiB: 4 times the frame is all that may be followed.
  QueryReply reply;
  reply.columns = std::vector<std::string>(1000, "12345678");
  reply.notes = {std::string(1 << 20, 'x')};
  std::vector<std::uint64_t> words = words_of_frame(encode_one(envelope_of(reply)));
  // Find the columns' pointers (texts of 9 bytes: 2 words each) and let each lead to the note.
  const auto note =
      static_cast<std::int64_t>(std::find(words.begin(), words.end(), 0x7878787878787878U) - words.begin());
  int turned = 0;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at] >> 32U != ((9U << 3U) | 2U) || (words[at] & 3U) != 1) continue;
    const auto offset = note - static_cast<std::int64_t>(at) - 1;
    words[at] = (static_cast<std::uint64_t>((((1U << 20U) + 1) << 3U) | 2U) << 32U) |
                static_cast<std::uint32_t>((static_cast<std::uint32_t>(offset) << 2U) | 1U);
    ++turned;
  }
  REQUIRE(turned == 1000);
  const std::string error = refusal(frame_of(words, words.size() * 8));
  CHECK_MESSAGE(contains(error, "QueryReply"), error);
  CHECK_MESSAGE(contains(error, "limit"), error);
}

TEST_CASE("a long list of empty structs asks for no memory") {
  // 1 Mi calls of no words each: a list pointer of 8 bytes, each element 200 bytes once decoded.
  const Bytes frame = handmade([](schema::Envelope::Builder at) {
    auto push = capnp::toAny(at.initPushCalls());
    push.getPointerSection()[0].initAsAnyList(capnp::ElementSize::VOID, 1U << 20U);
  });
  const std::string error = refusal(frame);
  CHECK_MESSAGE(contains(error, "PushCalls"), error);
}

TEST_CASE("columns of different length are refused") {
  const std::string ids = refusal(handmade([](schema::Envelope::Builder at) {
    auto columns = at.initGiveBack().initTasks();
    columns.initSequences(3);
    columns.initMakers(2);
  }));
  CHECK_MESSAGE(contains(ids, "GiveBack.tasks: columns of different length"), ids);
  refusal(handmade([](schema::Envelope::Builder at) { at.initGiveBack().initTasks().initMakers(1); }));
  refusal(handmade([](schema::Envelope::Builder at) { at.initGiveBack().initTasks().initSequences(1); }));
  const std::string refs = refusal(handmade([](schema::Envelope::Builder at) {
    auto columns = at.initPushCalls().initCalls(1)[0].initArguments(1)[0].initInlineRefs();
    columns.initSequences(2);
    columns.initMakers(2);
    columns.initOwnerNodes(1);
    columns.initOwnerJobs(3);
  }));
  CHECK_MESSAGE(contains(refs, "PushCalls.refs: columns of different length"), refs);
}

TEST_CASE("a frame that would be too large is refused before it is built, by the name of its largest message") {
  std::vector<Envelope> envelopes(2);
  envelopes[0].message = WorkerBlocked{};
  PutContent content;
  content.bytes = Bytes::adopt(std::vector<std::byte>(wire::kFrameMax));
  envelopes[1].message = content;
  const auto frame = wire::encode(envelopes);
  REQUIRE_FALSE(frame.ok());
  CHECK(frame.error().kind == ErrorKind::kInvalid);
  CHECK_MESSAGE(contains(frame.error().message, "PutContent of 167"), frame.error().message);
  std::vector<std::byte> out(8);
  CHECK_FALSE(wire::append(envelopes, out).ok());
  CHECK(out.size() == 8);

  content.bytes = content.bytes.slice(0, wire::kFrameMax - 1024);
  envelopes[1].message = content;
  const auto fits = wire::encode(envelopes);
  REQUIRE(fits.ok());
  CHECK(*wire::decode(*fits) == envelopes);
}

TEST_CASE("the most a frame of small things can hold is taken") {
  // Honest frames stay far below the memory limit, also those of the elements that grow most.
  CallsDone done;
  done.results.resize(100000);
  CHECK(decode_one(encode_one(envelope_of(done))) == envelope_of(done));
  PushCalls push;
  push.calls.resize(20000);
  for (Call& call : push.calls) call.arguments.resize(4);
  CHECK(decode_one(encode_one(envelope_of(push))) == envelope_of(push));
  QueryReply reply;
  reply.rows.assign(50000, {"", "", ""});
  CHECK(decode_one(encode_one(envelope_of(reply))) == envelope_of(reply));
  RegisterNode node;
  node.actors.resize(20000);
  CHECK(decode_one(encode_one(envelope_of(node))) == envelope_of(node));
  const std::vector<Envelope> small(100000, envelope_of(NodeLeaves{}));
  CHECK(*wire::decode(*wire::encode(small)) == small);
}

TEST_CASE("damaged records are refused") {
  for (std::size_t index = 0; index < std::variant_size_v<Record>; ++index) {
    Generator generator(index);
    const Bytes bytes = *wire::encode_record(generator.make_record(index));
    for (std::size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(wire::decode_record(bytes.slice(0, size)).ok());
    Rng rng(index);
    for (int round = 0; round < 500; ++round) {
      std::vector<std::uint64_t> words = words_of_frame(bytes);
      words[1 + rng.below(words.size() - 1)] ^= std::uint64_t{1} << rng.below(64);
      static_cast<void>(wire::decode_record(frame_of(words, bytes.size())).ok());
    }
  }
  capnp::MallocMessageBuilder builder;
  auto record = builder.initRoot<schema::Record>();
  record.initCluster();
  poke(record, 0, 900);
  const auto flat = capnp::messageToFlatArray(builder);
  const auto unknown = wire::decode_record(Bytes::copy_of(flat.asBytes().begin(), flat.asBytes().size()));
  REQUIRE_FALSE(unknown.ok());
  CHECK(contains(unknown.error().message, "900 is no kind of record"));
}

}  // namespace
}  // namespace mobula::test
