// Restart as a constructor argument: what the store held becomes the state of a head that has heard of nobody yet.
// Nodes of the store are given time to come back and say what they hold; until then nothing of the store is started
// again.
#include "scheduler/head.h"

#include "runtime/base/check.h"
#include "runtime/base/protocol/submission.h"

namespace mobula::scheduler {

void Head::restore(const HeadSnapshot& snapshot) {
  // Any order: nothing here looks at what another record makes.
  for (const auto& record : snapshot) {
    std::visit([this](const auto& one) { restore_one(one); }, record);
  }
  // Links between records.
  for (auto& [id, entry] : actors_) {
    if (entry.info.phase == ActorPhase::kDead) continue;
    if (!entry.spec.name.empty()) names_[{entry.spec.name_space, entry.spec.name}] = id;
    if (!entry.spec.detached) {
      owned_[entry.spec.owner.process].insert(id);
      of_job_[entry.info.job].insert(id);
    }
    if (entry.info.phase == ActorPhase::kAlive) {
      entry.node = entry.info.address.host.node;
      if (const auto node = nodes_.find(entry.node); node != nodes_.end()) {
        node->second.actors.insert(id);
        continue;
      }
      // Its node is not even known: as if it had died with it.
      entry.node = {};
      entry.info.phase = ActorPhase::kRestarting;
      ++entry.info.incarnation;
    }
    queue(entry);
  }
}

void Head::restore_one(const ClusterRecord& record) {
  MOBULA_CHECK(!config_.cluster || record.cluster == config_.cluster, "the store belongs to another cluster");
  MOBULA_CHECK(record.schema == kStoreSchema, "the store has another schema");
  config_.cluster = record.cluster;
  epoch_ = record.epoch;
}

void Head::restore_one(const NodeRecord& record) {
  const NodeId node = record.description.node;
  if (record.dead) {
    dead_nodes_.put(node, "it died or left earlier");
    return;
  }
  NodeEntry& entry = nodes_[node];
  entry.description = record.description;
  entry.returned = false;
  ++not_returned_;
}

void Head::restore_one(const ActorRecord& record) {
  ActorEntry& entry = actors_[record.spec.actor];
  entry.spec = record.spec;
  entry.info = record.info;
  entry.request = record.request;
  entry.restarts = record.restarts;
  entry.restored = true;
  if (record.info.phase == ActorPhase::kDead) {
    if (const auto forgotten = dead_actors_.put(record.spec.actor, true)) actors_.erase(*forgotten);
  }
}

void Head::restore_one(const JobRecord& record) {
  jobs_[record.job.job] = JobEntry{record.job, record.ended, record.end_time_ms};
  if (!record.ended) return;
  if (const auto forgotten = ended_jobs_.put(record.job.job, true)) jobs_.erase(*forgotten);
}

void Head::restore_one(const SubmissionRecord& record) {
  SubmissionEntry& entry = submissions_[record.info.submission];
  entry.job = record.job;
  entry.info = record.info;
  if (is_active(record.info)) return;
  if (const auto forgotten = ended_submissions_.put(record.info.submission, true)) submissions_.erase(*forgotten);
}

}  // namespace mobula::scheduler
