// Reading a rotated log from where one stopped, without anybody keeping a reader's place.
//
// A place is one number, the position in a file with a tag of that file's identity, so it stays right when the file is
// turned over meanwhile: the reader goes on in the file it was in, under its new name, then in the newer ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace mobula::process {

struct LogPiece {
  std::string bytes;
  std::uint64_t next = 0;  // where to go on
  bool at_end = false;     // nothing more is written at the moment
};

// At most `bytes_max` from the log `path` and its older files; `place` 0 is the oldest that is kept. When what lay at
// the place is rotated away, a line says so. kObjectLost when there is no such log.
Result<LogPiece> read_log(const std::string& path, std::uint64_t place, std::size_t bytes_max);

}  // namespace mobula::process
