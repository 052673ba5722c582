// The part of the executor that hosts actors.
#include <algorithm>
#include <utility>

#include "runtime/base/result.h"
#include "scheduler/executor.h"

namespace mobula::scheduler {
namespace {

// How far behind a call whose arguments are still on their way other callers' calls are looked for.
constexpr std::size_t kScanMax = 64;

}  // namespace

// ---- birth
// ---------------------------------------------------------------------------------------------------------------

void Executor::receive(const Peer&, HostActor& message) {
  const ActorId id = message.spec.actor;
  const auto [hosted, is_new] = hosted_.emplace(id);
  if (!is_new) {
    if (hosted.state == ActorState::kAlive && hosted.incarnation == message.incarnation) {
      to_node(ActorStarted{id, hosted.incarnation, ActorAddress{config_.self, hosted.slot}});
    }
    return;
  }
  hosted.spec = std::move(message.spec);
  hosted.constructor = std::make_shared<const CallSpec>(hosted.spec.constructor);
  hosted.incarnation = message.incarnation;
  hosted.slot = message.slot;
  NeedArguments need;
  for (const CallValue& argument : hosted.spec.arguments) {
    if (const auto* stored = std::get_if<StoredValue>(&argument)) need.values.push_back(*stored);
  }
  if (need.values.empty()) {
    construct(id, {});
  } else {
    need.call = constructor_key(id);
    actions_->outputs.emplace_back(std::move(need));
  }
}

void Executor::constructor_pinned(ActorId id, ArgumentsReady& event) {
  if (!hosted_.contains(id)) {
    AbandonViews views;
    for (const PinnedLocation& location : event.locations) views.objects.push_back(location.object);
    actions_->outputs.emplace_back(std::move(views));
    return;
  }
  if (event.error) {
    end_actor(id, ActorEnd::kConstructorFailed, *event.error);
  } else {
    construct(id, std::move(event.locations));
  }
}

void Executor::construct(ActorId id, std::vector<PinnedLocation> pinned) {
  Hosted& hosted = hosted_.at(id);
  ++hosted.running;
  ++executed_;
  Execute& execute = actions_->execute.emplace_back();
  execute.caller = hosted.spec.owner;
  execute.spec = hosted.constructor;
  execute.allocation = allocation_;
  execute.lease = lease_;
  execute.actor = id;
  execute.incarnation = hosted.incarnation;
  execute.constructor = true;
  execute.returns = 0;
  execute.max_concurrency = hosted.spec.max_concurrency;
  std::size_t next = 0;
  for (CallValue& argument : hosted.spec.arguments) {
    if (auto* value = std::get_if<InlineValue>(&argument)) {
      execute.arguments.emplace_back(std::move(*value));
    } else {
      execute.arguments.emplace_back(std::move(pinned.at(next++)));
    }
  }
  hosted.spec.arguments.clear();
}

void Executor::constructor_finished(CallFinished& event) {
  Hosted* hosted = hosted_.find(event.actor);
  if (hosted == nullptr || hosted->state == ActorState::kAlive || hosted->running == 0) return;
  --hosted->running;
  hosted->error = std::move(event.error);
  actions_->outputs.emplace_back(CallRan{constructor_key(event.actor), hosted->spec.owner.peer(), {}});
}

// What it keeps is borrowed by now.
void Executor::constructor_cleared(ActorId id) {
  Hosted* hosted = hosted_.find(id);
  if (hosted == nullptr) return;
  if (hosted->error) {
    end_actor(id, ActorEnd::kConstructorFailed, ErrorInfo(*hosted->error));
    return;
  }
  to_node(ActorStarted{id, hosted->incarnation, ActorAddress{config_.self, hosted->slot}});
  if (hosted->state == ActorState::kStarting) hosted->state = ActorState::kAlive;
  touch(id, *hosted);
  maybe_drained(id);
}

// ---- calls
// ---------------------------------------------------------------------------------------------------------------

void Executor::accept_actor_call(const Peer& from, Call call, std::shared_ptr<const CallSpec>) {
  Hosted* hosted = hosted_.find(call.actor);
  if (hosted == nullptr || hosted->incarnation != call.incarnation || hosted->state == ActorState::kDraining) {
    give_back(from, call.task);
    return;
  }
  Lane& lane = hosted->lanes[from.process()];
  if (call.sequence < lane.next) {
    refuse(from, call, make_error(ErrorKind::kActorUnavailable, "the call came after later ones of its caller had run"),
           false);
    return;
  }
  const ActorId id = call.actor;
  if (call.sequence > lane.next) {
    if (lane.early.size() >= config_.early_max) {
      give_back(from, call.task);
      return;
    }
    if (lane.early.empty()) lane.gap_since = now_;
    lane.early.emplace(call.sequence, std::move(call));
    if (!std::exchange(lane.timer, true))
      timers_.set(now_ + config_.order_wait, TimerKind::kLane, id.sequence, id.maker);
    return;
  }
  enter(*hosted, from, lane, std::move(call));
  drain_early(id, *hosted, from, lane);
}

void Executor::enter(Hosted& hosted, const Peer& from, Lane& lane, Call call) {
  lane.next = call.sequence + 1;
  const auto& spec = callers_.at(from.process()).specs[call.spec];
  if (was_cancelled(call.task)) {
    ErrorInfo error = make_error(ErrorKind::kCancelled, "it was cancelled");
    error.task = spec->name;
    refuse(from, call, std::move(error), true);
    return;
  }
  const ActorId id = call.actor;
  hosted.queue.push_back(call.task);
  admit(from, LeaseId{}, std::move(call), spec);
  touch(id, hosted);
}

void Executor::drain_early(ActorId, Hosted& hosted, const Peer& from, Lane& lane) {
  while (!lane.early.empty() && lane.early.begin()->first <= lane.next) {
    Call call = std::move(lane.early.begin()->second);
    lane.early.erase(lane.early.begin());
    if (call.sequence == lane.next) enter(hosted, from, lane, std::move(call));
  }
  lane.gap_since = now_;
}

// A link keeps order, so what is missing was given up by its caller (it could not reach this process for long).
void Executor::lane_timer(ActorId id) {
  Hosted* hosted = hosted_.find(id);
  if (hosted == nullptr) return;
  for (auto& [process, lane] : hosted->lanes) {
    lane.timer = false;
    if (lane.early.empty()) continue;
    if (lane.gap_since + config_.order_wait <= now_) {
      lane.next = lane.early.begin()->first;
      drain_early(id, *hosted, callers_.at(process).peer, lane);
    }
    if (lane.early.empty()) continue;
    lane.timer = true;
    timers_.set(lane.gap_since + config_.order_wait, TimerKind::kLane, id.sequence, id.maker);
  }
}

void Executor::touch(ActorId id, Hosted& hosted) {
  if (!std::exchange(hosted.dirty, true)) dirty_actors_.push_back(id);
}

void Executor::start_methods(ActorId id) {
  Hosted* hosted = hosted_.find(id);
  if (hosted == nullptr) return;
  hosted->dirty = false;
  if (hosted->state == ActorState::kStarting) return;
  const std::uint32_t room = hosted->spec.max_concurrency == 1 ? config_.methods_ahead : hosted->spec.max_concurrency;
  std::vector<ProcessId> held;  // callers whose next call waits for its arguments
  for (std::size_t i = 0; i < hosted->queue.size() && i < kScanMax && hosted->running < room;) {
    Active& active = calls_.at(hosted->queue[i]);
    const ProcessId caller = active.caller.process();
    const bool in_order = std::find(held.begin(), held.end(), caller) == held.end();
    if (active.phase == Phase::kReady && in_order) {
      hosted->queue.erase(hosted->queue.begin() + static_cast<std::ptrdiff_t>(i));
      ++hosted->running;
      run(active);
      continue;
    }
    if (in_order) held.push_back(caller);
    ++i;
  }
  maybe_drained(id);
}

// ---- end
// ---------------------------------------------------------------------------------------------------------------

void Executor::receive(const Peer&, ExitActor& message) {
  Hosted* hosted = hosted_.find(message.actor);
  if (hosted == nullptr) return;
  hosted->state = ActorState::kDraining;
  for (auto& [process, lane] : hosted->lanes) {
    for (const auto& [sequence, call] : lane.early) give_back(callers_.at(process).peer, call.task);
    lane.early.clear();
  }
  touch(message.actor, *hosted);
  maybe_drained(message.actor);
}

void Executor::maybe_drained(ActorId id) {
  const Hosted* hosted = hosted_.find(id);
  if (hosted == nullptr || hosted->state != ActorState::kDraining) return;
  if (!hosted->queue.empty() || hosted->running > 0 || hosted->ending > 0) return;
  end_actor(id, ActorEnd::kExited, make_error(ErrorKind::kActorDied, "its last handle is gone"));
}

void Executor::end_actor(ActorId id, ActorEnd end, const ErrorInfo& error) {
  to_node(ActorEnded{id, hosted_.at(id).incarnation, end, error});
  actions_->outputs.emplace_back(DropInstance{id});
  hosted_.erase(id);
  if (hosted_.empty()) actions_->outputs.emplace_back(ExitProcess{error.message});
}

void Executor::lanes_gone(ProcessId process) {
  for (const ActorId id : hosted_.sorted_keys()) hosted_.at(id).lanes.erase(process);
}

}  // namespace mobula::scheduler
