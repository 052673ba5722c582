// ASHA, stopping form: see mobula/tune/scheduler.h for the rule.
//
// Deciding and recording are two calls, because the decision goes into the journal: live, both happen; when a run is
// rebuilt, only the recording does, from what the journal says was decided.
//
// Differences from Ray Tune's AsyncHyperBandScheduler, each on purpose:
// - A value that is not finite stops its trial at once and is recorded nowhere (there a NaN compares false and runs on,
//   and an infinity makes the interpolated cutoff NaN).
// - A rung below one where the trial is recorded counts as passed. There, with reports that skip iterations, a trial is
//   judged again in lower rungs with its later, better value.
// - The number of rungs is exact (there it is int(log(max_t/grace)/log(eta)), which loses the last rung when the
//   division comes out as 2.9999999999999996).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <mobula/tune/scheduler.h>

#include "tune/schedulers/verdict.h"

namespace mobula::tune {

class AshaScheduler {
 public:
  AshaScheduler(const Asha& settings, std::uint64_t seed);

  // `value`: larger is better. `iteration` counts from 1.
  Verdict decide(std::uint32_t trial, std::int64_t iteration, double value) const;
  // Puts the value where the verdict says. Recording a trial twice in a rung changes nothing.
  void record(std::uint32_t trial, const Verdict& verdict, double value);

  std::size_t bracket_count() const { return brackets_.size(); }
  // Iterations at which the rungs of `bracket` stand, lowest first.
  std::vector<double> milestones(std::size_t bracket) const;
  // Of a trial: drawn by seed, a bracket with one more rung being e times as likely (Ray's softmax).
  std::size_t bracket_of(std::uint32_t trial) const;
  void check() const;

 private:
  struct Rung {
    double milestone = 0;
    std::vector<double> sorted;  // recorded values; one a trial, so bounded by the trials
    std::map<std::uint32_t, double> by_trial;
  };

  Asha settings_;
  std::uint64_t seed_;
  std::vector<std::vector<Rung>> brackets_;
};

// The value at `fraction` (0..1) of the sorted values, linear between neighbours: numpy's default percentile.
double interpolated_quantile(const std::vector<double>& sorted, double fraction);

}  // namespace mobula::tune
