// The part of the submitter that gets leases and fills them.
#include <algorithm>
#include <utility>

#include "runtime/base/result.h"
#include "scheduler/submitter.h"

namespace mobula::scheduler {
namespace {

// Of how many queued tasks the arguments are looked at for locality.
constexpr std::size_t kLocalityTasks = 8;
constexpr std::size_t kLocalityNodesMax = 8;

}  // namespace

std::uint32_t Submitter::shape_of(const SpecRef& spec) {
  if (spec_shapes_.size() <= spec.number) {
    spec_shapes_.resize(spec.number + 1);
    spec_ns_.resize(spec.number + 1);
  }
  std::uint32_t& index = spec_shapes_[spec.number];
  if (index == 0) {
    const auto [place, is_new] = shape_index_.try_emplace({spec.spec->resources, spec.spec->runtime},
                                                          static_cast<std::uint32_t>(shapes_.size()));
    if (is_new) {
      Shape& shape = shapes_.emplace_back();
      shape.request = spec.spec->resources;
      shape.runtime = spec.spec->runtime;
    }
    index = place->second + 1;
  }
  return index - 1;
}

// Unmeasured calls count as a whole pipeline: one at a time.
std::int64_t Submitter::estimate_ns(std::uint32_t spec_number) const {
  const std::int64_t measured = spec_number < spec_ns_.size() ? spec_ns_[spec_number] : 0;
  return measured == 0 ? config_.pipeline.count() : measured;
}

void Submitter::measure(std::uint32_t spec_number, std::uint64_t run_ns) {
  if (spec_ns_.size() <= spec_number) spec_ns_.resize(spec_number + 1);
  const auto sample = static_cast<std::int64_t>(std::clamp<std::uint64_t>(run_ns, 1, 3'600'000'000'000));
  std::int64_t& mean = spec_ns_[spec_number];
  // Grows faster than it falls: a long call behind which others wait costs more than a short pipeline.
  if (mean == 0) {
    mean = sample;
  } else {
    mean = std::max<std::int64_t>(1, sample > mean ? mean + (sample - mean) / 2 : mean - (mean - sample) / 4);
  }
}

void Submitter::touch_shape(std::uint32_t index) {
  if (std::exchange(shapes_[index].dirty, true)) return;
  dirty_shapes_.push_back(index);
}

bool Submitter::usable(const Lease& lease) const {
  return lease.state == LeaseState::kGranted && !lease.reclaimed && !lease.broken && !lease.stalled;
}

bool Submitter::has_room(const Lease& lease, std::int64_t estimate) const {
  if (lease.pipeline.empty()) return true;
  return lease.pipeline.size() < config_.pipeline_max && lease.work_ns + estimate <= config_.pipeline.count();
}

void Submitter::open_lease(std::uint64_t sequence, Lease& lease) {
  if (lease.open || !usable(lease)) return;
  lease.open = true;
  shapes_[lease.shape].open.push_back(sequence);
  touch_shape(lease.shape);
}

// Round after round, each lease with room gets one task, so that no lease starves beside a full one. Idle ones come
// first.
void Submitter::dispatch(std::uint32_t index) {
  Shape& shape = shapes_[index];
  shape.dirty = false;
  if (!shape.queue.empty() && shape.open.size() > 1) {
    std::stable_partition(shape.open.begin(), shape.open.end(),
                          [this](std::uint64_t sequence) { return leases_.at(sequence).pipeline.empty(); });
  }
  while (!shape.queue.empty() && !shape.open.empty()) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < shape.open.size(); ++i) {
      const std::uint64_t sequence = shape.open[i];
      Lease& lease = leases_.at(sequence);
      const bool more = !shape.queue.empty();
      const std::int64_t estimate = more ? estimate_ns(tasks_.at(shape.queue.front()).spec.number) : 0;
      if (!usable(lease) || (more && !has_room(lease, estimate))) {
        lease.open = false;
        continue;
      }
      shape.open[kept++] = sequence;
      if (!more) continue;
      const std::uint64_t task = shape.queue.front();
      shape.queue.pop_front();
      push_task(sequence, lease, task);
    }
    shape.open.resize(kept);
  }
  request_leases(index);
}

void Submitter::push_task(std::uint64_t lease_sequence, Lease& lease, std::uint64_t sequence) {
  Task& task = tasks_.at(sequence);
  task.lease = lease_sequence;
  task.estimate_ns = estimate_ns(task.spec.number);
  if (lease.pipeline.empty()) lease.head_since = now_;
  lease.pipeline.push_back(sequence);
  lease.work_ns += task.estimate_ns;
  push(lease.worker, lease_id(lease_sequence), sequence, task);
  if (lease.pipeline.size() > 1 && !std::exchange(lease.steal_timer, true)) {
    timers_.set(now_ + config_.steal_after, TimerKind::kLeaseSteal, lease_sequence);
  }
}

void Submitter::request_leases(std::uint32_t index) {
  Shape& shape = shapes_[index];
  if (stopped_) return;
  if (shape.queue.empty()) {
    shape.empty_since = now_;
    if (!shape.requests.empty() && !std::exchange(shape.surplus_timer, true)) {
      timers_.set(now_ + config_.lease_linger, TimerKind::kShapeSurplus, index);
    }
    return;
  }
  const std::size_t wanted = std::min<std::size_t>(shape.queue.size(), config_.lease_requests_max);
  while (shape.requests.size() < wanted) {
    const std::uint64_t sequence = ++last_lease_;
    Lease& lease = leases_[sequence];
    lease.shape = index;
    lease.node = config_.self.node;
    const std::size_t first = shape.requests.size();
    lease.name = tasks_.at(shape.queue[first]).spec.spec->name;
    std::vector<std::pair<NodeId, std::uint64_t>>& locality = lease.locality;
    for (std::size_t i = first; i < shape.queue.size() && i < first + kLocalityTasks; ++i) {
      for (const CallValue& argument : tasks_.at(shape.queue[i]).arguments) {
        const auto* stored = std::get_if<StoredValue>(&argument);
        if (stored == nullptr) continue;
        for (const NodeId node : stored->nodes) {
          const auto known =
              std::find_if(locality.begin(), locality.end(), [node](const auto& entry) { return entry.first == node; });
          if (known != locality.end()) {
            known->second += stored->size;
          } else if (locality.size() < kLocalityNodesMax) {
            locality.emplace_back(node, stored->size);
          }
        }
      }
    }
    shape.requests.push_back(sequence);
    send_request(sequence, lease);
  }
}

void Submitter::send_request(std::uint64_t sequence, Lease& lease) {
  const Shape& shape = shapes_[lease.shape];
  RequestLease request;
  request.lease = lease_id(sequence);
  request.caller = config_.self;
  request.request = shape.request;
  request.runtime = shape.runtime;
  request.name = lease.name;
  request.locality = lease.locality;
  outbox_.add(Peer::of(config_.self.node), std::move(request));
  timers_.set(now_ + config_.repeat, TimerKind::kLeaseRequest, sequence);
}

// ---- the node's words
// ---------------------------------------------------------------------------------------------------------

void Submitter::receive(const Peer& from, LeaseGranted& message) {
  Lease* lease = message.lease.maker == config_.self.process.value ? leases_.find(message.lease.sequence) : nullptr;
  if (lease == nullptr) {
    const NodeId node = message.worker.node ? message.worker.node : from.node;
    outbox_.add(Peer::of(node), ReturnLease{message.lease, false});  // given up meanwhile
    return;
  }
  if (lease->state == LeaseState::kGranted) return;
  Shape& shape = shapes_[lease->shape];
  std::erase(shape.requests, message.lease.sequence);
  ++shape.granted;
  lease->state = LeaseState::kGranted;
  lease->worker = message.worker.peer();
  lease->node = message.worker.node;
  lease->idle_since = now_;
  link(lease->worker).leases.push_back(message.lease.sequence);
  open_lease(message.lease.sequence, *lease);
  if (!std::exchange(lease->idle_timer, true)) {
    timers_.set(now_ + config_.lease_linger, TimerKind::kLeaseIdle, message.lease.sequence);
  }
}

void Submitter::receive(const Peer&, LeaseFailed& message) {
  Lease* lease = leases_.find(message.lease.sequence);
  if (lease == nullptr || message.lease.maker != config_.self.process.value) return;
  const std::uint32_t index = lease->shape;
  if (lease->state == LeaseState::kGranted) {
    lose_lease(message.lease.sequence, message.error);
    return;
  }
  erase_lease(message.lease.sequence);
  // What can never be granted for one of them cannot be for the others.
  for (const std::uint64_t task : std::exchange(shapes_[index].queue, {})) {
    tasks_.at(task).state = CallState::kWaiting;  // in no queue any more
    settle(task, nullptr, message.error, {});
  }
  touch_shape(index);
}

void Submitter::receive(const Peer&, LeaseMoved& message) {
  Lease* lease = leases_.find(message.lease.sequence);
  if (message.lease.maker != config_.self.process.value) return;
  if (lease == nullptr) {
    outbox_.add(Peer::of(message.node), ReturnLease{message.lease, false});
    return;
  }
  if (lease->state == LeaseState::kGranted || lease->node == message.node) return;
  lease->node = message.node;
  // Its end is told to us from now on.
  outbox_.add(Peer::of(config_.self.node), ResolveNode{message.node});
}

void Submitter::receive(const Peer&, LeaseLost& message) {
  if (message.lease.maker == config_.self.process.value && leases_.contains(message.lease.sequence)) {
    lose_lease(message.lease.sequence, message.error);
  }
}

void Submitter::receive(const Peer& from, ReclaimLease& message) {
  Lease* lease = message.lease.maker == config_.self.process.value ? leases_.find(message.lease.sequence) : nullptr;
  if (lease == nullptr) {
    outbox_.add(from, ReturnLease{message.lease, false});
    return;
  }
  lease->reclaimed = true;
  if (lease->pipeline.empty()) {
    return_lease(message.lease.sequence, false);
  } else if (!lease->broken) {
    outbox_.add(lease->worker, StealBack{message.lease});
  }
}

// ---- work leaves a lease, and leases end
// ---------------------------------------------------------------------------------

void Submitter::leave_pipeline(std::uint64_t sequence, Task& task) {
  Lease& lease = leases_.at(task.lease);
  if (!lease.pipeline.empty() && lease.pipeline.front() == sequence) {
    lease.pipeline.pop_front();
  } else {
    std::erase(lease.pipeline, sequence);
  }
  lease.work_ns -= task.estimate_ns;
  lease.head_since = now_;
  task.lease = 0;
  task.estimate_ns = 0;
}

void Submitter::after_answer(std::uint64_t sequence) {
  Lease* lease = leases_.find(sequence);
  if (lease == nullptr) return;
  lease->stalled = false;
  if (lease->pipeline.empty()) {
    if (lease->reclaimed) {
      return_lease(sequence, false);
      return;
    }
    lease->idle_since = now_;
    if (!std::exchange(lease->idle_timer, true)) {
      timers_.set(now_ + config_.lease_linger, TimerKind::kLeaseIdle, sequence);
    }
  }
  open_lease(sequence, *lease);
}

void Submitter::return_lease(std::uint64_t sequence, bool worker_failed) {
  outbox_.add(Peer::of(leases_.at(sequence).node), ReturnLease{lease_id(sequence), worker_failed});
  erase_lease(sequence);
}

void Submitter::erase_lease(std::uint64_t sequence) {
  Lease& lease = leases_.at(sequence);
  MOBULA_CHECK(lease.pipeline.empty(), "a lease is given up with work in it");
  Shape& shape = shapes_[lease.shape];
  if (lease.state == LeaseState::kRequested) {
    std::erase(shape.requests, sequence);
  } else {
    --shape.granted;
    if (lease.open) std::erase(shape.open, sequence);
    Link& its_link = link(lease.worker);
    std::erase(its_link.leases, sequence);
    // Workers come and go; definitions are repeated when one comes back.
    if (its_link.leases.empty() && its_link.actors.empty()) links_.erase(lease.worker.process());
  }
  touch_shape(lease.shape);
  leases_.erase(sequence);
}

void Submitter::lose_lease(std::uint64_t sequence, const ErrorInfo& error) {
  Lease& lease = leases_.at(sequence);
  const std::uint32_t index = lease.shape;
  const auto pipeline = std::exchange(lease.pipeline, {});
  lease.work_ns = 0;
  std::deque<std::uint64_t> again;
  for (const std::uint64_t task_sequence : pipeline) {
    Task& task = tasks_.at(task_sequence);
    task.lease = 0;
    task.estimate_ns = 0;
    task.left_on.push_back(lease.worker.node);
    // Only the oldest can have been under way when the worker ended; the others are not charged for it.
    std::deque<std::uint64_t> one;
    retry_or_fail(task_sequence, error, task_sequence == pipeline.front(), one);
    again.insert(again.end(), one.begin(), one.end());
  }
  erase_lease(sequence);
  Shape& shape = shapes_[index];
  shape.queue.insert(shape.queue.begin(), again.begin(), again.end());
}

void Submitter::repeat_lease(std::uint64_t sequence) {
  Lease* lease = leases_.find(sequence);
  if (lease == nullptr || !std::exchange(lease->broken, false)) return;
  for (const std::uint64_t task_sequence : lease->pipeline) {
    Task& task = tasks_.at(task_sequence);
    push(lease->worker, lease_id(sequence), task_sequence, task);
    if (task.cancelled) {
      outbox_.add(lease->worker, CancelCall{task_id(task_sequence), task.force, task.recursive});
    }
  }
  if (lease->reclaimed && !lease->pipeline.empty()) outbox_.add(lease->worker, StealBack{lease_id(sequence)});
  open_lease(sequence, *lease);
}

void Submitter::lease_timer(TimerKind kind, std::uint64_t sequence) {
  Lease* lease = leases_.find(sequence);
  if (lease == nullptr) return;
  if (kind == TimerKind::kLeaseRequest) {
    if (lease->state == LeaseState::kRequested) send_request(sequence, *lease);
  } else if (kind == TimerKind::kLeaseStall) {
    lease->stall_timer = false;
    lease->stalled = false;
    open_lease(sequence, *lease);
  } else if (kind == TimerKind::kLeaseSteal) {
    lease->steal_timer = false;
    if (lease->pipeline.size() < 2 || lease->broken) return;
    const Instant due = lease->head_since + config_.steal_after;
    if (due <= now_ && !lease->stalled) {
      lease->stalled = true;
      outbox_.add(lease->worker, StealBack{lease_id(sequence)});
    } else if (!lease->stalled) {
      lease->steal_timer = true;
      timers_.set(due, TimerKind::kLeaseSteal, sequence);
    }
  } else {
    lease->idle_timer = false;
    if (!lease->pipeline.empty()) return;
    const Instant due = lease->idle_since + config_.lease_linger;
    if (due <= now_) {
      return_lease(sequence, false);
    } else {
      lease->idle_timer = true;
      timers_.set(due, TimerKind::kLeaseIdle, sequence);
    }
  }
}

// Leases asked for that nothing waits for any more.
void Submitter::drop_surplus(std::uint32_t index) {
  Shape& shape = shapes_[index];
  shape.surplus_timer = false;
  if (shape.requests.empty()) return;
  if (!shape.queue.empty() || shape.empty_since + config_.lease_linger > now_) {
    shape.surplus_timer = true;
    timers_.set(now_ + config_.lease_linger, TimerKind::kShapeSurplus, index);
    return;
  }
  for (const std::uint64_t sequence : std::vector<std::uint64_t>(shape.requests)) return_lease(sequence, false);
}

}  // namespace mobula::scheduler
