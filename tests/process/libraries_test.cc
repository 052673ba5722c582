#include "runtime/process/libraries.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "runtime/process/build_id.h"

namespace mobula::process::testing {
namespace {

const Library kPrivate{"abc", "libshelf.so.1", "/home/ray/lib/libshelf.so.1"};
const Library kSystem{"def", "libz.so.1", "/usr/lib/x86_64-linux-gnu/libz.so.1"};
const Library kMobula{"123", "libmobula.so.0.1", "/usr/lib/libmobula.so.0.1"};

}  // namespace

TEST_CASE("libraries as lines of text") {
  const std::vector<Library> libraries{kPrivate, kSystem};
  CHECK(libraries_from(to_lines(libraries)) == libraries);
  CHECK(libraries_from("").empty());
  // A name becomes a file's in a folder of ours.
  for (const char* bad : {"abc", "abc\tlib.so", "abc\t\t/lib.so", "\tlib.so\t/lib.so", "abc\t../lib.so\t/lib.so",
                          "abc\t.lib.so\t/lib.so", "abc\tlib.so\tlib.so", "abc\ta/lib.so\t/a/lib.so"}) {
    CAPTURE(bad);
    CHECK_FALSE(library_from(bad).has_value());
  }
}

TEST_CASE("what belongs to a program's identity") {
  CHECK(is_system_library(kSystem));
  CHECK_FALSE(is_system_library(kPrivate));
  CHECK_FALSE(is_system_library(kMobula));
  const std::string id = program_id("exe", {kPrivate, kSystem});
  CHECK(id == program_id("exe", {kPrivate}));  // another build of a system library is no other program
  CHECK(id != program_id("exe2", {kPrivate}));
  Library rebuilt = kPrivate;
  rebuilt.id = "abd";
  CHECK(id != program_id("exe", {rebuilt}));
  Library moved = kPrivate;
  moved.path = "/elsewhere/libshelf.so.1";
  CHECK(id == program_id("exe", {moved}));
}

TEST_CASE("the C library does not travel") {
  const auto libraries = libraries_to_ship();
  for (const Library& library : libraries) {
    CAPTURE(library.path);
    CHECK_FALSE(library.name.starts_with("libc.so"));
    CHECK_FALSE(library.name.starts_with("ld-linux"));
    CHECK(*file_id(library.path) == library.id);
  }
  CHECK(std::any_of(libraries.begin(), libraries.end(),
                    [](const Library& library) { return library.name.starts_with("libstdc++.so"); }));
}

}  // namespace mobula::process::testing
