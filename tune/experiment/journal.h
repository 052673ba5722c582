// The journal: what an experiment accepted, in order, one JSON line an event. A run is rebuilt from it and from nothing
// else; result files are a rendering of it.
//
//   {"v":1,"seq":3,"event":"reported","trial":0,...,"crc":"5f0c1a2b"}
//
// `crc` is the CRC-32 of everything before it in the line, so the file stays plain JSON lines for jq and pandas while a
// torn or altered line shows. `seq` counts from 1 without gaps. A broken last line is the mark of a crash in the middle
// of a write and is cut off; anything else that is broken is damage, and reading refuses. Event names and their fields
// only grow: an unknown event was written by a newer version and is refused, an unknown field is ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <mobula/tune/status.h>
#include <mobula/tune/value.h>

#include "runtime/base/result.h"
#include "tune/schedulers/verdict.h"

namespace mobula::tune {

// "opened": always the first line; what must not change when the run is resumed.
struct Opened {
  std::string name;       // of the experiment
  std::string trainable;  // name of the user's function
  std::string metric;
  Mode mode = Mode::kMax;
  std::uint64_t seed = 0;
  std::uint64_t samples = 0;
  std::string space;      // Space::describe()
  std::string scheduler;  // describe(Scheduler)
  std::string prefix;     // five hex digits: trial ids are "<prefix>_00007"
  std::string session;    // date of the start, for names of folders
  friend bool operator==(const Opened&, const Opened&) = default;
};

// "resumed": a new driver took over; every unfinished trial starts anew.
struct Resumed {
  std::uint64_t samples = 0;   // may be more than before
  bool retry_errored = false;  // trials in error get another chance
  friend bool operator==(const Resumed&, const Resumed&) = default;
};

struct TrialCreated {
  std::uint32_t trial = 0;
  Params params;
  std::string directory;  // of the trial, inside the experiment's
  friend bool operator==(const TrialCreated&, const TrialCreated&) = default;
};

// Where an attempt of a trial runs.
struct Place {
  std::string node;     // node id, hex
  std::string address;  // of the node
  std::string host;
  std::int64_t pid = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// "launched": an attempt runs; what earlier attempts reported no longer counts.
struct TrialLaunched {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;  // from 1
  Place place;
  friend bool operator==(const TrialLaunched&, const TrialLaunched&) = default;
};

struct TrialReported {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  std::int64_t iteration = 0;  // from 1
  Metrics metrics;
  std::int64_t unix_ms = 0;     // when, by the worker's clock
  std::int64_t elapsed_ms = 0;  // since the attempt began
  Verdict verdict;
  friend bool operator==(const TrialReported&, const TrialReported&) = default;
};

// "ended": the trial is over and counts. Its value, if it has one, is on disk before this is written.
struct TrialOver {
  std::uint32_t trial = 0;
  TrialStatus status = TrialStatus::kCompleted;
  bool has_value = false;
  friend bool operator==(const TrialOver&, const TrialOver&) = default;
};

// "failed": an attempt ended badly.
struct TrialBroke {
  std::uint32_t trial = 0;
  std::uint32_t attempt = 0;
  bool by_user_code = false;  // it threw; else its worker or node is gone
  bool final = false;         // no further attempt
  std::string error;
  friend bool operator==(const TrialBroke&, const TrialBroke&) = default;
};

// "finished": every trial is over.
struct Finished {
  friend bool operator==(const Finished&, const Finished&) = default;
};

using JournalEvent =
    std::variant<Opened, Resumed, TrialCreated, TrialLaunched, TrialReported, TrialOver, TrialBroke, Finished>;

// One line with its newline.
std::string encode_line(std::uint64_t sequence, const JournalEvent& event);

struct Journal {
  std::vector<JournalEvent> events;
  std::size_t valid_bytes = 0;  // where to go on writing: behind the last whole line
};
// The whole text of a journal; an empty one is an empty journal. Invalid, with the line's number, when it is damaged.
Result<Journal> decode_journal(std::string_view text);

}  // namespace mobula::tune
