// The node and its head: registration, heartbeats, the directory of other nodes, and life without a head.
#include "scheduler/node.h"

#include <algorithm>

#include "runtime/base/result.h"

namespace mobula::scheduler {

void Node::head_joined() {
  head_up_ = true;
  registered_ = false;
  // The ends of actors first: to the head, what RegisterNode does not list has vanished.
  for (auto& [id, actor] : actors_) {
    if (actor.phase == HostPhase::kEnded) report(actor);
  }
  register_now();
}

void Node::head_lost() {
  head_up_ = false;
  registered_ = false;
  for (auto& [id, lease] : leases_) lease.asking = false;
  finds_out_ = 0;
}

void Node::register_now() {
  RegisterNode message;
  message.description = config_.self;
  message.free = free_;
  for (const auto& [id, actor] : actors_) {
    const bool alive = actor.phase == HostPhase::kAlive;
    if (!alive && actor.phase != HostPhase::kStarting && actor.phase != HostPhase::kWaiting) continue;
    ActorInfo info;
    info.actor = id;
    info.job = actor.spec.constructor.job;
    info.phase = alive ? ActorPhase::kAlive : ActorPhase::kPending;
    info.incarnation = actor.incarnation;
    info.address = actor.address;
    info.max_task_retries = actor.spec.max_task_retries;
    info.name = actor.spec.name;
    info.display = actor.spec.constructor.name;
    info.class_fingerprint = actor.spec.class_fingerprint;
    message.actors.push_back(std::move(info));
  }
  std::set<JobId> jobs;
  for (const auto& [id, job] : jobs_) jobs.insert(id);
  for (const auto& [id, worker] : workers_) jobs.insert(worker.pool.job);
  message.jobs.assign(jobs.begin(), jobs.end());
  reported_free_ = free_;
  next_register_ = now_ + config_.register_repeat;
  send(Peer::head(), std::move(message));
}

void Node::receive(const Peer& from, const NodeRegistered& message) {
  if (from.kind != PeerKind::kHead || !head_up_) return;
  if (message.error) {
    end_everything("the head has declared this node dead");
    act(StopNode{*message.error, true});
    return;
  }
  const bool first = !registered_;
  registered_ = true;
  ended_all_ = false;
  epoch_ = std::max(epoch_, message.epoch);
  last_round_trip_ = now_;
  want(now_ + config_.head_grace);
  // Who is not listed may be on its way back to a head that has lost its tail: dead only after a while.
  for (const auto& [node, description] : directory_) {
    const bool listed = std::any_of(message.nodes.begin(), message.nodes.end(),
                                    [id = node](const NodeDescription& other) { return other.node == id; });
    if (!listed) unlisted_.emplace(node, now_ + config_.unlisted_grace);
  }
  if (!unlisted_.empty()) want(now_ + config_.unlisted_grace);
  for (const auto& description : message.nodes) learn_node(description);
  if (!first) return;
  next_heartbeat_ = now_ + config_.heartbeat_interval;
  report_jobs();
  // Whoever died while the head was away.
  ended_processes_.for_each([this](ProcessId process, const ErrorInfo&) { send(Peer::head(), ProcessGone{process}); });
  ask_again_soon();
  dirty_ = true;
}

Duration Node::heartbeat_gap() const {
  // Prompt in a small cluster; the head of a large one is spared.
  return std::min(config_.heartbeat_interval, config_.heartbeat_gap * (1 + static_cast<int>(directory_.size() / 50)));
}

void Node::correct_head() {
  next_heartbeat_ = std::min(next_heartbeat_, last_heartbeat_ + heartbeat_gap());
}

void Node::maybe_heartbeat() {
  if (!head_up_) return;
  if (!registered_) {
    if (now_ >= next_register_) register_now();
    return;
  }
  if (free_ != reported_free_) correct_head();
  if (now_ >= next_heartbeat_) heartbeat();
}

void Node::heartbeat() {
  Heartbeat beat;
  beat.sequence = ++heartbeat_sequence_;
  beat.free = free_;
  beat.queued = queued_shapes();
  beat.workers = static_cast<std::uint32_t>(workers_.size());
  beat.store_used = sample_.store_used;
  beat.loop_lag_ns = sample_.loop_lag_ns;
  beat.load_permille = sample_.load_permille;
  sample_.loop_lag_ns = 0;
  reported_free_ = free_;
  last_heartbeat_ = now_;
  next_heartbeat_ = now_ + config_.heartbeat_interval;
  ++counters_.heartbeats;
  send(Peer::head(), std::move(beat));
}

std::vector<QueuedShape> Node::queued_shapes() const {
  std::map<ResourceRequest, std::uint32_t> counts;
  for (const auto& [shape, line] : queues_) {
    const auto count = static_cast<std::uint32_t>(line.size());
    if (const auto at = counts.find(shape.request); at != counts.end()) {
      at->second += count;
    } else if (counts.size() < kMaxQueuedShapes) {
      counts.emplace(shape.request, count);
    }
  }
  std::vector<QueuedShape> shapes;
  shapes.reserve(counts.size());
  for (const auto& [request, count] : counts) shapes.push_back({request, count});
  return shapes;
}

void Node::receive(const Peer& from, const HeartbeatAck& message) {
  if (from.kind != PeerKind::kHead || !registered_) return;
  epoch_ = std::max(epoch_, message.epoch);
  last_round_trip_ = now_;
}

void Node::receive(const Peer& from, const NodesChanged& message) {
  if (from.kind != PeerKind::kHead) return;
  for (const auto& description : message.added) learn_node(description);
  for (const NodeId node : message.removed) remove_node(node);
}

void Node::learn_node(const NodeDescription& description) {
  const NodeId node = description.node;
  if (node == config_.self.node || removed_nodes_.contains(node)) return;
  directory_[node] = description;
  unlisted_.erase(node);
  for (auto at = unresolved_.lower_bound({node, ProcessId{}}); at != unresolved_.end() && at->first.first == node;) {
    send(Peer::of(at->first.second, config_.self.node), NodeResolved{node, true, description.endpoint});
    at = unresolved_.erase(at);
  }
  if (!queues_.empty()) ask_again_soon();  // it may have room
}

void Node::remove_node(NodeId node) {
  if (node == config_.self.node) return;
  directory_.erase(node);
  unlisted_.erase(node);
  removed_nodes_.put(node, true);
  if (const auto away = away_.find(node); away != away_.end()) {
    const std::set<LeaseId> lost = away->second;
    for (const LeaseId id : lost) {
      ErrorInfo error = make_error(ErrorKind::kWorkerDied, "the node it ran on died or left the cluster");
      error.node = node;
      error.task = leases_.at(id).request.name;
      lose_lease(id, std::move(error));
    }
  }
  for (auto at = unresolved_.lower_bound({node, ProcessId{}}); at != unresolved_.end() && at->first.first == node;) {
    at = unresolved_.erase(at);
  }
  if (const auto watches = resolve_watches_.find(node); watches != resolve_watches_.end()) {
    for (const ProcessId process : watches->second) {
      send(Peer::of(process, config_.self.node), NodeResolved{node, false, {}});
    }
    resolve_watch_count_ -= watches->second.size();
    resolve_watches_.erase(watches);
  }
}

void Node::receive(const Peer& from, const ResolveNode& message) {
  const NodeId node = message.node;
  if (node == config_.self.node) {
    send(from, NodeResolved{node, true, config_.self.endpoint});
    return;
  }
  if (removed_nodes_.contains(node)) {
    send(from, NodeResolved{node, false, {}});
    return;
  }
  const auto at = directory_.find(node);
  if (from.kind == PeerKind::kProcess && resolve_watch_count_ < kMaxResolveWatches) {
    if (resolve_watches_[node].insert(from.process()).second) ++resolve_watch_count_;
  }
  if (at != directory_.end()) {
    send(from, NodeResolved{node, true, at->second.endpoint});
    return;
  }
  // The directory may be behind: a node that is new to us is not dead.
  const Instant deadline = now_ + config_.resolve_wait;
  unresolved_.emplace(std::pair{node, from.process()}, deadline);
  want(deadline);
}

// All workers end; what waits goes on waiting for better times.
void Node::end_everything(const std::string& why) {
  ended_all_ = true;
  std::vector<ProcessId> ids;
  for (const auto& [id, worker] : workers_) ids.push_back(id);
  for (const ProcessId id : ids) retire(id, why);
}

void Node::sweep_membership() {
  std::vector<NodeId> gone;
  for (const auto& [node, deadline] : unlisted_) {
    if (deadline <= now_) gone.push_back(node);
    if (deadline > now_) want(deadline);
  }
  for (const NodeId node : gone) remove_node(node);
  if (last_round_trip_ != Instant::never() && !ended_all_) {
    const Instant end = last_round_trip_ + config_.head_grace;
    if (now_ >= end) {
      end_everything("no word from the head for " +
                     std::to_string(std::chrono::duration_cast<std::chrono::seconds>(config_.head_grace).count()) +
                     " s");
    } else {
      want(end);
    }
  }
  for (auto at = unresolved_.begin(); at != unresolved_.end();) {
    const auto& [key, deadline] = *at;
    if (deadline > now_) {
      want(deadline);
      ++at;
      continue;
    }
    send(Peer::of(key.second, config_.self.node), NodeResolved{key.first, false, {}});
    if (const auto watches = resolve_watches_.find(key.first); watches != resolve_watches_.end()) {
      resolve_watch_count_ -= watches->second.erase(key.second);
      if (watches->second.empty()) resolve_watches_.erase(watches);
    }
    at = unresolved_.erase(at);
  }
}

}  // namespace mobula::scheduler
