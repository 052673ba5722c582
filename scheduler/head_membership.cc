// Nodes that come, beat, leave and die.
#include "scheduler/head.h"

#include <algorithm>

#include "runtime/base/protocol/submission.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

bool before(const NodeView& view, NodeId node) {
  return view.node < node;
}

}  // namespace

NodeView* Head::view_of(NodeId node) {
  const auto at = std::lower_bound(views_.begin(), views_.end(), node, before);
  return at != views_.end() && at->node == node ? &*at : nullptr;
}

void Head::put_view(const RegisterNode& message) {
  const NodeDescription& description = message.description;
  NodeView* view = view_of(description.node);
  if (view == nullptr) {
    const auto at = std::lower_bound(views_.begin(), views_.end(), description.node, before);
    view = &*views_.insert(at, NodeView{description.node, {}, {}, {}, 0});
    view->actors = static_cast<std::uint32_t>(nodes_.at(description.node).actors.size());
  }
  view->total = description.total;
  view->free = message.free;
  view->labels = description.labels;
}

bool Head::settled() const {
  return !gathering() && now_ >= membership_changed_ + config_.settle;
}

void Head::broadcast(const Message& message, NodeId except) {
  for (const auto& view : views_) {
    if (view.node != except) send(Peer::of(view.node), message);
  }
}

void Head::refuse_node(const Peer& to) {
  NodeRegistered refusal;
  refusal.epoch = epoch_;
  refusal.error =
      make_error(ErrorKind::kUnreachable, "this node was silent for long and has been declared dead; it starts anew");
  send(to, std::move(refusal));
}

void Head::receive(const Peer& from, const RegisterNode& message) {
  const NodeId node = message.description.node;
  if (from != Peer::of(node)) return;
  if (dead_nodes_.contains(node)) {
    refuse_node(from);
    return;
  }
  if (!nodes_.contains(node) && nodes_.size() >= kMaxNodes) {
    NodeRegistered refusal;
    refusal.error =
        make_error(ErrorKind::kOverloaded, "the cluster has " + std::to_string(kMaxNodes) + " nodes already");
    send(from, std::move(refusal));
    return;
  }
  const bool known = nodes_.contains(node);
  NodeEntry& entry = nodes_[node];
  const bool back = known && !entry.returned;
  const bool changed = !known || back || entry.description != message.description;
  if (back) --not_returned_;
  entry.description = message.description;
  entry.returned = true;
  entry.link_up = true;
  entry.dead_at = now_ + config_.dead_after;
  put_view(message);
  if (changed) {
    membership_changed_ = now_;
    persist(Record{NodeRecord{message.description, false}}, false);
    NodesChanged news;
    news.added.push_back(message.description);
    broadcast(news, node);
  }
  NodeRegistered answer;
  answer.epoch = epoch_;
  for (const auto& [other, known_node] : nodes_) {
    // Also those of the store that are not back yet: they are not dead.
    if (other != node) answer.nodes.push_back(known_node.description);
  }
  send(from, std::move(answer));
  for (const JobId job : message.jobs) {
    const auto at = jobs_.find(job);
    if (at != jobs_.end() && at->second.ended) send(from, EndJob{job});
  }
  reconcile(message);
  retry_pending_ = true;
}

void Head::receive(const Peer& from, const Heartbeat& message) {
  const NodeId node{from.id};
  if (from.kind != PeerKind::kNode) return;
  if (dead_nodes_.contains(node)) {
    refuse_node(from);
    return;
  }
  const auto at = nodes_.find(node);
  if (at == nodes_.end() || !at->second.returned) return;  // it registers first
  ++counters_.heartbeats;
  NodeEntry& entry = at->second;
  entry.dead_at = now_ + config_.dead_after;
  entry.last = message;
  NodeView& view = *view_of(node);
  if (view.free != message.free) {
    view.free = message.free;
    retry_pending_ = true;
    serve_finds(node);
  }
  send_fast(from, HeartbeatAck{message.sequence, epoch_});
}

void Head::receive(const Peer& from, const NodeLeaves&) {
  if (from.kind == PeerKind::kNode) node_gone(NodeId{from.id}, "it left the cluster");
}

void Head::receive(const Peer& from, const ProcessGone& message) {
  if (from.kind != PeerKind::kNode) return;
  gone_processes_.put(message.process, true);
  drop_watcher(Peer::of(message.process, NodeId{from.id}));
  end_owned(message.process, "its creator is gone");
}

void Head::node_gone(NodeId node, const std::string& why) {
  const auto at = nodes_.find(node);
  if (at == nodes_.end()) return;
  ++counters_.nodes_died;
  if (!at->second.returned) --not_returned_;
  const NodeDescription description = at->second.description;
  const std::set<ActorId> lost = at->second.actors;
  nodes_.erase(at);
  if (NodeView* view = view_of(node)) views_.erase(views_.begin() + (view - views_.data()));
  membership_changed_ = now_;
  persist(Record{NodeRecord{description, true}}, false);
  if (const auto forgotten = dead_nodes_.put(node, why)) {
    NodeDescription old;
    old.node = *forgotten;
    const Record record = NodeRecord{old, true};
    persist(EraseRecord{static_cast<std::uint8_t>(record.index()), key_of(record)}, false);
  }
  NodesChanged news;
  news.removed.push_back(node);
  broadcast(news, node);
  std::erase_if(stopping_, [node](const auto& entry) { return entry.second.node == node; });

  ErrorInfo error = make_error(ErrorKind::kWorkerDied,
                               "its node " + to_string(node) + " (" + description.host_name + ") is gone: " + why);
  error.node = node;
  for (const ActorId id : lost) {
    if (const auto actor = actors_.find(id); actor != actors_.end()) actor_failed(actor->second, error);
  }
  std::vector<JobId> ended;
  for (const auto& [id, job] : jobs_) {
    if (!job.ended && job.job.driver.node == node) ended.push_back(id);
  }
  for (const JobId id : ended) end_job(id, "the node of its driver is gone");
  std::vector<ProcessId> owners;
  for (const auto& [owner, actors] : owned_) {
    if (actors_.at(*actors.begin()).spec.owner.node == node) owners.push_back(owner);
  }
  for (const ProcessId owner : owners) {
    gone_processes_.put(owner, true);
    end_owned(owner, "the node of its creator is gone");
  }
  std::vector<Peer> watchers;
  for (const auto& [peer, watched] : watching_) {
    if (peer.kind == PeerKind::kProcess && peer.node == node) watchers.push_back(peer);
  }
  for (const auto& peer : watchers) drop_watcher(peer);
  for (auto& [id, entry] : submissions_) {
    if (is_active(entry.info) && entry.info.node == node) {
      end_submission(entry, SubmissionPhase::kFailed, -1, "the node it ran on is gone: " + why);
    }
  }
  query_node_gone(node);
  retry_pending_ = true;
}

void Head::sweep_nodes() {
  std::vector<NodeId> dead;
  for (const auto& [id, node] : nodes_) {
    if (node.dead_at <= now_) dead.push_back(id);
  }
  for (const NodeId id : dead) {
    const bool returned = nodes_.at(id).returned;
    node_gone(id, returned ? "no heartbeat in time" : "it did not come back after the head's restart");
  }
}

}  // namespace mobula::scheduler
