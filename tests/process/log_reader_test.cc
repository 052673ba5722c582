#include "runtime/process/log_reader.h"

#include <doctest/doctest.h>

#include <string>

#include "runtime/process/rotating_file.h"
#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {

TEST_CASE("a reader goes on where it was, through turned-over files") {
  const ScratchDir scratch;
  const std::string path = scratch.path() + "/log";
  CHECK(read_log(path, 0, 100).error().kind == ErrorKind::kObjectLost);
  auto file = RotatingFile::open(path, Rotation{20, 4});
  REQUIRE(file.ok());
  std::string all;
  std::string seen;
  std::uint64_t place = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    file->write(line);
    all += line;
    if (i % 3 != 0) continue;
    auto piece = read_log(path, place, 1000);
    REQUIRE(piece.ok());
    CHECK(piece->at_end);
    seen += piece->bytes;
    place = piece->next;
    CHECK(read_log(path, place, 1000)->bytes.empty());
  }
  seen += read_log(path, place, 1000)->bytes;
  CHECK(seen == all);
}

TEST_CASE("small pieces, and lines that are gone") {
  const ScratchDir scratch;
  const std::string path = scratch.path() + "/log";
  auto file = RotatingFile::open(path, Rotation{10, 1});
  file->write("123456\n");
  auto piece = read_log(path, 0, 3);
  CHECK(piece->bytes == "123");
  CHECK_FALSE(piece->at_end);
  const std::uint64_t place = piece->next;
  CHECK(read_log(path, place, 100)->bytes == "456\n");
  // The file it was in is gone: two newer ones are kept.
  file->write("abcdef\n");
  file->write("ghijkl\n");
  file->write("mnopqr\n");
  piece = read_log(path, place, 1000);
  CHECK(piece->bytes.ends_with("ghijkl\nmnopqr\n"));
}

}  // namespace mobula::process::testing
