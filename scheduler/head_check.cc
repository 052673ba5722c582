// Every invariant of the head, as code: called by tests and the simulator after each step.
#include "scheduler/head.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/protocol/submission.h"

namespace mobula::scheduler {

void Head::check() const {
  MOBULA_CHECK(persisted_ <= persist_seq_);
  check_nodes();
  check_actors();
  for (const auto& [id, job] : jobs_) {
    if (!job.ended) continue;
    MOBULA_CHECK(ended_jobs_.contains(id));
  }
  for (const auto& [id, entry] : submissions_) {
    const bool active = is_active(entry.info);
    MOBULA_CHECK(active != ended_submissions_.contains(id));
    MOBULA_CHECK(active || entry.waiters.empty());
  }
  MOBULA_CHECK(queries_.size() <= kMaxHeadQueries);
}

// Members and the policy's views of them are one thing.
void Head::check_nodes() const {
  std::size_t returned = 0;
  for (const auto& [id, node] : nodes_) {
    MOBULA_CHECK(!dead_nodes_.contains(id), "a node that was declared dead is a member");
    if (!node.returned) continue;
    ++returned;
    const auto at = std::lower_bound(views_.begin(), views_.end(), id,
                                     [](const NodeView& view, NodeId other) { return view.node < other; });
    MOBULA_CHECK(at != views_.end() && at->node == id);
    MOBULA_CHECK(at->actors == node.actors.size());
    for (const ActorId actor : node.actors) MOBULA_CHECK(actors_.at(actor).node == id);
  }
  MOBULA_CHECK(returned == views_.size() && nodes_.size() - returned == not_returned_);
}

void Head::check_actors() const {
  std::size_t named = 0;
  std::size_t dead = 0;
  std::size_t owned = 0;
  std::size_t watches = 0;
  for (const auto& [id, entry] : actors_) {
    const bool waits = pending_turn_.contains(id);
    const bool starts = starting_.contains(id);
    watches += entry.watchers.size();
    for (const auto& peer : entry.watchers) MOBULA_CHECK(watching_.at(peer).contains(id));
    switch (entry.info.phase) {
      case ActorPhase::kDead:
        ++dead;
        MOBULA_CHECK(!entry.node && !waits && !starts && entry.watchers.empty() && dead_actors_.contains(id));
        break;
      case ActorPhase::kAlive:
        MOBULA_CHECK(entry.node && !waits && !starts, "an actor lives in one place");
        MOBULA_CHECK(nodes_.at(entry.node).actors.contains(id));
        break;
      case ActorPhase::kPending:
      case ActorPhase::kRestarting:
        MOBULA_CHECK(waits != starts, "what is not alive waits or starts");
        MOBULA_CHECK(starts == static_cast<bool>(entry.node));
        break;
    }
    if (entry.info.phase == ActorPhase::kDead) continue;
    MOBULA_CHECK(entry.spec.max_restarts < 0 || entry.restarts >= 0);
    if (!entry.spec.name.empty()) {
      ++named;
      MOBULA_CHECK(names_.at({entry.spec.name_space, entry.spec.name}) == id, "a name names one living actor");
    }
    if (!entry.spec.detached) {
      ++owned;
      MOBULA_CHECK(owned_.at(entry.spec.owner.process).contains(id));
      MOBULA_CHECK(of_job_.at(entry.info.job).contains(id));
    }
  }
  MOBULA_CHECK(named == names_.size() && dead == dead_actors_.size() && pending_.size() == pending_turn_.size());
  std::size_t watching = 0;
  for (const auto& [peer, watched] : watching_) watching += watched.size();
  MOBULA_CHECK(watching == watches, "watchers leak");
  std::size_t owned_listed = 0;
  for (const auto& [owner, list] : owned_) owned_listed += list.size();
  MOBULA_CHECK(owned_listed == owned);
}

}  // namespace mobula::scheduler
