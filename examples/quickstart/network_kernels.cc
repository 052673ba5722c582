// See kernels.h. No container and no type of a library leaves this file: it is compiled twice.
#include <cmath>

#include <Eigen/Core>

#include "quickstart/kernels.h"

namespace MOBULA_KERNELS {
namespace {

using quickstart::Activation;
using quickstart::AdamSettings;
using quickstart::LayerView;
using Matrix = Eigen::Map<Eigen::MatrixXf>;
using ConstMatrix = Eigen::Map<const Eigen::MatrixXf>;
using Vector = Eigen::Map<Eigen::VectorXf>;
using Array = Eigen::Map<Eigen::ArrayXf>;
using ConstArray = Eigen::Map<const Eigen::ArrayXf>;

// Of the training images of Fashion-MNIST.
constexpr float kMean = 0.2860F;
constexpr float kDeviation = 0.3530F;
constexpr float kLeak = 0.01F;

void gather(const std::uint8_t* images, const std::uint32_t* order, std::ptrdiff_t pixels, std::ptrdiff_t batch,
            float* x) {
  const float scale = 1.0F / (255.0F * kDeviation);
  const float shift = kMean / kDeviation;
  for (std::ptrdiff_t column = 0; column < batch; ++column) {
    const Eigen::Map<const Eigen::Array<std::uint8_t, Eigen::Dynamic, 1>> image(
        images + static_cast<std::ptrdiff_t>(order[column]) * pixels, pixels);
    Array(x + column * pixels, pixels) = image.cast<float>() * scale - shift;
  }
}

void activate(Array values, Activation activation) {
  switch (activation) {
    case Activation::kRelu: values = values.max(0.0F); break;
    case Activation::kLeakyRelu: values = values.max(kLeak * values); break;
    case Activation::kTanh: values = values.tanh(); break;
  }
}

// delta *= f'(z), from f(z): every activation here allows that.
void scale_by_slope(Array delta, ConstArray out, Activation activation) {
  switch (activation) {
    case Activation::kRelu: delta *= (out > 0.0F).cast<float>(); break;
    case Activation::kLeakyRelu: delta *= (out > 0.0F).select(ConstArray::Ones(out.size()).eval(), kLeak); break;
    case Activation::kTanh: delta *= 1.0F - out.square(); break;
  }
}

void forward(const LayerView* layers, std::size_t count, Activation activation, const float* x, std::ptrdiff_t batch) {
  const float* in = x;
  for (std::size_t index = 0; index < count; ++index) {
    const LayerView& layer = layers[index];
    Matrix out(layer.out, layer.outputs, batch);
    out.noalias() = ConstMatrix(layer.weight, layer.outputs, layer.inputs) * ConstMatrix(in, layer.inputs, batch);
    out.colwise() += Vector(layer.bias, layer.outputs);
    if (index + 1 < count) activate(Array(layer.out, layer.outputs * batch), activation);
    in = layer.out;
  }
}

float loss(const float* scores, const std::uint8_t* labels, const std::uint32_t* order, std::ptrdiff_t classes,
           std::ptrdiff_t batch, float* delta, std::size_t* correct) {
  float sum = 0;
  for (std::ptrdiff_t column = 0; column < batch; ++column) {
    const ConstArray score(scores + column * classes, classes);
    const auto label = static_cast<std::ptrdiff_t>(labels[order[column]]);
    std::ptrdiff_t best = 0;
    const float most = score.maxCoeff(&best);
    const float total = (score - most).exp().sum();
    sum += std::log(total) + most - score[label];
    if (best == label) ++*correct;
    if (delta == nullptr) continue;
    Array gradient(delta + column * classes, classes);
    gradient = (score - most).exp() / (total * static_cast<float>(batch));
    gradient[label] -= 1.0F / static_cast<float>(batch);
  }
  return sum;
}

void backward(const LayerView* layers, std::size_t count, Activation activation, const float* x, std::ptrdiff_t batch) {
  for (std::size_t index = count; index-- > 0;) {
    const LayerView& layer = layers[index];
    const float* in = index == 0 ? x : layers[index - 1].out;
    const ConstMatrix delta(layer.delta, layer.outputs, batch);
    Matrix(layer.weight_gradient, layer.outputs, layer.inputs).noalias() =
        delta * ConstMatrix(in, layer.inputs, batch).transpose();
    Vector(layer.bias_gradient, layer.outputs) = delta.rowwise().sum();
    if (index == 0) break;
    const LayerView& below = layers[index - 1];
    Matrix(below.delta, below.outputs, batch).noalias() =
        ConstMatrix(layer.weight, layer.outputs, layer.inputs).transpose() * delta;
    scale_by_slope(Array(below.delta, below.outputs * batch), ConstArray(below.out, below.outputs * batch), activation);
  }
}

void momentum(float* weight, const float* gradient, float* speed, std::size_t size, float rate, float decay,
              float factor) {
  const auto length = static_cast<std::ptrdiff_t>(size);
  Array speeds(speed, length);
  Array weights(weight, length);
  speeds = factor * speeds - rate * ConstArray(gradient, length);
  weights = (1 - rate * decay) * weights + speeds;
}

void adam(float* weight, const float* gradient, float* first, float* second, std::size_t size, AdamSettings settings) {
  const auto length = static_cast<std::ptrdiff_t>(size);
  constexpr float kBeta1 = 0.9F;
  constexpr float kBeta2 = 0.999F;
  constexpr float kEpsilon = 1e-8F;
  const ConstArray gradients(gradient, length);
  Array firsts(first, length);
  Array seconds(second, length);
  Array weights(weight, length);
  firsts = kBeta1 * firsts + (1 - kBeta1) * gradients;
  seconds = kBeta2 * seconds + (1 - kBeta2) * gradients.square();
  weights = (1 - settings.rate * settings.decay) * weights -
            (settings.rate / settings.correction1) * firsts / ((seconds / settings.correction2).sqrt() + kEpsilon);
}

}  // namespace

const quickstart::Kernels& table() {
  static constexpr quickstart::Kernels kTable{gather, forward, loss, backward, momentum, adam};
  return kTable;
}

}  // namespace MOBULA_KERNELS
