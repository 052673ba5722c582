// Archives: a folder as one stream of bytes, for `mobula submit`.
//
// A format of our own because it can say nothing that must be refused: no owners, no times, no devices, no set-user-id,
// no compression that a few bytes could blow up. And the same files always give the same bytes, so the same folder has
// the same hash and travels once. (Refused: tar, whose readers must defend against forty years of extensions.)
//
//   "mobula archive 1", then entries { u8 kind; u16 path length; u64 body length; path; body }, little-endian, parents
//   before children, each path once; the last has kind kEnd, no path, and the number of entries as its length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/process/content_store.h"
#include "runtime/process/fd.h"

namespace mobula::process {

struct ArchiveLimits {
  std::uint64_t bytes_max = kContentBytesMax;  // the archive; unpacked it is no larger
  std::size_t entries_max = 100'000;
  std::size_t path_bytes_max = 1024;
  std::size_t depth_max = 64;
};

enum class ArchiveEntry : std::uint8_t { kEnd = 0, kFolder = 1, kFile = 2, kProgram = 3, kLink = 4 };

struct PackOptions {
  std::string folder;  // "": none, only `extra`
  // Globs, matched against names and against paths from the folder; a folder that matches stays out with all in it.
  std::vector<std::string> exclude;
  // Programs from elsewhere: (path in the archive, path here). Their folders are made.
  std::vector<std::pair<std::string, std::string>> extra;
  ArchiveLimits limits;
};

struct Packed {
  Fd file;  // an unnamed temporary file
  std::uint64_t bytes = 0;
  std::string hash;  // SHA-256
  std::size_t entries = 0;
};

// Errors name the file, the cap and the remedy.
Result<Packed> pack(const PackOptions& options);

// Unpacks into `folder`, which must exist, be empty and be ours alone. Nothing is written outside it, whatever the
// bytes are: paths are plain and relative, links are made last and lead nowhere outside. After an error what was
// unpacked so far is still there.
Status unpack(int archive, const std::string& folder, const ArchiveLimits& limits = {});

// True for a path as it may stand in an archive: relative, no empty part, no "." or "..".
bool is_plain_path(std::string_view path);
// True when a link at `path` with this target leads to a place inside, however its parts are links themselves: ".." may
// only stand in front, and no more often than the link lies deep.
bool stays_inside(std::string_view path, std::string_view target);

}  // namespace mobula::process
