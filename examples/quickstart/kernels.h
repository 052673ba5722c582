// The arithmetic of the network as plain functions over pointers, compiled once for every x86-64 and once for those
// with AVX2 and FMA: runtime/cmake/MobulaKernels.cmake says how, and why nothing else may cross this border.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quickstart {

enum class Activation : std::uint8_t { kRelu, kLeakyRelu, kTanh };

// A fully connected layer: outputs x inputs, column-major, and its room for a batch.
struct LayerView {
  std::ptrdiff_t inputs;
  std::ptrdiff_t outputs;
  float* weight;
  float* bias;
  float* weight_gradient;
  float* bias_gradient;
  float* out;    // outputs x batch: after the activation; the last layer's are the scores
  float* delta;  // outputs x batch: gradient of the loss by what went into the activation
};

struct AdamSettings {
  float rate;
  float decay;        // of the weights, decoupled
  float correction1;  // 1 - beta1^t
  float correction2;  // 1 - beta2^t
};

struct Kernels {
  // x(:, j) = (images(:, order[j]) / 255 - mean) / deviation
  void (*gather)(const std::uint8_t* images, const std::uint32_t* order, std::ptrdiff_t pixels, std::ptrdiff_t batch,
                 float* x);
  void (*forward)(const LayerView* layers, std::size_t count, Activation activation, const float* x,
                  std::ptrdiff_t batch);
  // Softmax cross entropy of the last layer's scores, summed over the batch; counts the right ones; writes the last
  // layer's delta of the mean loss unless it is null.
  float (*loss)(const float* scores, const std::uint8_t* labels, const std::uint32_t* order, std::ptrdiff_t classes,
                std::ptrdiff_t batch, float* delta, std::size_t* correct);
  void (*backward)(const LayerView* layers, std::size_t count, Activation activation, const float* x,
                   std::ptrdiff_t batch);
  // speed = momentum * speed - rate * gradient; weight = (1 - rate * decay) * weight + speed. momentum 0: plain SGD.
  void (*momentum)(float* weight, const float* gradient, float* speed, std::size_t size, float rate, float decay,
                   float momentum);
  void (*adam)(float* weight, const float* gradient, float* first, float* second, std::size_t size,
               AdamSettings settings);
};

// For every processor.
const Kernels& plain_kernels();
// For this one if it has AVX2 and FMA; null if it has not, or if they were not built.
const Kernels* fast_kernels();
// The fastest that this processor runs.
const Kernels& kernels();

}  // namespace quickstart
