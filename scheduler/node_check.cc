// Every invariant of a node, as code: called by tests and the simulator after each step.
#include "scheduler/node.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace mobula::scheduler {

void Node::check() const {
  check_resources();
  check_leases();
  check_workers();
  for (const auto& [id, actor] : actors_) {
    const bool hosted =
        actor.phase == HostPhase::kStarting || actor.phase == HostPhase::kAlive || actor.phase == HostPhase::kStopping;
    MOBULA_CHECK(hosted == static_cast<bool>(actor.worker));
    if (actor.phase == HostPhase::kEnded) MOBULA_CHECK(actor.held == Allocation{} && actor.extra == Allocation{});
  }
}

// Free and held are all there is, to the unit.
void Node::check_resources() const {
  NodeResources sum = free_;
  Quantity lent;
  const auto add = [&sum](const Allocation& allocation) { release(sum, allocation); };
  for (const auto& [id, lease] : leases_) {
    const bool holds = lease.phase == LeasePhase::kStarting || lease.phase == LeasePhase::kGranted;
    MOBULA_CHECK(holds || lease.allocation == Allocation{}, "only a starting or granted lease holds resources");
    add(lease.allocation);
  }
  for (const auto& [id, actor] : actors_) {
    add(actor.held);
    add(actor.extra);
  }
  for (const auto& [submission, driver] : drivers_) add(driver.held);
  for (const auto& [id, worker] : workers_) {
    add(worker.held);
    lent += worker.lent;
  }
  sum.cpus -= lent;
  MOBULA_CHECK(sum == config_.self.total, "resources leak or are given twice");
}

void Node::check_leases() const {
  std::size_t finds = 0;
  std::size_t in_lines = 0;
  for (const auto& [shape, line] : queues_) {
    MOBULA_CHECK(!line.empty());
    in_lines += line.size();
    for (const LeaseId id : line) {
      MOBULA_CHECK(leases_.at(id).phase == LeasePhase::kQueued && !leases_.at(id).elsewhere_first);
    }
  }
  std::size_t queued = 0;
  for (const auto& [id, lease] : leases_) {
    MOBULA_CHECK(!ended_leases_.contains(id), "a lease that ended lives");
    MOBULA_CHECK(by_caller_.at(lease.request.caller.process).contains(id));
    finds += lease.asking ? 1 : 0;
    switch (lease.phase) {
      case LeasePhase::kQueued: ++queued; break;
      case LeasePhase::kMoved: MOBULA_CHECK(away_.at(lease.moved_to).contains(id)); break;
      case LeasePhase::kStarting: {
        const auto& waiting = pools_.at(lease.pool).waiting;
        MOBULA_CHECK(std::count(waiting.begin(), waiting.end(), Claim{id}) == 1);
        break;
      }
      case LeasePhase::kGranted: MOBULA_CHECK(workers_.at(lease.worker).lease == id); break;
    }
  }
  MOBULA_CHECK(queued == in_lines + elsewhere_.size(), "every queued lease stands in one line");
  MOBULA_CHECK(finds == finds_out_);
  MOBULA_CHECK(by_caller_.size() <= leases_.size());
}

void Node::check_workers() const {
  std::size_t counted = 0;
  std::size_t idle = 0;
  std::map<PoolKey, std::pair<std::uint32_t, std::uint32_t>> by_pool;  // workers, spawning
  for (const auto& [id, worker] : workers_) {
    auto& [members, spawning] = by_pool[worker.pool];
    ++members;
    const WorkerPhase phase = worker.phase;
    if (phase == WorkerPhase::kSpawning) ++spawning;
    if (phase == WorkerPhase::kIdle) ++idle;
    if (phase == WorkerPhase::kSpawning || phase == WorkerPhase::kIdle || phase == WorkerPhase::kLeased) ++counted;
    MOBULA_CHECK(!worker.lease || leases_.at(worker.lease).worker == id);
    MOBULA_CHECK(!worker.actor || actors_.at(worker.actor).worker == id);
    MOBULA_CHECK(!(worker.lease && worker.actor));
    if (phase == WorkerPhase::kSpawning || phase == WorkerPhase::kIdle) MOBULA_CHECK(!worker.lease && !worker.actor);
    if (phase == WorkerPhase::kLeased) MOBULA_CHECK(worker.lease);
    if (phase == WorkerPhase::kHosting) MOBULA_CHECK(worker.actor);
    if (phase == WorkerPhase::kBlocked) MOBULA_CHECK(worker.blocked > 0);
    if (phase != WorkerPhase::kDying) MOBULA_CHECK(worker.held == Allocation{});
    if (phase != WorkerPhase::kBlocked && phase != WorkerPhase::kDying) MOBULA_CHECK(worker.lent.units == 0);
  }
  MOBULA_CHECK(counted == task_workers_);
  MOBULA_CHECK(idle == idle_workers_);
  std::size_t in_pools = 0;
  for (const auto& [key, pool] : pools_) {
    MOBULA_CHECK(!pool.empty());
    const auto& [members, spawning] = by_pool[key];
    MOBULA_CHECK(pool.workers == members && pool.spawning == spawning);
    MOBULA_CHECK(pool.waiting.empty() || pool.idle.empty(), "nobody waits while a worker is idle");
    in_pools += pool.idle.size();
  }
  MOBULA_CHECK(in_pools == idle);
}

}  // namespace mobula::scheduler
