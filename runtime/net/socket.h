// Small helpers over sockets that several files of this layer need.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/net/fd.h"

namespace mobula::net {

// "Connection refused (ECONNREFUSED)"-like text of an errno; thread-safe.
std::string errno_text(int error);

Status set_nonblocking(int descriptor);
// TCP_NODELAY, TCP_USER_TIMEOUT, keepalive, CLOEXEC, non-blocking. What cannot be set on this socket kind is skipped.
void tune_tcp_socket(int descriptor);
struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;
// "10.0.0.1:1234", "[::1]:80", or "" when there is none.
std::string address_text(const sockaddr_storage& address);
std::string peer_address_text(int descriptor);
std::uint16_t local_port(int descriptor);

}  // namespace mobula::net
