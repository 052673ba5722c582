// The part of the submitter that creates, finds and calls actors.
#include <algorithm>
#include <utility>

#include "runtime/base/result.h"
#include "scheduler/submitter.h"

namespace mobula::scheduler {
namespace {

// What is known of an actor that is not called is forgotten after this.
constexpr Duration kActorIdle = std::chrono::seconds(60);

ErrorInfo unavailable(const ActorInfo& info, const std::string& why) {
  ErrorInfo error = make_error(ErrorKind::kActorUnavailable, why);
  error.task = info.display;
  error.node = info.address.host.node;
  return error;
}

}  // namespace

// ---- creation and look-up
// -------------------------------------------------------------------------------------------------

void Submitter::on(SubmitActor& event) {
  const ActorId id = event.spec.actor;
  Actor& actor = actor_entry(id);
  actor.own = true;
  actor.lasting = event.spec.detached || !event.spec.name.empty();
  actor.info.max_task_retries = event.spec.max_task_retries;
  actor.info.display = event.spec.constructor.name;
  const auto [creation, is_new] = creations_.emplace(id);
  MOBULA_CHECK(is_new, "an actor id was given out twice");
  creation.request = event.request;
  creation.handle = event.handle;
  creation.spec = std::move(event.spec);
  creation.spec.owner = config_.self;
  creation.spec.arguments.clear();
  std::uint32_t unresolved = 0;
  take_arguments(std::move(event.arguments), creation.spec.arguments, unresolved, Waiter{NeededBy::kCreation, id, 0});
  creation.unresolved = unresolved;
  if (stopped_) {
    fail_creation(id, make_error(ErrorKind::kRuntimeStopped, "the Runtime has left its scope"));
  } else if (unresolved == 0) {
    create(id);
  }
}

void Submitter::create(ActorId actor) {
  Creation& creation = creations_.at(actor);
  creation.sent = true;
  requests_[creation.request] = CreateActor{creation.request, creation.spec};
  repeat_request(creation.request);
}

void Submitter::repeat_request(RequestId id) {
  const Request* request = requests_.find(id);
  if (request == nullptr) return;
  std::visit([this](const auto& message) { outbox_.add(Peer::head(), message); }, *request);
  timers_.set(now_ + config_.repeat, TimerKind::kRequest, id.sequence, id.maker);
}

void Submitter::on(LookUpActor& event) {
  if (stopped_) {
    actions_->outputs.emplace_back(
        ActorAnswer{event.request, make_error(ErrorKind::kRuntimeStopped, "the Runtime has left its scope")});
    return;
  }
  requests_[event.request] = FindActor{event.request, std::move(event.name), std::move(event.name_space)};
  repeat_request(event.request);
}

void Submitter::receive(const Peer&, ActorFound& message) {
  const Request* request = requests_.find(message.request);
  if (request == nullptr || !std::holds_alternative<FindActor>(*request)) return;
  requests_.erase(message.request);
  if (message.error) {
    actions_->outputs.emplace_back(ActorAnswer{message.request, std::move(*message.error)});
  } else {
    actor_entry(message.info.actor);
    update_actor(message.info);
    actions_->outputs.emplace_back(ActorAnswer{message.request, std::move(message.info)});
  }
}

void Submitter::receive(const Peer&, ActorCreated& message) {
  const Request* request = requests_.find(message.request);
  const CreateActor* sent = request == nullptr ? nullptr : std::get_if<CreateActor>(request);
  if (sent == nullptr) return;
  const ActorId id = sent->spec.actor;
  if (message.error) {
    fail_creation(id, *message.error);
    return;
  }
  requests_.erase(message.request);
  creations_.erase(id);
  actions_->outputs.emplace_back(ActorAnswer{message.request, message.info});
  actor_entry(message.info.actor);
  update_actor(message.info);
  if (message.info.actor != id) {
    // Another one had the name: ours was never made.
    Actor& ours = actors_.at(id);
    settle_actor(id, ours);
    ours.known = true;
    ours.info.phase = ActorPhase::kDead;
    fail_queue(id, make_error(ErrorKind::kActorDied, "an actor of this name existed; call that one"));
  } else if (Actor& actor = actors_.at(id); actor.info.phase != ActorPhase::kDead) {
    watch(id, actor);
  }
}

void Submitter::fail_creation(ActorId id, const ErrorInfo& error) {
  Creation& creation = creations_.at(id);
  actions_->outputs.emplace_back(ActorAnswer{creation.request, error});
  requests_.erase(creation.request);
  if (creation.unresolved > 0) drop_waiters(creation.spec.arguments, Waiter{NeededBy::kCreation, id, 0});
  creations_.erase(id);
  Actor& actor = actor_entry(id);
  actor.known = true;
  actor.ending = false;
  actor.info.phase = ActorPhase::kDead;
  actor.info.error = error;
  settle_actor(id, actor);
  fail_queue(id, error);
}

void Submitter::on(AdoptActor& event) {
  Actor& actor = actor_entry(event.info.actor);
  if (actor.known) return;
  actor.info.max_task_retries = event.info.max_task_retries;
  actor.info.display = event.info.display;
}

void Submitter::on(EndActor& event) {
  Actor& actor = actor_entry(event.actor);
  outbox_.add(Peer::head(), KillActor{event.actor, event.no_restart, false});
  if (!event.no_restart || (actor.known && actor.info.phase == ActorPhase::kDead)) return;
  actor.ending = true;
  actor.kill = KillActor{event.actor, true, false};
  watch(event.actor, actor);
}

void Submitter::on(HandleGone& event) {
  Actor* actor = actors_.find(event.actor);
  if (actor == nullptr || actor->lasting || (actor->known && actor->info.phase == ActorPhase::kDead)) return;
  const Creation* creation = creations_.find(event.actor);
  if (creation != nullptr && !creation->sent) {
    fail_creation(event.actor, make_error(ErrorKind::kActorDied, "its handles were gone before it could be started"));
    return;
  }
  if (actor->ending) return;
  actor->ending = true;
  actor->kill = KillActor{event.actor, true, true};
  outbox_.add(Peer::head(), actor->kill);
  watch(event.actor, *actor);
}

// ---- what is known of an actor
// --------------------------------------------------------------------------------------------

Submitter::Actor& Submitter::actor_entry(ActorId id) {
  const auto [actor, is_new] = actors_.emplace(id);
  if (is_new) {
    actor.info.actor = id;
    actor.idle_since = now_;
    actor.idle_timer = true;
    timers_.set(now_ + kActorIdle, TimerKind::kActorIdle, id.sequence, id.maker);
  }
  return actor;
}

// Asks the head to tell, now and again until nothing waits for its words. An actor that is being created is told of by
// ActorCreated first.
void Submitter::watch(ActorId id, Actor& actor) {
  if (creations_.contains(id) || stopped_) return;
  const bool settled = actor.known && actor.info.phase == ActorPhase::kAlive && actor.reachable && !actor.ending;
  if (settled || std::exchange(actor.ask_timer, true)) return;
  outbox_.add(Peer::head(), WatchActor{id});
  timers_.set(now_ + config_.actor_repeat, TimerKind::kActorAsk, id.sequence, id.maker);
}

void Submitter::actor_timer(TimerKind kind, ActorId id) {
  Actor* actor = actors_.find(id);
  if (actor == nullptr) return;
  const bool dead = actor->known && actor->info.phase == ActorPhase::kDead;
  const bool has_calls = !actor->queue.empty() || !actor->inflight.empty();
  if (kind == TimerKind::kActorAsk) {
    actor->ask_timer = false;
    if (dead) return;
    if (actor->ending) outbox_.add(Peer::head(), actor->kill);
    if (has_calls || actor->ending) watch(id, *actor);
    return;
  }
  actor->idle_timer = false;
  if (has_calls || actor->ending || (actor->own && !dead)) {
    actor->idle_timer = true;
    timers_.set(now_ + kActorIdle, TimerKind::kActorIdle, id.sequence, id.maker);
    return;
  }
  if (actor->idle_since + kActorIdle > now_) {
    actor->idle_timer = true;
    timers_.set(actor->idle_since + kActorIdle, TimerKind::kActorIdle, id.sequence, id.maker);
    return;
  }
  if (!dead) outbox_.add(Peer::head(), UnwatchActor{id});
  clear_host(id, *actor);
  actors_.erase(id);
}

void Submitter::receive(const Peer&, ActorUpdate& message) {
  if (actors_.contains(message.info.actor)) {
    update_actor(message.info);
  } else {
    outbox_.add(Peer::head(), UnwatchActor{message.info.actor});
  }
}

void Submitter::update_actor(const ActorInfo& info) {
  const ActorId id = info.actor;
  Actor& actor = actors_.at(id);
  if (actor.known && (actor.info.phase == ActorPhase::kDead || info.incarnation < actor.info.incarnation)) return;
  const bool was_alive = actor.known && actor.info.phase == ActorPhase::kAlive;
  const bool same_run = was_alive && info.phase == ActorPhase::kAlive && info.incarnation == actor.info.incarnation &&
                        info.address == actor.info.address;
  if (same_run) {
    if (!actor.troubled) actor.reachable = true;
    touch_actor(id, actor);
    return;
  }
  actor.known = true;
  if (info.phase == ActorPhase::kDead) {
    ErrorInfo error = info.error.value_or(make_error(ErrorKind::kActorDied, "the actor has ended"));
    actor.info = info;
    actor.info.error = error;
    actor.ending = false;
    clear_host(id, actor);
    settle_actor(id, actor);
    fail_queue(id, error);
    return;
  }
  if (was_alive) {
    std::string why =
        "the actor was restarted while the call was under way; it may have run. Set max_task_retries to have "
        "such calls repeated";
    if (info.error) why += ". It ended because: " + info.error->message;
    drop_inflight(id, unavailable(actor.info, why));
    clear_host(id, actor);
  }
  actor.info = info;
  if (info.phase == ActorPhase::kAlive) {
    actor.next_order = 0;
    actor.reachable = true;
    actor.troubled = false;
    set_host(id, actor, info.address);
    touch_actor(id, actor);
  } else if (!actor.queue.empty() || actor.ending) {
    watch(id, actor);
  }
}

void Submitter::settle_actor(ActorId id, Actor& actor) {
  if (!actor.own || std::exchange(actor.settled, true)) return;
  actions_->outputs.emplace_back(ActorSettled{id});
}

void Submitter::set_host(ActorId id, Actor& actor, const ActorAddress& address) {
  actor.info.address = address;
  link(address.host.peer()).actors.push_back(id);
}

void Submitter::clear_host(ActorId id, Actor& actor) {
  const ProcessId host = actor.info.address.host.process;
  Link* its_link = links_.find(host);
  if (its_link == nullptr) return;
  std::erase(its_link->actors, id);
  if (its_link->leases.empty() && its_link->actors.empty()) links_.erase(host);
}

// ---- calls
// ------------------------------------------------------------------------------------------------------------------

void Submitter::touch_actor(ActorId id, Actor& actor) {
  if (!std::exchange(actor.dirty, true)) dirty_actors_.push_back(id);
}

void Submitter::pump(ActorId id) {
  Actor* actor = actors_.find(id);
  if (actor == nullptr) return;
  actor->dirty = false;
  if (!actor->known || actor->info.phase != ActorPhase::kAlive || !actor->reachable) return;
  while (!actor->queue.empty() && actor->inflight.size() < config_.actor_window) {
    const std::uint64_t sequence = actor->queue.front();
    Task& task = tasks_.at(sequence);
    if (task.state == CallState::kWaiting) break;  // later calls wait too: order is by submission
    actor->queue.pop_front();
    actor->inflight.push_back(sequence);
    task.order = ++actor->next_order;
    push(actor->info.address.host.peer(), LeaseId{}, sequence, task);
  }
}

void Submitter::leave_actor(Actor& actor, ActorId id, std::uint64_t sequence) {
  for (auto* list : {&actor.inflight, &actor.queue}) {
    if (!list->empty() && list->front() == sequence) {
      list->pop_front();
      break;
    }
    const auto place = std::find(list->begin(), list->end(), sequence);
    if (place == list->end()) continue;
    list->erase(place);
    break;
  }
  if (!actor.queue.empty()) touch_actor(id, actor);
  call_gone(id, actor);
}

void Submitter::call_gone(ActorId id, Actor& actor) {
  if (!actor.queue.empty() || !actor.inflight.empty()) return;
  actor.idle_since = now_;
  if (actor.self.id) actions_->outputs.emplace_back(ActorBusy{id, actor.self, false});
}

void Submitter::fail_queue(ActorId id, const ErrorInfo& error) {
  Actor& actor = actors_.at(id);
  if (actor.queue.empty() && actor.inflight.empty()) return;
  auto calls = std::exchange(actor.inflight, {});
  calls.insert(calls.end(), actor.queue.begin(), actor.queue.end());
  actor.queue.clear();
  for (const std::uint64_t sequence : calls) {
    Task& task = tasks_.at(sequence);
    if (task.state == CallState::kPushed) task.left_on.push_back(actor.info.address.host.node);
    settle(sequence, nullptr, error, {});
  }
  call_gone(id, actor);
}

void Submitter::drop_inflight(ActorId id, const ErrorInfo& error) {
  Actor& actor = actors_.at(id);
  const auto calls = std::exchange(actor.inflight, {});
  if (calls.empty()) return;
  std::deque<std::uint64_t> again;
  for (const std::uint64_t sequence : calls) {
    Task& task = tasks_.at(sequence);
    task.left_on.push_back(actor.info.address.host.node);
    if (task.max_retries == -2) task.max_retries = actor.info.max_task_retries;
    std::deque<std::uint64_t> one;
    retry_or_fail(sequence, error, true, one);
    again.insert(again.end(), one.begin(), one.end());
  }
  actor.queue.insert(actor.queue.begin(), again.begin(), again.end());
  call_gone(id, actor);
}

// The process takes no calls for this incarnation (any more); they were not started.
void Submitter::given_back(ActorId id, const std::vector<std::uint64_t>& sequences) {
  Actor& actor = actors_.at(id);
  // Latest first, as they came back; each goes to the front.
  for (const std::uint64_t sequence : sequences) {
    Task& task = tasks_.at(sequence);
    std::erase(actor.inflight, sequence);
    actor.next_order = std::min(actor.next_order, task.order - 1);
    task.state = CallState::kQueued;
    actor.queue.push_front(sequence);
  }
  for (const std::uint64_t sequence : sequences) {
    if (tasks_.at(sequence).cancelled) cancel(sequence, false, true);
  }
  actor.reachable = false;
  watch(id, actor);
}

void Submitter::repeat_actor(ActorId id) {
  Actor* actor = actors_.find(id);
  if (actor == nullptr || !actor->troubled) return;
  actor->troubled = false;
  actor->reachable = true;
  const Peer host = actor->info.address.host.peer();
  for (const std::uint64_t sequence : actor->inflight) {
    Task& task = tasks_.at(sequence);
    push(host, LeaseId{}, sequence, task);
    if (task.cancelled) outbox_.add(host, CancelCall{task_id(sequence), false, task.recursive});
  }
  touch_actor(id, *actor);
}

void Submitter::host_trouble(ActorId id, const PeerTroubled& event) {
  Actor* actor = actors_.find(id);
  if (actor == nullptr || actor->info.phase != ActorPhase::kAlive) return;
  actor->reachable = false;
  actor->troubled = event.stage != PeerTrouble::kGone;
  if (event.stage == PeerTrouble::kUnreachable) {
    fail_queue(id, unavailable(actor->info, "its process lives but cannot be reached: " + event.why.message));
  } else if (!actor->queue.empty() || !actor->inflight.empty()) {
    watch(id, *actor);
  }
}

}  // namespace mobula::scheduler
