// LineDedup: many workers print the same line; a person wants to read it once.
//
// As in Ray's driver: the first of a kind is shown at once; the same line from other workers within the window is
// counted and shown once more as "line [repeated 7x across workers]". Lines that differ only in numbers count as the
// same kind (progress lines), and the last of them is the one shown. Repeats by a single worker are shown as they come,
// because a program that prints a line twice meant it. Pure: time is passed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/time.h"
#include "runtime/process/token_bucket.h"

namespace mobula::process {

class LineDedup {
 public:
  struct Config {
    Duration window = std::chrono::seconds(5);
    std::size_t kinds_max = 1024;           // remembered at a time; above it the oldest is flushed early
    std::uint64_t lines_per_second = 1000;  // shown; above it lines are dropped and counted
    std::uint64_t burst_lines = 5000;
    bool collapse = true;  // false: only the rate holds
  };
  // `source` names the worker; `prefix` is put before what is shown, such as "(worker pid=7, node 10.0.0.2) ".
  explicit LineDedup(Config config);

  void add(Instant now, std::uint64_t source, std::string_view prefix, std::string_view line,
           std::vector<std::string>& shown);
  // Shows what the window has collected; call at or after next_deadline().
  void tick(Instant now, std::vector<std::string>& shown);
  // Everything, at the end.
  void flush(Instant now, std::vector<std::string>& shown);
  Instant next_deadline() const;

 private:
  // Lines of one kind within a window that began with the first.
  struct Kind {
    std::set<std::uint64_t> sources;  // at most kSourcesMax
    std::string last;                 // the last repeat, with its prefix
    std::uint64_t repeats = 0;        // not shown so far
    Instant started;
  };
  static constexpr std::size_t kSourcesMax = 64;

  void show(Instant now, std::string text, std::vector<std::string>& shown);
  void tell_dropped(std::vector<std::string>& shown);
  void expire_front(Instant now, std::vector<std::string>& shown);

  Config config_;
  std::map<std::string, Kind> kinds_;
  std::set<std::pair<Instant, std::string>> by_age_;
  TokenBucket bucket_;
  std::uint64_t dropped_ = 0;
};

// `line` with each run of digits made one '#': what two lines of a kind have in common.
std::string kind_of_line(std::string_view line);

}  // namespace mobula::process
