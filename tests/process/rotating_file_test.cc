#include "runtime/process/rotating_file.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {

TEST_CASE("a file turns over before it passes its bound, and old ones go") {
  ScratchDir scratch;
  const std::string path = scratch.path() + "/log";
  auto file = RotatingFile::open(path, Rotation{20, 2});
  REQUIRE(file.ok());
  for (int i = 0; i < 8; ++i) file->write("line " + std::to_string(i) + " --\n");  // 10 bytes
  CHECK(file_tail(path, 100) == "line 6 --\nline 7 --\n");
  CHECK(file_tail(path + ".1", 100) == "line 4 --\nline 5 --\n");
  CHECK(file_tail(path + ".2", 100) == "line 2 --\nline 3 --\n");
  CHECK_FALSE(std::filesystem::exists(path + ".3"));
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);
}

TEST_CASE("a file that exists is gone on with, and one piece larger than the bound stays whole") {
  ScratchDir scratch;
  const std::string path = scratch.path() + "/log";
  { RotatingFile::open(path, Rotation{20, 1}).value().write("0123456789"); }
  auto file = RotatingFile::open(path, Rotation{20, 1});
  file->write("abcdefghij");
  CHECK(file_tail(path, 100) == "0123456789abcdefghij");
  file->write(std::string(50, 'x'));
  CHECK(file_tail(path, 100) == std::string(50, 'x'));
  CHECK(file_tail(path + ".1", 100) == "0123456789abcdefghij");
}

TEST_CASE("a log is no symbolic link's victim, and no folder is an error") {
  ScratchDir scratch;
  std::filesystem::create_symlink(scratch.path() + "/target", scratch.path() + "/log");
  CHECK_FALSE(RotatingFile::open(scratch.path() + "/log", {}).ok());
  CHECK_FALSE(RotatingFile::open(scratch.path() + "/none/log", {}).ok());
}

TEST_CASE("a full disk drops pieces and counts them") {
  auto file = RotatingFile::open("/dev/full", {});
  REQUIRE(file.ok());
  file->write("lost\n");
  CHECK(file->dropped() == 1);
}

TEST_CASE("a tail starts at a line") {
  ScratchDir scratch;
  const std::string path = scratch.path() + "/log";
  RotatingFile::open(path, {}).value().write("first line\nsecond\nthird\n");
  CHECK(file_tail(path, 16) == "second\nthird\n");
  CHECK(file_tail(path, 1000) == "first line\nsecond\nthird\n");
  CHECK(file_tail(scratch.path() + "/none", 10).empty());
}

TEST_CASE("a daemon's own output is turned over") {
  ScratchDir scratch;
  const std::string path = scratch.path() + "/daemon.log";
  const Fd saved(::dup(STDERR_FILENO));
  {
    const Fd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    ::dup2(log.get(), STDERR_FILENO);
  }
  StdioRotator rotator(path, Rotation{10, 1});
  const ssize_t first = ::write(STDERR_FILENO, "small", 5);
  rotator.check();
  const ssize_t second = ::write(STDERR_FILENO, " and large", 10);
  rotator.check();
  const ssize_t third = ::write(STDERR_FILENO, "new", 3);
  ::dup2(saved.get(), STDERR_FILENO);
  CHECK(first + second + third == 18);
  CHECK(file_tail(path + ".1", 100) == "small and large");
  CHECK(file_tail(path, 100) == "new");
}

}  // namespace mobula::process::testing
