// A multi-layer perceptron for images in bytes, with its training: what the quickstart tunes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "quickstart/kernels.h"

namespace quickstart {

struct Shape {
  int pixels = 784;
  int classes = 10;
  int depth = 1;   // hidden layers
  int width = 64;  // of each
  Activation activation = Activation::kRelu;
};

enum class Optimizer : std::uint8_t { kSgd, kMomentum, kAdam };

struct Training {
  Optimizer optimizer = Optimizer::kAdam;
  float rate = 1e-3F;
  float decay = 0;
  int batch = 64;
};

// Throw std::invalid_argument for a name that is none.
Activation activation_named(const std::string& name);
Optimizer optimizer_named(const std::string& name);

// Images as one run of bytes, `pixels` each, and a label a byte for each.
struct Examples {
  std::span<const std::uint8_t> images;
  std::span<const std::uint8_t> labels;
};

struct Score {
  double loss = 0;      // mean
  double accuracy = 0;  // share
};

// Floats that start on a cache line. Where an array starts decides how vector code groups its sums, so without this two
// equal runs would differ in the last bits.
template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* data, std::size_t) { ::operator delete(data, kAlignment); }
  friend bool operator==(const CacheLineAllocator&, const CacheLineAllocator&) { return true; }
};
using Floats = std::vector<float, CacheLineAllocator<float>>;

class Network {
 public:
  Network(const Shape& shape, std::uint64_t seed);

  // One pass over the examples in a new random order; `rate` replaces the one in `training`.
  Score train_epoch(const Examples& examples, const Training& training, float rate);
  Score evaluate(const Examples& examples);

  // All weights and biases, one after the other; set_weights takes what weights() of an equal shape gave.
  std::span<const float> weights() const { return weights_; }
  void set_weights(std::span<const float> weights);

  // The mean loss and its gradient over one batch, for tests.
  double loss_and_gradient(const Examples& examples, std::vector<float>& gradient);

 private:
  // Gathers the batch, runs it forward; returns the summed loss. `with_delta`: prepares backward.
  double run(const Examples& examples, std::span<const std::uint32_t> order, bool with_delta, std::size_t& correct);
  void make_room(std::ptrdiff_t batch);
  void update(const Training& training, float rate);

  Shape shape_;
  const Kernels& kernels_;
  std::mt19937_64 random_;
  Floats weights_;
  Floats gradient_;
  Floats first_;    // momentum's speed, Adam's first moment
  Floats second_;   // Adam's second moment
  Floats scratch_;  // activations and deltas of a batch
  Floats input_;
  std::vector<LayerView> layers_;
  std::ptrdiff_t room_ = 0;  // the batch for which there is room
  double steps_ = 0;
};

}  // namespace quickstart
