// What the phases of a submitted job mean, for machines and for people.
#pragma once

#include "runtime/base/protocol/cluster.h"

namespace mobula {

// It has not ended.
inline bool is_active(const SubmissionInfo& info) {
  return info.phase == SubmissionPhase::kPending || info.phase == SubmissionPhase::kRunning;
}

inline const char* name_of(SubmissionPhase phase) {
  switch (phase) {
    case SubmissionPhase::kPending: return "pending";
    case SubmissionPhase::kRunning: return "running";
    case SubmissionPhase::kSucceeded: return "succeeded";
    case SubmissionPhase::kFailed: return "failed";
    case SubmissionPhase::kStopped: return "stopped";
  }
  return "?";
}

}  // namespace mobula
