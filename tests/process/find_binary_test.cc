#include "runtime/process/find_binary.h"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/process/build_id.h"
#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

std::string make_program(const std::string& dir) {
  const std::string path = dir + "/mobula";
  std::ofstream(path) << "#!/bin/sh\n";
  ::chmod(path.c_str(), 0755);
  return path;
}

}  // namespace

TEST_CASE("MOBULA_BIN counts first, and a wrong one is not passed over") {
  ScratchDir scratch;
  const std::string program = make_program(scratch.path());
  {
    const Variable variable("MOBULA_BIN", program);
    CHECK(*find_mobula_binary() == program);
  }
  for (const std::string& wrong : {scratch.path() + "/none", scratch.path(), std::string("/etc/passwd")}) {
    const Variable variable("MOBULA_BIN", wrong);
    const auto found = find_mobula_binary();
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().message.find(wrong) != std::string::npos);
  }
}

TEST_CASE("PATH is the last resort, and nothing names all three") {
  // This program lies in bin/tests, so beside it there is no ../bin/mobula.
  ScratchDir scratch;
  const Variable bin("MOBULA_BIN", "");
  const std::string program = make_program(scratch.path());
  {
    const Variable path("PATH", "/nonexistent::" + scratch.path());
    CHECK(*find_mobula_binary() == program);
  }
  const Variable path("PATH", "/nonexistent");
  const auto found = find_mobula_binary();
  REQUIRE_FALSE(found.ok());
  for (const char* const named : {"MOBULA_BIN", "/bin/mobula", "PATH"}) {
    CHECK(found.error().message.find(named) != std::string::npos);
  }
}

}  // namespace mobula::process::testing
