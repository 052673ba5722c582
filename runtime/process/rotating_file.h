// Log files of bounded size: `path`, and before it `path.1` (newest) to `path.<count>`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/process/fd.h"

namespace mobula::process {

struct Rotation {
  std::uint64_t bytes_max = 16U << 20U;  // of one file
  unsigned count = 4;                    // of old files kept beside the current one
};

// Moves `path` to `path.1` and so on; the oldest goes.
void rotate(const std::string& path, unsigned count);

// Appends whole pieces; turns the file over before a piece that would pass the bound. Files have mode 0600.
class RotatingFile {
 public:
  static Result<RotatingFile> open(std::string path, Rotation rotation);
  // The file is made with the first piece: most workers print nothing, and making files costs.
  static RotatingFile at_first_piece(std::string path, Rotation rotation);

  // A full disk drops the piece and counts it: a log must not stop what it describes.
  void write(std::string_view piece);
  const std::string& path() const { return path_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  RotatingFile(std::string path, Rotation rotation, Fd file, std::uint64_t size);
  std::string path_;
  Rotation rotation_;
  Fd file_;
  std::uint64_t size_ = 0;
  std::uint64_t dropped_ = 0;
};

// Turns over the file behind this process's standard output and error when it has grown past the bound: a daemon calls
// it now and then, so that what libraries print on stderr is bounded too.
class StdioRotator {
 public:
  StdioRotator(std::string path, Rotation rotation) : path_(std::move(path)), rotation_(rotation) {}
  void check();

 private:
  std::string path_;
  Rotation rotation_;
};

// The last `bytes` of a file, from a line's start; "" when it cannot be read.
std::string file_tail(const std::string& path, std::size_t bytes);

}  // namespace mobula::process
