// Resources and whose turn it is. Lines are served by the smallest share of the machine first, then by age; when a job
// has waited and is below its fair share, leases of the job that holds most are called back, one at a time from the
// newest.
#include "scheduler/node.h"

#include <algorithm>
#include <tuple>

#include "runtime/base/check.h"

namespace mobula::scheduler {
namespace {

constexpr std::uint64_t kWholeMachine = 1'000'000;  // shares are counted in millionths
constexpr std::size_t kMaxCallBacks = 64;           // a round

std::uint64_t part_of(std::uint64_t used, std::uint64_t total) {
  if (total == 0 || used == 0) return 0;
  const std::uint64_t grain = total > (std::uint64_t{1} << 40) ? std::uint64_t{1} << 20 : 1;
  return used / grain * kWholeMachine / std::max<std::uint64_t>(1, total / grain);
}

Quantity gpus_of(const Allocation& allocation) {
  Quantity sum;
  for (const auto& device : allocation.devices) sum += device.share;
  return sum;
}

void add(JobUse& use, const Allocation& allocation) {
  use.cpus += allocation.cpus;
  use.gpus += gpus_of(allocation);
  use.memory += allocation.memory;
}

void subtract(JobUse& use, const Allocation& allocation) {
  use.cpus -= allocation.cpus;
  use.gpus -= gpus_of(allocation);
  use.memory -= allocation.memory;
}

}  // namespace

void Node::charge(JobId job, const Allocation& allocation, bool back) {
  JobUse& use = used_[job];
  if (back) {
    subtract(use, allocation);
    if (use == JobUse{}) used_.erase(job);
  } else {
    add(use, allocation);
  }
}

// `worker`: who held it; what it lent of its CPUs is free already.
void Node::give_back(Allocation& allocation, JobId job, Worker* worker) {
  Allocation rest = std::exchange(allocation, {});
  if (worker != nullptr) {
    const Quantity lent = std::min(worker->lent, rest.cpus);
    worker->lent -= lent;
    rest.cpus -= lent;
  }
  release(free_, rest);
  charge(job, rest, true);
  dirty_ = true;
}

std::uint64_t Node::share_of(const JobUse& use) const {
  const NodeResources& total = config_.self.total;
  std::uint64_t share = part_of(positive_units(use.cpus), positive_units(total.cpus));
  share = std::max(share, part_of(positive_units(use.gpus), total.devices.size() * positive_units(Quantity::whole(1))));
  return std::max(share, part_of(use.memory, total.memory));
}

// Is what is free kept for a job of another node that has less of this one?
bool Node::owed_to_another(const RequestLease& request) const {
  if (wanted_.empty()) return false;
  const auto share = [this](JobId job) {
    const auto use = used_.find(job);
    return use == used_.end() ? 0 : share_of(use->second);
  };
  const JobId own = request.caller.job;
  return std::any_of(wanted_.begin(), wanted_.end(), [&](const auto& entry) {
    const WantedHere& wanted = entry.second;
    return wanted.job != own && wanted.until > now_ && share(wanted.job) < share(own) && fits(free_, wanted.request);
  });
}

bool Node::try_grant(LeaseId id) {
  Lease& lease = leases_.at(id);
  const ResourceRequest& request = lease.request.request;
  if (ended_all_ || !labels_match(config_.self.labels, request)) return false;
  if (owed_to_another(lease.request)) return false;
  std::optional<Allocation> allocation = allocate(free_, request);
  if (!allocation) return false;
  PoolKey key = pool_for(lease.request.caller.job, lease.request.runtime, *allocation);
  if (!may_spawn(key)) {
    release(free_, *allocation);
    return false;
  }
  if (lease.phase == LeasePhase::kQueued && !lease.passed_by) unqueue(lease);
  if (lease.asking) --finds_out_;
  lease.asking = false;
  advance(lease.phase, LeasePhase::kStarting);
  charge(lease.request.caller.job, *allocation, false);
  wanted_.erase(id);
  lease.allocation = *std::move(allocation);
  lease.pool = key;
  pools_[key].waiting.push_back(id);
  supply(key);
  return true;
}

void Node::pump() {
  dirty_ = false;
  // Resources only shrink while it pumps, so a line that could not be served stays unserved for this round.
  std::set<ShapeKey> stuck;
  while (stuck.size() < queues_.size()) {
    using Turn = std::tuple<std::uint64_t, Instant, LeaseId>;
    const ShapeKey* next = nullptr;
    Turn first;
    for (const auto& [shape, line] : queues_) {
      if (stuck.contains(shape)) continue;
      const auto use = used_.find(shape.job);
      const Turn turn{use == used_.end() ? 0 : share_of(use->second), leases_.at(line.front()).since, line.front()};
      if (next == nullptr || turn < first) {
        next = &shape;
        first = turn;
      }
    }
    const ShapeKey shape = *next;
    if (!try_grant(std::get<2>(first))) stuck.insert(shape);
  }
  dirty_ = false;
}

void Node::call_back(LeaseId id) {
  Lease& lease = leases_.at(id);
  lease.called_back = true;
  ++counters_.leases_called_back;
  send(lease.request.caller.peer(), ReclaimLease{id});
}

// Who waited long enough for something this node could give, and for how many leases? `competing`: all who have or
// want something.
std::map<JobId, std::size_t> Node::jobs_in_need(std::set<JobId>& competing) {
  std::map<JobId, std::size_t> waiting;
  for (const auto& [job, use] : used_) competing.insert(job);
  for (const auto& [shape, line] : queues_) {
    if (!labels_match(config_.self.labels, shape.request) || !fits(config_.self.total, shape.request)) continue;
    const Instant due = leases_.at(line.front()).since + config_.fair_wait;
    if (due > now_) {
      want(due);
      continue;
    }
    competing.insert(shape.job);
    waiting[shape.job] += line.size();
  }
  for (const auto& [id, wanted] : wanted_) {
    if (!labels_match(config_.self.labels, wanted.request) || !fits(config_.self.total, wanted.request)) continue;
    competing.insert(wanted.job);
    ++waiting[wanted.job];
  }
  return waiting;
}

void Node::fair_share() {
  std::set<JobId> competing;
  const std::map<JobId, std::size_t> waiting = jobs_in_need(competing);
  if (waiting.empty() || competing.size() < 2) {
    if (waiting.empty()) {
      for (auto& [id, lease] : leases_) lease.called_back = false;
    }
    return;
  }
  if (now_ < next_fair_) {
    want(next_fair_);
    return;
  }
  want(now_ + config_.reclaim_repeat);
  next_fair_ = now_ + config_.reclaim_repeat;
  rebalance(waiting, kWholeMachine / competing.size());
}

void Node::rebalance(const std::map<JobId, std::size_t>& waiting, std::uint64_t fair) {
  // What each job will hold once all that was called back has come back, and its leases, the newest last.
  std::map<JobId, JobUse> use = used_;
  std::map<JobId, std::vector<std::pair<std::uint64_t, LeaseId>>> held;
  for (auto& [id, lease] : leases_) {
    if (lease.phase != LeasePhase::kGranted) continue;
    if (workers_.at(lease.worker).phase != WorkerPhase::kLeased) continue;  // blocked ones lend already
    const JobId job = lease.request.caller.job;
    if (lease.called_back) {
      subtract(use[job], lease.allocation);
      call_back(id);  // again
    } else {
      held[job].emplace_back(lease.order, id);
    }
  }
  for (auto& [job, leases] : held) std::sort(leases.begin(), leases.end());

  std::size_t rounds = kMaxCallBacks;
  for (const auto& [job, count] : waiting) {
    for (std::size_t i = 0; i < count && rounds > 0; ++i, --rounds) {
      const std::uint64_t own = share_of(use[job]);
      if (own >= fair) break;
      // The job that holds most and has a lease to give.
      std::optional<JobId> most;
      for (const auto& [other, leases] : held) {
        if (other == job || leases.empty()) continue;
        if (!most || share_of(use[other]) > share_of(use[*most])) most = other;
      }
      if (!most || share_of(use[*most]) <= fair) break;
      const LeaseId victim = held[*most].back().second;
      const Allocation& allocation = leases_.at(victim).allocation;
      JobUse one;
      add(one, allocation);
      // Moving one lease between jobs that differ by one would only swap them for ever.
      if (own != 0 && share_of(use[*most]) - own <= share_of(one)) break;
      held[*most].pop_back();
      subtract(use[*most], allocation);
      add(use[job], allocation);
      call_back(victim);
    }
  }
}

}  // namespace mobula::scheduler
