#include "tune/schedulers/asha.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <mobula/error.h>

#include "runtime/base/rng.h"
#include "tune/schedulers/scheduler.h"

using namespace mobula::tune;

namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

Decision report(AshaScheduler& scheduler, std::uint32_t trial, std::int64_t iteration, double value) {
  const Verdict verdict = scheduler.decide(trial, iteration, value);
  scheduler.record(trial, verdict, value);
  scheduler.check();
  return verdict.decision;
}

}  // namespace

TEST_CASE("rungs stand at grace * eta^(k+s), exactly") {
  CHECK(AshaScheduler({100, 1, 4, 1}, 0).milestones(0) == std::vector<double>{1, 4, 16, 64});
  CHECK(AshaScheduler({81, 1, 3, 1}, 0).milestones(0) == std::vector<double>{1, 3, 9, 27, 81});
  // log(1000)/log(10) is 2.9999999999999996: the rung at 1000 must be there all the same.
  CHECK(AshaScheduler({1000, 1, 10, 1}, 0).milestones(0) == std::vector<double>{1, 10, 100, 1000});
  CHECK(AshaScheduler({10, 3, 2, 1}, 0).milestones(0) == std::vector<double>{3, 6});
  const AshaScheduler three({81, 1, 3, 3}, 0);
  REQUIRE(three.bracket_count() == 3);
  CHECK(three.milestones(1) == std::vector<double>{3, 9, 27, 81});
  CHECK(three.milestones(2) == std::vector<double>{9, 27, 81});
  CHECK(AshaScheduler({10, 1, 4, 9}, 0).bracket_count() == 2);  // a bracket without a rung is none
}

TEST_CASE("the cutoff is numpy's linear percentile") {
  CHECK(interpolated_quantile({5}, 0.75) == 5);
  CHECK(interpolated_quantile({1, 2, 3, 4}, 0.75) == doctest::Approx(3.25));
  CHECK(interpolated_quantile({1, 2, 3, 4, 5}, 0.75) == 4);
  CHECK(interpolated_quantile({1, 2}, 2.0 / 3.0) == doctest::Approx(1 + 2.0 / 3.0));
  CHECK(interpolated_quantile({1, 2, 9}, 1) == 9);
  CHECK(interpolated_quantile({1, 2, 9}, 0) == 1);
}

TEST_CASE("decisions by hand: eta 4, one rung at 1") {
  AshaScheduler scheduler({100, 1, 4, 1}, 0);
  CHECK(report(scheduler, 0, 1, 0.5) == Decision::kContinue);  // the first always goes on
  CHECK(report(scheduler, 1, 1, 0.4) == Decision::kStop);      // 0.4 < 0.5
  // recorded 0.4 0.5: cutoff at position 0.75 = 0.475
  CHECK(report(scheduler, 2, 1, 0.48) == Decision::kContinue);
  // recorded 0.4 0.48 0.5: position 1.5 = 0.49
  CHECK(report(scheduler, 3, 1, 0.489) == Decision::kStop);
  // recorded 0.4 0.48 0.489 0.5: position 2.25 = 0.489 + 0.25 * 0.011
  CHECK(scheduler.decide(4, 1, 0.4917).decision == Decision::kStop);
  const Verdict verdict = scheduler.decide(4, 1, 0.4918);
  CHECK(verdict.decision == Decision::kContinue);
  CHECK(verdict.cutoff == doctest::Approx(0.49175));
  CHECK(verdict.peers == 4);
  CHECK(verdict.milestone == 1);
}

TEST_CASE("a value equal to the cutoff goes on") {
  AshaScheduler scheduler({100, 1, 4, 1}, 0);
  CHECK(report(scheduler, 0, 1, 0.5) == Decision::kContinue);
  CHECK(report(scheduler, 1, 1, 0.5) == Decision::kContinue);
}

TEST_CASE("nothing is decided between rungs, and each rung once") {
  AshaScheduler scheduler({100, 1, 4, 1}, 0);
  CHECK(report(scheduler, 0, 1, 0.9) == Decision::kContinue);
  CHECK(report(scheduler, 1, 1, 0.95) == Decision::kContinue);
  CHECK(report(scheduler, 1, 2, 0.1) == Decision::kContinue);
  CHECK(report(scheduler, 1, 3, 0.1) == Decision::kContinue);
  CHECK(report(scheduler, 1, 4, 0.1) == Decision::kContinue);  // first at rung 4
  CHECK(report(scheduler, 0, 4, 0.05) == Decision::kStop);
}

TEST_CASE("at max_t a trial is complete, however it compares, and its value is recorded") {
  AshaScheduler scheduler({4, 1, 4, 1}, 0);
  CHECK(report(scheduler, 0, 4, 0.9) == Decision::kComplete);
  CHECK(report(scheduler, 1, 4, 0.1) == Decision::kComplete);
  const Verdict verdict = scheduler.decide(2, 4, 0.5);
  CHECK(verdict.peers == 2);
  CHECK(report(scheduler, 3, 5, 0.5) == Decision::kComplete);
}

TEST_CASE("what is not finite is stopped at once, at any iteration, and recorded nowhere") {
  AshaScheduler scheduler({100, 4, 4, 1}, 0);
  CHECK(report(scheduler, 0, 1, kNan) == Decision::kStop);
  CHECK(report(scheduler, 1, 4, kNan) == Decision::kStop);
  CHECK(report(scheduler, 2, 2, -kInfinity) == Decision::kStop);
  CHECK(report(scheduler, 3, 2, kInfinity) == Decision::kStop);
  CHECK(scheduler.decide(4, 4, 0.1).peers == 0);
  CHECK(report(scheduler, 4, 4, 0.1) == Decision::kContinue);
}

TEST_CASE("reports that skip iterations are judged at the highest rung, never below it again") {
  AshaScheduler scheduler({100, 1, 4, 1}, 0);
  CHECK(report(scheduler, 0, 1, 0.5) == Decision::kContinue);
  CHECK(report(scheduler, 1, 5, 0.4) == Decision::kContinue);  // first at rung 4; rung 1 is passed
  CHECK(scheduler.decide(1, 6, 0.0).rung == -1);
  CHECK(report(scheduler, 1, 6, 0.0) == Decision::kContinue);
  CHECK(scheduler.decide(2, 1, 0.5).peers == 1);
  CHECK(report(scheduler, 1, 20, 0.0) == Decision::kContinue);  // first at rung 16
}

TEST_CASE("a trial that runs again keeps its first place at a rung") {
  AshaScheduler scheduler({100, 1, 4, 1}, 0);
  CHECK(report(scheduler, 0, 1, 0.5) == Decision::kContinue);
  CHECK(report(scheduler, 0, 1, 0.1) == Decision::kContinue);
  CHECK(scheduler.decide(1, 1, 0.45).decision == Decision::kStop);
}

TEST_CASE("brackets are drawn by seed in the ratio of the softmax of their rungs") {
  const AshaScheduler scheduler({81, 1, 3, 3}, 9);  // 5, 4 and 3 rungs
  std::vector<double> counts(3);
  const int draws = 20000;
  for (std::uint32_t trial = 0; trial < draws; ++trial) {
    counts[scheduler.bracket_of(trial)] += 1;
    CHECK(scheduler.bracket_of(trial) == scheduler.bracket_of(trial));
  }
  const double sum = 1 + std::exp(-1) + std::exp(-2);
  CHECK(counts[0] / draws == doctest::Approx(1 / sum).epsilon(0.03));
  CHECK(counts[1] / draws == doctest::Approx(std::exp(-1) / sum).epsilon(0.05));
  CHECK(counts[2] / draws == doctest::Approx(std::exp(-2) / sum).epsilon(0.08));
}

TEST_CASE("against a slow and plain reference, over random runs") {
  mobula::Rng rng(11);
  for (int run = 0; run < 50; ++run) {
    const double eta = 2 + static_cast<double>(rng.below(3));
    const Asha settings{27, static_cast<std::int64_t>(1 + rng.below(2)), eta, 1};
    AshaScheduler scheduler(settings, 1);
    std::vector<std::vector<std::pair<std::uint32_t, double>>> rungs(scheduler.milestones(0).size());
    std::vector<std::int64_t> iteration(12);
    for (int step = 0; step < 200; ++step) {
      const auto trial = static_cast<std::uint32_t>(rng.below(12));
      if (iteration[trial] >= settings.max_t) continue;
      ++iteration[trial];
      const double value = rng.unit();
      Decision expected = Decision::kContinue;
      for (std::size_t k = rungs.size(); k-- > 0;) {
        if (static_cast<double>(iteration[trial]) < scheduler.milestones(0)[k]) continue;
        const bool there =
            std::any_of(rungs[k].begin(), rungs[k].end(), [trial](const auto& entry) { return entry.first == trial; });
        if (there) break;
        std::vector<double> values;
        for (const auto& entry : rungs[k]) values.push_back(entry.second);
        std::sort(values.begin(), values.end());
        if (!values.empty() && value < interpolated_quantile(values, 1 - 1 / eta)) expected = Decision::kStop;
        rungs[k].emplace_back(trial, value);
        break;
      }
      if (iteration[trial] >= settings.max_t) expected = Decision::kComplete;
      REQUIRE(report(scheduler, trial, iteration[trial], value) == expected);
    }
  }
}

TEST_CASE("settings that make no sense are refused") {
  CHECK_THROWS_AS(asha({.max_t = 0}), mobula::Invalid);
  CHECK_THROWS_AS(asha({.max_t = 3, .grace_period = 4}), mobula::Invalid);
  CHECK_THROWS_AS(asha({.grace_period = 0}), mobula::Invalid);
  CHECK_THROWS_AS(asha({.reduction_factor = 1}), mobula::Invalid);
  CHECK_THROWS_AS(asha({.reduction_factor = kNan}), mobula::Invalid);
  CHECK_THROWS_AS(asha({.reduction_factor = 1.0001}), mobula::Invalid);
  CHECK_THROWS_AS(asha({.brackets = 0}), mobula::Invalid);
  CHECK(describe(asha()) == "asha(max_t=100, grace_period=1, reduction_factor=4, brackets=1)");
  CHECK(describe(fifo()) == "fifo()");
}

TEST_CASE("fifo never stops anything") {
  TrialScheduler scheduler(fifo(), 0);
  CHECK(scheduler.decide(0, 1'000'000, -5).decision == Decision::kContinue);
  CHECK(scheduler.decide(0, 1, kNan).decision == Decision::kContinue);
}
