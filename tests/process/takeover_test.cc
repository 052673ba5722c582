// The takeover from a shared library: programs linked by each compiler and linker of this machine become workers, and
// run their main when nobody asks them to be workers.
#include <doctest/doctest.h>

#include <fcntl.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/process/spawn_fixture.h"
#include "tests/skip.h"

namespace mobula::process::testing {
namespace {

struct Ran {
  int status = 0;
  std::string output;
};

Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return {-1, "cannot run it"};
  std::array<char, 4096> buffer;
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ran.output.append(buffer.data(), got);
  }
  ran.status = ::pclose(pipe);
  return ran;
}

bool has(const std::string& program) {
  return run("command -v " + program).status == 0;
}

constexpr const char* kOptions[] = {"", "-static-libstdc++ -static-libgcc -no-pie",
                                    "-Wl,--as-needed -Wl,--build-id=none"};
constexpr int kMainStatus = 3;
constexpr int kWorkerStatus = 42;

// Links the library with `compiler`, from the archives of this build (--exclude-libs would hide the takeover in one).
Ran link_library(const std::string& compiler, const std::string& dir) {
  const std::string root = MOBULA_SOURCE_DIR;
  const std::string libs = std::string(MOBULA_BINARY_DIR) + "/lib";
  return run(compiler + " -std=c++20 -shared -fPIC -fvisibility=hidden -I" + root + " -I" + root + "/runtime/include " +
             root + "/tests/process/shared/worker_library.cc -o " + dir + "/libmobula_test.so" +
             " -Wl,--whole-archive " + libs + "/libmobula_takeover.a -Wl,--no-whole-archive " + libs +
             "/libmobula_process.a " + libs + "/libmobula_base.a -Wl,--version-script=" + root +
             "/runtime/cmake/libmobula.map -lcrypto -lz -ldl -lpthread");
}

}  // namespace

TEST_CASE("a program linked by any compiler and linker is taken over") {
  if (!std::filesystem::exists(std::string(MOBULA_BINARY_DIR) + "/lib/libmobula_takeover.a") || !has("c++")) {
    return mobula::testing::skip("needs a compiler and the archives of this build");
  }
  ScratchDir scratch;
  const std::string& dir = scratch.path();
  const Ran library = link_library("c++", dir);
  if (library.status != 0 && library.output.find("san_") != std::string::npos) {
    return mobula::testing::skip("this build has a sanitizer, which other compilers cannot link");
  }
  REQUIRE_MESSAGE(library.status == 0, library.output);

  std::size_t tried = 0;
  for (const char* const compiler : {"g++", "clang++"}) {
    for (const char* const linker : {"bfd", "gold", "mold", "lld"}) {
      for (const char* const options : kOptions) {
        if (!has(compiler) || !has(std::string("ld.") + linker)) continue;
        const std::string way = std::string(compiler) + " -fuse-ld=" + linker + " " + options;
        CAPTURE(way);
        const std::string program = dir + "/program-" + std::to_string(tried);
        const Ran linked = run(way + " -O1 " + MOBULA_SOURCE_DIR + "/tests/process/shared/user_program.cc -o " +
                               program + " -L" + dir + " -lmobula_test -Wl,-rpath," + dir);
        REQUIRE_MESSAGE(linked.status == 0, linked.output);
        ++tried;

        const Ran alone = run(program);
        CHECK(WEXITSTATUS(alone.status) == kMainStatus);
        CHECK(alone.output == "main runs\n");

        TestDaemon daemon;
        Executable executable;
        executable.id = executable.name = program;
        executable.path = program;
        const ProcessId worker = daemon.start(executable);
        CHECK(daemon.exit_of(worker).code == kWorkerStatus);
        CHECK(daemon.output_of(worker) == "initialised 1, mark gone, function 7 found again\n");
      }
    }
  }
  CHECK(tried > 0);
  MESSAGE(tried, " ways to compile and link were tried");
}

TEST_CASE("a stray mark ends the program with a word about it") {
  const Ran ran = run("MOBULA_WORKER_MODE=999 " + program_path("static_worker_program"));
  CHECK(WEXITSTATUS(ran.status) == 2);
  CHECK(ran.output.find("MOBULA_WORKER_MODE") != std::string::npos);
}

}  // namespace mobula::process::testing
