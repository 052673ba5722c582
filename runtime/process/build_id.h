// Which code a process runs: the identity of its modules, and functions as (module, offset) that any other process of
// the same build can turn back into a pointer.
//
// The identity is the linker's build-id note; a module without one is hashed (SHA-256 of its file). A mangled name is
// not enough: internal functions of the same name in two files collide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/process/fd.h"

namespace mobula::process {

struct CodeAddress {
  std::string module;        // hex build id, or "sha256:" and the hash of the file
  std::uint64_t offset = 0;  // from the module's load address
  friend auto operator<=>(const CodeAddress&, const CodeAddress&) = default;
};

struct Module {
  std::string id;
  std::string path;  // "" for the executable itself
  std::uintptr_t base = 0;
  std::uintptr_t low = 0;  // [low, high): its loaded segments
  std::uintptr_t high = 0;
  bool main = false;
};

// All thread-safe. Modules are enumerated again after a dlopen.
Result<CodeAddress> locate(const void* function);
// UnknownFunction when no loaded module has that id, or the offset lies in none of its executable segments.
Result<void*> resolve(const CodeAddress& address);
// Identity of the running executable.
Result<std::string> executable_id();
std::vector<Module> loaded_modules();

// A descriptor of the running executable, good even after its file was replaced.
Result<Fd> executable_fd();
// Its path as it was when it started (for people).
std::string executable_path();

// The same identity, read from a file: its build id, or "sha256:" and the hash of all of it.
Result<std::string> file_id(int fd);
Result<std::string> file_id(const std::string& path);

}  // namespace mobula::process
