// Peers as people read them in logs: "head", "node 00c0ffee...", "process ...", "client 7".
#include "runtime/base/protocol/peer.h"

namespace mobula {

std::string to_string(const Peer& peer) {
  switch (peer.kind) {
    case PeerKind::kNone: return "none";
    case PeerKind::kHead: return "head";
    case PeerKind::kNode: return "node " + to_string_hex(peer.id);
    case PeerKind::kProcess: return "process " + to_string_hex(peer.id);
    case PeerKind::kClient: return "client " + std::to_string(peer.id);
  }
  return "peer of unknown kind " + std::to_string(static_cast<unsigned>(peer.kind));
}

}  // namespace mobula
