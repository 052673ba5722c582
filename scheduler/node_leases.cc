// A lease from its request to its end. Every end leaves a memory, so that a late or repeated request gets the first
// answer and never a second worker.
#include "scheduler/node.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {

void Node::receive(const Peer& from, const RequestLease& message) {
  const ProcessId caller = message.caller.process;
  if (const auto* answer = ended_leases_.find(message.lease); answer != nullptr) {
    if (*answer) send(message.caller.peer(), **answer);
    if (*answer && from.kind == PeerKind::kNode) send(from, **answer);
    return;
  }
  if (const auto at = leases_.find(message.lease); at != leases_.end()) {
    repeat_answer(at->second);
    return;
  }
  if (ended_processes_.contains(caller)) return;
  if (from.kind == PeerKind::kNode) {
    // Passed on: granted or refused at once, never queued away from home. What was refused stays so, lest two nodes
    // serve it; a new offer has more hops.
    if (const auto* refused = refused_leases_.find(message.lease); refused != nullptr && *refused >= message.hops) {
      send(from, LeaseRefused{message.lease, message.hops});
      return;
    }
    Lease& lease = add_lease(message);
    lease.passed_by = NodeId{from.id};
    if (!try_grant(message.lease)) {
      ++counters_.leases_refused;
      by_caller_[caller].erase(message.lease);
      if (by_caller_[caller].empty()) by_caller_.erase(caller);
      leases_.erase(message.lease);
      refused_leases_.put(message.lease, message.hops);
      send(from, LeaseRefused{message.lease, message.hops});
      correct_head();
    }
    return;
  }
  if (!processes_.contains(caller)) return;  // not ours, or gone
  if (const auto held = by_caller_.find(caller);
      held != by_caller_.end() && held->second.size() >= kMaxLeasesPerProcess) {
    send(from, LeaseFailed{message.lease, make_error(ErrorKind::kOverloaded,
                                                     "this process waits for " + std::to_string(kMaxLeasesPerProcess) +
                                                         " workers already; return some first")});
    return;
  }
  Lease& lease = add_lease(message);
  if (wants_elsewhere(message)) {
    lease.elsewhere_first = true;
    elsewhere_.insert(message.lease);
    ask_head(lease);
  } else {
    enqueue(lease, false);
    dirty_ = true;
  }
}

Lease& Node::add_lease(const RequestLease& message) {
  Lease& lease = leases_[message.lease];
  lease.request = message;
  lease.since = now_;
  lease.ask_at = now_;
  lease.backoff = config_.find_backoff_min;
  by_caller_[message.caller.process].insert(message.lease);
  return lease;
}

void Node::repeat_answer(const Lease& lease) {
  const Peer caller = lease.request.caller.peer();
  switch (lease.phase) {
    case LeasePhase::kQueued:
    case LeasePhase::kStarting: break;  // the answer is still to come
    case LeasePhase::kMoved:
      send(caller, LeaseMoved{lease.request.lease, lease.moved_to});
      pass_on(lease);
      break;
    case LeasePhase::kGranted:
      send(caller,
           LeaseGranted{
               lease.request.lease, {lease.worker, config_.self.node, lease.request.caller.job}, lease.allocation});
      break;
  }
}

void Node::enqueue(Lease& lease, bool in_front) {
  auto& line = queues_[ShapeKey{lease.request.caller.job, lease.request.request}];
  if (in_front) {
    line.push_front(lease.request.lease);
  } else {
    line.push_back(lease.request.lease);
  }
  ask_dirty_ = true;
  want(now_ + config_.fair_wait);
}

void Node::unqueue(const Lease& lease) {
  if (elsewhere_.erase(lease.request.lease) != 0) return;
  const auto at = queues_.find(ShapeKey{lease.request.caller.job, lease.request.request});
  MOBULA_CHECK(at != queues_.end(), "a queued lease stands in its line");
  std::erase(at->second, lease.request.lease);
  if (at->second.empty()) queues_.erase(at);
}

void Node::receive(const Peer&, const ReturnLease& message) {
  if (!leases_.contains(message.lease)) {
    // Before its request, or again. What was answered stays answered.
    if (!ended_leases_.contains(message.lease)) ended_leases_.put(message.lease, std::nullopt);
    return;
  }
  drop_lease(message.lease, message.worker_failed);
}

void Node::drop_lease(LeaseId id, bool worker_failed) {
  Lease& lease = leases_.at(id);
  switch (lease.phase) {
    case LeasePhase::kQueued: unqueue(lease); break;
    case LeasePhase::kMoved:
      send(Peer::of(lease.moved_to), ReturnLease{id, worker_failed});
      forget_away(lease);
      break;
    case LeasePhase::kStarting:
      unclaim(lease.pool, id);
      give_back(lease.allocation, lease.request.caller.job, nullptr);
      break;
    case LeasePhase::kGranted: {
      const ProcessId process = lease.worker;
      Worker& worker = workers_.at(process);
      worker.lease = {};
      // A device goes to the next user only when the process that used it is gone.
      if (worker_failed || !lease.allocation.devices.empty() || worker.phase == WorkerPhase::kDying) {
        MOBULA_CHECK(worker.held == Allocation{}, "a worker holds one thing at a time");
        worker.held = std::move(lease.allocation);
        retire(process, worker_failed ? "its caller gave it up" : "its GPU is given back");
      } else {
        give_back(lease.allocation, lease.request.caller.job, &worker);
        make_idle(process);
      }
      break;
    }
  }
  end_lease(id, std::nullopt);
}

void Node::forget_away(const Lease& lease) {
  const auto at = away_.find(lease.moved_to);
  if (at == away_.end()) return;
  at->second.erase(lease.request.lease);
  if (at->second.empty()) away_.erase(at);
}

void Node::fail_lease(LeaseId id, ErrorInfo error) {
  Lease& lease = leases_.at(id);
  if (lease.phase == LeasePhase::kQueued) unqueue(lease);
  if (lease.phase == LeasePhase::kStarting) {
    unclaim(lease.pool, id);
    give_back(lease.allocation, lease.request.caller.job, nullptr);
  }
  if (error.task.empty()) error.task = lease.request.name;
  const LeaseFailed answer{id, std::move(error)};
  send(lease.request.caller.peer(), answer);
  if (lease.passed_by) send(Peer::of(lease.passed_by), answer);
  end_lease(id, answer);
}

void Node::lose_lease(LeaseId id, ErrorInfo error) {
  Lease& lease = leases_.at(id);
  if (lease.phase == LeasePhase::kMoved) forget_away(lease);
  if (lease.phase == LeasePhase::kGranted) {
    Worker& worker = workers_.at(lease.worker);
    give_back(lease.allocation, lease.request.caller.job, &worker);
    worker.lease = {};
  }
  ++counters_.leases_lost;
  const LeaseLost answer{id, std::move(error)};
  send(lease.request.caller.peer(), answer);
  if (lease.passed_by) send(Peer::of(lease.passed_by), answer);
  end_lease(id, answer);
}

void Node::end_lease(LeaseId id, std::optional<Message> answer) {
  const auto at = leases_.find(id);
  if (at->second.asking) --finds_out_;
  const ProcessId caller = at->second.request.caller.process;
  if (const auto held = by_caller_.find(caller); held != by_caller_.end()) {
    held->second.erase(id);
    if (held->second.empty()) by_caller_.erase(held);
  }
  ended_leases_.put(id, std::move(answer));
  leases_.erase(at);
}

// The other node told the caller itself; this is for our books.
void Node::receive(const Peer& from, const LeaseLost& message) {
  const auto at = leases_.find(message.lease);
  if (at == leases_.end() || at->second.phase != LeasePhase::kMoved || Peer::of(at->second.moved_to) != from) return;
  forget_away(at->second);
  end_lease(message.lease, message);
}

void Node::receive(const Peer& from, const LeaseFailed& message) {
  const auto at = leases_.find(message.lease);
  if (at == leases_.end() || at->second.phase != LeasePhase::kMoved || Peer::of(at->second.moved_to) != from) return;
  forget_away(at->second);
  end_lease(message.lease, message);
}

void Node::receive(const Peer& from, const ProcessGone& message) {
  if (from.kind == PeerKind::kProcess) return;
  if (processes_.contains(message.process) || workers_.contains(message.process)) return;  // ours: we know better
  drop_leases_of(message.process);
  ended_processes_.put(message.process, make_error(ErrorKind::kWorkerDied, "the process is gone"));
}

void Node::drop_leases_of(ProcessId caller) {
  const auto at = by_caller_.find(caller);
  if (at == by_caller_.end()) return;
  // What runs for a dead caller is of no use to anyone: end its workers rather than wait for their tasks.
  const std::set<LeaseId> ids = at->second;
  for (const LeaseId id : ids) drop_lease(id, true);
}

}  // namespace mobula::scheduler
