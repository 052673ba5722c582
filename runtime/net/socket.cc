#include "runtime/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cstring>
#include <system_error>

#include "runtime/net/address.h"

namespace mobula::net {
namespace {

constexpr int kUserTimeoutMs = 20'000;  // unacknowledged data for so long ends the connection
constexpr int kKeepIdleS = 10;
constexpr int kKeepIntervalS = 5;
constexpr int kKeepCount = 3;

void set_option(int descriptor, int level, int name, int value) {
  // A socket kind without the option works without it.
  static_cast<void>(::setsockopt(descriptor, level, name, &value, sizeof value));
}

}  // namespace

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

Status set_nonblocking(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) {
    return make_error(ErrorKind::kInvalid, "cannot make a descriptor non-blocking: " + errno_text(errno));
  }
  return {};
}

void tune_tcp_socket(int descriptor) {
  static_cast<void>(set_nonblocking(descriptor).ok());
  static_cast<void>(::fcntl(descriptor, F_SETFD, FD_CLOEXEC));
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleS);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalS);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
}

std::string address_text(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNIX) return "unix";
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const socklen_t size = address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  sockaddr_storage copy = address;
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&copy), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string_view text = host;
  return text.find(':') == std::string_view::npos ? std::string(text) + ":" + port
                                                  : "[" + std::string(text) + "]:" + port;
}

std::string peer_address_text(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return address_text(address);
}

std::uint16_t local_port(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

}  // namespace mobula::net
