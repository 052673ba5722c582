// Random values of a type that nests everything, there and back; failures name their seed.
#include <deque>
#include <map>
#include <random>
#include <string>
#include <unordered_map>

#include <doctest/doctest.h>

#include <mobula/mobula.h>

#include "tests/include/round_trip.h"

namespace {

using Random = std::mt19937_64;

struct Leaf {
  std::int16_t small = 0;
  double number = 0;
  bool flag = false;
  std::string text;
  friend bool operator==(const Leaf&, const Leaf&) = default;
};

struct Node {
  Leaf leaf;
  std::vector<Node> children;
  std::map<std::string, std::optional<Leaf>> table;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> lists;
  std::variant<std::monostate, std::string, std::vector<bool>, std::tuple<int, Leaf>> choice;
  std::deque<std::array<float, 3>> points;
  mobula::Array<std::int32_t> array;
  friend bool operator==(const Node&, const Node&) = default;
};

std::size_t below(Random& random, std::size_t limit) {
  return random() % limit;
}

std::string text(Random& random) {
  return std::string(below(random, 80), static_cast<char>('a' + below(random, 26)));
}

Leaf leaf(Random& random) {
  return {static_cast<std::int16_t>(random()), static_cast<double>(random()), random() % 2 == 0, text(random)};
}

Node node(Random& random, int depth) {
  Node value;
  value.leaf = leaf(random);
  if (depth > 0) {
    for (std::size_t i = below(random, 4); i > 0; --i) value.children.push_back(node(random, depth - 1));
  }
  for (std::size_t i = below(random, 5); i > 0; --i) {
    value.table[text(random)] = random() % 2 == 0 ? std::optional(leaf(random)) : std::nullopt;
  }
  for (std::size_t i = below(random, 5); i > 0; --i) {
    value.lists[static_cast<std::uint32_t>(random())].assign(below(random, 40), static_cast<std::uint32_t>(random()));
  }
  switch (below(random, 4)) {
    case 1: value.choice = text(random); break;
    case 2: value.choice = std::vector<bool>(below(random, 70), true); break;
    case 3: value.choice = std::tuple(static_cast<int>(random()), leaf(random)); break;
    default: break;
  }
  value.points.resize(below(random, 20), {1, 2, 3});
  value.array = mobula::Array<std::int32_t>({below(random, 4), 1 + below(random, 5)});
  for (std::int32_t& element : value.array.mutable_span()) element = static_cast<std::int32_t>(random());
  return value;
}

}  // namespace

TEST_CASE("random values come back equal, at any alignment") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Node value = node(random, 3);
    CHECK(test::round_trip(value, below(random, 2) == 0 ? 0 : below(random, 64)) == value);
  }
}

TEST_CASE("random truncations and changes of random values are survived") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    mobula::detail::OutPayload sent = mobula::detail::encode_payload(node(random, 2));
    for (int i = 0; i < 20; ++i) {
      mobula::detail::OutPayload damaged{sent.bytes, {}};
      if (random() % 3 == 0) damaged.bytes.resize(below(random, damaged.bytes.size()));
      for (std::size_t change = below(random, 6); change > 0 && damaged.bytes.size() > 16; --change) {
        damaged.bytes[16 + below(random, damaged.bytes.size() - 16)] = static_cast<std::byte>(random());
      }
      const auto payload = test::arrived(std::move(damaged));
      Node value;
      try {
        mobula::detail::decode_payload(payload, value);
      } catch (const mobula::Error&) {}
    }
  }
}
