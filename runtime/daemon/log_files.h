// Names of logs, as they are asked for and as they lie in a log folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/time.h"
#include "runtime/process/log_reader.h"
#include "runtime/process/rotating_file.h"

namespace mobula::daemon {

// A node holds a question that follows a log for so long when there is nothing new; then it answers with nothing, and
// the asker asks again. So nobody who has gone away is remembered.
inline constexpr Duration kFollowHold = std::chrono::seconds(5);
inline constexpr std::size_t kLogChunkBytes = std::size_t{256} << 10;
inline constexpr process::Rotation kDaemonLogRotation{16U << 20U, 4};

// "job-" and 16 hex digits: it becomes the name of files.
bool is_submission_id(std::string_view text);

// What ReadLog::entity says: an id, and ".err" behind it for a worker's error stream.
struct LogName {
  std::string id;
  bool error_stream = false;
  static LogName parse(std::string_view text);
  std::string text() const { return id + (error_stream ? ".err" : ""); }
};

// The file behind this daemon's standard error; "" when that is no regular file.
std::string daemon_log_path();
Result<process::LogPiece> read_daemon_log(std::uint64_t place);

}  // namespace mobula::daemon
