// What the experiment is told and what it asks for. Both are plain data: the driver in tune/run performs the actions in
// their order, one by one.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <mobula/tune/value.h>

#include "tune/experiment/journal.h"

namespace mobula::tune {

// ---- events ----

// The first event of every life of the machine.
struct Begin {};
// How many trials may run at once from now on (0: none may start).
struct Capacity {
  std::uint32_t slots = 0;
};
// Events about an attempt that is over, or was never started, are ignored: a late word from a lost worker is normal.
struct TrialStarted {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  Place place;
};
struct Reported {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  Metrics metrics;
  std::int64_t unix_ms = 0;
  std::int64_t elapsed_ms = 0;
};
// The trial's function returned. `has_value`: what it returned is on disk.
struct TrialEnded {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  bool has_value = false;
};
// The trial's function threw, or could never start (`hopeless`: no further attempt makes sense).
struct TrialFailed {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  std::string error;
  bool hopeless = false;
};
// The worker of an attempt is gone.
struct WorkerLost {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  std::string error;
};
// A node is gone, and every attempt on it. `node` as in Place.
struct NodeLost {
  std::string node;
};
struct Tick {};
// The user wants to stop now and go on another time.
struct Interrupted {};

using Event = std::variant<Begin, Capacity, TrialStarted, Reported, TrialEnded, TrialFailed, WorkerLost, NodeLost, Tick,
                           Interrupted>;

// ---- actions ----

struct StartTrial {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  Params params;
  friend bool operator==(const StartTrial&, const StartTrial&) = default;
};
// The answer to the newest report of an attempt.
struct AnswerReport {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  bool stop = false;
  friend bool operator==(const AnswerReport&, const AnswerReport&) = default;
};
// End the attempt's worker, if it still lives, and forget it.
struct StopTrial {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  friend bool operator==(const StopTrial&, const StopTrial&) = default;
};
// Write the event to the journal before any later action; `sync`: it must be on the disk, not only handed to the
// system.
struct Append {
  JournalEvent event;
  bool sync = false;
  friend bool operator==(const Append&, const Append&) = default;
};
struct SyncJournal {
  friend bool operator==(const SyncJournal&, const SyncJournal&) = default;
};
// Make the trial's folder and write its parameters.
struct WriteParams {
  std::uint32_t trial = 0;
  friend bool operator==(const WriteParams&, const WriteParams&) = default;
};
// A new attempt begins: its rows replace those of earlier ones.
struct ResetResults {
  std::uint32_t trial = 0;
  friend bool operator==(const ResetResults&, const ResetResults&) = default;
};
struct WriteResult {
  TrialReported report;
  friend bool operator==(const WriteResult&, const WriteResult&) = default;
};
struct WriteError {
  std::uint32_t trial = 0;
  std::string error;
  friend bool operator==(const WriteError&, const WriteError&) = default;
};
struct TrialDone {
  std::uint32_t trial = 0;
  TrialStatus status = TrialStatus::kCompleted;
  friend bool operator==(const TrialDone&, const TrialDone&) = default;
};
// The last action of every life.
struct ExperimentDone {
  bool interrupted = false;
  friend bool operator==(const ExperimentDone&, const ExperimentDone&) = default;
};

using Action = std::variant<StartTrial, AnswerReport, StopTrial, Append, SyncJournal, WriteParams, ResetResults,
                            WriteResult, WriteError, TrialDone, ExperimentDone>;

}  // namespace mobula::tune
