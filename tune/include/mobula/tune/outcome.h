// What is known of an experiment and its trials when tune::run returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mobula/tune/status.h>
#include <mobula/tune/value.h>

namespace mobula::tune {

struct TrialResult {
  std::string id{};
  Params params{};
  TrialStatus status = TrialStatus::kPending;
  std::int64_t iterations = 0;
  Metrics last{};                // the newest report
  std::optional<double> best{};  // the metric's best finite value
  std::string node{};            // where its newest attempt ran
  std::string address{};
  std::uint32_t attempts = 0;
  std::string why{};  // in words, why it ended
  std::filesystem::path folder{};
  bool has_value = false;
};

// How an experiment stands when run() returns.
struct Outcome {
  std::string name{};
  std::filesystem::path folder{};
  bool interrupted = false;
  std::vector<TrialResult> trials{};
  std::optional<std::size_t> best{};  // index of the best trial
};

}  // namespace mobula::tune
