#include "runtime/core/engine/engine.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "runtime/base/result.h"

namespace mobula::core {
namespace {

template <class T, class... Ts>
inline constexpr bool kOneOf = (std::is_same_v<T, Ts> || ...);

TaskId key_of_actor(ActorId actor) {
  return TaskId{actor.maker, actor.sequence};
}

scheduler::SubmitterConfig submitter_config(const EngineConfig& config) {
  scheduler::SubmitterConfig result;
  result.self = config.self;
  result.lease_requests_max = config.lease_requests_max;
  result.lease_linger = config.lease_linger;
  return result;
}

scheduler::ExecutorConfig executor_config(const EngineConfig& config) {
  scheduler::ExecutorConfig result;
  result.self = config.self;
  return result;
}

}  // namespace

Engine::Engine(const EngineConfig& config)
    : self_(config.self), submitter_(submitter_config(config)), executor_(executor_config(config)),
      owner_(config.self) {}

template <class M>
constexpr Engine::Room Engine::room_of() {
  if (kOneOf<M, CallsDone, GiveBack, LeaseGranted, LeaseFailed, LeaseMoved, LeaseLost, ReclaimLease, ActorCreated,
             ActorFound, ActorUpdate>) {
    return Room::kSubmitter;
  }
  if (kOneOf<M, DefineSpec, PushCalls, StealBack, CancelCall, AssignWorker, HostActor, ExitActor>)
    return Room::kExecutor;
  if (kOneOf<M, ResolveObjects, ObjectsResolved, BorrowObjects, ObjectsBorrowed, ReleaseObjects, HandoffDone,
             ObjectLocation, ObjectPinned>) {
    return Room::kOwner;
  }
  return Room::kNone;
}

void Engine::step(Instant now, std::span<Event> events, Actions& actions) {
  now_ = now;
  actions_ = &actions;
  for (Event& event : events) {
    std::visit([this](auto& concrete) { on(concrete); }, event);
    route();
  }
  flush();
  maybe_exit();
  actions_ = nullptr;
}

void Engine::maybe_exit() {
  if (!exit_ || (owner_.unfinished() && now_ < exit_by_)) return;
  actions_->orders.emplace_back(*std::exchange(exit_, std::nullopt));
  exit_by_ = Instant::never();
}

template <class E>
void Engine::to_submitter(E event) {
  scheduler::SubmitterEvent one(std::move(event));
  submitter_.step(now_, {&one, 1}, from_submitter_);
}
template <class E>
void Engine::to_executor(E event) {
  scheduler::ExecutorEvent one(std::move(event));
  executor_.step(now_, {&one, 1}, from_executor_);
}
template <class E>
void Engine::to_owner(E event) {
  objectstore::OwnerEvent one(std::move(event));
  owner_.step(now_, {&one, 1}, from_owner_);
}

// ---- events in
// ----------------------------------------------------------------------------------------------------------------

void Engine::pin(objectstore::PinKind kind, TaskId key, const std::vector<ArgumentIn>& arguments) {
  objectstore::Pin pin;
  for (const ArgumentIn& argument : arguments) {
    if (const auto* object = std::get_if<ObjectLocator>(&argument)) {
      pin.objects.push_back(*object);
    } else {
      const auto& refs = std::get<InlineValue>(argument).refs;
      pin.objects.insert(pin.objects.end(), refs.begin(), refs.end());
    }
  }
  if (pin.objects.empty()) return;
  pin.kind = kind;
  pin.key = key;
  to_owner(std::move(pin));
}

template <class E>
void Engine::on(E& event) {
  if constexpr (kOneOf<E, SubmitTask, SubmitActorCall>) {
    to_owner(objectstore::Declare{event.first_return, event.returns, event.task});
    pin(objectstore::PinKind::kCall, event.task, event.arguments);
    to_submitter(std::move(event));
  } else if constexpr (std::is_same_v<E, SubmitActor>) {
    if (event.handle) {
      to_owner(objectstore::DeclareHandle{event.handle});
      handles_[event.handle] = event.spec.actor;
    }
    pin(objectstore::PinKind::kActor, key_of_actor(event.spec.actor), event.arguments);
    to_submitter(std::move(event));
  } else if constexpr (std::is_same_v<E, Cancel>) {
    if (!event.task) event.task = owner_.maker_of(event.object);
    to_submitter(std::move(event));
  } else if constexpr (kOneOf<E, LookUpActor, AdoptActor, EndActor, JobEnding>) {
    to_submitter(std::move(event));
  } else if constexpr (kOneOf<E, PutInline, PutStored, RefAcquired, RefDropped, Want, Unwant, ViewReleased>) {
    to_owner(std::move(event));
  } else if constexpr (kOneOf<E, CallFinished, ThreadBlocked, ThreadUnblocked>) {
    to_executor(std::move(event));
  } else if constexpr (std::is_same_v<E, Received>) {
    on_received(event);
  } else if constexpr (std::is_same_v<E, PeerJoined>) {
    if (event.peer.kind == PeerKind::kProcess) on_trouble(watch_.joined(event.peer));
  } else if constexpr (std::is_same_v<E, PeerLost>) {
    if (event.peer == Peer::of(self_.node)) {
      cut_off(event.why);
    } else if (event.peer.kind == PeerKind::kProcess) {
      if (!event.peer.node) event.peer.node = self_.node;
      on_trouble(watch_.lost(now_, event, sends_));
    }
  } else {
    static_assert(std::is_same_v<E, Tick>);
    on_trouble(watch_.tick(now_, sends_));
    to_submitter(Tick{});
    to_executor(Tick{});
  }
}

void Engine::on_received(Received& event) {
  if (const auto* status = std::get_if<ProcessStatus>(&event.message)) {
    on_trouble(watch_.status(now_, *status));
    return;
  }
  if (const auto* resolved = std::get_if<NodeResolved>(&event.message)) {
    if (!resolved->alive) node_gone(resolved->node);
    return;
  }
  const Room room =
      std::visit([](const auto& message) { return room_of<std::decay_t<decltype(message)>>(); }, event.message);
  switch (room) {
    case Room::kSubmitter: to_submitter(std::move(event)); break;
    case Room::kExecutor: to_executor(std::move(event)); break;
    case Room::kOwner: to_owner(std::move(event)); break;
    case Room::kNone: break;  // the runtime's own business
  }
}

void Engine::on_trouble(std::vector<PeerWatch::Verdict> verdicts) {
  for (PeerWatch::Verdict& verdict : verdicts) {
    std::visit(
        [this](auto& said) {
          to_submitter(said);
          if constexpr (std::is_same_v<std::decay_t<decltype(said)>, PeerTroubled>) to_executor(said);
          to_owner(said);
          route();
        },
        verdict);
  }
}

void Engine::node_gone(NodeId node) {
  if (node == self_.node) return;
  on_trouble(watch_.node_gone(node, make_error(ErrorKind::kWorkerDied, "its node " + to_string(node) + " is gone")));
  to_submitter(NodeGone{node});
  to_executor(NodeGone{node});
  to_owner(NodeGone{node});
}

void Engine::cut_off(const ErrorInfo& why) {
  if (std::exchange(cut_off_, true)) return;
  ErrorInfo error = make_error(ErrorKind::kUnreachable, "this process lost its node daemon: " + why.message);
  to_submitter(scheduler::NodeLost{error});
  route();
  to_owner(objectstore::CutOff{error});
  actions_->orders.emplace_back(ExitProcess{error.message});
}

// ---- between the three
// --------------------------------------------------------------------------------------------------------

void Engine::route() {
  for (;;) {
    const objectstore::OwnerActions& own = from_owner_;
    const bool owner = !own.ready.empty() || !own.resolved.empty() || !own.pinned.empty() || !own.cleared.empty() ||
                       !own.handles.empty() || !own.unconfirmed.empty();
    const bool submitter = !from_submitter_.outputs.empty();
    const bool executor = !from_executor_.outputs.empty() || !from_executor_.execute.empty();
    if (!owner && !submitter && !executor) return;
    if (owner) route_owner();
    if (submitter) route_submitter();
    if (executor) route_executor();
  }
}

void Engine::route_owner() {
  std::swap(from_owner_, reading_owner_);
  std::swap(from_owner_.sends, reading_owner_.sends);
  for (Ready& ready : reading_owner_.ready) actions_->ready.push_back(std::move(ready));
  for (objectstore::ObjectReady& ready : reading_owner_.resolved) {
    to_submitter(scheduler::ObjectKnown{ready.object, std::move(ready.outcome)});
  }
  for (objectstore::ArgumentsPinned& pinned : reading_owner_.pinned) {
    to_executor(scheduler::ArgumentsReady{pinned.call, std::move(pinned.locations), std::move(pinned.error)});
  }
  for (const objectstore::CallCleared& cleared : reading_owner_.cleared) {
    to_executor(scheduler::AnswerCleared{cleared.call});
  }
  for (const objectstore::HandleFreed& freed : reading_owner_.handles) {
    const ActorId* actor = handles_.find(freed.object);
    if (actor == nullptr) continue;
    to_submitter(scheduler::HandleGone{*actor});
    handles_.erase(freed.object);
  }
  for (objectstore::HandoffUnconfirmed& again : reading_owner_.unconfirmed) {
    to_executor(scheduler::RepeatAnswer{again.call, again.caller, std::move(again.refs)});
  }
  reading_owner_.ready.clear();
  reading_owner_.resolved.clear();
  reading_owner_.pinned.clear();
  reading_owner_.cleared.clear();
  reading_owner_.handles.clear();
  reading_owner_.unconfirmed.clear();
}

void Engine::route_submitter() {
  std::swap(from_submitter_.outputs, reading_submitter_.outputs);
  for (scheduler::SubmitterOutput& output : reading_submitter_.outputs) {
    std::visit([this](auto& concrete) { routed(concrete); }, output);
  }
  reading_submitter_.outputs.clear();
}

void Engine::route_executor() {
  std::swap(from_executor_.outputs, reading_executor_.outputs);
  std::swap(from_executor_.execute, reading_executor_.execute);
  for (Execute& execute : reading_executor_.execute) {
    to_owner(objectstore::CallBegan{});
    actions_->execute.push_back(std::move(execute));
  }
  for (scheduler::ExecutorOutput& output : reading_executor_.outputs) {
    std::visit([this](auto& concrete) { routed(concrete); }, output);
  }
  reading_executor_.execute.clear();
  reading_executor_.outputs.clear();
}

template <class Output>
void Engine::routed(Output& output) {
  using objectstore::PinKind;
  if constexpr (std::is_same_v<Output, scheduler::NeedObject>) {
    to_owner(objectstore::Resolve{output.object});
  } else if constexpr (std::is_same_v<Output, scheduler::CallSettled>) {
    to_owner(objectstore::StoreResults{output.task, output.first_return, output.returns, std::move(output.values),
                                       std::move(output.error), output.executor, std::move(output.left_on)});
    if (output.pinned) to_owner(objectstore::Unpin{PinKind::kCall, output.task});
  } else if constexpr (std::is_same_v<Output, scheduler::StaleAnswer>) {
    to_owner(objectstore::DiscardResults{output.task, std::move(output.values), output.executor});
  } else if constexpr (std::is_same_v<Output, scheduler::ActorBusy>) {
    const TaskId key = key_of_actor(output.actor);
    if (output.busy) {
      to_owner(objectstore::Pin{PinKind::kHandle, key, {output.self}});
    } else {
      to_owner(objectstore::Unpin{PinKind::kHandle, key});
    }
  } else if constexpr (std::is_same_v<Output, scheduler::ActorSettled>) {
    to_owner(objectstore::Unpin{PinKind::kActor, key_of_actor(output.actor)});
  } else if constexpr (std::is_same_v<Output, ExitProcess>) {
    exit_ = std::move(output);
    exit_by_ = now_ + kExitWait;
  } else if constexpr (kOneOf<Output, ActorAnswer, QueueChanged, CancelRunning, DropInstance>) {
    actions_->orders.emplace_back(std::move(output));
  } else if constexpr (std::is_same_v<Output, scheduler::NeedArguments>) {
    to_owner(objectstore::PinArguments{output.call, std::move(output.values)});
  } else if constexpr (std::is_same_v<Output, scheduler::AbandonArguments>) {
    to_owner(objectstore::DropArguments{output.call});
  } else if constexpr (std::is_same_v<Output, scheduler::AbandonViews>) {
    for (const ObjectId object : output.objects) to_owner(ViewReleased{object});
  } else if constexpr (std::is_same_v<Output, scheduler::CallRan>) {
    to_owner(objectstore::CallEnding{output.call, output.caller, std::move(output.refs)});
  } else {
    static_assert(std::is_same_v<Output, scheduler::StopChildren>);
    to_submitter(scheduler::CancelChildren{output.parent, output.force});
  }
}

// The executor sends first: a release of ours must not overtake the answer whose receiver takes the object over.
void Engine::flush() {
  for (;;) {
    // Until nothing more comes of it; the owner last.
    for (bool more = true; more;) {
      const std::size_t before = from_executor_.sends.size() + from_submitter_.sends.size();
      executor_.flush(now_, from_executor_);
      submitter_.flush(now_, from_submitter_);
      more = !from_executor_.execute.empty() || !from_executor_.outputs.empty() || !from_submitter_.outputs.empty() ||
             from_executor_.sends.size() + from_submitter_.sends.size() != before;
      route();
    }
    for (auto* sends : {&from_executor_.sends, &from_submitter_.sends}) {
      for (Send& send : *sends) sends_.push_back(std::move(send));
      sends->clear();
    }
    owner_.flush(from_owner_);
    for (Send& send : from_owner_.sends) sends_.push_back(std::move(send));
    from_owner_.sends.clear();
    std::vector<Received> to_self;
    for (Send& send : sends_) {
      if (send.to.kind == PeerKind::kProcess && send.to.process() == self_.process) {
        to_self.push_back(Received{self_.peer(), std::move(send.message)});
      } else {
        actions_->sends.push_back(std::move(send));
      }
    }
    sends_.clear();
    if (to_self.empty()) return;
    for (Received& received : to_self) {
      on_received(received);
      route();
    }
  }
}

// ---- for the driver
// -----------------------------------------------------------------------------------------------------------

Instant Engine::next_deadline() const {
  return std::min({submitter_.next_deadline(), executor_.next_deadline(), watch_.next_deadline(), exit_by_});
}

EngineStats Engine::stats() const {
  return EngineStats{submitter_.stats(), executor_.stats(), owner_.stats()};
}

bool Engine::idle() const {
  return submitter_.idle() && executor_.idle() && owner_.idle();
}

void Engine::check() const {
  submitter_.check();
  executor_.check();
  owner_.check();
  MOBULA_CHECK(from_owner_.ready.empty() && from_submitter_.outputs.empty() && from_executor_.outputs.empty(),
               "something was said and not heard");
}

}  // namespace mobula::core
