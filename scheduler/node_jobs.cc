// Drivers that run on this node, the ends of jobs, and drivers that `mobula submit` starts.
#include "scheduler/node.h"

#include <algorithm>

#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

// How a driver that was started by a submission says so when its pid is not that of the started command (a shell, say).
constexpr std::string_view kSubmissionFeature = "submission=";

}  // namespace

void Node::driver_joined(const Peer& peer, const Hello& hello) {
  const ProcessId process = peer.process();
  if (ended_processes_.contains(process)) return;
  processes_[process] = LocalProcess{Role::kDriver, hello.job, hello.pid};
  LocalJob& job = jobs_[hello.job];
  job.driver_here = true;
  JobDescription& description = job.description;
  description.job = hello.job;
  description.name = hello.name;
  description.driver = {process, config_.self.node, hello.job};
  description.pid = hello.pid;
  description.entrypoint = hello.executable_path;
  if (description.start_time_ms == 0) {
    description.start_time_ms = config_.wall_offset_ms + now_.nanoseconds / 1'000'000;
  }
  for (const auto& [submission, driver] : drivers_) {
    if (driver.pid != 0 && driver.pid == hello.pid) description.submission = submission;
  }
  for (const auto& feature : hello.features) {
    if (feature.starts_with(kSubmissionFeature)) description.submission = feature.substr(kSubmissionFeature.size());
  }
  if (head_up_ && registered_) send(Peer::head(), RegisterJob{description});
}

void Node::driver_lost(ProcessId process, const ErrorInfo& why) {
  const JobId id = processes_.at(process).job;
  process_ended(process, why);
  LocalJob& job = jobs_[id];
  job.driver_here = false;
  job.finished = true;
  job.act_at = now_;
  report_jobs();
}

void Node::report_jobs() {
  const bool head = head_up_ && registered_;
  for (auto& [id, job] : jobs_) {
    if (job.driver_here && head) send(Peer::head(), RegisterJob{job.description});
    if (!job.finished) continue;
    if (head) send(Peer::head(), JobFinished{id});
    job.act_at = now_ + config_.repeat;
    want(job.act_at);
  }
  for (auto& [submission, driver] : drivers_) {
    if (head) report(driver);
  }
}

bool Node::hosts_detached(ProcessId process) const {
  const auto worker = workers_.find(process);
  if (worker == workers_.end() || !worker->second.actor) return false;
  const auto actor = actors_.find(worker->second.actor);
  return actor != actors_.end() && actor->second.spec.detached;
}

void Node::receive(const Peer& from, const EndJob& message) {
  if (from.kind != PeerKind::kHead) return;
  const JobId job = message.job;
  const bool repeated = ended_jobs_.contains(job);
  ended_jobs_.put(job, true);
  if (const auto at = jobs_.find(job); at != jobs_.end()) {
    // Ended by request while its driver lives.
    if (at->second.driver_here) act(KillProcess{at->second.description.driver.process, "its job was ended"});
    if (!at->second.driver_here) jobs_.erase(at);
  }
  if (repeated) return;
  const std::string why = "its job has ended";
  // Leases of callers that go on (detached actors) stay.
  std::vector<LeaseId> dropped;
  for (const auto& [id, lease] : leases_) {
    if (lease.request.caller.job != job || hosts_detached(lease.request.caller.process)) continue;
    if (lease.phase == LeasePhase::kQueued || lease.phase == LeasePhase::kStarting) dropped.push_back(id);
  }
  for (const LeaseId id : dropped) fail_lease(id, make_error(ErrorKind::kCancelled, why));
  for (auto& [id, actor] : actors_) {
    if (actor.spec.constructor.job == job && !actor.spec.detached) stop_actor(actor, false, why);
  }
  FreeJob free{job, {}};
  std::vector<ProcessId> ended;
  for (const auto& [id, worker] : workers_) {
    if (worker.pool.job != job) continue;
    const bool for_detached = worker.lease && hosts_detached(leases_.at(worker.lease).request.caller.process);
    if (hosts_detached(id)) free.keep.push_back(id);
    if (!for_detached && !hosts_detached(id)) ended.push_back(id);
  }
  for (const ProcessId id : ended) retire(id, why);
  act(std::move(free));
}

void Node::receive(const Peer& from, const StartDriver& message) {
  if (from.kind != PeerKind::kHead) return;
  const std::string& submission = message.job.submission;
  if (const auto at = drivers_.find(submission); at != drivers_.end()) {
    report(at->second);
    return;
  }
  std::optional<Allocation> held;
  if (!ended_all_ && labels_match(config_.self.labels, message.job.resources))
    held = allocate(free_, message.job.resources);
  if (!held) {
    send(from, DriverStatus{submission, SubmissionPhase::kPending, 0, "the node has no room for it"});
    return;
  }
  SubmittedDriver& driver = drivers_[submission];
  driver.job = message.job;
  driver.held = *std::move(held);
  driver.status = {submission, SubmissionPhase::kRunning, 0, {}};
  act(StartDriverProcess{message.job});
}

void Node::on(const DriverStarted& event) {
  const auto at = drivers_.find(event.submission);
  if (at == drivers_.end() || at->second.phase != DriverPhase::kStarting) return;
  at->second.phase = DriverPhase::kRunning;
  at->second.pid = event.pid;
  report(at->second);
}

void Node::on(const DriverExited& event) {
  const auto at = drivers_.find(event.submission);
  if (at == drivers_.end() || at->second.phase == DriverPhase::kEnded) return;
  SubmittedDriver& driver = at->second;
  driver.phase = DriverPhase::kEnded;
  release(free_, std::exchange(driver.held, {}));
  dirty_ = true;
  driver.status.phase = event.exit_code == 0 ? SubmissionPhase::kSucceeded : SubmissionPhase::kFailed;
  driver.status.exit_code = event.exit_code;
  driver.status.message = event.message;
  report(driver);
}

void Node::report(SubmittedDriver& driver) {
  if (driver.phase == DriverPhase::kStarting) return;
  if (head_up_) send(Peer::head(), driver.status);
  if (driver.phase != DriverPhase::kEnded) return;
  driver.act_at = now_ + config_.repeat;
  want(driver.act_at);
}

void Node::receive(const Peer& from, const StopDriver& message) {
  if (from.kind != PeerKind::kHead) return;
  const auto at = drivers_.find(message.submission);
  if (at == drivers_.end()) return;
  if (at->second.phase == DriverPhase::kEnded) {
    drivers_.erase(at);  // acknowledged
    return;
  }
  at->second.phase = DriverPhase::kStopping;
  act(StopDriverProcess{message.submission});
}

void Node::sweep_jobs() {
  for (auto& [id, job] : jobs_) {
    if (!job.finished) continue;
    if (job.act_at <= now_) {
      if (head_up_ && registered_) send(Peer::head(), JobFinished{id});
      job.act_at = now_ + config_.repeat;
    }
    want(job.act_at);
  }
  for (auto& [submission, driver] : drivers_) {
    if (driver.act_at <= now_) report(driver);
    if (driver.phase == DriverPhase::kEnded) want(driver.act_at);
  }
}

}  // namespace mobula::scheduler
