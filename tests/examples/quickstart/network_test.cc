#include "quickstart/network.h"

#include <cmath>
#include <stdexcept>

#include <doctest/doctest.h>

#include "quickstart/kernels.h"

using namespace quickstart;

namespace {

std::vector<float> weights_of(const Network& network) {
  return {network.weights().begin(), network.weights().end()};
}

struct Toy {
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> labels;
  Examples examples() const { return {images, labels}; }
};

// Four classes, each a bright quarter of a 4x4 image with noise.
Toy make_toy(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Toy toy;
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(random() % 4);
    toy.labels.push_back(label);
    for (std::size_t pixel = 0; pixel < 16; ++pixel) {
      const auto base = pixel / 4 == label ? 150U : 20U;
      toy.images.push_back(static_cast<std::uint8_t>(base + random() % 90));
    }
  }
  return toy;
}

Shape toy_shape(Activation activation, int depth = 2) {
  Shape shape;
  shape.pixels = 16;
  shape.classes = 4;
  shape.depth = depth;
  shape.width = 8;
  shape.activation = activation;
  return shape;
}

}  // namespace

TEST_CASE("the gradient is the slope of the loss, for every activation and depth") {
  const Toy toy = make_toy(7, 1);
  for (const Activation activation : {Activation::kRelu, Activation::kLeakyRelu, Activation::kTanh}) {
    for (const int depth : {0, 1, 3}) {
      CAPTURE(depth);
      Network network(toy_shape(activation, depth), 3);
      const std::vector<float> weights = weights_of(network);
      std::vector<float> gradient;
      std::vector<float> unused;
      network.loss_and_gradient(toy.examples(), gradient);
      REQUIRE(gradient.size() == weights.size());
      double size = 0;
      double error = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const float step = 5e-3F;
        std::vector<float> moved = weights;
        moved[i] = weights[i] + step;
        network.set_weights(moved);
        const double up = network.loss_and_gradient(toy.examples(), unused);
        moved[i] = weights[i] - step;
        network.set_weights(moved);
        const double down = network.loss_and_gradient(toy.examples(), unused);
        const double slope = (up - down) / (2 * static_cast<double>(step));
        size += slope * slope;
        error += std::pow(slope - static_cast<double>(gradient[i]), 2);
      }
      // A rectifier has corners, so single entries may differ; the whole must agree.
      CHECK(std::sqrt(error / size) < (activation == Activation::kTanh ? 0.005 : 0.1));
    }
  }
}

TEST_CASE("the loss of an untrained network with zero weights is log(classes)") {
  const Toy toy = make_toy(20, 2);
  Network network(toy_shape(Activation::kTanh), 1);
  network.set_weights(std::vector<float>(network.weights().size()));
  CHECK(network.evaluate(toy.examples()).loss == doctest::Approx(std::log(4.0)));
}

TEST_CASE("every optimizer learns the toy") {
  const Toy train = make_toy(400, 3);
  const Toy test = make_toy(200, 4);
  for (const auto& [name, rate] : {std::pair<const char*, float>{"sgd", 0.1F}, {"momentum", 0.02F}, {"adam", 0.01F}}) {
    CAPTURE(name);
    Network network(toy_shape(Activation::kRelu), 5);
    Training training;
    training.optimizer = optimizer_named(name);
    training.batch = 30;
    for (int epoch = 0; epoch < 10; ++epoch) network.train_epoch(train.examples(), training, rate);
    const Score score = network.evaluate(test.examples());
    CHECK(score.accuracy > 0.97);
    CHECK(score.loss < 0.3);
  }
}

TEST_CASE("one step of SGD and momentum is what the formula says") {
  const Toy toy = make_toy(8, 6);
  Network reference(toy_shape(Activation::kTanh), 9);
  const std::vector<float> before = weights_of(reference);
  std::vector<float> gradient;
  reference.loss_and_gradient(toy.examples(), gradient);
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kMomentum}) {
    Network network(toy_shape(Activation::kTanh), 9);
    network.train_epoch(toy.examples(), {optimizer, 0, 0.1F, 8}, 0.5F);
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(network.weights()[i] == doctest::Approx((1 - 0.5F * 0.1F) * before[i] - 0.5F * gradient[i]).epsilon(1e-3));
    }
  }
  // Adam's first step is the rate times the gradient's sign.
  Network adam(toy_shape(Activation::kTanh), 9);
  adam.train_epoch(toy.examples(), {Optimizer::kAdam, 0, 0, 8}, 0.01F);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (std::abs(gradient[i]) < 1e-4F) continue;
    CHECK(adam.weights()[i] == doctest::Approx(before[i] - std::copysign(0.01F, gradient[i])).epsilon(1e-2));
  }
}

TEST_CASE("same seed, same network; weights go out and come back") {
  const Toy toy = make_toy(50, 7);
  Network one(toy_shape(Activation::kRelu), 1);
  Network two(toy_shape(Activation::kRelu), 1);
  Network other(toy_shape(Activation::kRelu), 2);
  one.train_epoch(toy.examples(), {}, 0.01F);
  two.train_epoch(toy.examples(), {}, 0.01F);
  CHECK(weights_of(one) == weights_of(two));
  CHECK(weights_of(one) != weights_of(other));
  other.set_weights(one.weights());
  CHECK(other.evaluate(toy.examples()).loss == one.evaluate(toy.examples()).loss);
  CHECK_THROWS_AS(other.set_weights(std::vector<float>(3)), std::invalid_argument);
}

TEST_CASE("names that are none are refused") {
  CHECK_THROWS_AS(activation_named("relux"), std::invalid_argument);
  CHECK_THROWS_AS(optimizer_named(""), std::invalid_argument);
}

TEST_CASE("both forms of the kernels compute the same") {
  if (fast_kernels() == nullptr) return;
  const Kernels& plain = plain_kernels();
  const Kernels& fast = *fast_kernels();
  const Toy toy = make_toy(5, 8);
  const std::vector<std::uint32_t> order{4, 2, 0, 1, 3};
  std::vector<float> a(16 * 5);
  std::vector<float> b(16 * 5);
  plain.gather(toy.images.data(), order.data(), 16, 5, a.data());
  fast.gather(toy.images.data(), order.data(), 16, 5, b.data());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-5));
  std::size_t correct_a = 0;
  std::size_t correct_b = 0;
  std::vector<float> delta_a(20);
  std::vector<float> delta_b(20);
  const float loss_a = plain.loss(a.data(), toy.labels.data(), order.data(), 4, 5, delta_a.data(), &correct_a);
  const float loss_b = fast.loss(a.data(), toy.labels.data(), order.data(), 4, 5, delta_b.data(), &correct_b);
  CHECK(loss_a == doctest::Approx(loss_b).epsilon(1e-5));
  CHECK(correct_a == correct_b);
  for (std::size_t i = 0; i < 20; ++i) CHECK(delta_a[i] == doctest::Approx(delta_b[i]).epsilon(1e-4));
}
