// The one scheduler of an experiment, whichever kind it is. A variant, not a virtual base: the experiment stays a
// value.
#pragma once

#include <cstdint>
#include <variant>

#include <mobula/tune/scheduler.h>
#include <mobula/tune/value.h>

#include "tune/schedulers/asha.h"
#include "tune/schedulers/verdict.h"

namespace mobula::tune {

// Never stops a trial, a NaN included: without early stopping the user's own function decides.
struct FifoScheduler {
  Verdict decide(std::uint32_t, std::int64_t, double) const { return {}; }
  void record(std::uint32_t, const Verdict&, double) {}
  void check() const {}
};

class TrialScheduler {
 public:
  TrialScheduler(const Scheduler& settings, std::uint64_t seed);

  // `value`: larger is better; `iteration` counts from 1. Deciding changes nothing: record() does.
  Verdict decide(std::uint32_t trial, std::int64_t iteration, double value) const;
  void record(std::uint32_t trial, const Verdict& verdict, double value);
  void check() const;

 private:
  std::variant<FifoScheduler, AshaScheduler> kind_;
};

}  // namespace mobula::tune
