#include "runtime/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <memory>

#include "runtime/net/fd.h"
#include "runtime/net/socket.h"

namespace mobula::net {
namespace {

bool parse_port(std::string_view text, std::uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

ErrorInfo bad_address(std::string_view text, std::string_view why) {
  return make_error(ErrorKind::kInvalid, "\"" + std::string(text) + "\" is no address: " + std::string(why) +
                                             ". Write HOST:PORT, for example 10.0.0.1:6380, head.example.org:6380 or "
                                             "[fd00::1]:6380");
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  HostPort address;
  std::string_view host;
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return bad_address(text, "the bracket is not closed");
    host = text.substr(1, close - 1);
    if (close + 1 >= text.size() || text[close + 1] != ':') return bad_address(text, "the port is missing");
    port = text.substr(close + 2);
    if (host.find(':') == std::string_view::npos) return bad_address(text, "brackets are for IPv6 addresses");
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad_address(text, "the port is missing");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos) return bad_address(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) return bad_address(text, "the host is missing");
  for (const char c : host) {
    if (c <= ' ' || c == '/' || c == '|' || c == 127)
      return bad_address(text, "the host has a character it cannot have");
  }
  if (!parse_port(port, address.port) || address.port == 0) return bad_address(text, "the port is not in 1..65535");
  address.host = host;
  return address;
}

std::string to_string(const HostPort& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return (brackets ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<PortRange> parse_port_range(std::string_view text) {
  PortRange range;
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  if (!parse_port(first, range.first) || !parse_port(last, range.last) || range.first > range.last ||
      (range.first == 0 && range.last != 0)) {
    return make_error(ErrorKind::kInvalid, "\"" + std::string(text) +
                                               "\" is no port range. Write A-B with 1 <= A <= B <= 65535, for example "
                                               "20000-20100");
  }
  return range;
}

bool is_ip_address(std::string_view host) {
  const std::string text(host.substr(0, host.find('%')));
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 || ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool is_loopback(std::string_view host) {
  const std::string text(host);
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  if (::inet_pton(AF_INET6, text.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return text == "localhost";
}

Result<std::string> local_address_towards(const HostPort& to) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found);
  const Addresses list(found);
  if (error != 0) {
    return make_error(ErrorKind::kUnreachable,
                      "cannot resolve the host name " + to.host + ": " + ::gai_strerror(error));
  }
  int last_error = 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    // Connecting a datagram socket only picks the route.
    const Fd socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    if (!socket || ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
      last_error = errno;
      continue;
    }
    char host[NI_MAXHOST];
    if (::getnameinfo(reinterpret_cast<const sockaddr*>(&local), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) ==
        0) {
      return std::string(host);
    }
  }
  return make_error(ErrorKind::kUnreachable, "no address of this machine reaches " + to_string(to) + ": " +
                                                 errno_text(last_error) + ". Name one with --node-ip-address");
}

}  // namespace mobula::net
