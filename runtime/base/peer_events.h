// What the engine of a process tells its parts about other processes and nodes.
#pragma once

#include <cstdint>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/peer.h"

namespace mobula {

// Stages that a process without a link goes through; later ones imply the earlier.
enum class PeerTrouble : std::uint8_t {
  kBroken = 0,       // the link is gone: what was sent may be lost
  kSilent = 1,       // and for 2 s nobody could say that it lives
  kUnreachable = 2,  // and for 10 s no link could be made
  kGone = 3,         // it has ended (its node says so), or could not be reached for 30 s
};
struct PeerTroubled {
  Peer peer;
  PeerTrouble stage = PeerTrouble::kBroken;
  ErrorInfo why;
};
// It lives after all, or has a link again: repeat what may be lost.
struct PeerUsable {
  Peer peer;
};
// A node was declared dead or has left, with all its processes.
struct NodeGone {
  NodeId node;
};

}  // namespace mobula
