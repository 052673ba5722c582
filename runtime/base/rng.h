// Our own generator and distributions, so that equal seeds give equal draws with every compiler and library.
//
// xoshiro256** seeded by splitmix64 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019).
#pragma once

#include <array>
#include <cstdint>

namespace mobula {

class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  std::uint64_t next();
  // Uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high);
  // Uniform in [0, 1), 53 bits.
  double unit();
  // True with probability `numerator` / `denominator`.
  bool chance(std::uint64_t numerator, std::uint64_t denominator) { return below(denominator) < numerator; }
  // Never zero: fit for an Id.
  std::uint64_t id();
  // An independent generator, for a part that must not disturb this one's sequence.
  Rng fork() { return Rng(next()); }

 private:
  std::array<std::uint64_t, 4> state_;
};

// 64 bits from the operating system; called by drivers only.
std::uint64_t random_seed();

}  // namespace mobula
