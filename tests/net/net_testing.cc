#include "tests/net/net_testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/time.h>

namespace mobula::net::testing {

Fd dial(const HostPort& to) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(to.port);
  ::inet_pton(AF_INET, to.host.c_str(), &address.sin_addr);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return socket;
}

bool read_to_end(const Fd& socket, std::string& text, Duration at_most) {
  timeval limit{};
  limit.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(at_most).count();
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (size == 0) return true;
    if (size < 0) return errno == ECONNRESET;
    text.append(buffer, static_cast<std::size_t>(size));
  }
}

}  // namespace mobula::net::testing
