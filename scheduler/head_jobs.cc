// Jobs: registered by the node of their driver, ended with it, and ended everywhere.
#include "scheduler/head.h"

#include "runtime/base/result.h"

namespace mobula::scheduler {

void Head::receive(const Peer& from, const RegisterJob& message) {
  if (from.kind != PeerKind::kNode) return;
  const JobId id = message.job.job;
  JobEntry& entry = jobs_[id];
  if (entry.ended) {
    send(from, EndJob{id});
    return;
  }
  if (entry.job == message.job) return;
  entry.job = message.job;
  save(entry);
  const auto submission = submissions_.find(message.job.submission);
  if (submission == submissions_.end() || submission->second.info.job == id) return;
  submission->second.info.job = id;
  save(submission->second);
}

void Head::receive(const Peer& from, const JobFinished& message) {
  if (from.kind != PeerKind::kNode) return;
  const auto at = jobs_.find(message.job);
  if (at == jobs_.end() || at->second.ended) {
    send(from, EndJob{message.job});
    return;
  }
  end_job(message.job, "its driver has ended");
}

void Head::end_job(JobId id, const std::string& why) {
  JobEntry& entry = jobs_.at(id);
  entry.ended = true;
  entry.end_time_ms = wall_ms();
  save(entry);
  broadcast(EndJob{id}, NodeId{});
  if (const auto at = of_job_.find(id); at != of_job_.end()) {
    const std::set<ActorId> actors = at->second;
    for (const ActorId actor : actors) kill(actors_.at(actor), true, false, "its job has ended: " + why);
  }
  if (const auto forgotten = ended_jobs_.put(id, true)) {
    const auto old = jobs_.find(*forgotten);
    if (old == jobs_.end()) return;
    const Record record = JobRecord{old->second.job, true, old->second.end_time_ms};
    persist(EraseRecord{static_cast<std::uint8_t>(record.index()), key_of(record)}, false);
    jobs_.erase(old);
  }
}

void Head::save(const JobEntry& entry) {
  persist(Record{JobRecord{entry.job, entry.ended, entry.end_time_ms}}, true);
}

}  // namespace mobula::scheduler
