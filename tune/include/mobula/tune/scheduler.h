// Which schedulers there are: they look at every reported value and may stop a trial early.
//
//   .scheduler = tune::asha({.max_t = 81, .grace_period = 1, .reduction_factor = 3})
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace mobula::tune {

// Every trial runs to its own end, in the order in which trials were made.
struct Fifo {
  friend bool operator==(const Fifo&, const Fifo&) = default;
};

// Asynchronous successive halving in its stopping form (Li et al., "A System for Massively Parallel Hyperparameter
// Tuning", 2020; the form that Ray Tune and Syne Tune run). Rungs stand at grace_period * reduction_factor^(k + s) for
// bracket s. A trial that reaches a rung is stopped when its value is worse than the best 1/reduction_factor of the
// values recorded there before it (linear interpolation between order statistics); the first one at a rung goes on.
// At max_t a trial is done. What differs from Ray is said in tune/schedulers/asha.h.
struct Asha {
  std::int64_t max_t = 100;       // iterations of a trial that is never stopped
  std::int64_t grace_period = 1;  // iterations before the first decision
  double reduction_factor = 4;    // more than 1
  std::int64_t brackets = 1;      // trials are spread over them at random, by seed
  friend bool operator==(const Asha&, const Asha&) = default;
};

using Scheduler = std::variant<Fifo, Asha>;

inline Scheduler fifo() {
  return Fifo{};
}
// Throws Invalid when the settings make no sense.
Scheduler asha(Asha settings = {});

// "asha(max_t=100, grace_period=1, reduction_factor=4, brackets=1)"
std::string describe(const Scheduler& scheduler);

}  // namespace mobula::tune
