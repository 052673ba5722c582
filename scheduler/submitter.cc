#include "scheduler/submitter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

// What a queued call costs beside the bytes of its arguments.
constexpr std::uint64_t kCallBytes = 256;
constexpr std::uint32_t kCallsInMessageMax = 1024;

ErrorInfo cancelled_error(const std::string& name) {
  ErrorInfo error = make_error(ErrorKind::kCancelled, "it was cancelled");
  error.task = name;
  return error;
}

}  // namespace

Submitter::Submitter(const SubmitterConfig& config) : config_(config) {}

void Submitter::step(Instant now, std::span<SubmitterEvent> events, SubmitterActions& actions) {
  now_ = now;
  actions_ = &actions;
  for (SubmitterEvent& event : events) {
    std::visit([this](auto& concrete) { on(concrete); }, event);
  }
  actions_ = nullptr;
}

void Submitter::flush(Instant now, SubmitterActions& actions) {
  now_ = now;
  actions_ = &actions;
  for (const std::uint32_t shape : std::exchange(dirty_shapes_, {})) dispatch(shape);
  for (const ActorId actor : std::exchange(dirty_actors_, {})) pump(actor);
  if (queued_bytes_ != reported_bytes_) {
    reported_bytes_ = queued_bytes_;
    actions.outputs.emplace_back(QueueChanged{queued_bytes_});
  }
  outbox_.flush(actions.sends);
  actions_ = nullptr;
}

// ---- a call begins
// ------------------------------------------------------------------------------------------------------------

Submitter::Task& Submitter::new_task(TaskId id, SpecRef spec, std::vector<ArgumentIn> arguments, std::uint32_t returns,
                                     ObjectId first, TaskId parent) {
  const auto [task, is_new] = tasks_.emplace(id.sequence);
  MOBULA_CHECK(is_new && id.maker == config_.self.process.value, "a task id was given out twice");
  watermark_.submitted(id.sequence);
  task.spec = std::move(spec);
  task.returns = returns;
  task.first_return = first;
  task.parent = parent;
  task.bytes = kCallBytes;
  for (const ArgumentIn& argument : arguments) {
    if (const auto* value = std::get_if<InlineValue>(&argument)) {
      task.bytes += value->bytes.size();
      task.pinned = task.pinned || !value->refs.empty();
    } else {
      task.pinned = true;
    }
  }
  queued_bytes_ += task.bytes;
  take_arguments(std::move(arguments), task.arguments, task.unresolved, Waiter{NeededBy::kTask, {}, id.sequence});
  return task;
}

void Submitter::take_arguments(std::vector<ArgumentIn> arguments, std::vector<CallValue>& values,
                               std::uint32_t& unresolved, const Waiter& waiter) {
  values.reserve(arguments.size());
  std::vector<ObjectLocator> needed;
  for (ArgumentIn& argument : arguments) {
    if (auto* value = std::get_if<InlineValue>(&argument)) {
      values.emplace_back(std::move(*value));
      continue;
    }
    const ObjectLocator object = std::get<ObjectLocator>(argument);
    values.emplace_back(StoredValue{object, 0, {}, {}});  // until it is known
    if (std::find(needed.begin(), needed.end(), object) == needed.end()) needed.push_back(object);
  }
  unresolved = static_cast<std::uint32_t>(needed.size());
  for (const ObjectLocator& object : needed) {
    waiters_[object.id].push_back(waiter);
    actions_->outputs.emplace_back(NeedObject{object});
  }
}

void Submitter::on(SubmitTask& event) {
  const std::uint64_t sequence = event.task.sequence;
  Task& task = new_task(event.task, std::move(event.spec), std::move(event.arguments), event.returns,
                        event.first_return, event.parent);
  task.max_retries = task.spec.spec->max_retries;
  if (stopped_) {
    fail(sequence, make_error(ErrorKind::kRuntimeStopped, "the Runtime has left its scope"));
  } else if (task.unresolved == 0) {
    enqueue(task, sequence);
  }
}

void Submitter::on(SubmitActorCall& event) {
  const std::uint64_t sequence = event.task.sequence;
  Task& task = new_task(event.task, std::move(event.spec), std::move(event.arguments), event.returns,
                        event.first_return, event.parent);
  task.actor = event.actor;
  task.max_retries = event.max_task_retries;
  Actor& actor = actor_entry(event.actor);
  if (event.self.id) actor.self = event.self;
  if (actor.queue.empty() && actor.inflight.empty() && actor.self.id) {
    actions_->outputs.emplace_back(ActorBusy{event.actor, actor.self, true});
  }
  actor.queue.push_back(sequence);
  if (task.unresolved == 0) task.state = CallState::kQueued;
  if (stopped_) {
    fail(sequence, make_error(ErrorKind::kRuntimeStopped, "the Runtime has left its scope"));
  } else if (actor.known && actor.info.phase == ActorPhase::kDead) {
    fail_queue(event.actor, actor.info.error.value_or(make_error(ErrorKind::kActorDied, "the actor has ended")));
  } else {
    watch(event.actor, actor);
    touch_actor(event.actor, actor);
  }
}

void Submitter::enqueue(Task& task, std::uint64_t sequence) {
  task.state = CallState::kQueued;
  if (task.actor) {
    touch_actor(task.actor, actors_.at(task.actor));
    return;
  }
  const std::uint32_t shape = shape_of(task.spec);
  shapes_[shape].queue.push_back(sequence);
  touch_shape(shape);
}

void Submitter::on(ObjectKnown& event) {
  std::vector<Waiter>* found = waiters_.find(event.object);
  if (found == nullptr) return;
  const auto waiters = std::move(*found);
  waiters_.erase(event.object);
  for (const Waiter& waiter : waiters) {
    if (waiter.kind == NeededBy::kTask) {
      if (Task* task = tasks_.find(waiter.task)) resolve(*task, waiter.task, event.object, event.outcome);
    } else if (Creation* creation = creations_.find(waiter.actor)) {
      resolve(*creation, waiter.actor, event.object, event.outcome);
    }
  }
}

namespace {

// False when the outcome is an error.
bool fill(std::vector<CallValue>& arguments, ObjectId object, const Outcome& outcome) {
  for (CallValue& argument : arguments) {
    const auto* stored = std::get_if<StoredValue>(&argument);
    if (stored == nullptr || stored->object.id != object) continue;
    if (const auto* value = std::get_if<InlineValue>(&outcome)) {
      argument = *value;
    } else if (const auto* place = std::get_if<StoredValue>(&outcome)) {
      argument = *place;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

void Submitter::drop_waiters(const std::vector<CallValue>& arguments, const Waiter& waiter) {
  for (const CallValue& argument : arguments) {
    const auto* stored = std::get_if<StoredValue>(&argument);
    if (stored == nullptr) continue;
    std::vector<Waiter>* waiters = waiters_.find(stored->object.id);
    if (waiters == nullptr) continue;
    std::erase(*waiters, waiter);
    if (waiters->empty()) waiters_.erase(stored->object.id);
  }
}

void Submitter::resolve(Task& task, std::uint64_t sequence, ObjectId object, const Outcome& outcome) {
  if (!fill(task.arguments, object, outcome)) {
    fail(sequence, std::get<ErrorInfo>(outcome));
    return;
  }
  if (--task.unresolved == 0) enqueue(task, sequence);
}

void Submitter::resolve(Creation& creation, ActorId actor, ObjectId object, const Outcome& outcome) {
  if (!fill(creation.spec.arguments, object, outcome)) {
    fail_creation(actor, std::get<ErrorInfo>(outcome));
    return;
  }
  if (--creation.unresolved == 0) create(actor);
}

// ---- a call travels
// -----------------------------------------------------------------------------------------------------------

void Submitter::push(const Peer& to, LeaseId lease, std::uint64_t sequence, Task& task) {
  Link& to_link = link(to);
  const std::uint32_t number = task.spec.number;
  if (to_link.defined.size() <= number) to_link.defined.resize(number + 1);
  if (!to_link.defined[number]) {
    to_link.defined[number] = true;
    outbox_.add(to, DefineSpec{number, *task.spec.spec});
  }
  PushCalls* message = &outbox_.last<PushCalls>(to);
  const bool fits = message->lease == lease && message->calls.size() < kCallsInMessageMax &&
                    to_link.batch_bytes + task.bytes <= config_.message_bytes_max;
  if (!message->calls.empty() && !fits) message = &outbox_.add(to, PushCalls{});
  if (message->calls.empty()) {
    to_link.batch_bytes = 0;
    message->lease = lease;
    message->acknowledged = watermark_.value();
  }
  to_link.batch_bytes += task.bytes;
  Call& call = message->calls.emplace_back();
  call.task = task_id(sequence);
  call.spec = number;
  call.attempt = task.attempt;
  call.returns = task.returns;
  call.first_return = task.first_return;
  call.arguments = task.arguments;
  if (task.actor) {
    call.actor = task.actor;
    call.incarnation = actors_.at(task.actor).info.incarnation;
    call.sequence = task.order;
  }
  task.state = CallState::kPushed;
}

Peer Submitter::where(const Task& task) const {
  if (task.actor) return actors_.at(task.actor).info.address.host.peer();
  return leases_.at(task.lease).worker;
}

void Submitter::receive(const Peer& from, CallsDone& message) {
  for (CallResult& result : message.results) answered(from, result);
}

void Submitter::answered(const Peer& from, CallResult& result) {
  const std::uint64_t sequence = result.task.sequence;
  Task* task = result.task.maker == config_.self.process.value ? tasks_.find(sequence) : nullptr;
  if (task == nullptr || task->state != CallState::kPushed || task->attempt != result.attempt || where(*task) != from) {
    if (!result.returns.empty()) {
      actions_->outputs.emplace_back(StaleAnswer{result.task, std::move(result.returns), from});
    }
    return;
  }
  measure(task->spec.number, result.run_ns);
  const std::uint64_t lease = task->lease;
  if (task->actor) {
    leave_actor(actors_.at(task->actor), task->actor, sequence);
  } else {
    leave_pipeline(sequence, *task);
  }
  if (result.error) {
    const bool user_failed = result.error->kind == ErrorKind::kTaskFailed && task->spec.spec->retry_exceptions;
    if (result.cancelled || task->cancelled) {
      fail(sequence, cancelled_error(task->spec.spec->name));
    } else if (user_failed && !task->actor) {
      retry_or_fail(sequence, *result.error, true, shapes_[shape_of(task->spec)].queue);
    } else {
      fail(sequence, std::move(*result.error));
    }
  } else {
    settle(sequence, &result, std::nullopt, from);
  }
  if (lease != 0) after_answer(lease);
}

void Submitter::receive(const Peer& from, GiveBack& message) {
  std::vector<std::pair<ActorId, std::vector<std::uint64_t>>> of_actors;
  std::vector<std::uint64_t> stalled;
  for (auto id = message.tasks.rbegin(); id != message.tasks.rend(); ++id) {
    Task* task = id->maker == config_.self.process.value ? tasks_.find(id->sequence) : nullptr;
    if (task == nullptr || task->state != CallState::kPushed || where(*task) != from) continue;
    if (task->actor) {
      if (of_actors.empty() || of_actors.back().first != task->actor) of_actors.push_back({task->actor, {}});
      of_actors.back().second.push_back(id->sequence);
      continue;
    }
    if (stalled.empty() || stalled.back() != task->lease) stalled.push_back(task->lease);
    leave_pipeline(id->sequence, *task);
    if (task->cancelled) {
      fail(id->sequence, cancelled_error(task->spec.spec->name));
      continue;
    }
    task->state = CallState::kQueued;
    const std::uint32_t shape = shape_of(task->spec);
    shapes_[shape].queue.push_front(id->sequence);
    touch_shape(shape);
  }
  for (auto& [actor, sequences] : of_actors) given_back(actor, sequences);
  for (const std::uint64_t sequence : stalled) {
    Lease* lease = leases_.find(sequence);
    if (lease == nullptr) continue;
    lease->stalled = true;
    if (lease->pipeline.empty()) {
      if (lease->reclaimed) {
        return_lease(sequence, false);
      } else if (!lease->stall_timer) {
        lease->stall_timer = true;
        timers_.set(now_ + config_.steal_after, TimerKind::kLeaseStall, sequence);
      }
    }
  }
}

// ---- a call ends
// --------------------------------------------------------------------------------------------------------------

void Submitter::settle(std::uint64_t sequence, CallResult* result, std::optional<ErrorInfo> error,
                       const Peer& executor) {
  Task& task = tasks_.at(sequence);
  CallSettled settled;
  settled.task = task_id(sequence);
  settled.first_return = task.first_return;
  settled.returns = task.returns;
  settled.executor = executor;
  settled.pinned = task.pinned;
  settled.left_on = std::move(task.left_on);
  if (result != nullptr && result->returns.size() != task.returns && !error) {
    error = make_error(ErrorKind::kTaskFailed, "it gave " + std::to_string(result->returns.size()) +
                                                   " values where the call expects " + std::to_string(task.returns));
  }
  if (error) {
    ++failed_;
    if (error->task.empty()) error->task = task.spec.spec->name;
    settled.error = std::move(error);
  } else {
    settled.values = std::move(result->returns);
  }
  if (task.unresolved > 0) drop_waiters(task.arguments, Waiter{NeededBy::kTask, {}, sequence});
  ++settled_;
  queued_bytes_ -= task.bytes;
  watermark_.settled(sequence);
  tasks_.erase(sequence);
  actions_->outputs.emplace_back(std::move(settled));
}

// Wherever it is: in a queue, pushed, or waiting for arguments.
void Submitter::fail(std::uint64_t sequence, ErrorInfo error) {
  Task& task = tasks_.at(sequence);
  if (task.actor) {
    if (Actor* actor = actors_.find(task.actor)) leave_actor(*actor, task.actor, sequence);
  } else if (task.state == CallState::kQueued) {
    const std::uint32_t shape = shape_of(task.spec);
    std::erase(shapes_[shape].queue, sequence);
    touch_shape(shape);
  } else if (task.state == CallState::kPushed && task.lease != 0) {
    leave_pipeline(sequence, task);
  }
  settle(sequence, nullptr, std::move(error), {});
}

void Submitter::retry_or_fail(std::uint64_t sequence, const ErrorInfo& error, bool charged,
                              std::deque<std::uint64_t>& requeue) {
  Task& task = tasks_.at(sequence);
  const bool may_retry =
      task.max_retries < 0 || (task.max_retries > 0 && (!charged || task.retries < task.max_retries));
  if (task.cancelled || !may_retry) {
    task.state = CallState::kWaiting;  // in no queue any more
    settle(sequence, nullptr, task.cancelled ? cancelled_error(task.spec.spec->name) : error, {});
    return;
  }
  if (charged) ++task.retries;
  ++task.attempt;
  ++retried_;
  task.state = CallState::kQueued;
  requeue.push_front(sequence);
  if (!task.actor) touch_shape(shape_of(task.spec));
}

void Submitter::on(Cancel& event) {
  if (event.task.maker == config_.self.process.value && tasks_.contains(event.task.sequence)) {
    cancel(event.task.sequence, event.force, event.recursive);
  }
}

void Submitter::cancel(std::uint64_t sequence, bool force, bool recursive) {
  Task& task = tasks_.at(sequence);
  if (task.state != CallState::kPushed) {
    fail(sequence, cancelled_error(task.spec.spec->name));
    return;
  }
  task.cancelled = true;
  task.force = task.force || force;
  task.recursive = recursive;
  outbox_.add(where(task), CancelCall{task_id(sequence), task.force && !task.actor, recursive});
}

void Submitter::on(CancelChildren& event) {
  for (const std::uint64_t sequence : tasks_.sorted_keys()) {
    const Task* task = tasks_.find(sequence);
    if (task != nullptr && task->parent == event.parent) cancel(sequence, event.force, true);
  }
}

void Submitter::fail_everything(const ErrorInfo& error) {
  stopped_ = true;
  for (const ActorId actor : actors_.sorted_keys()) fail_queue(actor, error);
  for (Shape& shape : shapes_) {
    for (const std::uint64_t sequence : std::exchange(shape.queue, {})) {
      tasks_.at(sequence).state = CallState::kWaiting;  // in no queue any more
      settle(sequence, nullptr, error, {});
    }
  }
  for (const std::uint64_t sequence : tasks_.sorted_keys()) {
    if (tasks_.contains(sequence)) fail(sequence, error);
  }
  for (const ActorId actor : creations_.sorted_keys()) {
    if (creations_.contains(actor)) fail_creation(actor, error);
  }
  for (const RequestId request : requests_.sorted_keys()) {
    if (std::holds_alternative<FindActor>(requests_.at(request)))
      actions_->outputs.emplace_back(ActorAnswer{request, error});
  }
  requests_.clear();
  for (const std::uint64_t lease : leases_.sorted_keys()) return_lease(lease, false);
}

void Submitter::on(JobEnding&) {
  // Workers still run what was pushed: they are told to stop.
  for (const std::uint64_t sequence : tasks_.sorted_keys()) {
    const Task& task = tasks_.at(sequence);
    if (task.state == CallState::kPushed && !task.actor)
      outbox_.add(where(task), CancelCall{task_id(sequence), false, true});
  }
  fail_everything(make_error(ErrorKind::kRuntimeStopped, "the Runtime has left its scope before this call was done"));
}

void Submitter::on(NodeLost& event) {
  fail_everything(event.why);
}

// ---- trouble
// --------------------------------------------------------------------------------------------------------------------

void Submitter::on(PeerTroubled& event) {
  Link* found = links_.find(event.peer.process());
  if (found == nullptr) return;
  found->defined.clear();
  const auto leases = found->leases;
  const auto actors = found->actors;
  for (const std::uint64_t sequence : leases) {
    Lease* lease = leases_.find(sequence);
    if (lease == nullptr) continue;
    lease->broken = true;
    if (event.stage == PeerTrouble::kBroken) continue;
    ErrorInfo error = event.why;
    error.kind = ErrorKind::kWorkerDied;
    lose_lease(sequence, error);
    outbox_.add(Peer::of(event.peer.node), ReturnLease{lease_id(sequence), true});
  }
  for (const ActorId actor : actors) host_trouble(actor, event);
  tidy_link(event.peer.process());
}

void Submitter::on(PeerUsable& event) {
  Link* found = links_.find(event.peer.process());
  if (found == nullptr) return;
  const auto leases = found->leases;
  const auto actors = found->actors;
  for (const std::uint64_t sequence : leases) repeat_lease(sequence);
  for (const ActorId actor : actors) repeat_actor(actor);
}

void Submitter::tidy_link(ProcessId process) {
  const Link* found = links_.find(process);
  if (found != nullptr && found->leases.empty() && found->actors.empty() && found->defined.empty()) {
    links_.erase(process);
  }
}

void Submitter::on(NodeGone& event) {
  for (const std::uint64_t sequence : leases_.sorted_keys()) {
    Lease* lease = leases_.find(sequence);
    if (lease == nullptr || lease->node != event.node) continue;
    ErrorInfo error = make_error(ErrorKind::kWorkerDied, "its node " + to_string(event.node) + " is gone");
    error.node = event.node;
    lose_lease(sequence, error);
  }
}

void Submitter::on(Received& event) {
  std::visit(
      [this, &event](auto& message) {
        if constexpr (requires { receive(event.from, message); }) receive(event.from, message);
      },
      event.message);
}

void Submitter::on(Tick&) {
  while (const auto timer = timers_.pop_due(now_)) {
    switch (timer->kind) {
      case TimerKind::kLeaseIdle:
      case TimerKind::kLeaseRequest:
      case TimerKind::kLeaseSteal:
      case TimerKind::kLeaseStall: lease_timer(timer->kind, timer->id); break;
      case TimerKind::kShapeSurplus: drop_surplus(static_cast<std::uint32_t>(timer->id)); break;
      case TimerKind::kActorAsk:
      case TimerKind::kActorIdle: actor_timer(timer->kind, ActorId{timer->maker, timer->id}); break;
      case TimerKind::kRequest: repeat_request(RequestId{timer->maker, timer->id}); break;
    }
  }
}

// ---- for people and tests
// ---------------------------------------------------------------------------------------------------

SubmitterStats Submitter::stats() const {
  SubmitterStats stats;
  stats.calls = tasks_.size();
  for (const Shape& shape : shapes_) {
    stats.leases += shape.granted;
    stats.lease_requests += shape.requests.size();
  }
  stats.actors = actors_.size();
  stats.queued_bytes = queued_bytes_;
  stats.settled = settled_;
  stats.failed = failed_;
  stats.retries = retried_;
  return stats;
}

bool Submitter::idle() const {
  return tasks_.empty() && leases_.empty() && creations_.empty() && requests_.empty() && waiters_.empty();
}

void Submitter::check() const {
  std::uint64_t bytes = 0;
  for (const std::uint64_t sequence : tasks_.sorted_keys()) {
    const Task& task = tasks_.at(sequence);
    bytes += task.bytes;
    MOBULA_CHECK((task.state == CallState::kWaiting) == (task.unresolved > 0), "waiting for nothing");
    MOBULA_CHECK(sequence >= watermark_.value(), "an open call below the watermark");
    if (task.actor) {
      const Actor& actor = actors_.at(task.actor);
      const auto& list = task.state == CallState::kPushed ? actor.inflight : actor.queue;
      MOBULA_CHECK(std::count(list.begin(), list.end(), sequence) == 1, "an actor call in no list");
    } else if (task.state == CallState::kPushed) {
      const Lease& lease = leases_.at(task.lease);
      MOBULA_CHECK(std::count(lease.pipeline.begin(), lease.pipeline.end(), sequence) == 1, "a task in no pipeline");
    }
  }
  MOBULA_CHECK(bytes == queued_bytes_, "queued bytes are miscounted");
  for (const std::uint64_t sequence : leases_.sorted_keys()) {
    const Lease& lease = leases_.at(sequence);
    std::int64_t work_ns = 0;
    for (const std::uint64_t task : lease.pipeline) work_ns += tasks_.at(task).estimate_ns;
    MOBULA_CHECK(work_ns == lease.work_ns, "work is miscounted");
    MOBULA_CHECK(lease.state == LeaseState::kGranted || lease.pipeline.empty(), "work without a grant");
  }
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const Shape& shape = shapes_[i];
    for (const std::uint64_t task : shape.queue) {
      MOBULA_CHECK(tasks_.contains(task) && tasks_.at(task).state == CallState::kQueued, "a queued ghost");
    }
    // Nobody waits in silence.
    MOBULA_CHECK(shape.queue.empty() || shape.dirty || !shape.requests.empty() || shape.granted > 0,
                 "queued tasks, and no lease on its way");
  }
}

}  // namespace mobula::scheduler
