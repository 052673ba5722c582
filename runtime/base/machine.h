// The parts of events and actions that all machines share. See "Machines" in ARCHITECTURE.md.
#pragma once

#include <cstdint>

#include "runtime/base/protocol/message.h"
#include "runtime/base/time.h"

namespace mobula {

// ---- events ----
struct Received {
  Peer from;
  Message message;
};
// The link to `peer` stands (again). `hello` is what it said of itself.
struct PeerJoined {
  Peer peer;
  Hello hello;
};
// The link to `peer` broke or could not be made.
struct PeerLost {
  Peer peer;
  ErrorInfo why;
};
struct Tick {};

// ---- actions ----
// Goes out in order per peer. `after`: the write that must be durable first (0: none).
struct Send {
  Peer to;
  Message message;
  std::uint64_t after = 0;
};

}  // namespace mobula
