// The pool of workers: who waits for one, who is warm, who is started and who ends.
//
// Claims and workers meet in pools of interchangeable workers: a claim takes the first worker that becomes idle, be it
// warm, given back or new, so a slow start never holds up a lease that another worker could serve.
#include "scheduler/node.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

// Above this many live workers new ones start one by one, whatever they wait for.
constexpr std::size_t kWorkersHardMax = 4096;

std::uint32_t whole_cpus(const NodeResources& resources) {
  return resources.cpus.units <= 0 ? 0 : static_cast<std::uint32_t>(resources.cpus.units / Quantity::kOne);
}

bool counted(WorkerPhase phase) {
  return phase == WorkerPhase::kSpawning || phase == WorkerPhase::kIdle || phase == WorkerPhase::kLeased;
}

// Trying again is of no use.
bool fatal(const ErrorInfo& error) {
  return error.kind == ErrorKind::kInvalid || error.kind == ErrorKind::kUnknownFunction ||
         error.kind == ErrorKind::kUnauthenticated;
}

}  // namespace

std::uint32_t Node::idle_max() const {
  if (config_.idle_workers_max != 0) return config_.idle_workers_max;
  return std::max(1U, whole_cpus(config_.self.total));
}

std::uint32_t Node::workers_max() const {
  if (config_.workers_soft_max != 0) return config_.workers_soft_max;
  return 4 * whole_cpus(config_.self.total) + 16;
}

PoolKey Node::pool_for(JobId job, const RuntimeKey& runtime, const Allocation& allocation) const {
  PoolKey key{job, runtime, {}};
  const auto set_by_user = [&runtime](const char* name) {
    return std::any_of(runtime.environment.begin(), runtime.environment.end(),
                       [name](const auto& variable) { return variable.first == name; });
  };
  // In the order of their names. On a node with GPUs, who was given none sees none.
  if (!config_.self.total.devices.empty() && !set_by_user("CUDA_VISIBLE_DEVICES")) {
    std::string devices;
    for (const auto& device : allocation.devices) devices += (devices.empty() ? "" : ",") + device.uuid;
    key.environment.emplace_back("CUDA_VISIBLE_DEVICES", std::move(devices));
  }
  if (!set_by_user("OMP_NUM_THREADS")) {
    const std::int64_t cpus = std::max<std::int64_t>(1, allocation.cpus.units / Quantity::kOne);
    key.environment.emplace_back("OMP_NUM_THREADS", std::to_string(cpus));
  }
  return key;
}

void Node::set_phase(Worker& worker, WorkerPhase next) {
  if (counted(worker.phase)) --task_workers_;
  if (worker.phase == WorkerPhase::kIdle) --idle_workers_;
  advance(worker.phase, next);
  worker.since = now_;
  worker.act_at = Instant::never();
  if (counted(next)) ++task_workers_;
  if (next == WorkerPhase::kIdle) ++idle_workers_;
}

bool Node::may_spawn(const PoolKey& key) {
  if (const auto at = pools_.find(key); at != pools_.end()) {
    // One that is idle or on its way will do.
    if (at->second.idle.size() + at->second.spawning > at->second.waiting.size()) return true;
  }
  if (workers_.size() < kWorkersHardMax) {
    if (task_workers_ < workers_max()) return true;
    // Make room by ending the coldest worker that waits for nothing.
    ProcessId coldest;
    for (const auto& [id, worker] : workers_) {
      if (worker.phase != WorkerPhase::kIdle) continue;
      if (!coldest || worker.since < workers_.at(coldest).since) coldest = id;
    }
    if (coldest) {
      retire(coldest, "its place is needed for another program");
      return true;
    }
  }
  // A soft bound: what holds all places may wait for the very lease that is refused here.
  if (now_ >= over_cap_at_) {
    over_cap_at_ = now_ + config_.over_cap_gap;
    return true;
  }
  want(over_cap_at_);
  return false;
}

void Node::supply(const PoolKey& key) {
  Pool& pool = pools_.at(key);
  while (!pool.waiting.empty() && !pool.idle.empty()) {
    const Claim claim = pool.waiting.front();
    pool.waiting.pop_front();
    const ProcessId id = pool.idle.back();
    pool.idle.pop_back();
    assign(id, claim);
  }
  if (pool.waiting.empty() || ended_all_) return;
  if (pool.retry_at > now_) {
    want(pool.retry_at);
    return;
  }
  while (pool.spawning < pool.waiting.size()) spawn(key);
  // A line that waits will want the next worker at once when one of these blocks.
  const bool line =
      std::any_of(queues_.begin(), queues_.end(), [&key](const auto& entry) { return entry.first.job == key.job; });
  if (line && pool.failures == 0) {
    while (pool.spawning < pool.waiting.size() + config_.prestart && task_workers_ < workers_max()) spawn(key);
  }
}

void Node::spawn(const PoolKey& key) {
  const ProcessId id{rng_.id()};
  Worker& worker = workers_[id];
  worker.pool = key;
  worker.since = now_;
  worker.act_at = now_ + config_.spawn_timeout;
  want(worker.act_at);
  Pool& pool = pools_.at(key);
  ++pool.spawning;
  ++pool.workers;
  ++task_workers_;
  ++counters_.workers_spawned;
  act(Spawn{id, key.job, key.runtime, key.environment});
}

void Node::on(const WorkerSpawned& event) {
  const auto at = workers_.find(event.worker);
  if (at != workers_.end()) at->second.pid = event.pid;
}

void Node::worker_joined(ProcessId id, const Hello& hello) {
  Worker& worker = workers_.at(id);
  worker.pid = hello.pid != 0 ? hello.pid : worker.pid;
  worker.joined = true;
  processes_[id] = LocalProcess{Role::kWorker, worker.pool.job, worker.pid};
  if (worker.phase != WorkerPhase::kSpawning) return;  // told to end before it joined, or joined again
  Pool& pool = pools_.at(worker.pool);
  --pool.spawning;
  pool.failures = 0;
  pool.retry_at = {};
  make_idle(id);
}

void Node::make_idle(ProcessId id) {
  Worker& worker = workers_.at(id);
  set_phase(worker, WorkerPhase::kIdle);
  MOBULA_CHECK(worker.lent.units == 0, "an idle worker has lent nothing");
  worker.blocked = 0;
  worker.act_at = now_ + config_.idle_timeout;
  want(worker.act_at);
  const PoolKey key = worker.pool;
  pools_.at(key).idle.push_back(id);
  supply(key);
  dirty_ = true;  // a line that the bound on workers held up
  trim_idle();
}

void Node::trim_idle() {
  while (idle_workers_ > idle_max()) {
    ProcessId coldest;
    for (const auto& [id, worker] : workers_) {
      if (worker.phase != WorkerPhase::kIdle) continue;
      if (!coldest || worker.since < workers_.at(coldest).since) coldest = id;
    }
    retire(coldest, "more workers were idle than are kept");
  }
}

void Node::assign(ProcessId id, const Claim& claim) {
  if (const auto* lease = std::get_if<LeaseId>(&claim)) {
    assign_lease(id, leases_.at(*lease));
  } else {
    host(id, actors_.at(std::get<ActorId>(claim)));
  }
}

void Node::assign_lease(ProcessId id, Lease& lease) {
  Worker& worker = workers_.at(id);
  set_phase(worker, WorkerPhase::kLeased);
  worker.lease = lease.request.lease;
  advance(lease.phase, LeasePhase::kGranted);
  lease.worker = id;
  lease.order = ++grant_order_;
  ++counters_.leases_granted;
  const ProcessAddress& caller = lease.request.caller;
  const ProcessAddress address{id, config_.self.node, caller.job};
  send(address.peer(), AssignWorker{lease.request.lease, caller.job, caller, lease.allocation});
  send(caller.peer(), LeaseGranted{lease.request.lease, address, lease.allocation});
}

void Node::retire(ProcessId id, const std::string& why) {
  Worker& worker = workers_.at(id);
  if (worker.phase == WorkerPhase::kDying) return;
  Pool& pool = pools_.at(worker.pool);
  if (worker.phase == WorkerPhase::kIdle) std::erase(pool.idle, id);
  if (worker.phase == WorkerPhase::kSpawning) --pool.spawning;
  set_phase(worker, WorkerPhase::kDying);
  worker.why = why;
  worker.act_at = now_ + config_.kill_repeat;
  want(worker.act_at);
  act(KillProcess{id, why});
}

void Node::forget_worker(ProcessId id) {
  const auto at = workers_.find(id);
  Worker& worker = at->second;
  if (worker.phase != WorkerPhase::kDying) {
    Pool& pool = pools_.at(worker.pool);
    if (worker.phase == WorkerPhase::kIdle) std::erase(pool.idle, id);
    if (worker.phase == WorkerPhase::kSpawning) --pool.spawning;
    set_phase(worker, WorkerPhase::kDying);
  }
  const PoolKey key = worker.pool;
  if (worker.held != Allocation{}) give_back(worker.held, key.job, &worker);
  MOBULA_CHECK(worker.lent.units == 0, "what it lent was given back with what it held");
  --pools_.at(key).workers;
  workers_.erase(at);
  dirty_ = true;
  forget_pool_if_empty(key);
}

void Node::forget_pool_if_empty(const PoolKey& key) {
  const auto at = pools_.find(key);
  if (at != pools_.end() && at->second.empty()) pools_.erase(at);
}

void Node::unclaim(const PoolKey& key, const Claim& claim) {
  const auto at = pools_.find(key);
  MOBULA_CHECK(at != pools_.end(), "who waits for a worker has a pool");
  std::erase(at->second.waiting, claim);
  const PoolKey copy = key;  // `key` may live in what the caller forgets
  forget_pool_if_empty(copy);
}

void Node::on(const WorkerSpawnFailed& event) {
  const auto at = workers_.find(event.worker);
  if (at == workers_.end()) return;
  worker_ended(event.worker, event.error);
}

void Node::spawn_failed(const PoolKey& key, const ErrorInfo& error) {
  const auto at = pools_.find(key);
  if (at == pools_.end()) return;
  Pool& pool = at->second;
  ++pool.failures;
  if (!fatal(error) && pool.failures < config_.spawn_attempts) {
    pool.retry_at = now_ + config_.spawn_backoff * pool.failures;
    want(pool.retry_at);
    return;
  }
  pool.failures = 0;
  pool.retry_at = {};
  const std::deque<Claim> waiting = pool.waiting;
  for (const auto& claim : waiting) {
    if (const auto* lease = std::get_if<LeaseId>(&claim)) {
      fail_lease(*lease, error);
    } else {
      actor_spawn_failed(std::get<ActorId>(claim), error, fatal(error));
    }
  }
  forget_pool_if_empty(key);
}

void Node::sweep_workers() {
  std::vector<ProcessId> due;
  for (const auto& [id, worker] : workers_) {
    if (worker.act_at <= now_) due.push_back(id);
  }
  for (const ProcessId id : due) {
    Worker& worker = workers_.at(id);
    switch (worker.phase) {
      case WorkerPhase::kSpawning: {
        const PoolKey key = worker.pool;
        retire(id, "it did not join in time");
        spawn_failed(key, make_error(ErrorKind::kWorkerDied,
                                     "a worker was started but did not join its node in time; see its log"));
        break;
      }
      case WorkerPhase::kIdle: retire(id, "it was idle for long"); break;
      case WorkerPhase::kDying:
        act(KillProcess{id, worker.why});
        worker.act_at = now_ + config_.kill_repeat;
        break;
      case WorkerPhase::kLeased:
      case WorkerPhase::kBlocked:
      case WorkerPhase::kHosting: worker.act_at = Instant::never(); break;
    }
  }
  for (const auto& [id, worker] : workers_) want(worker.act_at);
  std::vector<PoolKey> retry;
  for (const auto& [key, pool] : pools_) {
    if (!pool.waiting.empty() && pool.spawning < pool.waiting.size()) retry.push_back(key);
  }
  for (const auto& key : retry) supply(key);
}

}  // namespace mobula::scheduler
