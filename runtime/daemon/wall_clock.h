// The wall clock, which machines know only as an offset.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/base/time.h"

namespace mobula::daemon {

// What to add to an Instant's milliseconds for Unix time.
inline std::int64_t wall_offset_ms() {
  const auto wall =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  return wall.count() - monotonic_now().nanoseconds / 1000000;
}

}  // namespace mobula::daemon
