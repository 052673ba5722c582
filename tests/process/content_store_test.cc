#include "runtime/process/content_store.h"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string hash_of(const std::string& text) {
  return sha256_hex(bytes_of(text));
}

Result<std::uint64_t> put(ContentStore& store, const std::string& text, Instant now = Instant{1}) {
  return store.put(hash_of(text), text.size(), 0, bytes_of(text), now);
}

ContentStore open_store(const ScratchDir& scratch, ContentLimits limits = {}) {
  auto store = ContentStore::open(scratch.path() + "/content", limits);
  REQUIRE(store.ok());
  return *std::move(store);
}

}  // namespace

TEST_CASE("content comes in pieces, is whole at the end, and outlives the store") {
  const ScratchDir scratch;
  const std::string text = "some bytes that travel";
  const std::string hash = hash_of(text);
  {
    ContentStore store = open_store(scratch);
    CHECK(store.put(hash, text.size(), 0, {}, Instant{1}).value() == 0);
    CHECK(store.put(hash, text.size(), 0, bytes_of(text.substr(0, 10)), Instant{1}).value() == 10);
    CHECK_FALSE(store.has(hash));
    CHECK(store.read(hash, 0, 100).error().kind == ErrorKind::kObjectLost);
    CHECK(store.put(hash, text.size(), 10, bytes_of(text.substr(10)), Instant{1}).value() == text.size());
    CHECK(store.has(hash));
  }
  ContentStore store = open_store(scratch);
  CHECK(store.read(hash, 0, 100)->bytes.text() == text);
  CHECK(store.read(hash, 5, 5)->bytes.text() == text.substr(5, 5));
  CHECK(store.read(hash, 5, 5)->total == text.size());
  CHECK(store.read(hash, 100, 5)->bytes.empty());
  CHECK(store.put(hash, text.size(), 0, {}, Instant{1}).value() == text.size());
  struct stat info {};
  REQUIRE(::stat(store.path_of(hash).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);
}

TEST_CASE("two clients that put the same at once help each other") {
  const ScratchDir scratch;
  ContentStore store = open_store(scratch);
  const std::string text = "0123456789";
  const std::string hash = hash_of(text);
  CHECK(store.put(hash, 10, 0, bytes_of("0123"), Instant{1}).value() == 4);
  CHECK(store.put(hash, 10, 0, bytes_of("012"), Instant{1}).value() == 4);   // the other one begins
  CHECK(store.put(hash, 10, 6, bytes_of("6789"), Instant{1}).value() == 4);  // a gap
  CHECK(store.put(hash, 10, 4, bytes_of("456789"), Instant{1}).value() == 10);
  CHECK(store.put(hash, 10, 4, bytes_of("456789"), Instant{1}).value() == 10);  // late
  CHECK(store.read(hash, 0, 100)->bytes.text() == text);
}

TEST_CASE("what is not what its name says is dropped") {
  const ScratchDir scratch;
  ContentStore store = open_store(scratch);
  const std::string hash = hash_of("right");
  CHECK_FALSE(store.put(hash, 5, 0, bytes_of("wrong"), Instant{1}).ok());
  CHECK_FALSE(store.has(hash));
  CHECK_FALSE(store.put(hash, 3, 0, bytes_of("right"), Instant{1}).ok());  // longer than said
  CHECK_FALSE(store.put("../../etc/passwd", 5, 0, bytes_of("right"), Instant{1}).ok());
  CHECK_FALSE(store.put(std::string(64, 'G'), 5, 0, bytes_of("right"), Instant{1}).ok());
  CHECK(store.total_bytes() == 0);
  CHECK(std::filesystem::is_empty(scratch.path() + "/content"));
  CHECK(put(store, "right").ok());
}

TEST_CASE("bounds: one item, all together, uploads at once; the longest unused goes") {
  const ScratchDir scratch;
  ContentLimits limits;
  limits.item_bytes_max = 4;
  limits.total_bytes_max = 10;
  limits.puts_max = 2;
  ContentStore store = open_store(scratch, limits);
  const auto large = put(store, "12345");
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().message.find("at most") != std::string::npos);
  CHECK(put(store, "aaaa").ok());
  CHECK(put(store, "bbbb").ok());
  store.touch(hash_of("aaaa"));
  CHECK(put(store, "cccc").ok());
  CHECK(store.has(hash_of("aaaa")));
  CHECK_FALSE(store.has(hash_of("bbbb")));
  CHECK_FALSE(std::filesystem::exists(store.path_of(hash_of("bbbb"))));

  store.set_in_use([](const std::string&) { return true; });
  CHECK(put(store, "dddd").error().kind == ErrorKind::kOutOfDisk);
  store.set_in_use({});
  CHECK(store.put(hash_of("1"), 1, 0, {}, Instant{1}).ok());
  CHECK(store.put(hash_of("2"), 1, 0, {}, Instant{2}).ok());
  CHECK(store.put(hash_of("3"), 1, 0, {}, Instant{3}).error().kind == ErrorKind::kOverloaded);
  // One that nobody goes on with makes room later.
  CHECK(store.put(hash_of("3"), 1, 0, {}, Instant{1} + limits.put_idle).ok());
}

TEST_CASE("an unfinished put does not survive, and foreign files are left alone") {
  const ScratchDir scratch;
  {
    ContentStore store = open_store(scratch);
    CHECK(store.put(hash_of("half"), 4, 0, bytes_of("ha"), Instant{1}).value() == 2);
  }
  std::ofstream(scratch.path() + "/content/notes") << "mine";
  ContentStore store = open_store(scratch);
  CHECK(store.total_bytes() == 0);
  CHECK(store.size() == 0);
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path() + "/content"),
                      std::filesystem::directory_iterator()) == 1);
  CHECK(put(store, "half").ok());
}

}  // namespace mobula::process::testing
