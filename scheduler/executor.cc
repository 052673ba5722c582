#include "scheduler/executor.h"

#include <algorithm>
#include <utility>

#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

constexpr std::size_t kPastLeasesMax = 64;
constexpr std::size_t kResultsInMessageMax = 1024;
// Of an answer, beside its values.
constexpr std::size_t kAnswerBytes = 256;

std::size_t bytes_of(const CallResult& result) {
  std::size_t bytes = kAnswerBytes;
  for (const CallValue& value : result.returns) {
    if (const auto* inline_value = std::get_if<InlineValue>(&value)) bytes += inline_value->bytes.size();
  }
  if (result.error) bytes += result.error->message.size() + result.error->log_tail.size();
  return bytes;
}

CallResult error_result(const Call& call, ErrorInfo error, bool cancelled) {
  CallResult result;
  result.task = call.task;
  result.attempt = call.attempt;
  result.error = std::move(error);
  result.cancelled = cancelled;
  return result;
}

ErrorInfo cancelled_error(const std::string& name) {
  ErrorInfo error = make_error(ErrorKind::kCancelled, "it was cancelled");
  error.task = name;
  return error;
}

}  // namespace

Executor::Executor(const ExecutorConfig& config) : config_(config) {}

void Executor::step(Instant now, std::span<ExecutorEvent> events, ExecutorActions& actions) {
  now_ = now;
  actions_ = &actions;
  for (ExecutorEvent& event : events) {
    std::visit([this](auto& concrete) { on(concrete); }, event);
  }
  actions_ = nullptr;
}

void Executor::flush(Instant now, ExecutorActions& actions) {
  now_ = now;
  actions_ = &actions;
  start_tasks();
  for (const ActorId actor : std::exchange(dirty_actors_, {})) start_methods(actor);
  outbox_.flush(actions.sends);
  actions_ = nullptr;
}

void Executor::to_node(Message message) {
  std::visit([this](auto& concrete) { outbox_.add(Peer::of(config_.self.node), std::move(concrete)); }, message);
}

Executor::Caller& Executor::caller_entry(const Peer& peer) {
  Caller& caller = callers_[peer.process()];
  caller.peer = peer;
  return caller;
}

// ---- calls arrive
// -------------------------------------------------------------------------------------------------------------

void Executor::receive(const Peer& from, DefineSpec& message) {
  constexpr std::uint32_t kSpecsMax = 1 << 20;
  if (message.number >= kSpecsMax) return;
  auto& specs = caller_entry(from).specs;
  if (specs.size() <= message.number) specs.resize(message.number + 1);
  specs[message.number] = std::make_shared<const CallSpec>(std::move(message.spec));
}

void Executor::receive(const Peer& from, PushCalls& message) {
  acknowledge(caller_entry(from), message.acknowledged);
  for (Call& call : message.calls) accept(from, message.lease, std::move(call));
}

void Executor::acknowledge(Caller& caller, std::uint64_t watermark) {
  caller.acknowledged = std::max(caller.acknowledged, watermark);
  while (!caller.answered.empty() && caller.answered.front() < caller.acknowledged) {
    if (const Answer* answer = caller.answers.find(caller.answered.front())) {
      if (!answer->dropped) {
        --caller.kept;
        caller.kept_bytes -= answer->bytes;
      }
      caller.answers.erase(caller.answered.front());
    }
    caller.answered.pop_front();
  }
  while (!caller.droppable.empty() && caller.droppable.front() < caller.acknowledged) caller.droppable.pop_front();
}

void Executor::accept(const Peer& from, LeaseId lease, Call call) {
  Caller& caller = callers_.at(from.process());
  if (call.task.sequence < caller.acknowledged || known_already(from, caller, call)) return;
  std::shared_ptr<const CallSpec> spec = call.spec < caller.specs.size() ? caller.specs[call.spec] : nullptr;
  if (!spec) {
    refuse(from, call, make_error(ErrorKind::kInvalid, "the caller did not define what it calls"), false);
  } else if (call.actor) {
    accept_actor_call(from, std::move(call), std::move(spec));
  } else if (was_cancelled(call.task)) {
    refuse(from, call, cancelled_error(spec->name), true);
  } else {
    accept_task(from, lease, std::move(call), std::move(spec));
  }
}

// It is here or was answered: a repeat gets the first answer. An attempt newer than what is known: the caller had given
// the older one up.
bool Executor::known_already(const Peer& from, Caller& caller, const Call& call) {
  if (Active* active = calls_.find(call.task)) {
    active->call.attempt = std::max(active->call.attempt, call.attempt);
    active->result.attempt = active->call.attempt;
    ++repeats_;
    return true;
  }
  const Answer* answer = caller.answers.find(call.task.sequence);
  if (answer == nullptr || answer->result.attempt < call.attempt) return false;
  ++repeats_;
  if (answer->dropped) {
    send_answer(from,
                error_result(call, make_error(ErrorKind::kWorkerDied, "its answer was lost with a broken link; it ran"),
                             false));
  } else {
    send_answer(from, answer->result);
  }
  return true;
}

bool Executor::was_cancelled(TaskId task) {
  return tombstones_.erase(task);
}

void Executor::accept_task(const Peer& from, LeaseId lease, Call call, std::shared_ptr<const CallSpec> spec) {
  if (lease != lease_) {
    const bool past = std::find(past_leases_.begin(), past_leases_.end(), lease) != past_leases_.end();
    if (past || early_.size() >= config_.early_max) {
      give_back(from, call.task);
      return;
    }
    // The node's word may take longer than the caller's.
    if (early_.empty()) timers_.set(now_ + config_.lease_wait, TimerKind::kEarly, 0);
    early_.push_back({from, lease, std::move(call), now_});
    return;
  }
  if (blocked_ > 0) {
    give_back(from, call.task);
    return;
  }
  queue_.push_back(call.task);
  admit(from, lease, std::move(call), std::move(spec));
}

Executor::Active& Executor::admit(const Peer& from, LeaseId lease, Call call, std::shared_ptr<const CallSpec> spec) {
  const TaskId task = call.task;
  const auto [active, is_new] = calls_.emplace(task);
  MOBULA_CHECK(is_new, "a call is taken twice");
  active.call = std::move(call);
  active.caller = from;
  active.lease = lease;
  active.spec = std::move(spec);
  NeedArguments need;
  for (const CallValue& argument : active.call.arguments) {
    if (const auto* stored = std::get_if<StoredValue>(&argument)) need.values.push_back(*stored);
  }
  if (!need.values.empty()) {
    active.phase = Phase::kPinning;
    need.call = task;
    actions_->outputs.emplace_back(std::move(need));
  }
  return active;
}

void Executor::on(ArgumentsReady& event) {
  if (event.call.sequence >> 63 != 0) {
    constructor_pinned(ActorId{event.call.maker, event.call.sequence & ~(1ULL << 63)}, event);
    return;
  }
  Active* active = calls_.find(event.call);
  if (active == nullptr || active->phase != Phase::kPinning) return;
  if (event.error) {
    leave_queue(*active);
    answer(event.call, error_result(active->call, std::move(*event.error), false));
    return;
  }
  active->phase = Phase::kReady;
  active->pinned = std::move(event.locations);
  if (active->call.actor) touch(active->call.actor, hosted_.at(active->call.actor));
}

// ---- calls run
// ----------------------------------------------------------------------------------------------------------------

void Executor::start_tasks() {
  if (tasks_running_ > 0 || queue_.empty()) return;
  Active& active = calls_.at(queue_.front());
  if (active.phase != Phase::kReady) return;
  queue_.pop_front();
  ++tasks_running_;
  run(active);
}

void Executor::run(Active& active) {
  active.phase = Phase::kRunning;
  ++executed_;
  Execute& execute = actions_->execute.emplace_back();
  execute.caller = ProcessAddress{active.caller.process(), active.caller.node, active.spec->job};
  execute.task = active.call.task;
  execute.attempt = active.call.attempt;
  execute.returns = active.call.returns;
  execute.first_return = active.call.first_return;
  execute.spec = active.spec;
  execute.allocation = allocation_;
  execute.lease = active.lease;
  execute.actor = active.call.actor;
  execute.incarnation = active.call.incarnation;
  execute.arguments.reserve(active.call.arguments.size());
  std::size_t next = 0;
  for (CallValue& argument : active.call.arguments) {
    if (auto* value = std::get_if<InlineValue>(&argument)) {
      execute.arguments.emplace_back(std::move(*value));
    } else {
      execute.arguments.emplace_back(std::move(active.pinned.at(next++)));
    }
  }
  active.call.arguments.clear();
  active.pinned.clear();
}

void Executor::on(CallFinished& event) {
  if (!event.task) {
    constructor_finished(event);
    return;
  }
  Active* active = calls_.find(event.task);
  if (active == nullptr || active->phase != Phase::kRunning) return;
  active->phase = Phase::kEnding;
  CallRan ran;
  ran.call = event.task;
  ran.caller = active->caller;
  CallResult& result = active->result;
  result.task = event.task;
  result.attempt = active->call.attempt;
  result.run_ns = event.run_ns;
  if (event.error) {
    result.cancelled = event.cancelled || (active->cancelled && event.error->kind == ErrorKind::kCancelled);
    result.error = std::move(event.error);
  } else {
    std::uint32_t index = 0;
    for (ResultIn& value : event.results) {
      const ObjectId object = return_id(active->call.first_return, index++);
      if (auto* inline_value = std::get_if<InlineValue>(&value)) {
        result.returns.emplace_back(std::move(*inline_value));
      } else {
        auto& stored = std::get<StoredResult>(value);
        const ObjectLocator locator{object, active->caller.node, active->spec->job};
        result.returns.emplace_back(StoredValue{locator, stored.size, {config_.self.node}, std::move(stored.refs)});
      }
      const auto& refs = refs_of(result.returns.back());
      ran.refs.insert(ran.refs.end(), refs.begin(), refs.end());
    }
  }
  if (!callers_.contains(active->caller.process())) ran.refs.clear();  // nobody will take them over
  if (active->call.actor) {
    Hosted& hosted = hosted_.at(active->call.actor);
    --hosted.running;
    ++hosted.ending;
    touch(active->call.actor, hosted);
  } else {
    --tasks_running_;
  }
  actions_->outputs.emplace_back(std::move(ran));
}

void Executor::on(AnswerCleared& event) {
  if (event.call.sequence >> 63 != 0) {
    constructor_cleared(ActorId{event.call.maker, event.call.sequence & ~(1ULL << 63)});
    return;
  }
  Active* active = calls_.find(event.call);
  if (active == nullptr || active->phase != Phase::kEnding) return;
  const ActorId actor = active->call.actor;
  answer(event.call, std::move(active->result));
  if (!actor) return;
  --hosted_.at(actor).ending;
  maybe_drained(actor);
}

void Executor::answer(TaskId task, CallResult result) {
  const Peer caller = calls_.at(task).caller;
  calls_.erase(task);
  Caller* known = callers_.find(caller.process());
  if (known == nullptr) return;
  send_answer(caller, result);
  keep_answer(*known, std::move(result));
}

void Executor::refuse(const Peer& from, const Call& call, ErrorInfo error, bool cancelled) {
  CallResult result = error_result(call, std::move(error), cancelled);
  send_answer(from, result);
  keep_answer(callers_.at(from.process()), std::move(result));
}

void Executor::send_answer(const Peer& caller, const CallResult& result) {
  const std::size_t bytes = bytes_of(result);
  CallsDone* message = &outbox_.last<CallsDone>(caller);
  if (message->results.empty()) {
    done_bytes_ = 0;
  } else if (message->results.size() >= kResultsInMessageMax || done_bytes_ + bytes > config_.message_bytes_max) {
    message = &outbox_.add(caller, CallsDone{});
    done_bytes_ = 0;
  }
  done_bytes_ += bytes;
  message->results.push_back(result);
}

void Executor::keep_answer(Caller& caller, CallResult result) {
  const std::uint64_t sequence = result.task.sequence;
  if (sequence < caller.acknowledged) return;
  const auto [answer, is_new] = caller.answers.emplace(sequence);
  if (is_new) {
    caller.answered.push_back(sequence);
  } else if (!answer.dropped) {
    --caller.kept;
    caller.kept_bytes -= answer.bytes;
  }
  answer.bytes = bytes_of(result);
  answer.result = std::move(result);
  answer.dropped = false;
  ++caller.kept;
  caller.kept_bytes += answer.bytes;
  caller.droppable.push_back(sequence);
  while (caller.kept > config_.answers_max || (caller.kept > 1 && caller.kept_bytes > config_.answer_bytes_max)) {
    const std::uint64_t oldest = caller.droppable.front();
    caller.droppable.pop_front();
    Answer* dropped = caller.answers.find(oldest);
    if (dropped == nullptr || dropped->dropped) continue;
    --caller.kept;
    caller.kept_bytes -= dropped->bytes;
    dropped->dropped = true;
    dropped->result.returns = {};
    dropped->result.error.reset();
  }
}

void Executor::on(RepeatAnswer& event) {
  const Caller* caller = callers_.find(event.caller.process());
  const Answer* answer = caller == nullptr ? nullptr : caller->answers.find(event.call.sequence);
  if (answer != nullptr && !answer->dropped) {
    send_answer(event.caller, answer->result);
    return;
  }
  // It was acknowledged: an attempt that never was makes the caller confirm, and nothing else.
  CallResult result;
  result.task = event.call;
  result.attempt = ~std::uint32_t{0};
  result.returns.emplace_back(InlineValue{{}, std::move(event.refs)});
  send_answer(event.caller, result);
}

// ---- calls go back, are cancelled
// ---------------------------------------------------------------------------------------

void Executor::give_back(const Peer& caller, TaskId task) {
  ++given_back_;
  outbox_.last<GiveBack>(caller).tasks.push_back(task);
}

void Executor::give_back_queue() {
  if (queue_.empty()) return;
  for (const TaskId task : std::exchange(queue_, {})) {
    Active& active = calls_.at(task);
    const Peer caller = active.caller;
    release_arguments(active);
    calls_.erase(task);
    give_back(caller, task);
  }
}

void Executor::release_arguments(Active& active) {
  if (active.phase == Phase::kPinning) actions_->outputs.emplace_back(AbandonArguments{active.call.task});
  if (active.pinned.empty()) return;
  AbandonViews views;
  for (const PinnedLocation& location : active.pinned) views.objects.push_back(location.object);
  active.pinned.clear();
  actions_->outputs.emplace_back(std::move(views));
}

void Executor::leave_queue(const Active& active) {
  if (active.call.actor) {
    std::erase(hosted_.at(active.call.actor).queue, active.call.task);
    touch(active.call.actor, hosted_.at(active.call.actor));
  } else {
    std::erase(queue_, active.call.task);
  }
}

void Executor::receive(const Peer& from, StealBack& message) {
  if (message.lease == lease_ && from == lease_caller_) give_back_queue();
}

void Executor::receive(const Peer& from, CancelCall& message) {
  Active* active = calls_.find(message.task);
  if (active == nullptr) {
    const Caller* caller = callers_.find(from.process());
    const bool settled = caller != nullptr && (message.task.sequence < caller->acknowledged ||
                                               caller->answers.contains(message.task.sequence));
    if (settled || !tombstones_.emplace(message.task).second) return;
    tombstone_order_.push_back(message.task);
    if (tombstone_order_.size() <= config_.tombstones_max) return;
    tombstones_.erase(tombstone_order_.front());
    tombstone_order_.pop_front();
    return;
  }
  if (active->phase == Phase::kRunning) {
    active->cancelled = true;
    actions_->outputs.emplace_back(CancelRunning{message.task, message.force});
    if (message.recursive) actions_->outputs.emplace_back(StopChildren{message.task, message.force});
  } else if (active->phase != Phase::kEnding) {
    release_arguments(*active);
    leave_queue(*active);
    answer(message.task, error_result(active->call, cancelled_error(active->spec->name), true));
  }
}

void Executor::on(ThreadBlocked&) {
  if (++blocked_ > 1) return;
  give_back_queue();
  if (lease_) to_node(WorkerBlocked{lease_});
}

void Executor::on(ThreadUnblocked&) {
  MOBULA_CHECK(blocked_ > 0, "a thread goes on that did not wait");
  if (--blocked_ == 0 && lease_) to_node(WorkerUnblocked{lease_});
}

// ---- leases
// -------------------------------------------------------------------------------------------------------------------

void Executor::receive(const Peer&, AssignWorker& message) {
  if (message.lease == lease_) return;
  give_back_queue();
  if (lease_) {
    past_leases_.push_back(lease_);
    if (past_leases_.size() > kPastLeasesMax) past_leases_.pop_front();
  }
  lease_ = message.lease;
  lease_caller_ = message.caller.peer();
  allocation_ = std::make_shared<const Allocation>(std::move(message.allocation));
  for (Early& early : std::exchange(early_, {})) {
    if (!callers_.contains(early.from.process())) continue;
    accept(early.from, early.lease, std::move(early.call));
  }
}

void Executor::on(Tick&) {
  while (const auto timer = timers_.pop_due(now_)) {
    if (timer->kind == TimerKind::kLane) {
      lane_timer(ActorId{timer->maker, timer->id});
      continue;
    }
    while (!early_.empty() && early_.front().since + config_.lease_wait <= now_) {
      give_back(early_.front().from, early_.front().call.task);
      early_.pop_front();
    }
    if (!early_.empty()) timers_.set(early_.front().since + config_.lease_wait, TimerKind::kEarly, 0);
  }
}

// ---- callers end
// --------------------------------------------------------------------------------------------------------------

void Executor::on(PeerTroubled& event) {
  if (event.stage == PeerTrouble::kGone) caller_gone(event.peer.process());
}

void Executor::on(NodeGone& event) {
  for (const ProcessId process : callers_.sorted_keys()) {
    if (callers_.at(process).peer.node == event.node) caller_gone(process);
  }
}

void Executor::caller_gone(ProcessId process) {
  if (!callers_.contains(process)) return;
  callers_.erase(process);
  std::erase_if(early_, [process](const Early& early) { return early.from.process() == process; });
  lanes_gone(process);
  for (const TaskId task : calls_.sorted_keys()) {
    Active& active = calls_.at(task);
    if (active.caller.process() != process) continue;
    if (active.phase == Phase::kRunning) {
      if (!active.call.actor) {
        active.cancelled = true;
        actions_->outputs.emplace_back(CancelRunning{task, false});
        actions_->outputs.emplace_back(StopChildren{task, false});
      }
    } else if (active.phase != Phase::kEnding) {
      release_arguments(active);
      leave_queue(active);
      calls_.erase(task);
    }
  }
}

void Executor::on(Received& event) {
  std::visit(
      [this, &event](auto& message) {
        if constexpr (requires { receive(event.from, message); }) receive(event.from, message);
      },
      event.message);
}

// ---- for people and tests
// ---------------------------------------------------------------------------------------------------

ExecutorStats Executor::stats() const {
  ExecutorStats stats;
  stats.running = tasks_running_;
  for (const ActorId actor : hosted_.sorted_keys()) stats.running += hosted_.at(actor).running;
  stats.waiting = calls_.size() - stats.running + early_.size();
  for (const ProcessId caller : callers_.sorted_keys()) stats.answers += callers_.at(caller).answers.size();
  stats.actors = hosted_.size();
  stats.executed = executed_;
  stats.given_back = given_back_;
  stats.repeats = repeats_;
  return stats;
}

void Executor::check() const {
  std::size_t queued = 0;
  std::size_t tasks_running = 0;
  for (const TaskId task : calls_.sorted_keys()) {
    const Active& active = calls_.at(task);
    const bool waits = active.phase == Phase::kPinning || active.phase == Phase::kReady;
    if (active.call.actor) {
      const auto& queue = hosted_.at(active.call.actor).queue;
      MOBULA_CHECK(!waits || std::count(queue.begin(), queue.end(), task) == 1, "an actor call in no queue");
      continue;
    }
    if (waits) ++queued;
    if (active.phase == Phase::kRunning) ++tasks_running;
  }
  MOBULA_CHECK(queued == queue_.size(), "tasks that will never start");
  MOBULA_CHECK(tasks_running == tasks_running_ && tasks_running <= 1, "running tasks are miscounted");
  for (const ProcessId process : callers_.sorted_keys()) {
    const Caller& caller = callers_.at(process);
    MOBULA_CHECK(caller.kept <= config_.answers_max, "too many answers are kept");
    MOBULA_CHECK(caller.answers.size() <= caller.answered.size(), "answers that are never forgotten");
  }
}

}  // namespace mobula::scheduler
