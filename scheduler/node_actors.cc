// Actors that live on this node: started, watched and ended at the head's word. The head's StartActor is idempotent by
// (actor, incarnation), so a repeat is answered with the present state; an end is reported until the head acknowledges
// it.
#include "scheduler/node.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

Quantity beyond(Quantity wanted, Quantity has) {
  return wanted > has ? wanted - has : Quantity{};
}
std::uint64_t beyond(std::uint64_t wanted, std::uint64_t has) {
  return wanted > has ? wanted - has : 0;
}

// What being placed needs on top of what is held for life. GPUs are held for life or not at all.
ResourceRequest extra_of(const ResourceRequest& placement, const ResourceRequest& held) {
  ResourceRequest extra;
  extra.cpus = beyond(placement.cpus, held.cpus);
  extra.memory = beyond(placement.memory, held.memory);
  extra.store_memory = beyond(placement.store_memory, held.store_memory);
  for (const auto& [name, quantity] : placement.custom) {
    Quantity has;
    for (const auto& [other, amount] : held.custom) has = other == name ? amount : has;
    if (const Quantity more = beyond(quantity, has); more.units > 0) extra.custom.emplace_back(name, more);
  }
  return extra;
}

}  // namespace

void Node::receive(const Peer& from, const StartActor& message) {
  if (from.kind != PeerKind::kHead) return;
  const ActorId id = message.spec.actor;
  if (const auto* stopped = stopped_actors_.find(id); stopped != nullptr && *stopped >= message.incarnation) return;
  if (const auto at = actors_.find(id); at != actors_.end()) {
    HostedActor& actor = at->second;
    if (actor.incarnation > message.incarnation) return;
    if (actor.incarnation == message.incarnation) {
      if (actor.phase == HostPhase::kAlive) {
        send(Peer::head(), ActorStarted{id, actor.incarnation, actor.address});
        return;
      }
      // Refused for want of room and offered again: look again. Everything else has its answer, or will have.
      if (actor.phase != HostPhase::kEnded) return;
      if (actor.ended.end != ActorEnd::kNoRoom) {
        report(actor);
        return;
      }
    }
    if (actor.phase != HostPhase::kEnded) detach_worker(actor, "a newer incarnation of its actor was started");
    actors_.erase(at);
  }
  admit_actor(message);
}

void Node::admit_actor(const StartActor& message) {
  const ActorSpec& spec = message.spec;
  HostedActor& actor = actors_[spec.actor];
  actor.spec = spec;
  actor.incarnation = message.incarnation;
  actor.ended = {spec.actor, message.incarnation, ActorEnd::kNoRoom, {}};
  const ResourceRequest& held = spec.constructor.resources;
  const bool fits_now = !ended_all_ && labels_match(config_.self.labels, spec.placement) && fits(free_, spec.placement);
  std::optional<Allocation> allocation = fits_now ? allocate(free_, held) : std::nullopt;
  std::optional<Allocation> extra = allocation ? allocate(free_, extra_of(spec.placement, held)) : std::nullopt;
  if (!extra) {
    if (allocation) release(free_, *allocation);
    actor.phase = HostPhase::kEnded;
    actor.ended.error = make_error(ErrorKind::kUnschedulable, "the node had no room for it");
    report(actor);
    correct_head();
    return;
  }
  const JobId job = spec.constructor.job;
  charge(job, *allocation, false);
  charge(job, *extra, false);
  actor.held = *std::move(allocation);
  actor.extra = *std::move(extra);
  actor.pool = pool_for(job, spec.constructor.runtime, actor.held);
  pools_[actor.pool].waiting.push_back(spec.actor);
  supply(actor.pool);
}

void Node::host(ProcessId id, HostedActor& actor) {
  Worker& worker = workers_.at(id);
  set_phase(worker, WorkerPhase::kHosting);
  worker.actor = actor.spec.actor;
  actor.worker = id;
  advance(actor.phase, HostPhase::kStarting);
  const Peer peer = Peer::of(id, config_.self.node);
  send(peer, AssignWorker{{}, actor.spec.constructor.job, actor.spec.owner, actor.held});
  send(peer, HostActor{actor.spec, actor.incarnation, 0});
}

void Node::receive(const Peer& from, const ActorStarted& message) {
  const auto at = actors_.find(message.actor);
  if (at == actors_.end()) return;
  HostedActor& actor = at->second;
  if (actor.incarnation != message.incarnation || actor.worker != from.process()) return;
  if (actor.phase == HostPhase::kStarting) {
    advance(actor.phase, HostPhase::kAlive);
    actor.address = message.address;
    give_back(actor.extra, actor.spec.constructor.job, &workers_.at(actor.worker));
  }
  if (actor.phase == HostPhase::kAlive) send(Peer::head(), message);
}

// From the worker: its constructor failed, or it ends on purpose.
void Node::receive(const Peer& from, const ActorEnded& message) {
  const auto at = actors_.find(message.actor);
  if (at == actors_.end() || from.kind != PeerKind::kProcess) return;
  HostedActor& actor = at->second;
  if (actor.incarnation != message.incarnation || actor.worker != from.process()) return;
  if (actor.phase != HostPhase::kStarting && actor.phase != HostPhase::kAlive) return;
  actor.ended = message;
  if (actor.phase == HostPhase::kStarting) {
    detach_worker(actor, "the constructor of its actor failed");
    advance(actor.phase, HostPhase::kEnded);
    report(actor);
    return;
  }
  // It may have results to send; it ends by itself, or is ended a little later. Reported when it is gone, so that no
  // caller hears of the end before the last results.
  advance(actor.phase, HostPhase::kStopping);
  actor.act_at = now_ + config_.exit_grace;
  want(actor.act_at);
}

// Its process ends without it: what it held is free when the process is gone.
void Node::detach_worker(HostedActor& actor, const std::string& why) {
  const JobId job = actor.spec.constructor.job;
  if (actor.phase == HostPhase::kWaiting) {
    unclaim(actor.pool, actor.spec.actor);
    give_back(actor.held, job, nullptr);
    give_back(actor.extra, job, nullptr);
    return;
  }
  const ProcessId id = actor.worker;
  Worker& worker = workers_.at(id);
  give_back(actor.extra, job, &worker);
  MOBULA_CHECK(worker.held == Allocation{}, "a worker holds one thing at a time");
  worker.held = std::exchange(actor.held, {});
  worker.actor = {};
  actor.worker = {};
  retire(id, why);
}

// It has ended and its process is gone.
void Node::actor_over(HostedActor& actor) {
  const JobId job = actor.spec.constructor.job;
  Worker& worker = workers_.at(actor.worker);
  give_back(actor.held, job, &worker);
  give_back(actor.extra, job, &worker);
  worker.actor = {};
  actor.worker = {};
  advance(actor.phase, HostPhase::kEnded);
  report(actor);
}

void Node::report(HostedActor& actor) {
  MOBULA_CHECK(actor.phase == HostPhase::kEnded, "only an end is reported");
  actor.act_at = now_ + config_.repeat;
  want(actor.act_at);
  if (head_up_) send(Peer::head(), actor.ended);
}

void Node::receive(const Peer& from, const StopActor& message) {
  if (from.kind != PeerKind::kHead) return;
  const auto at = actors_.find(message.actor);
  if (at == actors_.end()) {
    // Before its start: the tombstone wins over a start that comes late.
    const auto* stopped = stopped_actors_.find(message.actor);
    if (stopped == nullptr || *stopped < message.incarnation) stopped_actors_.put(message.actor, message.incarnation);
    return;
  }
  HostedActor& actor = at->second;
  if (actor.incarnation > message.incarnation) return;
  if (actor.phase == HostPhase::kEnded) {
    // Acknowledged. A start that was refused for want of room may be offered again, so it leaves no tombstone.
    if (actor.ended.end != ActorEnd::kNoRoom) stopped_actors_.put(message.actor, message.incarnation);
    actors_.erase(at);
    return;
  }
  stopped_actors_.put(message.actor, message.incarnation);
  stop_actor(actor, message.graceful, "its actor was ended");
}

void Node::stop_actor(HostedActor& actor, bool graceful, const std::string& why) {
  switch (actor.phase) {
    case HostPhase::kWaiting:
      detach_worker(actor, why);
      actor.ended.end = ActorEnd::kKilled;
      actor.ended.error = make_error(ErrorKind::kActorDied, why + " before it was started");
      advance(actor.phase, HostPhase::kEnded);
      report(actor);
      return;
    case HostPhase::kStarting:
    case HostPhase::kAlive: {
      const bool asks = graceful && actor.phase == HostPhase::kAlive;
      actor.ended.end = asks ? ActorEnd::kExited : ActorEnd::kKilled;
      actor.ended.error = make_error(ErrorKind::kActorDied, why);
      actor.ended.error.node = config_.self.node;
      advance(actor.phase, HostPhase::kStopping);
      if (!asks) {
        retire(actor.worker, why);
        return;
      }
      send(Peer::of(actor.worker, config_.self.node), ExitActor{actor.spec.actor});
      actor.act_at = now_ + config_.graceful_stop;
      want(actor.act_at);
      return;
    }
    case HostPhase::kStopping:
      if (!graceful) retire(actor.worker, why);
      return;
    case HostPhase::kEnded: return;
  }
}

void Node::actor_spawn_failed(ActorId id, const ErrorInfo& error, bool fatal) {
  HostedActor& actor = actors_.at(id);
  detach_worker(actor, "");
  actor.ended.end = fatal ? ActorEnd::kConstructorFailed : ActorEnd::kProcessDied;
  actor.ended.error = error;
  advance(actor.phase, HostPhase::kEnded);
  report(actor);
}

void Node::sweep_actors() {
  for (auto& [id, actor] : actors_) {
    if (actor.act_at <= now_) {
      actor.act_at = Instant::never();
      if (actor.phase == HostPhase::kEnded) report(actor);
      if (actor.phase == HostPhase::kStopping) retire(actor.worker, "its actor did not end in time");
    }
    want(actor.act_at);
  }
}

}  // namespace mobula::scheduler
