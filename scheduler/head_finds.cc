// Nodes for leases that do not fit at home. An answer is an offer: the node may refuse it, and then the asker asks
// again.
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
  } else if (!choice.feasible && settled() && !views_.empty()) {
    answer.never = true;
    answer.reasons = explain(views_, message.request, true);
    finds_.erase(message.lease);
  } else if (WaitingFind* waiting = finds_.find(message.lease)) {
    waiting->find = message;
    waiting->asker = asker;
    waiting->asked = now_;
    if (now_ >= waiting->since + config_.find_show) show_to_a_node(message, asker);
  } else {
    finds_.put(message.lease, {message, asker, now_, now_});
  }
  send_fast(from, std::move(answer));
}

// A node that could serve it if others held less there: it calls leases back by fair share. One node each time it is
// asked, in turn, so that many waiting leases meet many nodes.
void Head::show_to_a_node(const FindNode& find, NodeId asker) {
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const NodeView& view = views_[static_cast<std::size_t>(turn_ + i) % views_.size()];
    if (view.node == asker || !feasible(view, find.request)) continue;
    turn_ += i + 1;
    send_fast(Peer::of(view.node), find);
    return;
  }
}

// Something became free on `node`: those that wait longest hear of it first, without asking again.
void Head::serve_finds(NodeId node) {
  constexpr std::size_t kMaxLooked = 64;
  NodeView& view = *view_of(node);
  std::vector<LeaseId> served;
  std::size_t looked = 0;
  finds_.for_each([&](LeaseId lease, const WaitingFind& waiting) {
    if (looked >= kMaxLooked || waiting.asker == node || now_ >= waiting.asked + config_.find_stale) return;
    ++looked;
    const auto& refused = waiting.find.refused;
    if (std::find(refused.begin(), refused.end(), node) != refused.end()) return;
    if (!available(view, waiting.find.request)) return;
    allocate(view.free, waiting.find.request);
    NodeFound answer;
    answer.lease = lease;
    answer.node = node;
    send_fast(Peer::of(waiting.asker), std::move(answer));
    served.push_back(lease);
  });
  for (const LeaseId lease : served) finds_.erase(lease);
}

void Head::sweep_finds() {
  std::vector<LeaseId> stale;
  finds_.for_each([&](LeaseId lease, const WaitingFind& waiting) {
    if (now_ >= waiting.asked + config_.find_stale) stale.push_back(lease);
  });
  for (const LeaseId lease : stale) finds_.erase(lease);
}

}  // namespace mobula::scheduler
