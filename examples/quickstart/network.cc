#include "quickstart/network.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace quickstart {
namespace {

constexpr std::ptrdiff_t kEvaluationBatch = 500;

// While it lives, numbers too small for a float's full precision count as zero on this thread. The moments of weights
// whose gradient has become zero fade into them, and many processors then compute a hundred times slower.
class TinyIsZero {
 public:
  TinyIsZero() {
#if defined(__SSE__)
    _mm_setcsr(before_ | 0x8040);  // flush to zero, denormals are zero
#endif
  }
  ~TinyIsZero() {
#if defined(__SSE__)
    _mm_setcsr(before_);
#endif
  }
  TinyIsZero(const TinyIsZero&) = delete;
  TinyIsZero& operator=(const TinyIsZero&) = delete;

 private:
#if defined(__SSE__)
  unsigned before_ = _mm_getcsr();
#endif
};

}  // namespace

Activation activation_named(const std::string& name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "leaky_relu") return Activation::kLeakyRelu;
  if (name == "tanh") return Activation::kTanh;
  throw std::invalid_argument("there is no activation named " + name);
}

Optimizer optimizer_named(const std::string& name) {
  if (name == "sgd") return Optimizer::kSgd;
  if (name == "momentum") return Optimizer::kMomentum;
  if (name == "adam") return Optimizer::kAdam;
  throw std::invalid_argument("there is no optimizer named " + name);
}

Network::Network(const Shape& shape, std::uint64_t seed) : shape_(shape), kernels_(kernels()), random_(seed) {
  std::size_t size = 0;
  for (int index = 0; index <= shape.depth; ++index) {
    const std::ptrdiff_t inputs = index == 0 ? shape.pixels : shape.width;
    const std::ptrdiff_t outputs = index == shape.depth ? shape.classes : shape.width;
    layers_.push_back(LayerView{inputs, outputs, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr});
    size += static_cast<std::size_t>(outputs * (inputs + 1));
  }
  weights_.resize(size);
  gradient_.resize(size);
  std::size_t offset = 0;
  for (LayerView& layer : layers_) {
    layer.weight = weights_.data() + offset;
    layer.weight_gradient = gradient_.data() + offset;
    const auto count = static_cast<std::size_t>(layer.inputs * layer.outputs);
    layer.bias = layer.weight + count;
    layer.bias_gradient = layer.weight_gradient + count;
    offset += count + static_cast<std::size_t>(layer.outputs);
    // He et al. 2015 for the rectifiers, Glorot and Bengio 2010 for tanh; biases start at 0.
    const bool rectifier = shape.activation != Activation::kTanh;
    const double variance =
        rectifier ? 2.0 / static_cast<double>(layer.inputs) : 2.0 / static_cast<double>(layer.inputs + layer.outputs);
    std::normal_distribution<float> normal(0, static_cast<float>(std::sqrt(variance)));
    std::generate(layer.weight, layer.bias, [&] { return normal(random_); });
  }
}

void Network::make_room(std::ptrdiff_t batch) {
  if (batch <= room_) return;
  room_ = batch;
  input_.resize(static_cast<std::size_t>(shape_.pixels * batch));
  std::size_t size = 0;
  for (const LayerView& layer : layers_) size += static_cast<std::size_t>(2 * layer.outputs * batch);
  scratch_.resize(size);
  float* next = scratch_.data();
  for (LayerView& layer : layers_) {
    layer.out = next;
    layer.delta = next + layer.outputs * batch;
    next += 2 * layer.outputs * batch;
  }
}

double Network::run(const Examples& examples, std::span<const std::uint32_t> order, bool with_delta,
                    std::size_t& correct) {
  const auto batch = static_cast<std::ptrdiff_t>(order.size());
  make_room(batch);
  kernels_.gather(examples.images.data(), order.data(), shape_.pixels, batch, input_.data());
  kernels_.forward(layers_.data(), layers_.size(), shape_.activation, input_.data(), batch);
  const LayerView& last = layers_.back();
  return static_cast<double>(kernels_.loss(last.out, examples.labels.data(), order.data(), shape_.classes, batch,
                                           with_delta ? last.delta : nullptr, &correct));
}

void Network::update(const Training& training, float rate) {
  first_.resize(weights_.size());
  if (training.optimizer != Optimizer::kAdam) {
    const float momentum = training.optimizer == Optimizer::kMomentum ? 0.9F : 0.0F;
    kernels_.momentum(weights_.data(), gradient_.data(), first_.data(), weights_.size(), rate, training.decay,
                      momentum);
    return;
  }
  second_.resize(weights_.size());
  steps_ += 1;
  const AdamSettings settings{rate, training.decay, static_cast<float>(1 - std::pow(0.9, steps_)),
                              static_cast<float>(1 - std::pow(0.999, steps_))};
  kernels_.adam(weights_.data(), gradient_.data(), first_.data(), second_.data(), weights_.size(), settings);
}

Score Network::train_epoch(const Examples& examples, const Training& training, float rate) {
  const TinyIsZero tiny_is_zero;
  std::vector<std::uint32_t> order(examples.labels.size());
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random_);
  double loss = 0;
  std::size_t correct = 0;
  const auto batch = static_cast<std::size_t>(training.batch);
  for (std::size_t start = 0; start < order.size(); start += batch) {
    const std::span<const std::uint32_t> part =
        std::span<const std::uint32_t>(order).subspan(start, std::min(batch, order.size() - start));
    loss += run(examples, part, true, correct);
    kernels_.backward(layers_.data(), layers_.size(), shape_.activation, input_.data(),
                      static_cast<std::ptrdiff_t>(part.size()));
    update(training, rate);
  }
  const auto count = static_cast<double>(order.size());
  return {loss / count, static_cast<double>(correct) / count};
}

Score Network::evaluate(const Examples& examples) {
  std::vector<std::uint32_t> order(examples.labels.size());
  std::iota(order.begin(), order.end(), 0U);
  double loss = 0;
  std::size_t correct = 0;
  const auto batch = static_cast<std::size_t>(kEvaluationBatch);
  for (std::size_t start = 0; start < order.size(); start += batch) {
    loss += run(examples, std::span<const std::uint32_t>(order).subspan(start, std::min(batch, order.size() - start)),
                false, correct);
  }
  const auto count = static_cast<double>(order.size());
  return {loss / count, static_cast<double>(correct) / count};
}

void Network::set_weights(std::span<const float> weights) {
  if (weights.size() != weights_.size()) {
    throw std::invalid_argument("these weights are of a network of another shape");
  }
  std::copy(weights.begin(), weights.end(), weights_.begin());
}

double Network::loss_and_gradient(const Examples& examples, std::vector<float>& gradient) {
  std::vector<std::uint32_t> order(examples.labels.size());
  std::iota(order.begin(), order.end(), 0U);
  std::size_t correct = 0;
  const double loss = run(examples, order, true, correct);
  kernels_.backward(layers_.data(), layers_.size(), shape_.activation, input_.data(),
                    static_cast<std::ptrdiff_t>(order.size()));
  gradient.assign(gradient_.begin(), gradient_.end());
  return loss / static_cast<double>(order.size());
}

}  // namespace quickstart
