// Nodes for leases that do not fit at home. An answer is an offer: the node may refuse it, and then the asker asks again.
#include "scheduler/head.h"

#include <algorithm>

namespace mobula::scheduler {

void Head::receive(const Peer& from, const FindNode& message) {
  if (from.kind != PeerKind::kNode) return;
  ++counters_.finds;
  const NodeId asker{from.id};
  std::vector<NodeId> exclude = message.refused;
  exclude.push_back(asker);
  const Choice choice = choose(views_, Wish{message.request, message.locality, {}, exclude, false}, turn_++);
  NodeFound answer;
  answer.lease = message.lease;
  answer.node = choice.node;
  if (choice.node) {
    // Promised until its next heartbeat says otherwise, so that a burst of questions is spread.
    allocate(view_of(choice.node)->free, message.request);
    finds_.erase(message.lease);
  } else {
    finds_.put(message.lease, message);
    if (!choice.feasible && settled() && !views_.empty()) {
      answer.never = true;
      answer.reasons = explain(views_, message.request, true);
      finds_.erase(message.lease);
    }
  }
  send_fast(from, std::move(answer));
}

}  // namespace mobula::scheduler
