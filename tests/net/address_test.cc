#include "runtime/net/address.h"

#include <doctest/doctest.h>

#include <string>

#include "runtime/net/preamble.h"

namespace mobula::net {
namespace {

TEST_CASE("addresses as text") {
  for (const char* good : {"10.0.0.1:6380", "head.example.org:1", "[::1]:65535", "[fd00::1]:80", "localhost:99"}) {
    CAPTURE(good);
    const auto parsed = parse_host_port(good);
    REQUIRE(parsed.ok());
    CHECK(to_string(*parsed) == good);
  }
  CHECK(parse_host_port("[::1]:80")->host == "::1");
  for (const char* bad : {"", ":", "host", "host:", ":80", "host:0", "host:65536", "host:80x", "::1:80", "[::1:80",
                          "[::1]80", "[::1]", "[host]:80", "ho st:80", "host:-1", "host: 80"}) {
    CAPTURE(bad);
    const auto parsed = parse_host_port(bad);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().message.find("HOST:PORT") != std::string::npos);
  }
}

TEST_CASE("port ranges") {
  CHECK(parse_port_range("20000-20100")->last == 20100);
  CHECK(parse_port_range("80")->first == 80);
  CHECK(parse_port_range("0")->last == 0);
  for (const char* bad : {"", "-", "5-", "-5", "9-8", "0-5", "1-70000", "a-b"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_port_range(bad).ok());
  }
}

TEST_CASE("loopback, and the way towards it") {
  CHECK(is_loopback("127.0.0.1"));
  CHECK(is_loopback("127.9.9.9"));
  CHECK(is_loopback("::1"));
  CHECK(is_loopback("localhost"));
  CHECK_FALSE(is_loopback("10.0.0.1"));
  CHECK_FALSE(is_loopback("fd00::1"));
  CHECK(is_ip_address("fe80::1%eth0"));
  CHECK_FALSE(is_ip_address("head"));
  CHECK(local_address_towards({"127.0.0.1", 80}).value() == "127.0.0.1");
  CHECK_FALSE(local_address_towards({"no-such-host.invalid", 80}).ok());
}

TEST_CASE("preambles") {
  const Preamble preamble{kPreambleVersion, ConnectionKind::kTransfer, 3, 0x1122334455667788};
  const auto bytes = encode_preamble(preamble);
  CHECK(decode_preamble(bytes).value() == preamble);
  CHECK(std::to_integer<int>(bytes[16]) == 0x88);
  for (std::size_t i = 0; i < 8; ++i) {
    auto broken = bytes;
    broken[i] ^= std::byte{0x20};
    CHECK_FALSE(decode_preamble(broken).ok());
    CHECK(preamble_is_hopeless(std::span(broken).first(i + 1)));
    CHECK_FALSE(preamble_is_hopeless(std::span(bytes).first(i + 1)));
  }
}

}  // namespace
}  // namespace mobula::net
