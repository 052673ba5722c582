// What processes ask about actors: create, find, watch, kill. What can come before its cause (a watch or a kill before
// the creation, on another link) is remembered for a while instead of answered wrongly.
#include "scheduler/head.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {

std::optional<ErrorInfo> Head::refusal(const CreateActor& message) const {
  const ActorSpec& spec = message.spec;
  if (early_kills_.contains(spec.actor)) {
    return make_error(ErrorKind::kActorDied, "the actor was killed before it was created");
  }
  if (gone_processes_.contains(spec.owner.process)) {
    return make_error(ErrorKind::kOwnerDied, "the creator of the actor is gone");
  }
  const auto job = jobs_.find(spec.owner.job);
  if (job != jobs_.end() && job->second.ended && !spec.detached &&
      job->second.job.driver.process == spec.owner.process) {
    return make_error(ErrorKind::kActorDied, "the job of the actor has ended");
  }
  if (!spec.name.empty()) {
    if (const auto named = names_.find({spec.name_space, spec.name}); named != names_.end()) {
      return make_error(ErrorKind::kInvalid,
                        "an actor named \"" + spec.name + "\" exists already; take another name, or get_if_exists");
    }
  }
  if (actors_.size() >= kMaxActors) {
    return make_error(ErrorKind::kOverloaded, "the cluster has " + std::to_string(kMaxActors) + " actors already");
  }
  return std::nullopt;
}

void Head::receive(const Peer& from, const CreateActor& message) {
  const ActorSpec& spec = message.spec;
  ActorCreated answer;
  answer.request = message.request;
  if (const auto at = actors_.find(spec.actor); at != actors_.end()) {
    // A repeat. Unschedulable was the first answer, so it is this one, too.
    answer.info = at->second.info;
    const auto& error = at->second.info.error;
    if (error && error->kind == ErrorKind::kUnschedulable && answer.info.incarnation == 1) answer.error = error;
    send(from, std::move(answer));
    return;
  }
  if (!spec.name.empty() && spec.get_if_exists) {
    if (const auto named = names_.find({spec.name_space, spec.name}); named != names_.end()) {
      answer.info = actors_.at(named->second).info;
      send(from, std::move(answer));
      return;
    }
  }
  if (auto error = refusal(message)) {
    answer.info.actor = spec.actor;
    answer.info.phase = ActorPhase::kDead;
    answer.info.error = error;
    answer.error = std::move(error);
    send(from, std::move(answer));
    return;
  }
  ActorEntry& entry = add_actor(message);
  if (!place(entry)) {
    const Choice choice = choose(views_, Wish{spec.placement}, 0);
    if (!choice.feasible && !views_.empty() && settled()) {
      answer.error = make_error(ErrorKind::kUnschedulable,
                                unschedulable_text(spec.placement, explain(views_, spec.placement, true)));
      answer.error->task = spec.constructor.name;
      actor_dead(entry, *answer.error);
      answer.info = entry.info;
      send(from, std::move(answer));
      return;
    }
    entry.doubtful = !choice.feasible;
    queue(entry);
  }
  answer.info = entry.info;
  send(from, std::move(answer));
}

ActorEntry& Head::add_actor(const CreateActor& message) {
  const ActorSpec& spec = message.spec;
  ++counters_.actors_created;
  ActorEntry& entry = actors_[spec.actor];
  entry.spec = spec;
  entry.request = message.request;
  ActorInfo& info = entry.info;
  info.actor = spec.actor;
  info.job = spec.owner.job;
  info.phase = ActorPhase::kPending;
  info.incarnation = 1;
  info.max_task_retries = spec.max_task_retries;
  info.name = spec.name;
  info.display = spec.constructor.name;
  info.class_fingerprint = spec.class_fingerprint;
  if (!spec.name.empty()) names_[{spec.name_space, spec.name}] = spec.actor;
  if (!spec.detached) {
    owned_[spec.owner.process].insert(spec.actor);
    of_job_[spec.owner.job].insert(spec.actor);
  }
  if (const auto early = unknown_watches_.find(spec.actor); early != unknown_watches_.end()) {
    for (const auto& peer : early->second.watchers) watch(peer, entry);
    unknown_watches_.erase(early);
  }
  // Written before it is placed: StartActor waits for it, and so does the answer.
  save(entry);
  return entry;
}

void Head::watch(const Peer& peer, ActorEntry& entry) {
  const bool known = std::find(entry.watchers.begin(), entry.watchers.end(), peer) != entry.watchers.end();
  if (known || entry.watchers.size() >= kMaxWatchersPerActor) return;
  entry.watchers.push_back(peer);
  watching_[peer].insert(entry.spec.actor);
}

void Head::receive(const Peer& from, const WatchActor& message) {
  const auto at = actors_.find(message.actor);
  if (at != actors_.end()) {
    if (at->second.info.phase != ActorPhase::kDead) watch(from, at->second);
    send(from, ActorUpdate{at->second.info});
    return;
  }
  // Perhaps its creation is still on its way over another link.
  if (!unknown_watches_.contains(message.actor) && unknown_watches_.size() >= kMaxUnknownWatches) return;
  UnknownWatch& unknown = unknown_watches_[message.actor];
  if (unknown.watchers.empty()) unknown.deadline = now_ + config_.unknown_watch;
  const bool known = std::find(unknown.watchers.begin(), unknown.watchers.end(), from) != unknown.watchers.end();
  if (!known && unknown.watchers.size() < kMaxWatchersPerActor) unknown.watchers.push_back(from);
}

void Head::receive(const Peer& from, const UnwatchActor& message) {
  if (const auto at = actors_.find(message.actor); at != actors_.end()) std::erase(at->second.watchers, from);
  if (const auto at = watching_.find(from); at != watching_.end()) {
    at->second.erase(message.actor);
    if (at->second.empty()) watching_.erase(at);
  }
  if (const auto at = unknown_watches_.find(message.actor); at != unknown_watches_.end()) {
    std::erase(at->second.watchers, from);
    if (at->second.watchers.empty()) unknown_watches_.erase(at);
  }
}

void Head::drop_watcher(const Peer& peer) {
  const auto at = watching_.find(peer);
  if (at == watching_.end()) return;
  for (const ActorId id : at->second) {
    if (const auto actor = actors_.find(id); actor != actors_.end()) std::erase(actor->second.watchers, peer);
  }
  watching_.erase(at);
}

void Head::receive(const Peer& from, const FindActor& message) {
  ActorFound answer;
  answer.request = message.request;
  if (const auto named = names_.find({message.name_space, message.name}); named != names_.end()) {
    answer.info = actors_.at(named->second).info;
  } else {
    answer.error =
        make_error(ErrorKind::kInvalid,
                   "no actor named \"" + message.name + "\" lives" +
                       (message.name_space.empty() ? std::string() : " in name space \"" + message.name_space + "\"") +
                       "; create it, or see `mobula list actors`");
  }
  send(from, std::move(answer));
}

void Head::receive(const Peer&, const KillActor& message) {
  const auto at = actors_.find(message.actor);
  if (at == actors_.end()) {
    // The last handle can go away, or a kill arrive, before the creation does.
    early_kills_.put(message.actor, true);
    return;
  }
  kill(at->second, message.no_restart, message.graceful,
       message.graceful ? "the last handle to it went away" : "it was killed on request");
}

void Head::kill(ActorEntry& entry, bool no_restart, bool graceful, const std::string& why) {
  if (entry.info.phase == ActorPhase::kDead) return;
  ErrorInfo error = make_error(ErrorKind::kActorDied, why);
  error.node = entry.node;
  if (graceful && no_restart && entry.info.phase == ActorPhase::kAlive) {
    // It dies when its node says so; until then its queued calls are served. Nothing brings it back.
    entry.spec.max_restarts = 0;
    save(entry);
    stop_at(entry.node, entry.spec.actor, entry.info.incarnation, true);
    return;
  }
  if (entry.node) stop_at(entry.node, entry.spec.actor, entry.info.incarnation, false);
  if (no_restart) {
    actor_dead(entry, std::move(error));
  } else {
    actor_failed(entry, error);
  }
}

void Head::end_owned(ProcessId owner, const std::string& why) {
  const auto at = owned_.find(owner);
  if (at == owned_.end()) return;
  const std::set<ActorId> ids = at->second;
  for (const ActorId id : ids) kill(actors_.at(id), true, false, why);
}

void Head::sweep_watches() {
  for (auto at = unknown_watches_.begin(); at != unknown_watches_.end();) {
    if (at->second.deadline > now_) {
      ++at;
      continue;
    }
    ActorUpdate update;
    update.info.actor = at->first;
    update.info.phase = ActorPhase::kDead;
    update.info.error = make_error(ErrorKind::kActorDied, "the head knows no such actor: it ended long ago");
    for (const auto& peer : at->second.watchers) send(peer, update);
    at = unknown_watches_.erase(at);
  }
}

}  // namespace mobula::scheduler
