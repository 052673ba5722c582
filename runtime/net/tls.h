// TLS 1.3 with an external pre-shared key, and nothing else: no certificate, no ticket, no early data, one suite.
//
// Both ends check after the handshake that the key was really used. Without that a rogue server with any certificate
// would be accepted (tried), since TLS falls back to certificates when a server ignores the key a client offers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/result.h"
#include "runtime/net/fd.h"
#include "runtime/net/keys.h"
#include "runtime/net/preamble.h"
#include "runtime/net/transport.h"

namespace mobula::net {

// What may be read from the other end before it is authenticated.
inline constexpr std::size_t kHandshakeBytesMax = 4096;

// One end of a TLS connection over a non-blocking socket. Drive handshake() by readiness until it is done; then it is
// a Transport.
class TlsSession : public Transport {
 public:
  enum class Progress { kDone, kWantsRead, kWantsWrite, kFailed };

  // `preamble` goes out in front of the hello, in the same segment.
  static std::unique_ptr<TlsSession> client(Fd socket, Leaf leaf, const Preamble& preamble);
  static std::unique_ptr<TlsSession> server(Fd socket, KeyLookup lookup);

  virtual Progress handshake() = 0;
  // After kFailed: kUnauthenticated, or kUnreachable when the connection broke.
  virtual ErrorInfo failure() const = 0;
  // Client, after kFailed: what the acceptor said in the clear, if anything.
  virtual std::optional<Preamble> refusal() const = 0;
  // Client, after kFailed: the other end closed before it said anything, as one does that is too busy.
  virtual bool closed_unheard() const = 0;
};

}  // namespace mobula::net
