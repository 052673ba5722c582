// Drives a TLS handshake by readiness until it is done, fails or runs out of time. Internal to this layer; connector
// and acceptor share it. Touched in handlers only.
#pragma once

#include <functional>
#include <memory>

#include "runtime/base/time.h"
#include "runtime/net/loop.h"
#include "runtime/net/tls.h"

namespace mobula::net {

enum class HandshakeEnd { kDone, kFailed, kTimeout };

class Handshake {
 public:
  using Done = std::function<void(std::unique_ptr<TlsSession>, HandshakeEnd)>;

  // `done` runs once, from a later handler or from within begin().
  static std::shared_ptr<Handshake> begin(Loop& loop, std::unique_ptr<TlsSession> session, Instant deadline, Done done);
  virtual ~Handshake() = default;
  // `done` will not run; the connection is dropped.
  virtual void cancel() = 0;
};

}  // namespace mobula::net
