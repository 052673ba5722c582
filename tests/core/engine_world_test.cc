// Random programs on a played cluster: every read gets its value or a typed error, and at the end nothing is left.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/core/engine_world.h"

namespace mobula::core::test {
namespace {

void run_seeds(WorldOptions options, std::uint64_t seeds) {
  std::uint64_t first = 1;
  if (const char* only = std::getenv("MOBULA_TEST_SEED")) {
    first = std::strtoull(only, nullptr, 10);
    seeds = 1;
  }
  if (const char* many = std::getenv("MOBULA_TEST_SEEDS")) seeds = std::strtoull(many, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    options.seed = seed;
    World world(options);
    const std::string wrong = world.run();
    INFO("seed ", seed, ", ", world.messages, " messages, ", world.reads, " reads: ", wrong);
    CHECK(wrong.empty());
    if (!wrong.empty()) return;
  }
}

TEST_CASE("a quiet cluster: everything arrives and everything is freed") {
  run_seeds({}, 60);
}

TEST_CASE("messages that come twice change nothing") {
  WorldOptions options;
  options.repeats = true;
  run_seeds(options, 60);
}

TEST_CASE("links that break lose nothing") {
  WorldOptions options;
  options.breaks = true;
  run_seeds(options, 60);
}

TEST_CASE("workers that are killed: results, or typed errors") {
  WorldOptions options;
  options.kills = true;
  options.breaks = true;
  options.repeats = true;
  run_seeds(options, 60);
}

}  // namespace
}  // namespace mobula::core::test
