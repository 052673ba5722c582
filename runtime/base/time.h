// Time as machines see it: passed in, never read from a clock.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

namespace mobula {

using Duration = std::chrono::nanoseconds;

// Nanoseconds of a monotonic clock whose zero means nothing. Virtual in simulation.
struct Instant {
  std::int64_t nanoseconds = 0;

  static constexpr Instant never() { return Instant{std::numeric_limits<std::int64_t>::max()}; }

  friend constexpr auto operator<=>(const Instant&, const Instant&) = default;
  // Saturates: never() plus anything is never().
  friend constexpr Instant operator+(Instant at, Duration by) {
    return at == never() ? at : Instant{at.nanoseconds + by.count()};
  }
  friend constexpr Instant operator-(Instant at, Duration by) {
    return at == never() ? at : Instant{at.nanoseconds - by.count()};
  }
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration{a.nanoseconds - b.nanoseconds}; }
};

// The one place that reads the machine's monotonic clock; called by drivers only.
inline Instant monotonic_now() {
  return Instant{std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

}  // namespace mobula
