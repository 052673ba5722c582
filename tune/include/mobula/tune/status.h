// What an experiment looks for and how its trials stand.
#pragma once

#include <cstdint>

namespace mobula::tune {

enum class Mode : std::uint8_t { kMax, kMin };
inline constexpr Mode max = Mode::kMax;
inline constexpr Mode min = Mode::kMin;

// By which of its reports a trial is judged at the end. kLast fits the value that the trial returned (its weights as
// they are at the end); kAll takes the best report it ever made.
enum class Scope : std::uint8_t { kLast, kAll };

enum class TrialStatus : std::uint8_t {
  kPending,  // waits for a slot, or for a worker that takes it
  kRunning,
  kStopping,   // was told to stop, has not returned yet
  kCompleted,  // ran to its end
  kStopped,    // stopped early by the scheduler
  kError,      // its function threw, or its workers died, more often than allowed
};

constexpr bool finished(TrialStatus status) {
  return status >= TrialStatus::kCompleted;
}

constexpr const char* name_of(TrialStatus status) {
  switch (status) {
    case TrialStatus::kPending: return "PENDING";
    case TrialStatus::kRunning: return "RUNNING";
    case TrialStatus::kStopping: return "STOPPING";
    case TrialStatus::kCompleted: return "COMPLETED";
    case TrialStatus::kStopped: return "STOPPED";
    case TrialStatus::kError: return "ERROR";
  }
  return "?";
}

}  // namespace mobula::tune
