// Processes of this node while they block, and what is owed to others when one ends.
#include "scheduler/node.h"

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {

// The worker that speaks, if it still has this lease (zero: it hosts an actor).
Worker* Node::blocking_worker(const Peer& from, LeaseId lease) {
  const auto at = workers_.find(from.process());
  if (at == workers_.end() || at->second.lease != lease) return nullptr;
  if (!lease) {
    const auto actor = actors_.find(at->second.actor);
    // Other threads of a threaded actor go on, so its CPUs are not free.
    if (actor == actors_.end() || actor->second.spec.max_concurrency > 1) return nullptr;
  }
  return &at->second;
}

void Node::receive(const Peer& from, const WorkerBlocked& message) {
  Worker* worker = blocking_worker(from, message.lease);
  if (worker == nullptr) return;
  if (worker->phase != WorkerPhase::kLeased && worker->phase != WorkerPhase::kHosting &&
      worker->phase != WorkerPhase::kBlocked) {
    return;
  }
  if (++worker->blocked > 1) return;
  set_phase(*worker, WorkerPhase::kBlocked);
  if (worker->lease) {
    worker->lent = leases_.at(worker->lease).allocation.cpus;
  } else {
    const HostedActor& actor = actors_.at(worker->actor);
    worker->lent = actor.held.cpus + actor.extra.cpus;
  }
  release_cpus(free_, worker->lent);
  Allocation lent;
  lent.cpus = worker->lent;
  charge(worker->pool.job, lent, true);
  dirty_ = true;
}

void Node::receive(const Peer& from, const WorkerUnblocked& message) {
  Worker* worker = blocking_worker(from, message.lease);
  if (worker == nullptr || worker->phase != WorkerPhase::kBlocked || worker->blocked == 0) return;
  if (--worker->blocked > 0) return;
  // May overdraw: it goes on at once, and the next lease waits until the CPUs are above zero again.
  take_cpus(free_, worker->lent);
  Allocation lent;
  lent.cpus = worker->lent;
  charge(worker->pool.job, lent, false);
  worker->lent = {};
  set_phase(*worker, worker->lease ? WorkerPhase::kLeased : WorkerPhase::kHosting);
}

void Node::on(const WorkerExited& event) {
  if (workers_.contains(event.worker)) worker_ended(event.worker, event.error);
}

void Node::worker_ended(ProcessId id, ErrorInfo error) {
  Worker& worker = workers_.at(id);
  ++counters_.workers_exited;
  if (!error.node) error.node = config_.self.node;
  if (error.pid == 0) error.pid = static_cast<std::uint32_t>(worker.pid);
  if (!worker.why.empty()) error.message = worker.why + ": " + error.message;
  const bool never_joined = worker.phase == WorkerPhase::kSpawning;
  const PoolKey key = worker.pool;
  if (worker.lease) {
    error.task = leases_.at(worker.lease).request.name;
    lose_lease(worker.lease, error);
  }
  if (worker.actor) {
    HostedActor& actor = actors_.at(worker.actor);
    if (actor.phase == HostPhase::kStarting || actor.phase == HostPhase::kAlive) {
      actor.ended.end = ActorEnd::kProcessDied;
      actor.ended.error = error;
    } else if (actor.ended.error.message.empty()) {
      actor.ended.error = error;
    }
    actor_over(actor);
  }
  process_ended(id, error);
  forget_worker(id);
  if (never_joined) spawn_failed(key, error);
  if (const auto pool = pools_.find(key); pool != pools_.end()) supply(key);
}

// For workers and drivers alike. What runs elsewhere for it is ended; what it owns is freed.
void Node::process_ended(ProcessId id, const ErrorInfo& error) {
  const bool joined = processes_.erase(id) != 0;
  std::set<NodeId> told;
  if (const auto held = by_caller_.find(id); held != by_caller_.end()) {
    for (const LeaseId lease : held->second) {
      if (const Lease& at = leases_.at(lease); at.phase == LeasePhase::kMoved) told.insert(at.moved_to);
    }
  }
  drop_leases_of(id);
  ended_processes_.put(id, error);
  for (const NodeId node : told) send(Peer::of(node), ProcessGone{id});
  if (!joined) return;
  if (head_up_) send(Peer::head(), ProcessGone{id});
  act(FreeOwned{id});
  for (auto at = resolve_watches_.begin(); at != resolve_watches_.end();) {
    resolve_watch_count_ -= at->second.erase(id);
    at = at->second.empty() ? resolve_watches_.erase(at) : std::next(at);
  }
  query_process_gone(id);
}

void Node::receive(const Peer& from, const ProbeProcess& message) {
  ProcessStatus status{message.process, false, {}};
  if (processes_.contains(message.process) || workers_.contains(message.process)) {
    status.alive = true;
  } else if (const ErrorInfo* error = ended_processes_.find(message.process); error != nullptr) {
    status.error = *error;
  } else {
    status.error = make_error(ErrorKind::kWorkerDied, "its node knows no such process: it ended long ago");
    status.error.node = config_.self.node;
  }
  send(from, status);
}

}  // namespace mobula::scheduler
