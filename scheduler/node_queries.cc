// Questions that reach this node: answered from its own books, or passed to its processes and joined.
#include "scheduler/node.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

std::string seconds_text(Duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

void join(QueryReply& into, const QueryReply& from) {
  if (into.columns.empty()) into.columns = from.columns;
  into.rows.insert(into.rows.end(), from.rows.begin(), from.rows.end());
  into.notes.insert(into.notes.end(), from.notes.begin(), from.notes.end());
  if (from.error) into.notes.push_back(from.error->message);
}

void cut(QueryReply& reply, std::uint32_t limit) {
  if (reply.rows.size() <= limit) return;
  reply.notes.push_back(std::to_string(reply.rows.size() - limit) + " more rows were cut; ask with a higher --limit");
  reply.rows.resize(limit);
}

}  // namespace

void Node::receive(const Peer& from, const Query& message) {
  QueryReply reply;
  reply.request = message.request;
  switch (message.kind) {
    case QueryKind::kWorkers: reply = worker_rows(message); break;
    case QueryKind::kTasks:
    case QueryKind::kObjects: ask_processes(from, message, std::move(reply)); return;
    case QueryKind::kExplain:
      explain_into(message, reply);
      ask_processes(from, message, std::move(reply));
      return;
    case QueryKind::kKill: kill_target(message, reply); break;
    case QueryKind::kStop:
      send(from, reply);
      end_everything("its node was stopped");
      if (head_up_) send(Peer::head(), NodeLeaves{});
      act(StopNode{make_error(ErrorKind::kRuntimeStopped, "stopped on request"), false});
      return;
    case QueryKind::kDoctor: reply = doctor_rows(message); break;
    case QueryKind::kStatus:
    case QueryKind::kNodes:
    case QueryKind::kActors:
    case QueryKind::kJobs: reply.error = make_error(ErrorKind::kInvalid, "the head answers this; ask it"); break;
  }
  cut(reply, message.limit);
  send(from, std::move(reply));
}

void Node::ask_processes(const Peer& from, const Query& message, QueryReply seed) {
  for (const auto& query : queries_) {
    if (query.asker == from && query.query.request == message.request) return;  // a repeat
  }
  NodeQuery query{from, message, {}, std::move(seed), now_ + config_.query_wait};
  // Whoever made the thing knows it; without a target all are asked.
  TaskId target;
  const bool one = message.kind == QueryKind::kExplain && parse_id(message.target, target);
  const bool ask = queries_.size() < kMaxNodeQueries && (message.kind != QueryKind::kExplain || one);
  for (const auto& [id, process] : processes_) {
    if (!ask || (one && id.value != target.maker)) continue;
    query.waiting.insert(id);
    send(Peer::of(id, config_.self.node), message);
  }
  if (query.waiting.empty()) {
    if (queries_.size() >= kMaxNodeQueries) query.reply.notes.push_back("a node is busy with other questions");
    cut(query.reply, message.limit);
    send(from, std::move(query.reply));
    return;
  }
  want(query.deadline);
  queries_.push_back(std::move(query));
}

void Node::receive(const Peer& from, const QueryReply& message) {
  for (auto at = queries_.begin(); at != queries_.end(); ++at) {
    if (at->query.request != message.request || at->waiting.erase(from.process()) == 0) continue;
    join(at->reply, message);
    if (at->waiting.empty()) {
      cut(at->reply, at->query.limit);
      send(at->asker, std::move(at->reply));
      queries_.erase(at);
    }
    return;
  }
}

void Node::query_process_gone(ProcessId process) {
  for (auto at = queries_.begin(); at != queries_.end();) {
    if (at->waiting.erase(process) != 0 && at->waiting.empty()) {
      send(at->asker, std::move(at->reply));
      at = queries_.erase(at);
    } else {
      ++at;
    }
  }
}

void Node::sweep_queries() {
  for (auto at = queries_.begin(); at != queries_.end();) {
    if (at->deadline > now_) {
      want(at->deadline);
      ++at;
      continue;
    }
    at->reply.notes.push_back(std::to_string(at->waiting.size()) + " processes of node " +
                              to_string(config_.self.node) + " did not answer in time");
    cut(at->reply, at->query.limit);
    send(at->asker, std::move(at->reply));
    at = queries_.erase(at);
  }
}

QueryReply Node::worker_rows(const Query& query) const {
  QueryReply reply;
  reply.request = query.request;
  reply.columns = {"worker", "node", "pid", "job", "state", "for", "runs", "age_s"};
  for (const auto& [id, worker] : workers_) {
    std::string runs;
    std::string user;
    if (worker.lease) {
      const RequestLease& request = leases_.at(worker.lease).request;
      runs = request.name;
      user = to_string(request.caller.process);
    } else if (worker.actor) {
      const HostedActor& actor = actors_.at(worker.actor);
      runs = actor.spec.constructor.name;
      user = to_string(worker.actor);
    }
    reply.rows.push_back({to_string(id), to_string(config_.self.node), std::to_string(worker.pid),
                          to_string(worker.pool.job), name_of(worker.phase), user, runs,
                          seconds_text(now_ - worker.since)});
  }
  return reply;
}

QueryReply Node::doctor_rows(const Query& query) const {
  QueryReply reply;
  reply.request = query.request;
  reply.columns = {"node", "check", "result", "detail"};
  const std::string self = to_string(config_.self.node);
  const auto add = [&](const char* check, bool good, std::string detail) {
    reply.rows.push_back({self, check, good ? "ok" : "bad", std::move(detail)});
  };
  add("head", head_up_ && registered_,
      last_round_trip_ == Instant::never() ? "never heard of"
                                           : "last round trip " + seconds_text(now_ - last_round_trip_) + " s ago");
  add("directory", true, std::to_string(directory_.size()) + " other nodes");
  add("workers", workers_.size() <= workers_max(),
      std::to_string(workers_.size()) + " of about " + std::to_string(workers_max()));
  add("build", true, config_.self.build);
  return reply;
}

// Why the leases that the target names, or that its maker waits for, are not served here.
void Node::explain_into(const Query& query, QueryReply& reply) const {
  reply.columns = {"about", "node", "reason"};
  TaskId target;
  if (!parse_id(query.target, target)) return;
  const auto about = by_caller_.find(ProcessId{target.maker});
  if (about == by_caller_.end()) return;
  constexpr std::size_t kMaxAbout = 20;
  NodeView self{config_.self.node, config_.self.total, free_, config_.self.labels, 0};
  for (const LeaseId id : about->second) {
    if (reply.rows.size() >= kMaxAbout) break;
    const Lease& lease = leases_.at(id);
    std::string reason;
    switch (lease.phase) {
      case LeasePhase::kQueued: {
        reason = why_not_now(self, lease.request.request);
        if (reason.empty()) reason = lease.asking ? "asks the head for a node" : "waits for its turn";
        break;
      }
      case LeasePhase::kStarting: reason = "has its resources; its worker is being started"; break;
      case LeasePhase::kMoved: reason = "was passed on to node " + to_string(lease.moved_to); break;
      case LeasePhase::kGranted: continue;
    }
    reply.rows.push_back(
        {"lease " + to_string(id) + " (" + lease.request.name + ", " + to_string(lease.request.request) + ")",
         to_string(config_.self.node), reason});
  }
}

// A worker of this node, or the process of an actor: ended as by a crash, so that retries and restarts apply.
void Node::kill_target(const Query& query, QueryReply& reply) {
  reply.columns = {"killed", "node"};
  ProcessId process;
  if (!parse_id(query.target, process) || !workers_.contains(process)) return;
  retire(process, "killed on request");
  reply.rows.push_back({"worker " + query.target, to_string(config_.self.node)});
}

}  // namespace mobula::scheduler
