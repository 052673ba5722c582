#include "runtime/process/archive.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "runtime/base/rng.h"
#include "runtime/process/rotating_file.h"
#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

namespace fs = std::filesystem;

// Writes archives by hand: what pack() would never write.
class Forger {
 public:
  Forger& add(unsigned char kind, const std::string& path, const std::string& body) {
    header(kind, path, body.size());
    text_ += body;
    ++entries_;
    return *this;
  }
  Forger& header(unsigned char kind, const std::string& path, std::uint64_t body) {
    text_ += static_cast<char>(kind);
    for (unsigned shift = 0; shift < 16; shift += 8) text_ += static_cast<char>((path.size() >> shift) & 0xffU);
    for (unsigned shift = 0; shift < 64; shift += 8) text_ += static_cast<char>((body >> shift) & 0xffU);
    text_ += path;
    return *this;
  }
  std::string end() {
    header(0, "", entries_);
    return text_;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "mobula archive 1";
  std::uint64_t entries_ = 0;
};

constexpr unsigned char kFolder = 1;
constexpr unsigned char kFile = 2;
constexpr unsigned char kLink = 4;

// A private folder to unpack into, with a file beside it that nothing may touch.
class Target {
 public:
  Target() {
    fs::create_directory(folder());
    ::chmod(folder().c_str(), 0700);
    std::ofstream(scratch_.path() + "/beside") << "mine";
  }
  std::string folder() const { return scratch_.path() + "/in"; }
  Status unpack(const std::string& bytes, const ArchiveLimits& limits = {}) const {
    const std::string path = scratch_.path() + "/archive";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return process::unpack(file.get(), folder(), limits);
  }
  // Everything that lies beside the folder, and what "beside" says.
  bool untouched() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(scratch_.path())) names.insert(entry.path().filename().string());
    names.erase("archive");
    return names == std::set<std::string>{"beside", "in"} && file_tail(scratch_.path() + "/beside", 100) == "mine";
  }
  void clear() const {
    fs::remove_all(folder());
    fs::create_directory(folder());
    ::chmod(folder().c_str(), 0700);
  }

 private:
  ScratchDir scratch_;
};

std::string refusal(const std::string& bytes, const ArchiveLimits& limits = {}) {
  const Target target;
  const Status done = target.unpack(bytes, limits);
  CHECK(target.untouched());
  return done ? "accepted" : done.error().message;
}

void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
  ::chmod(path.c_str(), mode);
}

}  // namespace

TEST_CASE("a folder comes back as it was, and the same files give the same hash") {
  const ScratchDir source;
  write(source.path() + "/b/train.py", "print(1)\n");
  write(source.path() + "/a.sh", "#!/bin/sh\n", 0755);
  write(source.path() + "/empty", "");
  write(source.path() + "/.git/config", "secret");
  write(source.path() + "/data/big.bin", std::string(3'000'000, 'x'));
  fs::create_directory(source.path() + "/nothing");
  fs::create_symlink("../a.sh", source.path() + "/b/link");

  PackOptions options;
  options.folder = source.path();
  options.exclude = {".git"};
  auto packed = pack(options);
  REQUIRE(packed.ok());
  CHECK(packed->hash == sha256_of_fd(packed->file.get()).value());
  fs::last_write_time(source.path() + "/a.sh", fs::file_time_type::clock::now() - std::chrono::hours(5));
  CHECK(pack(options)->hash == packed->hash);

  const Target target;
  REQUIRE(unpack(packed->file.get(), target.folder()).ok());
  CHECK(file_tail(target.folder() + "/b/train.py", 100) == "print(1)\n");
  CHECK(fs::file_size(target.folder() + "/data/big.bin") == 3'000'000);
  CHECK(fs::is_empty(target.folder() + "/nothing"));
  CHECK(fs::is_empty(target.folder() + "/empty"));
  CHECK_FALSE(fs::exists(target.folder() + "/.git"));
  CHECK(fs::read_symlink(target.folder() + "/b/link") == "../a.sh");
  struct stat info {};
  REQUIRE(::stat((target.folder() + "/a.sh").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777U) == 0700U);
  REQUIRE(::stat((target.folder() + "/b/train.py").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777U) == 0600U);
}

TEST_CASE("programs from elsewhere are packed beside the folder's files, or alone") {
  const ScratchDir source;
  write(source.path() + "/tool", "#!/bin/sh\n", 0755);
  PackOptions options;
  options.extra = {{".mobula-program/tool", source.path() + "/tool"}};
  auto packed = pack(options);
  REQUIRE(packed.ok());
  CHECK(packed->entries == 2);
  const Target target;
  REQUIRE(unpack(packed->file.get(), target.folder()).ok());
  CHECK(::access((target.folder() + "/.mobula-program/tool").c_str(), X_OK) == 0);
}

TEST_CASE("what is too large, or leads outside, is not packed, and the message says what to do") {
  const ScratchDir source;
  write(source.path() + "/data/set.bin", std::string(3 << 20, 'x'));
  PackOptions options;
  options.folder = source.path();
  options.limits.bytes_max = 2 << 20;
  auto packed = pack(options);
  REQUIRE_FALSE(packed.ok());
  CHECK(contains(packed.error().message, "at most 2 MiB"));
  CHECK(contains(packed.error().message, "data/set.bin"));
  CHECK(contains(packed.error().message, "--exclude"));
  options.exclude = {"data/*.bin"};
  CHECK(pack(options).ok());

  fs::create_symlink("/etc/passwd", source.path() + "/out");
  packed = pack(options);
  REQUIRE_FALSE(packed.ok());
  CHECK(contains(packed.error().message, "leads out of the working folder"));
  options.exclude.emplace_back("out");
  CHECK(pack(options).ok());
  options.limits.entries_max = 1;
  write(source.path() + "/one", "1");
  CHECK(contains(pack(options).error().message, "more than 1 files"));
}

TEST_CASE("plain paths") {
  for (const char* good : {"a", "a/b", ".hidden", "a..b/...", "a b"}) CHECK_MESSAGE(is_plain_path(good), good);
  for (const char* bad : {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/.."}) {
    CHECK_MESSAGE(!is_plain_path(bad), bad);
  }
  CHECK_FALSE(is_plain_path(std::string_view("a\0b", 3)));
  CHECK_FALSE(is_plain_path(std::string(256, 'x')));
}

TEST_CASE("links that stay inside") {
  CHECK(stays_inside("a", "b"));
  CHECK(stays_inside("x/a", "../b"));
  CHECK(stays_inside("x/y/a", "../../b/c"));
  CHECK(stays_inside("x/a", "./b"));
  CHECK_FALSE(stays_inside("a", ".."));
  CHECK_FALSE(stays_inside("a", "../b"));
  CHECK_FALSE(stays_inside("x/a", "../../b"));
  CHECK_FALSE(stays_inside("a", "/etc"));
  CHECK_FALSE(stays_inside("a", ""));
  // "b" may be a link itself, so where its ".." leads is not known.
  CHECK_FALSE(stays_inside("x/y/z/a", "b/../c"));
}

TEST_CASE("hostile archives are refused, and nothing is written outside") {
  CHECK(contains(refusal(Forger().add(kFile, "../beside", "owned").end()), "leads out"));
  CHECK(contains(refusal(Forger().add(kFile, "/tmp/mobula-owned", "x").end()), "leads out"));
  CHECK(contains(refusal(Forger().add(kFolder, "a", "").add(kFile, "a/../../beside", "x").end()), "leads out"));
  CHECK(contains(refusal(Forger().add(kFolder, "..", "").end()), "leads out"));
  CHECK(contains(refusal(Forger().add(kFile, std::string("a\0b", 3), "x").end()), "leads out"));
  CHECK(contains(refusal(Forger().add(kLink, "a", "/etc").end()), "link that leads out"));
  CHECK(contains(refusal(Forger().add(kLink, "a", "../beside").end()), "link that leads out"));
  CHECK(contains(refusal(Forger().add(kLink, "a", std::string("b\0", 2)).end()), "link that leads out"));
  // Writing through a link, before or after it.
  CHECK(contains(refusal(Forger().add(kLink, "a", ".").add(kFile, "a/b", "x").end()), "outside every folder"));
  CHECK(refusal(Forger().add(kFolder, "a", "").add(kLink, "a", "b").end()) != "accepted");
  CHECK(refusal(Forger().add(kFile, "a", "1").add(kLink, "a", "b").end()) != "accepted");
  CHECK(refusal(Forger().add(kFile, "a", "1").add(kFile, "a", "2").end()) != "accepted");
  CHECK(refusal(Forger().add(kFile, "a", "1").add(kFile, "a/b", "2").end()) != "accepted");
  CHECK(contains(refusal(Forger().add(kFile, "no/parent", "x").end()), "outside every folder"));
  // Devices, set-user-id and whatever else has no kind here.
  for (const int kind : {5, 6, 7, 99, 255}) {
    CHECK(contains(refusal(Forger().add(static_cast<unsigned char>(kind), "x", "").end()), "unknown kind"));
  }
  CHECK(contains(refusal(Forger().add(kFolder, "a", "body").end()), "folder with content"));
}

TEST_CASE("broken and greedy archives are refused") {
  const std::string good = Forger().add(kFolder, "a", "").add(kFile, "a/b", "hello").add(kLink, "c", "a/b").end();
  CHECK(refusal(good) == "accepted");
  for (std::size_t size = 0; size < good.size(); ++size) CHECK(refusal(good.substr(0, size)) != "accepted");
  CHECK(contains(refusal(good + "x"), "end does not fit"));
  CHECK(contains(refusal("tar archive, perhaps" + good), "no archive"));
  CHECK(contains(refusal(Forger().header(0, "", 7).text()), "end does not fit"));
  // A length far beyond what follows costs nothing.
  CHECK(contains(refusal(Forger().header(kFile, "a", ~std::uint64_t{0}).text()), "ends within"));
  ArchiveLimits limits;
  limits.entries_max = 2;
  CHECK(contains(refusal(good, limits), "too many entries"));
  limits = {};
  limits.bytes_max = 10;
  CHECK(contains(refusal(good, limits), "larger"));
  limits = {};
  limits.path_bytes_max = 2;
  CHECK(contains(refusal(good, limits), "too long"));
  limits = {};
  limits.depth_max = 1;
  CHECK(contains(refusal(good, limits), "too deep"));
}

TEST_CASE("a folder that others may enter is no place to unpack into") {
  const Target target;
  ::chmod(target.folder().c_str(), 0755);
  CHECK(contains(target.unpack(Forger().end()).error().message, "open to others"));
}

TEST_CASE("random damage never writes outside") {
  Rng rng(20240611);
  const std::string good = Forger()
                               .add(kFolder, "a", "")
                               .add(kFolder, "a/b", "")
                               .add(kFile, "a/b/c", "hello")
                               .add(kLink, "a/b/d", "../../e")
                               .add(3, "run", "#!/bin/sh\n")
                               .end();
  const std::string pieces[] = {"..", "/", "../", "\0", "a/b", "/etc", "\x04", "\x03", "\xff"};
  const Target target;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (auto changes = 1 + rng.below(4); changes > 0; --changes) {
      const std::size_t at = 16 + rng.below(bytes.size() - 16);
      if (rng.below(2) == 0) {
        bytes[at] = static_cast<char>(rng.below(256));
      } else {
        const std::string& piece = pieces[rng.below(std::size(pieces))];
        bytes.replace(at, std::min(piece.size(), bytes.size() - at), piece);
      }
    }
    static_cast<void>(target.unpack(bytes).ok());
    REQUIRE(target.untouched());
    for (const auto& entry : fs::recursive_directory_iterator(target.folder())) {
      if (!entry.is_symlink()) continue;
      const fs::path real = fs::weakly_canonical(entry.path());
      REQUIRE(real.string().starts_with(fs::canonical(target.folder()).string()));
    }
    target.clear();
  }
}

}  // namespace mobula::process::testing
