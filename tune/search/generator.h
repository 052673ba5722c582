// Random and grid search: the parameters of trial n as a pure function of (space, seed, n).
//
// Not a stream: a run that is resumed, or extended, draws for trial n what the unbroken run would have drawn, without
// any generator state in the journal. Each parameter has a generator of its own, so that adding one at the end of the
// space leaves the draws of the others alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include <mobula/tune/space.h>
#include <mobula/tune/value.h>

#include "runtime/base/rng.h"

namespace mobula::tune {

// One draw; a Grid is drawn from like a Choice here.
Value sample(const Domain& domain, Rng& rng);

class Generator {
 public:
  // The whole grid is run `samples` times; everything that is not a grid is drawn anew for each trial, as Ray does.
  Generator(Space space, std::size_t samples, std::uint64_t seed);

  std::size_t total() const { return samples_ * grid_size_; }
  // trial < total(). The last grid of the space varies fastest.
  Params params(std::size_t trial) const;
  const Space& space() const { return space_; }

 private:
  Space space_;
  std::size_t samples_;
  std::size_t grid_size_;
  std::uint64_t seed_;
};

}  // namespace mobula::tune
