#include "tune/schedulers/scheduler.h"

#include <string>

namespace mobula::tune {

std::string describe(const Scheduler& scheduler) {
  const auto* settings = std::get_if<Asha>(&scheduler);
  if (settings == nullptr) return "fifo()";
  return "asha(max_t=" + std::to_string(settings->max_t) + ", grace_period=" + std::to_string(settings->grace_period) +
         ", reduction_factor=" + Value(settings->reduction_factor).text() +
         ", brackets=" + std::to_string(settings->brackets) + ")";
}

TrialScheduler::TrialScheduler(const Scheduler& settings, std::uint64_t seed) {
  if (const auto* asha = std::get_if<Asha>(&settings)) kind_.emplace<AshaScheduler>(*asha, seed);
}

Verdict TrialScheduler::decide(std::uint32_t trial, std::int64_t iteration, double value) const {
  return std::visit([&](const auto& kind) { return kind.decide(trial, iteration, value); }, kind_);
}

void TrialScheduler::record(std::uint32_t trial, const Verdict& verdict, double value) {
  std::visit([&](auto& kind) { kind.record(trial, verdict, value); }, kind_);
}

void TrialScheduler::check() const {
  std::visit([](const auto& kind) { kind.check(); }, kind_);
}

}  // namespace mobula::tune
