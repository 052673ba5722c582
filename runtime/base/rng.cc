#include "runtime/base/rng.h"

#include <sys/random.h>

#include <bit>

#include "runtime/base/check.h"

namespace mobula {

Rng::Rng(std::uint64_t seed) : state_() {
  for (auto& word : state_) {
    seed += 0x9e3779b97f4a7c15U;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Rng::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  MOBULA_CHECK(bound > 0);
  // Rejection keeps it exactly uniform.
  const std::uint64_t limit = bound * ((~std::uint64_t{0}) / bound);
  for (;;) {
    const std::uint64_t draw = next();
    if (draw < limit) return draw % bound;
  }
}

std::int64_t Rng::between(std::int64_t low, std::int64_t high) {
  MOBULA_CHECK(low <= high);
  const std::uint64_t width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const std::uint64_t draw = width == 0 ? next() : below(width);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + draw);
}

double Rng::unit() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

std::uint64_t Rng::id() {
  for (;;) {
    if (const std::uint64_t draw = next(); draw != 0) return draw;
  }
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  MOBULA_CHECK(::getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed));
  return seed;
}

}  // namespace mobula
