// What workers print: read from their pipes, kept in rotated files, the last lines remembered for crash reports, and
// each line handed on for the driver.
//
// A worker that prints without end must neither stop itself nor fill the disk nor flood the driver: each process has a
// rate; lines above it are dropped and counted, and the count is written where they are missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mobula/ids.h>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/process/fd.h"
#include "runtime/process/rotating_file.h"
#include "runtime/process/token_bucket.h"

namespace mobula::process {

enum class Stream : std::uint8_t { kOut = 0, kErr = 1 };

struct LogLimits {
  std::size_t line_bytes_max = 16 * 1024;  // a longer line is cut into pieces
  std::size_t tail_lines = 50;             // remembered per process, both streams together
  std::size_t tail_bytes = 8 * 1024;
  std::uint64_t bytes_per_second = 1U << 20U;  // kept per process
  std::uint64_t burst_bytes = 4U << 20U;
};

// Lines of one process: pure but for the sinks it is given.
class LineCollector {
 public:
  using Sink = std::function<void(Stream, std::string_view line)>;  // without the newline

  LineCollector(LogLimits limits, Sink sink);
  void add(Stream stream, std::string_view bytes, Instant now);
  // The unfinished last lines too: at the end of the process.
  void finish(Instant now);
  // The last lines, oldest first, each with its newline.
  std::string tail() const;
  std::uint64_t dropped_lines() const { return dropped_total_; }

 private:
  void line(Stream stream, std::string_view text, Instant now);
  void keep(Stream stream, std::string_view text);
  void tell_dropped(Stream stream);
  LogLimits limits_;
  Sink sink_;
  TokenBucket bucket_;
  std::array<std::string, 2> partial_;  // each at most line_bytes_max
  std::deque<std::string> tail_;        // bounded by tail_lines and tail_bytes
  std::size_t tail_size_ = 0;
  std::uint64_t dropped_ = 0;  // since the last line that was kept
  std::uint64_t dropped_total_ = 0;
};

// All workers' output of one node, behind one descriptor to watch. Not thread-safe.
class LogHub {
 public:
  using LineCallback = std::function<void(ProcessId, Stream, std::string_view line)>;

  static Result<std::unique_ptr<LogHub>> create(LogLimits limits, Rotation rotation, LineCallback on_line);
  ~LogHub();
  LogHub(const LogHub&) = delete;
  LogHub& operator=(const LogHub&) = delete;

  int fd() const { return epoll_.get(); }
  // Reads what is there, at most a bounded amount per process and call. Never blocks.
  void poll(Instant now);

  // Makes the two pipes and the files (`path` + ".out" and ".err"; "" keeps no file); returns the ends for the worker.
  struct Ends {
    Fd out;
    Fd err;
  };
  Result<Ends> add(ProcessId process, const std::string& path);
  // Reads what the ended process left, closes its pipes, and returns its last lines. A child that still holds the
  // pipe's other end does not delay it.
  std::string finish(ProcessId process, Instant now);
  std::string tail(ProcessId process) const;
  std::size_t size() const { return captures_.size(); }

 private:
  struct Capture;
  explicit LogHub(LogLimits limits, Rotation rotation, LineCallback on_line);
  bool drain(Capture& capture, Stream stream, std::size_t bytes_max, Instant now);
  LogLimits limits_;
  Rotation rotation_;
  LineCallback on_line_;
  Fd epoll_;
  std::map<ProcessId, std::unique_ptr<Capture>> captures_;
  std::map<std::uint64_t, Capture*> by_token_;
  std::uint64_t next_token_ = 0;
};

}  // namespace mobula::process
