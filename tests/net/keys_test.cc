#include "runtime/net/keys.h"

#include <doctest/doctest.h>

#include <string>

namespace mobula::net {
namespace {

Key key_of(std::uint8_t fill) {
  std::array<std::byte, Key::kSize> bytes;
  bytes.fill(static_cast<std::byte>(fill));
  return Key(std::span<const std::byte, Key::kSize>(bytes));
}

TEST_CASE("keys as text") {
  const Key key = Key::random();
  CHECK_FALSE(key == Key::random());
  CHECK(Key::from_hex(key.reveal_hex()).value() == key);
  CHECK(key_of(0xab).reveal_hex().substr(0, 6) == "ababab");
  CHECK_FALSE(Key::from_hex("").ok());
  CHECK_FALSE(Key::from_hex(std::string(63, 'a')).ok());
  const auto bad = Key::from_hex(std::string(63, 'a') + "g");
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().message.find("aaaa") == std::string::npos);
}

// Computed with another implementation of RFC 5869: a change here locks out every file of `mobula key`.
TEST_CASE("derivation is fixed for good") {
  CHECK(derive_key(key_of(1), "label").reveal_hex() ==
        "50bec1f13cd963dbebdec9a0b641863cdf90ebf477d4480c6154b06598d95910");
  CHECK(identity_key(key_of(1), {1, Role::kNode, {}, 0x77}).reveal_hex() ==
        "830cd10be54ab108bee1e50a14cedc1dc27887fe508ebb8be77169b50f5d4bb9");
  CHECK(process_link_key(key_of(1), ProcessId{0xabc}).reveal_hex() ==
        "ec1d4aa814b594c6a469cd1860a82be8d9257c0fc1df4ba98b4316d6e6f158ec");
}

TEST_CASE("every identity has a key of its own") {
  const Key cluster = Key::random();
  const Identity base{1, Role::kNode, {}, 7};
  for (const Identity& other :
       {Identity{2, Role::kNode, {}, 7}, Identity{1, Role::kClient, {}, 7}, Identity{1, Role::kNode, JobId{1}, 7},
        Identity{1, Role::kNode, {}, 8}, Identity{1, Role::kWorker, JobId{1}, 7}}) {
    CHECK_FALSE(identity_key(cluster, base) == identity_key(cluster, other));
  }
  CHECK_FALSE(process_link_key(cluster, ProcessId{1}) == process_link_key(cluster, ProcessId{2}));
}

TEST_CASE("identities as text") {
  const Identity identity{3, Role::kWorker, JobId{0xabc}, 0x1234};
  CHECK(to_string(identity) == "1|3|worker|0000000000000abc|0000000000001234");
  CHECK(parse_identity(to_string(identity)).value() == identity);
  for (const char* bad :
       {"", "1", "||||", "2|3|worker|0000000000000abc|0000000000001234",
        "1|03|worker|0000000000000abc|0000000000001234", "1|3|boss|0000000000000abc|0000000000001234",
        "1|3|worker|abc|1234", "1|3|worker|0000000000000ABC|0000000000001234",
        "1|3|worker|0000000000000abc|0000000000001234|", "1|-3|worker|0000000000000abc|0000000000001234",
        "1|4294967296|worker|0000000000000abc|0000000000001234"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_identity(bad).ok());
  }
}

TEST_CASE("look-ups refuse what is not theirs") {
  const Key cluster = Key::random();
  const auto nodes_only = cluster_key_lookup(cluster, 1, {Role::kNode});
  CHECK(nodes_only({1, Role::kNode, {}, 7}).ok());
  CHECK_FALSE(nodes_only({1, Role::kDriver, {}, 7}).ok());
  CHECK_FALSE(nodes_only({2, Role::kNode, {}, 7}).ok());
  const Key link_key = process_link_key(cluster, ProcessId{3});
  const auto process = link_key_lookup(link_key, 1);
  const Leaf leaf = make_link_leaf(link_key, 1, JobId{5}, ProcessId{7});
  CHECK(process(leaf.identity).value() == leaf.key);
  CHECK_FALSE(process({1, Role::kWorker, JobId{6}, 7}).value() == leaf.key);
  CHECK_FALSE(process({1, Role::kWorker, JobId{5}, 8}).value() == leaf.key);
  CHECK_FALSE(process({2, Role::kWorker, JobId{5}, 7}).ok());
  CHECK_FALSE(process({1, Role::kNode, JobId{5}, 7}).ok());
}

}  // namespace
}  // namespace mobula::net
