// The life of an actor on nodes: placed, started, ended, placed again; and what is true after either side was away.
#include "scheduler/head.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {

const char* name_of(ActorPhase phase) {
  switch (phase) {
    case ActorPhase::kPending: return "pending";
    case ActorPhase::kAlive: return "alive";
    case ActorPhase::kRestarting: return "restarting";
    case ActorPhase::kDead: return "dead";
  }
  return "?";
}

void advance(ActorPhase& phase, ActorPhase next) {
  using enum ActorPhase;
  const bool known = phase == kDead        ? false
                     : next == kDead       ? true
                     : next == kAlive      ? phase == kPending || phase == kRestarting
                     : next == kRestarting ? true
                                           : false;
  MOBULA_CHECK(known, std::string(name_of(phase)) + " -> " + name_of(next));
  phase = next;
}

// ---- placing -------------------------------------------------------------------------------------------------------

bool Head::place(ActorEntry& entry) {
  MOBULA_CHECK(!entry.node && entry.info.phase != ActorPhase::kDead, "only what waits is placed");
  Locality locality;
  for (const auto& argument : entry.spec.arguments) {
    const auto* stored = std::get_if<StoredValue>(&argument);
    if (stored == nullptr) continue;
    for (const NodeId node : stored->nodes) locality.emplace_back(node, stored->size);
  }
  const Wish wish{entry.spec.placement, locality, entry.spec.owner.node, {}, true};
  const Choice choice = choose(views_, wish, turn_++);
  if (!choice.node) return false;
  allocate(view_of(choice.node)->free, entry.spec.placement);
  settle_on(entry, choice.node);
  starting_.insert(entry.spec.actor);
  entry.act_at = now_ + config_.repeat;
  send(Peer::of(choice.node), StartActor{entry.spec, entry.info.incarnation});
  return true;
}

void Head::settle_on(ActorEntry& entry, NodeId node) {
  entry.node = node;
  entry.doubtful = false;
  entry.restored = false;
  nodes_.at(node).actors.insert(entry.spec.actor);
  if (NodeView* view = view_of(node)) ++view->actors;
}

void Head::unplace(ActorEntry& entry) {
  starting_.erase(entry.spec.actor);
  entry.act_at = Instant::never();
  if (!entry.node) return;
  if (const auto at = nodes_.find(entry.node); at != nodes_.end() && at->second.actors.erase(entry.spec.actor) != 0) {
    if (NodeView* view = view_of(entry.node)) --view->actors;
  }
  entry.node = {};
}

void Head::queue(ActorEntry& entry) {
  const ActorId id = entry.spec.actor;
  MOBULA_CHECK(!pending_turn_.contains(id), "an actor waits once");
  pending_turn_[id] = next_pending_;
  pending_[next_pending_++] = id;
}

void Head::unqueue(ActorId id) {
  const auto at = pending_turn_.find(id);
  if (at == pending_turn_.end()) return;
  pending_.erase(at->second);
  pending_turn_.erase(at);
}

void Head::place_pending() {
  retry_pending_ = false;
  std::set<ResourceRequest> stuck;  // the same wish fails again: views only shrink here
  std::vector<ActorId> placed;
  for (const auto& [turn, id] : pending_) {
    ActorEntry& entry = actors_.at(id);
    if (entry.restored && gathering()) continue;
    if (stuck.contains(entry.spec.placement)) continue;
    if (place(entry)) {
      placed.push_back(id);
    } else {
      stuck.insert(entry.spec.placement);
    }
  }
  for (const ActorId id : placed) unqueue(id);
}

// ---- what nodes say ------------------------------------------------------------------------------------------------

void Head::receive(const Peer& from, const ActorStarted& message) {
  if (from.kind != PeerKind::kNode) return;
  const NodeId node{from.id};
  const auto at = actors_.find(message.actor);
  if (!nodes_.contains(node)) return;
  const bool expected = at != actors_.end() && at->second.info.phase != ActorPhase::kDead &&
                        at->second.info.incarnation == message.incarnation && at->second.node == node;
  if (!expected) {
    stop_at(node, message.actor, message.incarnation, false);
    return;
  }
  if (at->second.info.phase != ActorPhase::kAlive) now_alive(at->second, node, message.address);
}

void Head::now_alive(ActorEntry& entry, NodeId node, const ActorAddress& address) {
  MOBULA_CHECK(entry.node == node);
  starting_.erase(entry.spec.actor);
  entry.act_at = Instant::never();
  advance(entry.info.phase, ActorPhase::kAlive);
  entry.info.address = address;
  entry.info.error.reset();
  save(entry);
  publish(entry);
}

void Head::receive(const Peer& from, const ActorEnded& message) {
  if (from.kind != PeerKind::kNode) return;
  const NodeId node{from.id};
  stopping_.erase({message.actor, message.incarnation});
  send(from, StopActor{message.actor, message.incarnation, false});  // acknowledged: the node may forget it
  const auto at = actors_.find(message.actor);
  if (at == actors_.end()) return;
  ActorEntry& entry = at->second;
  if (entry.info.phase == ActorPhase::kDead || entry.info.incarnation != message.incarnation || entry.node != node)
    return;
  switch (message.end) {
    case ActorEnd::kNoRoom:
      unplace(entry);
      queue(entry);
      retry_pending_ = true;
      break;
    case ActorEnd::kConstructorFailed: {
      ErrorInfo error = message.error;
      error.kind = ErrorKind::kActorDied;
      error.message = "its constructor failed: " + error.message;
      actor_dead(entry, std::move(error));
      break;
    }
    case ActorEnd::kProcessDied:
    case ActorEnd::kKilled: actor_failed(entry, message.error); break;
    case ActorEnd::kExited: {
      ErrorInfo error = message.error;
      error.kind = ErrorKind::kActorDied;
      if (error.message.empty()) error.message = "it ended itself";
      actor_dead(entry, std::move(error));
      break;
    }
  }
}

void Head::actor_failed(ActorEntry& entry, const ErrorInfo& cause) {
  unplace(entry);
  unqueue(entry.spec.actor);
  const bool again = entry.spec.max_restarts < 0 || entry.restarts < entry.spec.max_restarts;
  if (!again) {
    ErrorInfo error = cause;
    error.kind = ErrorKind::kActorDied;
    if (entry.spec.max_restarts > 0) {
      error.message += " (after " + std::to_string(entry.restarts) + " restarts, all it was allowed)";
    }
    actor_dead(entry, std::move(error));
    return;
  }
  ++counters_.actors_restarted;
  ++entry.restarts;
  ++entry.info.incarnation;
  advance(entry.info.phase, ActorPhase::kRestarting);
  entry.info.address = {};
  entry.info.error = cause;
  save(entry);
  publish(entry);
  queue(entry);
  retry_pending_ = true;
}

void Head::actor_dead(ActorEntry& entry, ErrorInfo error) {
  const ActorId id = entry.spec.actor;
  unplace(entry);
  unqueue(id);
  advance(entry.info.phase, ActorPhase::kDead);
  if (error.task.empty()) error.task = entry.spec.constructor.name;
  entry.info.error = std::move(error);
  entry.spec.arguments.clear();  // what they refer to is needed no more
  if (!entry.spec.name.empty()) names_.erase({entry.spec.name_space, entry.spec.name});
  if (const auto owned = owned_.find(entry.spec.owner.process); owned != owned_.end()) {
    owned->second.erase(id);
    if (owned->second.empty()) owned_.erase(owned);
  }
  if (const auto of_job = of_job_.find(entry.info.job); of_job != of_job_.end()) {
    of_job->second.erase(id);
    if (of_job->second.empty()) of_job_.erase(of_job);
  }
  save(entry);
  publish(entry);
  for (const auto& peer : entry.watchers) {
    const auto watched = watching_.find(peer);
    if (watched == watching_.end()) continue;
    watched->second.erase(id);
    if (watched->second.empty()) watching_.erase(watched);
  }
  entry.watchers.clear();
  if (const auto forgotten = dead_actors_.put(id, true)) {
    const auto old = actors_.find(*forgotten);
    const Record record = ActorRecord{old->second.spec, old->second.info, old->second.request, old->second.restarts};
    persist(EraseRecord{static_cast<std::uint8_t>(record.index()), key_of(record)}, false);
    actors_.erase(old);
  }
}

void Head::stop_at(NodeId node, ActorId actor, std::uint64_t incarnation, bool graceful) {
  if (!nodes_.contains(node)) return;
  stopping_[{actor, incarnation}] = Stopping{node, graceful, 1, now_ + config_.repeat};
  send(Peer::of(node), StopActor{actor, incarnation, graceful});
}

void Head::publish(const ActorEntry& entry) {
  for (const auto& peer : entry.watchers) send(peer, ActorUpdate{entry.info});
}

void Head::save(const ActorEntry& entry) {
  const bool durable = entry.spec.detached || !entry.spec.name.empty();
  persist(Record{ActorRecord{entry.spec, entry.info, entry.request, entry.restarts}}, durable);
}

// ---- after somebody was away ---------------------------------------------------------------------------------------

void Head::reconcile(const RegisterNode& message) {
  const NodeId node = message.description.node;
  std::set<ActorId> reported;
  for (const auto& info : message.actors) {
    reported.insert(info.actor);
    reconcile_one(node, info);
  }
  ErrorInfo error = make_error(ErrorKind::kWorkerDied, "its node came back without it");
  error.node = node;
  const std::set<ActorId> believed = nodes_.at(node).actors;
  for (const ActorId id : believed) {
    if (reported.contains(id)) continue;
    ActorEntry& entry = actors_.at(id);
    if (starting_.contains(id)) {
      send(Peer::of(node), StartActor{entry.spec, entry.info.incarnation});  // it may never have arrived
    } else {
      actor_failed(entry, error);
    }
  }
}

void Head::reconcile_one(NodeId node, const ActorInfo& reported) {
  const auto at = actors_.find(reported.actor);
  if (at == actors_.end()) {
    adopt(node, reported);
    return;
  }
  ActorEntry& entry = at->second;
  const bool elsewhere = entry.node && entry.node != node;
  if (entry.info.phase == ActorPhase::kDead || entry.info.incarnation > reported.incarnation || elsewhere) {
    stop_at(node, reported.actor, reported.incarnation, false);
    return;
  }
  // The newest record may have been lost with the tail of the log: the node knows better.
  entry.info.incarnation = reported.incarnation;
  unqueue(reported.actor);
  if (!entry.node) settle_on(entry, node);
  if (reported.phase == ActorPhase::kAlive) {
    if (entry.info.phase != ActorPhase::kAlive) now_alive(entry, node, reported.address);
  } else if (entry.info.phase == ActorPhase::kAlive) {
    // It was started again under a record that is lost.
    advance(entry.info.phase, ActorPhase::kRestarting);
    starting_.insert(reported.actor);
    entry.act_at = now_ + config_.repeat;
    save(entry);
  } else {
    starting_.insert(reported.actor);
    entry.act_at = now_ + config_.repeat;
  }
}

// No record of it: a lost tail. It goes on if its job lives; without its spec it cannot be started again.
void Head::adopt(NodeId node, const ActorInfo& reported) {
  const auto job = jobs_.find(reported.job);
  const bool job_lives = job != jobs_.end() && !job->second.ended;
  const bool named = !reported.name.empty() && names_.contains({std::string(), reported.name});
  if (!job_lives || named || reported.phase != ActorPhase::kAlive || early_kills_.contains(reported.actor)) {
    stop_at(node, reported.actor, reported.incarnation, false);
    return;
  }
  CreateActor message;
  message.spec.actor = reported.actor;
  message.spec.owner = job->second.job.driver;
  message.spec.constructor.job = reported.job;
  message.spec.constructor.name = reported.display;
  message.spec.name = reported.name;
  message.spec.max_task_retries = reported.max_task_retries;
  message.spec.class_fingerprint = reported.class_fingerprint;
  ActorEntry& entry = add_actor(message);
  entry.info.incarnation = reported.incarnation;
  settle_on(entry, node);
  now_alive(entry, node, reported.address);
}

void Head::sweep_actors() {
  for (const ActorId id : starting_) {
    ActorEntry& entry = actors_.at(id);
    if (entry.act_at > now_) continue;
    entry.act_at = now_ + config_.repeat;
    send(Peer::of(entry.node), StartActor{entry.spec, entry.info.incarnation});
  }
  for (auto at = stopping_.begin(); at != stopping_.end();) {
    Stopping& stopping = at->second;
    if (stopping.act_at > now_) {
      ++at;
      continue;
    }
    if (stopping.tries >= config_.stop_tries) {
      at = stopping_.erase(at);
      continue;
    }
    ++stopping.tries;
    stopping.act_at = now_ + config_.repeat;
    send(Peer::of(stopping.node), StopActor{at->first.first, at->first.second, stopping.graceful});
    ++at;
  }
  if (!settled() || views_.empty()) return;
  // Those that no node could take when they came, now that all nodes are known.
  std::vector<ActorId> never;
  for (const auto& [turn, id] : pending_) {
    ActorEntry& entry = actors_.at(id);
    if (!entry.doubtful) continue;
    entry.doubtful = false;
    if (!choose(views_, Wish{entry.spec.placement}, 0).feasible) never.push_back(id);
  }
  for (const ActorId id : never) {
    ActorEntry& entry = actors_.at(id);
    actor_dead(entry,
               make_error(ErrorKind::kUnschedulable,
                          unschedulable_text(entry.spec.placement, explain(views_, entry.spec.placement, true))));
  }
  if (!pending_.empty()) retry_pending_ = true;
}

}  // namespace mobula::scheduler
