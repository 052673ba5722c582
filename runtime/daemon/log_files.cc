#include "runtime/daemon/log_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

namespace mobula::daemon {
namespace {

constexpr std::string_view kErrorSuffix = ".err";

// /proc shows the name that the file has had since it was opened or last moved; after a turn-over that is the new file.
std::string path_behind(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path.data(), path.size());
  if (bytes <= 0 || static_cast<std::size_t>(bytes) >= path.size()) return {};
  return {path.data(), static_cast<std::size_t>(bytes)};
}

}  // namespace

bool is_submission_id(std::string_view text) {
  constexpr std::string_view kPrefix = "job-";
  return text.size() == kPrefix.size() + 16 && text.starts_with(kPrefix) &&
         text.substr(kPrefix.size()).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

LogName LogName::parse(std::string_view text) {
  LogName name;
  name.error_stream = text.ends_with(kErrorSuffix);
  if (name.error_stream) text.remove_suffix(kErrorSuffix.size());
  name.id = text;
  return name;
}

std::string daemon_log_path() {
  return path_behind(STDERR_FILENO);
}

Result<process::LogPiece> read_daemon_log(std::uint64_t place) {
  const std::string path = daemon_log_path();
  if (path.empty()) {
    return make_error(ErrorKind::kObjectLost, "this daemon logs to no file: it was started in the foreground");
  }
  return process::read_log(path, place, kLogChunkBytes);
}

}  // namespace mobula::daemon
