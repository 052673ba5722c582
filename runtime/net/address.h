// HOST:PORT as text, and which of this machine's addresses reaches a given host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace mobula::net {

struct HostPort {
  std::string host;  // a name, IPv4 or IPv6 address without brackets (a zone as in fe80::1%eth0 is kept)
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "host:1234", "10.0.0.1:1234", "[::1]:1234". The error says what is wrong and shows the form.
Result<HostPort> parse_host_port(std::string_view text);
std::string to_string(const HostPort& address);  // brackets around IPv6

struct PortRange {
  std::uint16_t first = 0;  // 0 and 0: chosen by the kernel
  std::uint16_t last = 0;
};
// "A-B" or "P".
Result<PortRange> parse_port_range(std::string_view text);

bool is_ip_address(std::string_view host);
// 127.0.0.0/8, ::1, "localhost".
bool is_loopback(std::string_view host);
// The local IP address from which `to` is reached. Resolves names, so it may block; sends nothing.
Result<std::string> local_address_towards(const HostPort& to);

}  // namespace mobula::net
