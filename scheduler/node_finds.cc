// Leases that do not fit here now, or whose arguments lie elsewhere: asked of the head, passed on, refused, asked
// again.
#include "scheduler/node.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

constexpr std::size_t kMaxRefused = 3;  // offers turned down before the lease waits a while

}  // namespace

bool Node::wants_elsewhere(const RequestLease& message) const {
  if (!head_up_ || !registered_ || directory_.empty()) return false;
  const std::uint64_t here = bytes_on(message.locality, config_.self.node);
  for (const auto& [node, bytes] : message.locality) {
    if (node != config_.self.node && directory_.contains(node) && bytes >= here + config_.locality_min_bytes)
      return true;
  }
  return false;
}

void Node::ask_head(Lease& lease) {
  if (!lease.asking) {
    lease.asking = true;
    ++finds_out_;
  }
  lease.ask_at = now_ + (lease.elsewhere_first ? config_.locality_wait : config_.find_repeat);
  want(lease.ask_at);
  const RequestLease& request = lease.request;
  send(Peer::head(), FindNode{request.lease, request.caller.job, request.request, request.locality, lease.refused});
}

void Node::ask_heads() {
  ask_dirty_ = false;
  if (!head_up_ || !registered_) return;  // asked when there is a head again
  for (const auto& [shape, line] : queues_) {
    const bool fits_here = labels_match(config_.self.labels, shape.request) && fits(config_.self.total, shape.request);
    if (directory_.empty() && fits_here) continue;  // there is nowhere else
    for (const LeaseId id : line) {
      if (finds_out_ >= kMaxFindsOut) return;
      Lease& lease = leases_.at(id);
      if (lease.asking) continue;
      if (lease.ask_at > now_) {
        want(lease.ask_at);
        continue;
      }
      ask_head(lease);
    }
  }
}

void Node::ask_again_soon() {
  for (const auto& [shape, line] : queues_) {
    for (const LeaseId id : line) {
      Lease& lease = leases_.at(id);
      lease.ask_at = now_;
      lease.backoff = config_.find_backoff_min;
      if (lease.asking) --finds_out_;
      lease.asking = false;
    }
  }
  ask_dirty_ = ask_dirty_ || !queues_.empty();
}

void Node::stay_here(Lease& lease) {
  if (!lease.elsewhere_first) return;
  lease.elsewhere_first = false;
  elsewhere_.erase(lease.request.lease);
  enqueue(lease, false);
  dirty_ = true;
}

void Node::receive(const Peer& from, const NodeFound& message) {
  if (from.kind != PeerKind::kHead) return;
  const auto at = leases_.find(message.lease);
  if (at == leases_.end() || at->second.phase != LeasePhase::kQueued) return;
  Lease& lease = at->second;
  if (lease.asking) {
    lease.asking = false;
    --finds_out_;
  } else if (!message.node) {
    return;  // said before
  }
  ask_dirty_ = true;
  const ResourceRequest& request = lease.request.request;
  if (message.never && !(labels_match(config_.self.labels, request) && fits(config_.self.total, request))) {
    ErrorInfo error = make_error(ErrorKind::kUnschedulable, unschedulable_text(request, message.reasons));
    error.node = config_.self.node;
    fail_lease(message.lease, std::move(error));
    return;
  }
  const bool other = message.node && message.node != config_.self.node && directory_.contains(message.node);
  if (lease.elsewhere_first) {
    const auto& locality = lease.request.locality;
    if (other && bytes_on(locality, message.node) > bytes_on(locality, config_.self.node)) {
      move_lease(lease, message.node);
    } else {
      lease.ask_at = now_;
      stay_here(lease);
    }
    return;
  }
  if (other) {
    move_lease(lease, message.node);
    return;
  }
  // Nowhere now: the same holds for all in its line.
  const Duration wait = lease.backoff;
  lease.refused.clear();
  for (const LeaseId id : queues_.at(ShapeKey{lease.request.caller.job, request})) {
    Lease& same = leases_.at(id);
    if (!same.asking) same.ask_at = now_ + wait;
  }
  lease.backoff = std::min(wait * 2, config_.find_backoff_max);
  want(now_ + wait);
}

void Node::move_lease(Lease& lease, NodeId node) {
  unqueue(lease);
  lease.elsewhere_first = false;
  if (lease.asking) --finds_out_;
  lease.asking = false;
  advance(lease.phase, LeasePhase::kMoved);
  lease.moved_to = node;
  away_[node].insert(lease.request.lease);
  ++counters_.leases_moved;
  ++lease.passes;
  pass_on(lease);
  send(lease.request.caller.peer(), LeaseMoved{lease.request.lease, node});
}

void Node::pass_on(const Lease& lease) {
  RequestLease passed = lease.request;
  passed.hops = lease.passes;
  send(Peer::of(lease.moved_to), std::move(passed));
}

void Node::receive(const Peer& from, const LeaseRefused& message) {
  const auto at = leases_.find(message.lease);
  if (at == leases_.end() || at->second.phase != LeasePhase::kMoved || Peer::of(at->second.moved_to) != from) return;
  Lease& lease = at->second;
  if (lease.passes != message.hops) return;  // of an earlier offer
  forget_away(lease);
  lease.refused.push_back(lease.moved_to);
  lease.moved_to = {};
  lease.ask_at = now_;
  if (lease.refused.size() >= kMaxRefused) {
    lease.refused.clear();
    lease.ask_at = now_ + lease.backoff;
    lease.backoff = std::min(lease.backoff * 2, config_.find_backoff_max);
  }
  advance(lease.phase, LeasePhase::kQueued);
  send(lease.request.caller.peer(), LeaseMoved{message.lease, config_.self.node});
  enqueue(lease, true);
  dirty_ = true;
}

// Somebody elsewhere waits for what this node has, and has waited long enough for a fair share of it.
void Node::receive(const Peer& from, const FindNode& message) {
  if (from.kind != PeerKind::kHead || leases_.contains(message.lease)) return;
  if (!wanted_.contains(message.lease) && wanted_.size() >= kMaxWantedHere) return;
  wanted_[message.lease] = {message.job, message.request, now_ + config_.wanted_time};
  want(now_);
}

// A link to another node broke: what was under way is lost. What we passed on is passed on again, and what we hold for
// the other's processes is asked after, so that no return that was lost keeps a worker for ever.
void Node::settle_with(NodeId node) {
  if (!directory_.contains(node)) return;
  if (const auto away = away_.find(node); away != away_.end()) {
    for (const LeaseId id : away->second) pass_on(leases_.at(id));
  }
  for (const auto& [id, lease] : leases_) {
    if (lease.passed_by == node) send(Peer::of(node), ReclaimLease{id});
  }
}

void Node::receive(const Peer& from, const ReclaimLease& message) {
  if (from.kind != PeerKind::kNode) return;
  const auto at = leases_.find(message.lease);
  if (at != leases_.end() && at->second.phase == LeasePhase::kMoved && Peer::of(at->second.moved_to) == from) return;
  send(from, ReturnLease{message.lease, ended_processes_.contains(ProcessId{message.lease.maker})});
}

void Node::sweep_finds() {
  std::vector<NodeId> broken;
  for (const auto& [node, at] : broken_links_) {
    if (at <= now_) broken.push_back(node);
    if (at > now_) want(at);
  }
  for (const NodeId node : broken) {
    broken_links_.erase(node);
    settle_with(node);
  }
  std::erase_if(wanted_, [this](const auto& entry) { return entry.second.until <= now_; });
  for (const auto& [id, wanted] : wanted_) want(wanted.until);
  // Those that waited long enough for the head's word on a better node are served here.
  const std::set<LeaseId> waiting = elsewhere_;
  for (const LeaseId id : waiting) {
    Lease& lease = leases_.at(id);
    if (lease.ask_at > now_) {
      want(lease.ask_at);
      continue;
    }
    if (lease.asking) --finds_out_;
    lease.asking = false;
    lease.ask_at = now_;
    stay_here(lease);
  }
  // FindNode without an answer is sent again.
  for (const auto& [shape, line] : queues_) {
    for (const LeaseId id : line) {
      Lease& lease = leases_.at(id);
      if (lease.asking && lease.ask_at <= now_) {
        if (head_up_ && registered_) ask_head(lease);
      } else if (lease.asking) {
        want(lease.ask_at);
      }
    }
  }
  ask_dirty_ = ask_dirty_ || !queues_.empty();
  dirty_ = dirty_ || !queues_.empty();
}

}  // namespace mobula::scheduler
