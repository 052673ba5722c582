// SHA-256 of files and memory: names what is shipped between nodes by its content.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/result.h"

namespace mobula::process {

// Lower-case hex, 64 digits.
std::string sha256_hex(std::span<const std::byte> data);
Result<std::string> sha256_of_file(const std::string& path);
// Reads from offset 0 by pread; the descriptor's own position does not move.
Result<std::string> sha256_of_fd(int fd);

// For content that arrives in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::span<const std::byte> data);
  std::string hex();  // ends it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mobula::process
