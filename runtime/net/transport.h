// Transport: the bytes under a link, plain or encrypted. Two implementations: PlainTransport here, TlsSession in tls.h.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/net/fd.h"
#include "runtime/net/keys.h"

namespace mobula::net {

// What one non-blocking read or write came to.
struct IoResult {
  enum class State { kDone, kWouldBlock, kEnd, kError };
  State state = State::kDone;
  std::size_t size = 0;  // kDone: bytes moved, more than 0
  std::string error;     // kError: what happened
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int descriptor() const = 0;
  // Never block. One thread at a time reads and one at a time writes; the two may overlap.
  virtual IoResult read(std::span<std::byte> into, std::vector<Fd>& descriptors) = 0;
  // `descriptors` travel with the first byte; empty unless carries_descriptors().
  virtual IoResult write(std::span<const iovec> parts, std::span<const Fd> descriptors) = 0;
  // Bytes that read() can return though the socket is not readable.
  virtual bool has_buffered() const = 0;
  virtual bool carries_descriptors() const = 0;
  // Says goodbye where the protocol has a way to; before the socket is closed.
  virtual void shutdown() = 0;
  // Who is at the other end, where that was proven.
  virtual std::optional<Identity> peer_identity() const { return std::nullopt; }
};

// A connected stream socket as it is; it must be non-blocking. Descriptors travel when it is a Unix socket.
std::unique_ptr<Transport> make_plain_transport(Fd socket);

}  // namespace mobula::net
