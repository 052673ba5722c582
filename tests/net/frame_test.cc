#include "runtime/net/frame.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/rng.h"

namespace mobula::net {
namespace {

std::string random_text(Rng& rng, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(rng.next() & 0xff);
  return text;
}

void append(std::string& wire, const Frame& frame) {
  const auto header = encode_frame_header(frame);
  wire.append(reinterpret_cast<const char*>(header.data()), header.size());
  wire.append(frame.head.text());
  wire.append(padded(frame.head.size()) - frame.head.size(), '\0');
  wire.append(frame.body.text());
  wire.append(padded(frame.body.size()) - frame.body.size(), '\0');
}

// Feeds `wire` in pieces; the pieces' sizes come from `next`.
template <class Next>
Status feed(FrameReader& reader, std::string_view wire, std::vector<Frame>& frames, Next next) {
  while (!wire.empty()) {
    const auto into = reader.writable();
    REQUIRE(!into.empty());
    const std::size_t size = std::min({wire.size(), into.size(), static_cast<std::size_t>(next())});
    std::memcpy(into.data(), wire.data(), size);
    wire.remove_prefix(size);
    if (Status status = reader.commit(size, frames); !status) return status;
  }
  return {};
}

std::string header_bytes(std::uint32_t length, unsigned type, unsigned descriptors, unsigned head) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xff);
  bytes += static_cast<char>(type);
  bytes += static_cast<char>(descriptors);
  bytes += static_cast<char>(head & 0xff);
  bytes += static_cast<char>(head >> 8);
  return bytes;
}

TEST_CASE("frames of all sizes survive every way of being cut") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    std::string wire;
    std::vector<Frame> sent;
    const std::size_t count = 1 + rng.below(40);
    for (std::size_t i = 0; i < count; ++i) {
      Frame frame;
      frame.type = static_cast<FrameType>(rng.below(3));
      if (rng.chance(1, 3)) frame.head = Bytes::copy_of(random_text(rng, 8 * rng.below(40)));
      const std::uint64_t sizes[] = {0,     1,     rng.below(100),    rng.below(5000), rng.below(20000),
                                     16384, 65536, rng.below(400'000)};
      frame.body = Bytes::copy_of(random_text(rng, sizes[rng.below(8)]));
      append(wire, frame);
      sent.push_back(std::move(frame));
    }
    FrameReader reader;
    std::vector<Frame> got;
    const std::uint64_t longest = rng.chance(1, 4) ? 7 : (rng.chance(1, 2) ? 3000 : 1'000'000);
    REQUIRE(feed(reader, wire, got, [&] { return 1 + rng.below(longest); }).ok());
    CHECK(reader.at_boundary());
    REQUIRE(got.size() == sent.size());
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(got[i].type == sent[i].type);
      CHECK(got[i].head == sent[i].head);
      CHECK(got[i].body == sent[i].body);
      CHECK(reinterpret_cast<std::uintptr_t>(got[i].body.data()) % 8 == 0);
      CHECK(reinterpret_cast<std::uintptr_t>(got[i].head.data()) % 8 == 0);
    }
  }
}

TEST_CASE("a head that is no multiple of 8 arrives padded") {
  Frame frame;
  frame.head = Bytes::copy_of("abc");
  frame.body = Bytes::copy_of("body");
  std::string wire;
  append(wire, frame);
  CHECK(wire.size() == 24);
  FrameReader reader;
  std::vector<Frame> got;
  REQUIRE(feed(reader, wire, got, [] { return 5; }).ok());
  REQUIRE(got.size() == 1);
  CHECK(got[0].head.text() == std::string_view("abc\0\0\0\0\0", 8));
  CHECK(got[0].body.text() == "body");
}

TEST_CASE("a stream that ends inside a frame is not at a boundary, wherever it ends") {
  Frame small;
  small.body = Bytes::copy_of("hello");
  Frame big;
  big.type = FrameType::kRaw;
  big.head = Bytes::copy_of("12345678");
  big.body = Bytes::copy_of(std::string(40'001, 'x'));
  std::string wire;
  append(wire, small);
  const std::size_t between = wire.size();
  append(wire, big);
  for (std::size_t cut = 1; cut < wire.size(); cut += cut < 100 ? 1 : 997) {
    FrameReader reader;
    std::vector<Frame> got;
    REQUIRE(feed(reader, std::string_view(wire).substr(0, cut), got, [] { return 1 << 20; }).ok());
    CHECK(reader.at_boundary() == (cut == between));
    CHECK(got.size() == (cut >= between ? 1U : 0U));
  }
}

TEST_CASE("broken headers are refused by their first eight bytes, with the reason") {
  const struct {
    std::string wire;
    const char* why;
  } cases[] = {
      {header_bytes(0xffffffff, 0, 0, 0), "above the limit"},
      {header_bytes(kFrameSizeMax + 1, 0, 0, 0), "above the limit"},
      {header_bytes(0x80000000, 1, 0, 0), "above the limit"},
      {header_bytes(8, 3, 0, 0), "type 3"},
      {header_bytes(8, 255, 0, 0), "type 255"},
      {header_bytes(8, 0, 17, 0), "17 descriptors"},
      {header_bytes(64, 0, 0, 4), "head of 4"},
      {header_bytes(8, 0, 0, 16), "head of 16"},
      {header_bytes(8'000'000, 1, 0, 8192), "head of 8192"},
  };
  for (const auto& item : cases) {
    FrameReader reader;
    std::vector<Frame> got;
    const Status status = feed(reader, item.wire, got, [] { return 8; });
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find(item.why) != std::string::npos);
    CHECK(got.empty());
  }
}

TEST_CASE("random bytes never crash the reader") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    std::string wire = random_text(rng, rng.below(200'000));
    // Some begin like real frames, so that the bytes get further in.
    for (std::size_t at = 0; at + 8 <= wire.size() && rng.chance(3, 4); at += 8 + rng.below(3000)) {
      const auto size = static_cast<std::uint32_t>(rng.below(100'000));
      wire.replace(
          at, 8, header_bytes(size, static_cast<unsigned>(rng.below(3)), 0, static_cast<unsigned>(8 * rng.below(40))));
    }
    FrameReader reader;
    std::vector<Frame> got;
    static_cast<void>(feed(reader, wire, got, [&] { return 1 + rng.below(9000); }).ok());
  }
}

TEST_CASE("announced size costs little until bytes arrive") {
  FrameReader reader;
  std::vector<Frame> got;
  REQUIRE(feed(reader, header_bytes(kFrameSizeMax, 0, 0, 0), got, [] { return 8; }).ok());
  CHECK(reader.writable().size() <= (std::size_t{64} << 10));
}

TEST_CASE("a raw body goes where the target says") {
  std::string memory(100'000, '?');
  auto owner = std::make_shared<int>(7);
  FrameReader reader;
  std::size_t asked = 0;
  reader.set_raw_target([&](const Bytes& head, std::size_t size) {
    ++asked;
    CHECK(head.text() == "chunk 12");
    CHECK(size == 50'003);
    return RawTarget{reinterpret_cast<std::byte*>(memory.data()) + 5, owner};
  });
  Frame frame;
  frame.type = FrameType::kRaw;
  frame.head = Bytes::copy_of("chunk 12");
  Rng rng(5);
  frame.body = Bytes::copy_of(random_text(rng, 50'003));
  std::string wire;
  append(wire, frame);
  append(wire, frame);
  std::vector<Frame> got;
  REQUIRE(feed(reader, wire, got, [&] { return 1 + rng.below(20'000); }).ok());
  REQUIRE(got.size() == 2);
  CHECK(asked == 2);
  CHECK(got[1].body == frame.body);
  CHECK(reinterpret_cast<const char*>(got[1].body.data()) == memory.data() + 5);
  CHECK(owner.use_count() == 3);
}

// The last chunk of an object may have a few bytes.
TEST_CASE("a small raw body goes where the target says, too") {
  std::string memory(3, '?');
  FrameReader reader;
  reader.set_raw_target([&](const Bytes&, std::size_t size) {
    CHECK(size == 3);
    return RawTarget{reinterpret_cast<std::byte*>(memory.data()), nullptr};
  });
  Frame raw;
  raw.type = FrameType::kRaw;
  raw.head = Bytes::copy_of("chunk 13");
  raw.body = Bytes::copy_of("end");
  Frame after;
  after.body = Bytes::copy_of("message");
  std::string wire;
  append(wire, raw);
  append(wire, after);
  std::size_t piece = 0;
  SUBCASE("in one piece") {
    piece = wire.size();
  }
  SUBCASE("byte by byte") {
    piece = 1;
  }
  std::vector<Frame> got;
  REQUIRE(feed(reader, wire, got, [&] { return piece; }).ok());
  REQUIRE(got.size() == 2);
  CHECK(memory == "end");
  CHECK(got[0].body.text() == "end");
  CHECK(got[1].body.text() == "message");
  CHECK(reader.at_boundary());
}

TEST_CASE("small frames share a block that is used again once they are gone") {
  FrameReader reader;
  std::vector<Frame> got;
  Frame frame;
  frame.body = Bytes::copy_of("12345678");
  std::string wire;
  append(wire, frame);
  const auto* first = reader.writable().data();
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE(feed(reader, wire, got, [] { return 1 << 20; }).ok());
    REQUIRE(got.size() == 1);
    got.clear();
    REQUIRE(reader.writable().data() == first);
  }
  REQUIRE(feed(reader, wire, got, [] { return 1 << 20; }).ok());
  const Bytes kept = got[0].body;
  got.clear();
  CHECK(reader.writable().data() != first);
  for (int i = 0; i < 10'000; ++i) REQUIRE(feed(reader, wire, got, [] { return 1 << 20; }).ok());
  CHECK(kept.text() == "12345678");
}

TEST_CASE("descriptors belong to the frame that announces them") {
  const auto open_null = [] { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); };
  FrameReader reader;
  std::vector<Frame> got;
  Frame frame;
  frame.descriptors.push_back(open_null());
  frame.descriptors.push_back(open_null());
  std::string wire;
  append(wire, frame);
  std::vector<Fd> arriving;
  for (int i = 0; i < 2; ++i) arriving.push_back(open_null());
  REQUIRE(reader.add_descriptors(std::move(arriving)).ok());
  REQUIRE(feed(reader, wire, got, [] { return 3; }).ok());
  REQUIRE(got.size() == 1);
  CHECK(got[0].descriptors.size() == 2);
  // The same frame again, with nothing that came along.
  CHECK_FALSE(feed(reader, wire, got, [] { return 100; }).ok());
  std::vector<Fd> flood;
  for (std::size_t i = 0; i < 5 * kFrameDescriptorsMax; ++i) flood.push_back(open_null());
  CHECK_FALSE(FrameReader().add_descriptors(std::move(flood)).ok());
}

}  // namespace
}  // namespace mobula::net
