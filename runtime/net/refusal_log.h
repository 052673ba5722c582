// One line for each refused connection, but never a flood: an attacker must not fill the disk with our log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/time.h"

namespace mobula::net {

class RefusalLog {
 public:
  RefusalLog(std::uint32_t lines_per_minute_max, std::function<void(std::string_view)> log)
      : lines_max_(lines_per_minute_max), log_(std::move(log)) {}

  void refused(Instant now, std::string_view line) {
    ++refused_;
    if (now - window_start_ >= std::chrono::minutes(1)) {
      if (suppressed_ > 0) write(std::to_string(suppressed_) + " more connections were refused in the minute before");
      window_start_ = now;
      lines_ = 0;
      suppressed_ = 0;
    }
    if (lines_ >= lines_max_) {
      ++suppressed_;
      return;
    }
    ++lines_;
    write(line);
    if (lines_ == lines_max_) write("more refusals within this minute are only counted");
  }
  std::uint64_t refused() const { return refused_; }

 private:
  void write(std::string_view line) const {
    if (log_) log_(line);
  }

  std::uint32_t lines_max_;
  std::function<void(std::string_view)> log_;
  Instant window_start_{};
  std::uint32_t lines_ = 0;
  std::uint64_t suppressed_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace mobula::net
