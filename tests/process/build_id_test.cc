#include "runtime/process/build_id.h"

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>

#include "runtime/process/sha256.h"
#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

int internal_function() {
  return 11;
}
int data_object = 5;

}  // namespace

TEST_CASE("a function of this program is (module, offset) and back") {
  const auto address = locate(reinterpret_cast<const void*>(&internal_function));
  REQUIRE(address.ok());
  CHECK(address->module == *executable_id());
  const auto back = resolve(*address);
  REQUIRE(back.ok());
  CHECK(reinterpret_cast<int (*)()>(*back)() == 11);
}

TEST_CASE("a program that has a build id is never hashed: that takes longer than starting a worker") {
  CHECK_FALSE(executable_id()->starts_with("sha256:"));
}

TEST_CASE("a function of a shared library too") {
  void* const function = ::dlsym(RTLD_DEFAULT, "getpid");
  const auto address = locate(function);
  REQUIRE(address.ok());
  CHECK(address->module != *executable_id());
  CHECK(*resolve(*address) == function);
}

TEST_CASE("what is no code of a loaded module is refused") {
  auto address = *locate(reinterpret_cast<const void*>(&internal_function));
  CodeAddress other = address;
  other.module = "0123456789abcdef";
  CHECK(resolve(other).error().kind == ErrorKind::kUnknownFunction);
  CHECK(resolve(other).error().message.find("0123456789abcdef") != std::string::npos);
  other = address;
  other.offset = ~std::uint64_t{0} / 2;
  CHECK_FALSE(resolve(other).ok());
  const auto data = locate(&data_object);
  REQUIRE(data.ok());
  CHECK_FALSE(resolve(*data).ok());  // never a pointer into data
  int on_stack = 0;
  CHECK_FALSE(locate(&on_stack).ok());
}

TEST_CASE("the executable's descriptor is the executable") {
  const auto file = executable_fd();
  REQUIRE(file.ok());
  CHECK(*sha256_of_fd(file->get()) == *sha256_of_file(executable_path()));
}

TEST_CASE("what is loaded") {
  const auto modules = loaded_modules();
  CHECK(std::any_of(modules.begin(), modules.end(), [](const Module& module) { return module.main; }));
  CHECK(std::any_of(modules.begin(), modules.end(),
                    [](const Module& module) { return module.path.find("libc.so") != std::string::npos; }));
}

TEST_CASE("a file has the identity that it has when it runs") {
  CHECK(*file_id(executable_path()) == *executable_id());
  for (const Module& module : loaded_modules()) {
    if (!module.main && !module.id.empty()) CHECK(*file_id(module.path) == module.id);
  }
  CHECK(file_id("/proc/version")->starts_with("sha256:"));
  CHECK_FALSE(file_id("/nonexistent").ok());
}

TEST_CASE("SHA-256 as in its standard") {
  CHECK(sha256_hex({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string text = "abc";
  CHECK(sha256_hex(std::as_bytes(std::span(text))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_FALSE(sha256_of_file("/nonexistent").ok());
}

}  // namespace mobula::process::testing
