// Search spaces: which values a parameter may take.
//
//   tune::Space space{{"lr", tune::loguniform(1e-4, 1e-1)},
//                     {"depth", tune::integers(1, 4)},                    // both bounds included
//                     {"optimizer", tune::choice({"sgd", "momentum", "adam"})},
//                     {"batch", tune::grid({32, 64})},
//                     {"classes", 10}};                                   // a constant
//
// Bounds. uniform, loguniform: [low, high). The quantised ones draw the multiples of `step` inside [low, high], high
// included, each with the mass of its own cell: Ray gives the two outermost ones half of it. integers, logintegers:
// both bounds included, where Ray's randint leaves out the upper one.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/tune/value.h>

namespace mobula::tune {

// Real numbers. `step` 0: not quantised. `log`: uniform in the logarithm.
struct RealRange {
  double low = 0;
  double high = 0;
  double step = 0;
  bool log = false;
  friend bool operator==(const RealRange&, const RealRange&) = default;
};

// Whole numbers, both bounds included; the multiples of `step` when it is more than 1.
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t step = 1;
  bool log = false;
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};

struct Choice {
  std::vector<Value> values;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Every value is tried, crossed with all other grids of the space.
struct Grid {
  std::vector<Value> values;
  friend bool operator==(const Grid&, const Grid&) = default;
};

using Domain = std::variant<Value, RealRange, IntegerRange, Choice, Grid>;

// Each throws Invalid when its bounds or list make no sense.
Domain uniform(double low, double high);
Domain quniform(double low, double high, double step);
Domain loguniform(double low, double high);
Domain qloguniform(double low, double high, double step);
Domain integers(std::int64_t low, std::int64_t high);
Domain qintegers(std::int64_t low, std::int64_t high, std::int64_t step);
Domain logintegers(std::int64_t low, std::int64_t high);
Domain choice(std::vector<Value> values);
Domain grid(std::vector<Value> values);
inline Domain choice(std::initializer_list<Value> values) {
  return choice(std::vector<Value>(values));
}
inline Domain grid(std::initializer_list<Value> values) {
  return grid(std::vector<Value>(values));
}

// "loguniform(0.0001, 0.1)": how the journal remembers a domain and how two are compared across runs.
std::string describe(const Domain& domain);

class Space {
 public:
  // Anything a Domain is made from, and bare values as constants.
  struct Entry {
    std::string name;
    Domain domain;
    Entry(std::string entry_name, Domain entry_domain) : name(std::move(entry_name)), domain(std::move(entry_domain)) {}
    template <class T>
    requires std::constructible_from<Value, T> Entry(std::string entry_name, T constant)
        : name(std::move(entry_name)), domain(Value(std::move(constant))) {}
  };

  Space() = default;
  Space(std::initializer_list<Entry> entries);
  // Throws Invalid when the name is empty or taken.
  Space& add(std::string name, Domain domain);

  const std::vector<Entry>& entries() const { return entries_; }
  // How many combinations the grids have together; 1 without a grid. Throws Invalid above kGridSizeMax.
  std::size_t grid_size() const;
  std::string describe() const;

  static constexpr std::size_t kGridSizeMax = 1'000'000;

 private:
  std::vector<Entry> entries_;
};

}  // namespace mobula::tune
