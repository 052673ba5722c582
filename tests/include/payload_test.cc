// The frame of a blob, and what happens to blobs that lie.
#include <cstring>
#include <map>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include <mobula/mobula.h>

#include "tests/include/fake_core.h"
#include "tests/include/round_trip.h"

namespace {

using mobula::detail::Decoder;
using mobula::detail::encode_payload;
using mobula::detail::Encoder;
using mobula::detail::InPayload;
using mobula::detail::OutPayload;
using mobula::detail::PayloadHeader;

struct Everything {
  int number = 0;
  std::vector<std::string> texts;
  std::vector<double> numbers;
  std::map<int, std::vector<bool>> bits;
  std::optional<std::unique_ptr<int>> pointer;
  std::variant<int, std::string> choice;
  std::shared_ptr<int> shared;
  mobula::Array<float> array;
  mobula::Tensor tensor;
  mobula::ObjectRef<int> ref;
};

Everything sample() {
  Everything value;
  value.number = 5;
  value.texts = {"a", "bb", std::string(100, 'c')};
  value.numbers = std::vector<double>(20, 0.5);
  value.bits = {{1, {true, false}}, {2, {}}};
  value.pointer = std::make_unique<int>(3);
  value.choice = "choice";
  value.shared = std::make_shared<int>(9);
  value.array = mobula::Array<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  value.tensor = mobula::Tensor(mobula::Array<double>({2}, {1, 2}));
  value.ref = mobula::put(7);
  return value;
}

// Decodes `bytes` as a T; true if it was accepted. Anything but a value or an Error is a failure of the test program.
template <class T>
bool accepts(std::vector<std::byte> bytes, std::vector<mobula::detail::RefHandle> refs) {
  const InPayload payload = test::arrived(OutPayload{std::move(bytes), std::move(refs)});
  try {
    T value{};
    mobula::detail::decode_payload(payload, value);
    return true;
  } catch (const mobula::Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a small value is a header and its bytes") {
  const OutPayload payload = encode_payload(5);
  REQUIRE(payload.bytes.size() == sizeof(PayloadHeader) + 4);
  PayloadHeader header;
  std::memcpy(&header, payload.bytes.data(), sizeof(header));
  CHECK(header.magic == mobula::detail::kPayloadMagic);
  CHECK(header.stream_bytes == 4);
  CHECK(header.buffer_count == 0);
}

TEST_CASE("equal values have equal bytes, gaps included") {
  const mobula::Array<float> array({3}, {1, 2, 3});
  CHECK(encode_payload(std::make_pair(array, array)).bytes == encode_payload(std::make_pair(array, array)).bytes);
}

TEST_CASE("buffers lie at multiples of 64") {
  const std::vector<mobula::Array<float>> arrays(3, mobula::Array<float>({5}, {1, 2, 3, 4, 5}));
  const OutPayload payload = encode_payload(arrays);
  PayloadHeader header;
  std::memcpy(&header, payload.bytes.data(), sizeof(header));
  REQUIRE(header.buffer_count == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    mobula::detail::BufferEntry entry;
    std::memcpy(&entry, payload.bytes.data() + sizeof(header) + i * sizeof(entry), sizeof(entry));
    CHECK(entry.offset % 64 == 0);
    CHECK(entry.bytes == 20);
  }
}

TEST_CASE("varints of every length") {
  for (unsigned shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t value :
         {std::uint64_t{1} << shift, (std::uint64_t{1} << shift) - 1, ~std::uint64_t{0} >> shift}) {
      Encoder encoder;
      encoder.write_varint(value);
      std::vector<std::byte> bytes(encoder.bytes());
      encoder.begin_writing(bytes, 1);
      encoder.write_varint(value);
      encoder.finish();
      const InPayload payload = test::arrived(OutPayload{bytes, {}});
      Decoder decoder(payload, 1, "x");
      CHECK(decoder.read_varint() == value);
      decoder.finish();
    }
  }
}

TEST_CASE("another type is a signature mismatch that says so") {
  const InPayload payload = test::arrived(encode_payload(5));
  std::string text;
  CHECK_THROWS_AS(mobula::detail::decode_payload(payload, text), mobula::SignatureMismatch);
}

TEST_CASE("each truncation is refused") {
  const OutPayload sent = encode_payload(sample());
  REQUIRE(accepts<Everything>(sent.bytes, sent.refs));
  for (std::size_t size = 0; size < sent.bytes.size(); ++size) {
    const std::vector<std::byte> part(sent.bytes.begin(), sent.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_FALSE(accepts<Everything>(part, sent.refs));
  }
  CHECK_FALSE(accepts<Everything>(sent.bytes, {}));
}

TEST_CASE("damaged bytes give a value or an error, never more memory than there are bytes for") {
  const OutPayload sent = encode_payload(sample());
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = sent.bytes;
    const std::size_t changes = 1 + random() % 4;
    for (std::size_t i = 0; i < changes; ++i) {
      // Not the fingerprint, which would hide all else.
      std::size_t at = random() % bytes.size();
      if (at >= 8 && at < 16) at = 40;
      bytes[at] = random() % 2 == 0 ? std::byte{0xff} : static_cast<std::byte>(random());
    }
    accepts<Everything>(std::move(bytes), sent.refs);
  }
}

TEST_CASE("counts beyond the bytes that are there are refused before memory is taken") {
  for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Encoder encoder;
    encoder.write_varint(count);
    std::vector<std::byte> bytes(encoder.bytes());
    const auto fingerprint = mobula::detail::kFingerprint<std::vector<std::uint64_t>>;
    encoder.begin_writing(bytes, fingerprint);
    encoder.write_varint(count);
    encoder.finish();
    CHECK_FALSE(accepts<std::vector<std::uint64_t>>(bytes, {}));
  }
}

TEST_CASE("a value that changes while it is encoded is refused, not written past its room") {
  struct Restless {
    mutable int calls = 0;
    void serialize(mobula::Archive& archive) {
      std::vector<int> values(static_cast<std::size_t>(++calls) * 100);
      archive(values);
    }
  };
  CHECK_THROWS_AS(encode_payload(Restless{}), mobula::Invalid);
}

TEST_CASE("a chain that is too long is refused at the sender") {
  struct Chain {
    std::unique_ptr<Chain> next;
  };
  const auto chain_of = [](int length) {
    Chain head;
    for (int i = 0; i < length; ++i) {
      Chain longer;
      longer.next = std::make_unique<Chain>(std::move(head));
      head = std::move(longer);
    }
    return head;
  };
  CHECK_NOTHROW(test::round_trip(chain_of(400)));
  CHECK_THROWS_AS(encode_payload(chain_of(1500)), mobula::Invalid);
}

TEST_CASE("references travel beside the blob") {
  const auto a = mobula::put(1);
  const auto b = mobula::put(2);
  const std::map<std::string, std::vector<mobula::ObjectRef<int>>> value{{"x", {a, b}}, {"y", {{}, a}}};
  const OutPayload sent = encode_payload(value);
  CHECK(sent.refs.size() == 3);
  CHECK(test::round_trip(value) == value);
}
