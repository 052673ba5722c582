// Drivers that the cluster runs by itself (`mobula submit`): written, placed on a node, watched to their end. The id is
// made by the client, so that a repeat gets the first answer.
#include "scheduler/head.h"

#include <algorithm>

#include "runtime/base/protocol/submission.h"
#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

ErrorInfo unknown(const std::string& submission) {
  return make_error(ErrorKind::kInvalid, "no submission \"" + submission + "\" is known; see `mobula list jobs`");
}

}  // namespace

void Head::receive(const Peer& from, const SubmitJob& message) {
  SubmissionReply answer{message.request, {}, {}};
  if (const auto at = submissions_.find(message.submission); at != submissions_.end()) {
    answer.info = at->second.info;
    send(from, std::move(answer));
    return;
  }
  if (message.argv.empty() || message.submission.empty()) {
    answer.error = make_error(ErrorKind::kInvalid, "a submission needs an id and a program to run");
  } else if (submissions_.size() >= kMaxSubmissions) {
    answer.error = make_error(ErrorKind::kOverloaded,
                              std::to_string(kMaxSubmissions) + " submissions wait or run already; try again later");
  }
  if (answer.error) {
    send(from, std::move(answer));
    return;
  }
  SubmissionEntry& entry = submissions_[message.submission];
  entry.job = message;
  entry.info.submission = message.submission;
  entry.info.argv = message.argv;
  entry.info.start_time_ms = wall_ms();
  save(entry);
  place_submission(entry);
  answer.info = entry.info;
  send(from, std::move(answer));
}

void Head::place_submission(SubmissionEntry& entry) {
  const ResourceRequest& request = entry.job.resources;
  const Choice choice = choose(views_, Wish{request, {}, {}, {}, true}, turn_++);
  if (!choice.node) {
    if (choice.feasible || views_.empty() || !settled()) return;  // tried again at every sweep
    end_submission(entry, SubmissionPhase::kFailed, -1, unschedulable_text(request, explain(views_, request, true)));
    return;
  }
  allocate(view_of(choice.node)->free, request);
  entry.info.node = choice.node;
  entry.act_at = now_ + config_.repeat;
  save(entry);
  send(Peer::of(choice.node), StartDriver{entry.job});
}

void Head::receive(const Peer& from, const StopSubmission& message) {
  const auto at = submissions_.find(message.submission);
  if (at == submissions_.end()) {
    send(from, SubmissionReply{message.request, unknown(message.submission), {}});
    return;
  }
  SubmissionEntry& entry = at->second;
  if (is_active(entry.info)) stop_submission(entry);
  if (!is_active(entry.info)) {
    send(from, SubmissionReply{message.request, {}, entry.info});
    return;
  }
  entry.waiters.emplace_back(from, message.request);  // answered when it has ended
}

void Head::stop_submission(SubmissionEntry& entry) {
  entry.stopping = true;
  if (!entry.info.node) {
    end_submission(entry, SubmissionPhase::kStopped, 0, "stopped before it was started");
    return;
  }
  entry.act_at = now_ + config_.repeat;
  send(Peer::of(entry.info.node), StopDriver{entry.info.submission});
}

void Head::receive(const Peer& from, const GetSubmission& message) {
  const auto at = submissions_.find(message.submission);
  if (at == submissions_.end()) {
    send(from, SubmissionReply{message.request, unknown(message.submission), {}});
    return;
  }
  SubmissionEntry& entry = at->second;
  constexpr std::size_t kMaxWaiters = 1024;
  if (!message.wait || !is_active(entry.info) || entry.waiters.size() >= kMaxWaiters) {
    send(from, SubmissionReply{message.request, {}, entry.info});
    return;
  }
  const std::pair waiter{from, message.request};
  if (std::find(entry.waiters.begin(), entry.waiters.end(), waiter) == entry.waiters.end()) {
    entry.waiters.push_back(waiter);
  }
}

void Head::receive(const Peer& from, const DriverStatus& message) {
  if (from.kind != PeerKind::kNode) return;
  const bool ended = message.phase != SubmissionPhase::kPending && message.phase != SubmissionPhase::kRunning;
  const auto at = submissions_.find(message.submission);
  const bool ours = at != submissions_.end() && is_active(at->second.info) && at->second.info.node == NodeId{from.id};
  if (ended || !ours) send(from, StopDriver{message.submission});  // acknowledged, or not wanted there
  if (!ours) return;
  SubmissionEntry& entry = at->second;
  switch (message.phase) {
    case SubmissionPhase::kPending:  // no room there after all
      if (entry.info.phase == SubmissionPhase::kRunning) return;
      entry.info.node = {};
      entry.act_at = Instant::never();
      if (entry.stopping) stop_submission(entry);
      return;
    case SubmissionPhase::kRunning:
      if (entry.info.phase == SubmissionPhase::kRunning) return;
      entry.info.phase = SubmissionPhase::kRunning;
      entry.act_at = Instant::never();
      save(entry);
      if (entry.stopping) stop_submission(entry);
      return;
    case SubmissionPhase::kSucceeded:
    case SubmissionPhase::kFailed:
    case SubmissionPhase::kStopped:
      end_submission(entry, entry.stopping ? SubmissionPhase::kStopped : message.phase, message.exit_code,
                     message.message);
      return;
  }
}

void Head::end_submission(SubmissionEntry& entry, SubmissionPhase phase, std::int32_t exit_code, std::string message) {
  entry.info.phase = phase;
  entry.info.exit_code = exit_code;
  entry.info.message = std::move(message);
  entry.info.end_time_ms = wall_ms();
  entry.act_at = Instant::never();
  save(entry);
  for (const auto& [peer, request] : entry.waiters) send(peer, SubmissionReply{request, {}, entry.info});
  entry.waiters.clear();
  const auto forgotten = ended_submissions_.put(entry.info.submission, true);
  if (!forgotten) return;
  const auto old = submissions_.find(*forgotten);
  const Record record = SubmissionRecord{old->second.job, old->second.info};
  persist(EraseRecord{static_cast<std::uint8_t>(record.index()), key_of(record)}, false);
  submissions_.erase(old);
}

void Head::save(const SubmissionEntry& entry) {
  persist(Record{SubmissionRecord{entry.job, entry.info}}, true);
}

void Head::sweep_submissions() {
  std::vector<std::string> open;
  for (const auto& [id, entry] : submissions_) {
    if (is_active(entry.info)) open.push_back(id);
  }
  for (const auto& id : open) {
    SubmissionEntry& entry = submissions_.at(id);
    if (!entry.info.node) {
      place_submission(entry);
    } else if (entry.stopping && entry.act_at <= now_) {
      stop_submission(entry);
    } else if (entry.info.phase == SubmissionPhase::kPending &&
               (entry.act_at <= now_ || entry.act_at == Instant::never())) {
      entry.act_at = now_ + config_.repeat;
      if (view_of(entry.info.node) != nullptr) send(Peer::of(entry.info.node), StartDriver{entry.job});
    }
  }
}

}  // namespace mobula::scheduler
