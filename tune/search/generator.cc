#include "tune/search/generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/check.h"

namespace mobula::tune {
namespace {

double draw_real(double low, double high, bool log, Rng& rng) {
  const double unit = rng.unit();
  const double value =
      log ? std::exp(std::log(low) + unit * (std::log(high) - std::log(low))) : low + unit * (high - low);
  // Rounding may reach or pass a bound.
  return std::clamp(value, low, std::nextafter(high, low));
}

struct Sample {
  Rng& rng;

  Value operator()(const Value& constant) const { return constant; }

  Value operator()(const RealRange& range) const {
    if (range.step == 0) return draw_real(range.low, range.high, range.log, rng);
    const double first = std::ceil(range.low / range.step - 1e-9);
    const double last = std::floor(range.high / range.step + 1e-9);
    if (!range.log) {
      const auto multiple = rng.between(static_cast<std::int64_t>(first), static_cast<std::int64_t>(last));
      return static_cast<double>(multiple) * range.step;
    }
    // Cell [k - 1/2, k + 1/2) around each multiple; the first multiple is at least 1.
    const double multiple = std::floor(draw_real(first - 0.5, last + 0.5, true, rng) + 0.5);
    return std::clamp(multiple, first, last) * range.step;
  }

  Value operator()(const IntegerRange& range) const {
    if (range.log) {
      const auto low = static_cast<double>(range.low);
      const auto high = static_cast<double>(range.high);
      const double cell = std::floor(draw_real(low - 0.5, high + 0.5, true, rng) + 0.5);
      return static_cast<std::int64_t>(std::clamp(cell, low, high));
    }
    // Floor and ceiling division for any sign.
    const std::int64_t below = (range.low % range.step + range.step) % range.step;
    const std::int64_t first = range.low + (below == 0 ? 0 : range.step - below);
    const std::int64_t last = range.high - (range.high % range.step + range.step) % range.step;
    return rng.between(first / range.step, last / range.step) * range.step;
  }

  Value operator()(const Choice& domain) const { return domain.values[rng.below(domain.values.size())]; }
  Value operator()(const Grid& domain) const { return domain.values[rng.below(domain.values.size())]; }
};

}  // namespace

Value sample(const Domain& domain, Rng& rng) {
  return std::visit(Sample{rng}, domain);
}

Generator::Generator(Space space, std::size_t samples, std::uint64_t seed)
    : space_(std::move(space)), samples_(samples), grid_size_(space_.grid_size()), seed_(seed) {}

Params Generator::params(std::size_t trial) const {
  MOBULA_CHECK(trial < total());
  // Rng's seeding mixes well; the odd factor keeps (seed, trial) pairs apart.
  Rng rng(seed_ ^ (0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(trial) + 1)));
  std::size_t stride = grid_size_;
  const std::size_t position = trial % grid_size_;
  Params params;
  for (const auto& entry : space_.entries()) {
    Rng own = rng.fork();
    if (const auto* axis = std::get_if<Grid>(&entry.domain)) {
      stride /= axis->values.size();
      params.set(entry.name, axis->values[position / stride % axis->values.size()]);
    } else {
      params.set(entry.name, sample(entry.domain, own));
    }
  }
  return params;
}

}  // namespace mobula::tune
