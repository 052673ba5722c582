// What a scheduler answers to one reported value.
#pragma once

#include <cstdint>

namespace mobula::tune {

enum class Decision : std::uint8_t {
  kContinue,
  kStop,      // early: worse than its peers, or not a number
  kComplete,  // it has reached the end that the scheduler sets
};

struct Verdict {
  Decision decision = Decision::kContinue;
  // Where the value is to be recorded: a rung of a bracket; -1: nowhere.
  std::int32_t bracket = 0;
  std::int32_t rung = -1;
  // What the value was compared with, for explanations: the rung's iteration, its cutoff (larger is better) and how
  // many values made it; peers 0: nothing was compared.
  double milestone = 0;
  double cutoff = 0;
  std::uint32_t peers = 0;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

}  // namespace mobula::tune
