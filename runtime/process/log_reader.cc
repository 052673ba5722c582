#include "runtime/process/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include <mobula/ids.h>

#include "runtime/process/fd.h"

namespace mobula::process {
namespace {

constexpr unsigned kOldFilesMax = 16;
constexpr unsigned kPositionBits = 40;
constexpr std::uint64_t kPositionMask = (std::uint64_t{1} << kPositionBits) - 1;

struct OpenLog {
  Fd file;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
};

// Inode numbers are given out again at once, so the time of birth goes in where the file system knows it.
std::uint64_t tag_of(int fd) {
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &info) != 0) return 0;
  std::uint64_t born = 0;
  if ((info.stx_mask & STATX_BTIME) != 0) {
    born = static_cast<std::uint64_t>(info.stx_btime.tv_sec) * 1'000'000'000U + info.stx_btime.tv_nsec;
  }
  return detail::mix(info.stx_ino ^ detail::mix(born)) >> kPositionBits;
}

// Oldest first.
std::vector<OpenLog> open_all(const std::string& path) {
  std::vector<OpenLog> logs;
  const auto add = [&logs](const std::string& name) {
    OpenLog log;
    log.file.reset(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info {};
    if (!log.file || ::fstat(log.file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    log.tag = tag_of(log.file.get());
    log.bytes = static_cast<std::uint64_t>(info.st_size);
    logs.push_back(std::move(log));
  };
  for (unsigned number = kOldFilesMax; number > 0; --number) add(path + "." + std::to_string(number));
  add(path);
  return logs;
}

}  // namespace

Result<LogPiece> read_log(const std::string& path, std::uint64_t place, std::size_t bytes_max) {
  const std::vector<OpenLog> logs = open_all(path);
  if (logs.empty()) return make_error(ErrorKind::kObjectLost, "there is no log " + path);
  LogPiece piece;
  std::size_t index = 0;
  std::uint64_t position = 0;
  if (place != 0) {
    const auto at = std::find_if(logs.rbegin(), logs.rend(), [place](const OpenLog& log) {
      return log.tag == place >> kPositionBits && log.bytes >= (place & kPositionMask);
    });
    if (at != logs.rend()) {
      index = static_cast<std::size_t>(logs.rend() - at) - 1;
      position = place & kPositionMask;
    } else {
      piece.bytes = "[mobula: lines were rotated away here]\n";
    }
  }
  while (piece.bytes.size() < bytes_max) {
    const OpenLog& log = logs[index];
    const std::size_t wanted =
        std::min<std::uint64_t>(bytes_max - piece.bytes.size(), log.bytes > position ? log.bytes - position : 0);
    if (wanted == 0) {
      piece.at_end = index + 1 == logs.size();
      if (piece.at_end) break;
      ++index;
      position = 0;
      continue;
    }
    const std::size_t before = piece.bytes.size();
    piece.bytes.resize(before + wanted);
    ssize_t got = 0;
    do {
      got = ::pread(log.file.get(), piece.bytes.data() + before, wanted, static_cast<off_t>(position));
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return errno_error("read the log " + path, ErrorKind::kObjectLost);
    piece.bytes.resize(before + static_cast<std::size_t>(got));
    position += static_cast<std::uint64_t>(got);
  }
  piece.next = logs[index].tag << kPositionBits | std::min(position, kPositionMask);
  return piece;
}

}  // namespace mobula::process
