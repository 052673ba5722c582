#include "tune/schedulers/asha.h"

#include <algorithm>
#include <cmath>

#include <mobula/error.h>

#include "runtime/base/check.h"
#include "runtime/base/result.h"
#include "runtime/base/rng.h"
#include "tune/schedulers/scheduler.h"

namespace mobula::tune {
namespace {

constexpr double kRungsMax = 1000;

}  // namespace

Scheduler asha(Asha settings) {
  const auto refuse = [](const char* text) { throw_error(make_error(ErrorKind::kInvalid, text)); };
  if (settings.grace_period < 1) refuse("asha: grace_period must be at least 1");
  if (settings.max_t < settings.grace_period) refuse("asha: max_t must not be below grace_period");
  if (!std::isfinite(settings.reduction_factor) || settings.reduction_factor <= 1) {
    refuse("asha: reduction_factor must be above 1");
  }
  const double span = static_cast<double>(settings.max_t) / static_cast<double>(settings.grace_period);
  if (std::log(span) / std::log(settings.reduction_factor) > kRungsMax) {
    refuse("asha: more than 1000 rungs: raise reduction_factor");
  }
  if (settings.brackets < 1) refuse("asha: brackets must be at least 1");
  return settings;
}

double interpolated_quantile(const std::vector<double>& sorted, double fraction) {
  MOBULA_CHECK(!sorted.empty());
  const double position = static_cast<double>(sorted.size() - 1) * fraction;
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = position - static_cast<double>(below);
  return sorted[below] + (sorted[below + 1] - sorted[below]) * part;
}

AshaScheduler::AshaScheduler(const Asha& settings, std::uint64_t seed) : settings_(settings), seed_(seed) {
  const double end = static_cast<double>(settings_.max_t);
  // Rungs above max_t would never be reached, so brackets beyond the last rung do not exist.
  double first = static_cast<double>(settings_.grace_period);
  for (std::int64_t bracket = 0; bracket < settings_.brackets && first <= end; ++bracket) {
    std::vector<Rung> rungs;
    for (double milestone = first; milestone <= end; milestone *= settings_.reduction_factor) {
      rungs.push_back(Rung{milestone, {}, {}});
    }
    brackets_.push_back(std::move(rungs));
    first *= settings_.reduction_factor;
  }
}

std::vector<double> AshaScheduler::milestones(std::size_t bracket) const {
  std::vector<double> result;
  for (const auto& rung : brackets_.at(bracket)) result.push_back(rung.milestone);
  return result;
}

std::size_t AshaScheduler::bracket_of(std::uint32_t trial) const {
  if (brackets_.size() == 1) return 0;
  double sum = 0;
  const double most = static_cast<double>(brackets_.front().size());
  for (const auto& rungs : brackets_) sum += std::exp(static_cast<double>(rungs.size()) - most);
  Rng rng(~seed_ ^ (0xd1b54a32d192ed03U * (std::uint64_t{trial} + 1)));
  double left = rng.unit() * sum;
  for (std::size_t bracket = 0; bracket + 1 < brackets_.size(); ++bracket) {
    left -= std::exp(static_cast<double>(brackets_[bracket].size()) - most);
    if (left < 0) return bracket;
  }
  return brackets_.size() - 1;
}

Verdict AshaScheduler::decide(std::uint32_t trial, std::int64_t iteration, double value) const {
  Verdict verdict;
  const std::size_t bracket = bracket_of(trial);
  verdict.bracket = static_cast<std::int32_t>(bracket);
  if (!std::isfinite(value)) {
    verdict.decision = Decision::kStop;
    return verdict;
  }
  const auto& rungs = brackets_[bracket];
  for (std::size_t index = rungs.size(); index-- > 0;) {
    const Rung& rung = rungs[index];
    if (static_cast<double>(iteration) < rung.milestone) continue;
    if (rung.by_trial.contains(trial)) break;
    verdict.rung = static_cast<std::int32_t>(index);
    if (rung.sorted.empty()) break;
    verdict.milestone = rung.milestone;
    verdict.cutoff = interpolated_quantile(rung.sorted, 1 - 1 / settings_.reduction_factor);
    verdict.peers = static_cast<std::uint32_t>(rung.sorted.size());
    if (value < verdict.cutoff) verdict.decision = Decision::kStop;
    break;
  }
  if (iteration >= settings_.max_t) verdict.decision = Decision::kComplete;
  return verdict;
}

void AshaScheduler::record(std::uint32_t trial, const Verdict& verdict, double value) {
  if (verdict.rung < 0 || !std::isfinite(value)) return;
  const auto bracket = static_cast<std::size_t>(verdict.bracket);
  const auto index = static_cast<std::size_t>(verdict.rung);
  MOBULA_CHECK(bracket < brackets_.size() && index < brackets_[bracket].size());
  Rung& rung = brackets_[bracket][index];
  if (!rung.by_trial.emplace(trial, value).second) return;
  rung.sorted.insert(std::upper_bound(rung.sorted.begin(), rung.sorted.end(), value), value);
}

void AshaScheduler::check() const {
  for (const auto& rungs : brackets_) {
    for (const auto& rung : rungs) {
      MOBULA_CHECK(rung.sorted.size() == rung.by_trial.size());
      MOBULA_CHECK(std::is_sorted(rung.sorted.begin(), rung.sorted.end()));
    }
  }
}

}  // namespace mobula::tune
