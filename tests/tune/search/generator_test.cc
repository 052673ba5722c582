#include "tune/search/generator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace mobula::tune;
using mobula::Rng;

namespace {

template <class T>
std::map<T, int> draw_counts(const Domain& domain, int draws) {
  Rng rng(7);
  std::map<T, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sample(domain, rng).as<T>()];
  return counts;
}

}  // namespace

TEST_CASE("uniform stays inside [low, high) and fills it evenly") {
  Rng rng(1);
  std::vector<int> cells(10);
  for (int i = 0; i < 20000; ++i) {
    const double value = sample(uniform(-2, 3), rng).as<double>();
    REQUIRE(value >= -2);
    REQUIRE(value < 3);
    ++cells[static_cast<std::size_t>((value + 2) * 2)];
  }
  for (const int count : cells) CHECK(std::abs(count - 2000) < 250);
}

TEST_CASE("loguniform gives every decade the same mass") {
  Rng rng(2);
  std::vector<int> decades(4);
  for (int i = 0; i < 20000; ++i) {
    const double value = sample(loguniform(1e-4, 1), rng).as<double>();
    REQUIRE(value >= 1e-4);
    REQUIRE(value < 1);
    ++decades[static_cast<std::size_t>(std::min(3.0, std::log10(value) + 4))];
  }
  for (const int count : decades) CHECK(std::abs(count - 5000) < 350);
}

TEST_CASE("integers include both bounds with equal mass, negative ones too") {
  const auto counts = draw_counts<int>(integers(-2, 2), 20000);
  CHECK(counts.size() == 5);
  CHECK(counts.begin()->first == -2);
  CHECK(counts.rbegin()->first == 2);
  for (const auto& [value, count] : counts) CHECK(std::abs(count - 4000) < 300);
  CHECK(draw_counts<int>(integers(5, 5), 10).size() == 1);
}

TEST_CASE("quantised integers are the multiples inside the bounds") {
  const auto counts = draw_counts<int>(qintegers(-9, 17, 8), 8000);
  std::vector<int> values;
  for (const auto& [value, count] : counts) {
    values.push_back(value);
    CHECK(std::abs(count - 2000) < 250);
  }
  CHECK(values == std::vector<int>{-8, 0, 8, 16});
}

TEST_CASE("quantised reals give every multiple the same mass, the outermost ones too") {
  const auto counts = draw_counts<double>(quniform(0.05, 0.5, 0.1), 10000);
  CHECK(counts.size() == 5);
  CHECK(counts.begin()->first == doctest::Approx(0.1));
  CHECK(counts.rbegin()->first == doctest::Approx(0.5));
  for (const auto& [value, count] : counts) CHECK(std::abs(count - 2000) < 250);
}

TEST_CASE("logintegers give each integer the mass of its cell") {
  const int draws = 40000;
  const auto counts = draw_counts<int>(logintegers(1, 8), draws);
  CHECK(counts.size() == 8);
  for (const auto& [value, count] : counts) {
    const double mass = std::log((value + 0.5) / (value - 0.5)) / std::log(8.5 / 0.5);
    CHECK(std::abs(count - mass * draws) < 5 * std::sqrt(mass * draws));
  }
  const auto quantised = draw_counts<double>(qloguniform(16, 128, 16), draws);
  CHECK(quantised.size() == 8);
  CHECK(quantised.begin()->first == 16);
  CHECK(quantised.rbegin()->first == 128);
}

TEST_CASE("choices are drawn evenly and keep their types") {
  const auto counts = draw_counts<std::string>(choice({"a", "b", "c"}), 9000);
  for (const auto& [value, count] : counts) CHECK(std::abs(count - 3000) < 250);
  Rng rng(1);
  CHECK(sample(choice({true}), rng).is_bool());
  CHECK(sample(Domain(Value(5)), rng) == Value(5));
}

TEST_CASE("the grid is crossed, last one fastest, whole for every sample") {
  const Space space{{"a", grid({1, 2})}, {"x", uniform(0, 1)}, {"b", grid({"p", "q", "r"})}};
  const Generator generator(space, 2, 5);
  REQUIRE(generator.total() == 12);
  std::vector<std::string> seen;
  std::set<double> draws;
  for (std::size_t trial = 0; trial < 12; ++trial) {
    const Params params = generator.params(trial);
    seen.push_back(params.at("a").text() + params.at("b").text());
    draws.insert(params.get<double>("x"));
    CHECK(params.begin()->first == "a");
  }
  const std::vector<std::string> once{"1p", "1q", "1r", "2p", "2q", "2r"};
  std::vector<std::string> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  CHECK(seen == twice);
  CHECK(draws.size() == 12);
}

TEST_CASE("same seed, same trials, in any order; another seed, others; more samples change none") {
  const Space space{{"lr", loguniform(1e-4, 1)}, {"depth", integers(1, 100)}, {"opt", choice({"a", "b", "c", "d"})}};
  const Generator one(space, 100, 3);
  const Generator longer(space, 200, 3);
  const Generator other(space, 100, 4);
  int equal = 0;
  for (std::size_t trial = 100; trial-- > 0;) {
    CHECK(one.params(trial) == longer.params(trial));
    equal += one.params(trial) == other.params(trial);
  }
  CHECK(equal == 0);
}

TEST_CASE("a parameter added at the end leaves the draws of the others alone") {
  Space space{{"lr", loguniform(1e-4, 1)}};
  const double before = Generator(space, 1, 3).params(0).get<double>("lr");
  space.add("depth", integers(1, 4));
  CHECK(Generator(space, 1, 3).params(0).get<double>("lr") == before);
}

TEST_CASE("the draws of a seed are the same on every machine") {
  // Golden: a change here changes every resumed experiment.
  const Space space{{"depth", integers(1, 1000)}, {"x", uniform(0, 1)}};
  const Generator generator(space, 3, 42);
  std::string text;
  for (std::size_t trial = 0; trial < 3; ++trial) text += generator.params(trial).text() + ";";
  CHECK(text == "depth=545,x=0.6567282752883717;depth=912,x=0.8060204085016384;depth=628,x=0.918312784014477;");
}

TEST_CASE("random search over a table finds what the exact formula expects") {
  // E[best of n] = sum_i v_i * [((N-i+1)/N)^n - ((N-i)/N)^n] for sorted v_1 <= ... <= v_N, smallest wins.
  std::vector<double> table;
  for (int i = 1; i <= 50; ++i) table.push_back(i * i / 100.0);
  const double size = 50;
  for (const int n : {1, 4, 16}) {
    double expected = 0;
    for (int i = 1; i <= 50; ++i) {
      expected += table[static_cast<std::size_t>(i - 1)] *
                  (std::pow((size - i + 1) / size, n) - std::pow((size - i) / size, n));
    }
    const Space space{{"row", integers(0, 49)}};
    const int runs = 4000;
    double sum = 0;
    double squares = 0;
    for (int run = 0; run < runs; ++run) {
      const Generator generator(space, static_cast<std::size_t>(n), static_cast<std::uint64_t>(run) + 1);
      double best = 1e9;
      for (std::size_t trial = 0; trial < generator.total(); ++trial) {
        best = std::min(best, table[generator.params(trial).get<std::size_t>("row")]);
      }
      sum += best;
      squares += best * best;
    }
    const double mean = sum / runs;
    const double error = std::sqrt((squares / runs - mean * mean) / runs);
    CHECK(std::abs(mean - expected) < 4 * error);
  }
}
