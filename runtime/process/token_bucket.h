// A rate with a burst, on passed-in time, in whole units (bytes, lines).
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/time.h"

namespace mobula::process {

class TokenBucket {
 public:
  TokenBucket(std::uint64_t per_second, std::uint64_t burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  // Takes `amount` and says true, or takes nothing.
  bool take(std::uint64_t amount, Instant now) {
    refill(now);
    if (amount > left_) return false;
    left_ -= amount;
    return true;
  }

 private:
  void refill(Instant now) {
    if (!started_) last_ = now;
    started_ = true;
    if (now <= last_ || per_second_ == 0) return;
    const Duration passed = now - last_;
    if (passed >= std::chrono::hours(1)) {
      left_ = burst_;
      last_ = now;
      return;
    }
    // Below an hour and at less than 4e9 units a second none of these products overflows.
    const auto nanoseconds = static_cast<std::uint64_t>(passed.count());
    const std::uint64_t whole_seconds = nanoseconds / kSecond;
    const std::uint64_t rest = nanoseconds % kSecond;
    const std::uint64_t gained = whole_seconds * per_second_ + rest * per_second_ / kSecond;
    if (gained == 0) return;  // the time stays and counts later
    left_ = std::min(burst_, left_ + gained);
    last_ = now;
  }

  static constexpr std::uint64_t kSecond = 1'000'000'000;
  std::uint64_t per_second_;
  std::uint64_t burst_;
  std::uint64_t left_;
  Instant last_{};
  bool started_ = false;
};

}  // namespace mobula::process
