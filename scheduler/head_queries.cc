// Questions of the command line: answered from the head's books, or passed to the nodes and joined within two seconds.
#include "runtime/base/protocol/submission.h"
#include "scheduler/head.h"

#include <algorithm>

#include "runtime/base/result.h"

namespace mobula::scheduler {
namespace {

void join(QueryReply& into, const QueryReply& from) {
  if (into.columns.empty()) into.columns = from.columns;
  const std::size_t room = kMaxRows - std::min(kMaxRows, into.rows.size());
  const auto take = static_cast<std::ptrdiff_t>(std::min(room, from.rows.size()));
  into.rows.insert(into.rows.end(), from.rows.begin(), from.rows.begin() + take);
  into.notes.insert(into.notes.end(), from.notes.begin(), from.notes.end());
  if (from.error) into.notes.push_back(from.error->message);
}

void cut(QueryReply& reply, std::uint32_t limit) {
  if (reply.rows.size() <= limit) return;
  reply.notes.push_back(std::to_string(reply.rows.size() - limit) + " more rows were cut; ask with a higher --limit");
  reply.rows.resize(limit);
}

Quantity gpus(const NodeResources& resources) {
  Quantity sum;
  for (const auto& device : resources.devices) sum += device.share;
  return sum;
}

std::string endpoint_text(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

std::string labels_text(const Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

std::string message_of(const std::optional<ErrorInfo>& error) {
  return error ? error->message : std::string();
}

template <class T>
std::string or_empty(T id) {
  return id ? to_string(id) : std::string();
}

}  // namespace

void Head::receive(const Peer& from, const Query& message) {
  QueryReply reply;
  switch (message.kind) {
    case QueryKind::kStatus: reply = status_rows(); break;
    case QueryKind::kNodes: reply = node_rows(); break;
    case QueryKind::kActors: reply = actor_rows(); break;
    case QueryKind::kJobs: reply = job_rows(); break;
    case QueryKind::kWorkers:
    case QueryKind::kTasks:
    case QueryKind::kObjects:
    case QueryKind::kDoctor: ask_nodes(from, message, std::move(reply)); return;
    case QueryKind::kExplain:
      explain_into(message.target, reply);
      ask_nodes(from, message, std::move(reply));
      return;
    case QueryKind::kKill:
      if (!kill_here(message.target, reply)) {
        ask_nodes(from, message, std::move(reply));
        return;
      }
      break;
    case QueryKind::kStop: stop_all(from, message); return;
  }
  reply.request = message.request;
  cut(reply, message.limit);
  send(from, std::move(reply));
}

void Head::stop_all(const Peer& from, const Query& message) {
  QueryReply reply;
  reply.request = message.request;
  if (message.target == "all") {
    Query stop = message;
    stop.request = {self_id_, ++query_sequence_};
    broadcast(stop, NodeId{});
    reply.notes.push_back(std::to_string(views_.size()) + " nodes were told to stop");
  }
  send(from, std::move(reply));
  out_->push_back(StopHead{"stopped on request"});
}

// ---- passed to the nodes -------------------------------------------------------------------------------------------

void Head::ask_nodes(const Peer& from, const Query& message, QueryReply seed) {
  for (const auto& [sequence, query] : queries_) {
    if (query.asker == from && query.query.request == message.request) return;  // a repeat
  }
  if (queries_.size() >= kMaxHeadQueries) {
    QueryReply busy;
    busy.request = message.request;
    busy.error = make_error(ErrorKind::kOverloaded, "the head is busy with other questions; ask again");
    send(from, std::move(busy));
    return;
  }
  const std::uint64_t sequence = ++query_sequence_;
  HeadQuery& query = queries_[sequence];
  query = {from, message, {}, std::move(seed), now_ + config_.query_wait};
  Query passed = message;
  passed.request = {self_id_, sequence};
  for (const auto& view : views_) {
    query.waiting.insert(view.node);
    send_fast(Peer::of(view.node), passed);
  }
  if (query.waiting.empty()) finish_query(sequence);
}

void Head::receive(const Peer& from, const QueryReply& message) {
  if (message.request.maker != self_id_ || from.kind != PeerKind::kNode) return;
  const auto at = queries_.find(message.request.sequence);
  if (at == queries_.end() || at->second.waiting.erase(NodeId{from.id}) == 0) return;
  join(at->second.reply, message);
  if (at->second.waiting.empty()) finish_query(at->first);
}

void Head::finish_query(std::uint64_t sequence) {
  HeadQuery& query = queries_.at(sequence);
  QueryReply& reply = query.reply;
  reply.request = query.query.request;
  for (const NodeId node : query.waiting) reply.notes.push_back("node " + to_string(node) + " did not answer in time");
  const std::string& target = query.query.target;
  if (reply.rows.empty() && query.query.kind == QueryKind::kKill) {
    reply.error = make_error(ErrorKind::kInvalid,
                             "nothing with the id \"" + target + "\" runs here; see `mobula list workers|actors|jobs`");
  }
  if (reply.rows.empty() && query.query.kind == QueryKind::kExplain) {
    reply.error = make_error(ErrorKind::kInvalid, "nothing with the id \"" + target +
                                                      "\" waits: it runs, has ended, or never was; see `mobula list`");
  }
  cut(reply, query.query.limit);
  send(query.asker, std::move(reply));
  queries_.erase(sequence);
}

void Head::query_node_gone(NodeId node) {
  std::vector<std::uint64_t> done;
  for (auto& [sequence, query] : queries_) {
    if (query.waiting.erase(node) == 0) continue;
    query.reply.notes.push_back("node " + to_string(node) + " died before it answered");
    if (query.waiting.empty()) done.push_back(sequence);
  }
  for (const std::uint64_t sequence : done) finish_query(sequence);
}

void Head::sweep_queries() {
  std::vector<std::uint64_t> late;
  for (const auto& [sequence, query] : queries_) {
    if (query.deadline <= now_) late.push_back(sequence);
  }
  for (const std::uint64_t sequence : late) finish_query(sequence);
}

// ---- from the head's books -----------------------------------------------------------------------------------------

QueryReply Head::status_rows() const {
  QueryReply reply;
  reply.columns = {"name", "value"};
  const auto add = [&reply](std::string name, std::string value) {
    reply.rows.push_back({std::move(name), std::move(value)});
  };
  NodeResources total;
  NodeResources free;
  Quantity gpus_total;
  Quantity gpus_free;
  std::map<std::string, std::pair<Quantity, Quantity>> custom;  // total, free
  for (const auto& view : views_) {
    total.cpus += view.total.cpus;
    free.cpus += view.free.cpus;
    total.memory += view.total.memory;
    free.memory += view.free.memory;
    gpus_total += gpus(view.total);
    gpus_free += gpus(view.free);
    for (const auto& [name, quantity] : view.total.custom) custom[name].first += quantity;
    for (const auto& [name, quantity] : view.free.custom) custom[name].second += quantity;
  }
  std::map<ActorPhase, std::size_t> actors;
  for (const auto& [id, entry] : actors_) ++actors[entry.info.phase];
  const HeadStats numbers = stats();
  add("cluster", to_string(config_.cluster));
  add("address", endpoint_text(config_.advertised));
  add("epoch", std::to_string(epoch_));
  add("build", config_.build);
  add("nodes", std::to_string(views_.size()));
  if (not_returned_ > 0) add("nodes not back yet", std::to_string(not_returned_));
  add("cpus", to_string(total.cpus - free.cpus) + " of " + to_string(total.cpus) + " used");
  if (gpus_total.units != 0) {
    add("gpus", to_string(gpus_total - gpus_free) + " of " + to_string(gpus_total) + " used");
  }
  add("memory", std::to_string(total.memory - std::min(total.memory, free.memory)) + " of " +
                    std::to_string(total.memory) + " bytes used");
  for (const auto& [name, amounts] : custom) {
    add(name, to_string(amounts.first - amounts.second) + " of " + to_string(amounts.first) + " used");
  }
  add("actors alive", std::to_string(actors[ActorPhase::kAlive]));
  add("actors pending", std::to_string(actors[ActorPhase::kPending]));
  add("actors restarting", std::to_string(actors[ActorPhase::kRestarting]));
  add("jobs running", std::to_string(numbers.jobs));
  std::map<std::string, std::uint64_t> queued;
  for (const auto& [id, node] : nodes_) {
    for (const auto& shape : node.last.queued) queued[to_string(shape.request)] += shape.count;
  }
  for (const auto& [turn, id] : pending_) ++queued["actor: " + to_string(actors_.at(id).spec.placement)];
  for (const auto& [shape, count] : queued) add("waiting", std::to_string(count) + " x {" + shape + "}");
  return reply;
}

QueryReply Head::node_rows() const {
  QueryReply reply;
  reply.columns = {"node",      "state",        "host",        "endpoint",    "cpus_total", "cpus_free", "gpus_total",
                   "gpus_free", "memory_total", "memory_free", "store_total", "store_used", "workers",   "actors",
                   "load",      "lag_ms",       "labels",      "head_node",   "pid",        "build"};
  for (const auto& [id, node] : nodes_) {
    const NodeDescription& what = node.description;
    const auto view = std::lower_bound(views_.begin(), views_.end(), id,
                                       [](const NodeView& one, NodeId other) { return one.node < other; });
    const bool here = view != views_.end() && view->node == id;
    const NodeResources& free = here ? view->free : what.total;
    const char* state = !node.returned ? "not back" : node.link_up ? "alive" : "suspected";
    reply.rows.push_back({to_string(id),
                          state,
                          what.host_name,
                          endpoint_text(what.endpoint),
                          to_string(what.total.cpus),
                          to_string(free.cpus),
                          to_string(gpus(what.total)),
                          to_string(gpus(free)),
                          std::to_string(what.total.memory),
                          std::to_string(free.memory),
                          std::to_string(what.total.store_memory),
                          std::to_string(node.last.store_used),
                          std::to_string(node.last.workers),
                          std::to_string(node.actors.size()),
                          std::to_string(node.last.load_permille / 10) + "%",
                          std::to_string(node.last.loop_lag_ns / 1'000'000),
                          labels_text(what.labels),
                          what.is_head_node ? "yes" : "no",
                          std::to_string(what.pid),
                          what.build});
  }
  dead_nodes_.for_each([&reply](NodeId id, const std::string& why) {
    std::vector<std::string> row(reply.columns.size());
    row[0] = to_string(id);
    row[1] = "dead";
    reply.rows.push_back(std::move(row));
    reply.notes.push_back("node " + to_string(id) + ": " + why);
  });
  return reply;
}

QueryReply Head::actor_rows() const {
  QueryReply reply;
  reply.columns = {"actor", "state",   "class",    "name",        "name_space", "job",
                   "node",  "process", "restarts", "incarnation", "detached",   "error"};
  for (const auto& [id, entry] : actors_) {
    const ActorInfo& info = entry.info;
    const NodeId node = info.phase == ActorPhase::kAlive ? info.address.host.node : entry.node;
    reply.rows.push_back({to_string(id), scheduler::name_of(info.phase), info.display, info.name, entry.spec.name_space,
                          to_string(info.job), or_empty(node), or_empty(info.address.host.process),
                          std::to_string(entry.restarts), std::to_string(info.incarnation),
                          entry.spec.detached ? "yes" : "no", message_of(info.error)});
    if (reply.rows.size() >= kMaxRows) break;
  }
  return reply;
}

QueryReply Head::job_rows() const {
  QueryReply reply;
  reply.columns = {"job",      "submission", "state",     "name",       "node",   "pid",
                   "start_ms", "end_ms",     "exit_code", "entrypoint", "message"};
  const auto command = [](const std::vector<std::string>& argv) {
    std::string text;
    for (const auto& word : argv) text += (text.empty() ? "" : " ") + word;
    return text;
  };
  std::set<std::string> shown;
  for (const auto& [id, entry] : jobs_) {
    const JobDescription& job = entry.job;
    std::string state = entry.ended ? "ended" : "running";
    std::string exit_code;
    std::string message;
    if (const auto at = submissions_.find(job.submission); at != submissions_.end()) {
      shown.insert(job.submission);
      state = name_of(at->second.info.phase);
      if (!is_active(at->second.info)) exit_code = std::to_string(at->second.info.exit_code);
      message = at->second.info.message;
    }
    reply.rows.push_back({to_string(id), job.submission, state, job.name, or_empty(job.driver.node),
                          std::to_string(job.pid), std::to_string(job.start_time_ms), std::to_string(entry.end_time_ms),
                          exit_code, job.entrypoint, message});
  }
  for (const auto& [id, entry] : submissions_) {
    if (shown.contains(id)) continue;
    const SubmissionInfo& info = entry.info;
    reply.rows.push_back({or_empty(info.job), id, name_of(info.phase), "", or_empty(info.node), "",
                          std::to_string(info.start_time_ms), std::to_string(info.end_time_ms),
                          is_active(info) ? "" : std::to_string(info.exit_code), command(info.argv), info.message});
  }
  return reply;
}

// An actor, a submission, or the leases that the maker of a task waits for.
void Head::explain_into(const std::string& target, QueryReply& reply) const {
  reply.columns = {"about", "node", "reason"};
  const auto add = [&reply](const std::string& about, const Reasons& reasons) {
    for (const auto& [node, why] : reasons) reply.rows.push_back({about, or_empty(node), why});
  };
  if (const auto at = submissions_.find(target); at != submissions_.end()) {
    const SubmissionInfo& info = at->second.info;
    const std::string about = "submission " + target + " (" + name_of(info.phase) + ")";
    if (info.phase == SubmissionPhase::kPending && !info.node) {
      add(about, explain(views_, at->second.job.resources, false));
    } else {
      reply.rows.push_back({about, or_empty(info.node), info.message});
    }
    return;
  }
  ActorId id;
  if (!parse_id(target, id)) return;
  if (const auto at = actors_.find(id); at != actors_.end()) {
    const ActorEntry& entry = at->second;
    const std::string about = "actor " + target + " (" + scheduler::name_of(entry.info.phase) + ", needs " +
                              to_string(entry.spec.placement) + ")";
    if (pending_turn_.contains(id)) {
      add(about, explain(views_, entry.spec.placement, false));
      if (views_.empty()) reply.rows.push_back({about, "", "no node has joined yet"});
    } else if (starting_.contains(id)) {
      reply.rows.push_back({about, or_empty(entry.node), "is being started there"});
    } else {
      reply.rows.push_back(
          {about, or_empty(entry.node), entry.info.error ? entry.info.error->message : std::string("it is alive")});
    }
    return;
  }
  constexpr std::size_t kMaxAbout = 5;
  std::size_t shown = 0;
  finds_.for_each([&](LeaseId lease, const WaitingFind& waiting) {
    if (lease.maker != id.maker || shown >= kMaxAbout) return;
    ++shown;
    const ResourceRequest& request = waiting.find.request;
    add("lease " + to_string(lease) + " (" + to_string(request) + ")", explain(views_, request, false));
  });
}

bool Head::kill_here(const std::string& target, QueryReply& reply) {
  reply.columns = {"killed", "node"};
  if (const auto at = submissions_.find(target); at != submissions_.end()) {
    if (is_active(at->second.info)) {
      reply.rows.push_back({"submission " + target, or_empty(at->second.info.node)});
      stop_submission(at->second);
    }
    return !reply.rows.empty();
  }
  if (ActorId id; parse_id(target, id)) {
    const auto at = actors_.find(id);
    if (at == actors_.end() || at->second.info.phase == ActorPhase::kDead) return false;
    reply.rows.push_back({"actor " + target, or_empty(at->second.node)});
    kill(at->second, true, false, "it was killed on request");
    return true;
  }
  if (JobId id; parse_id(target, id)) {
    const auto at = jobs_.find(id);
    if (at == jobs_.end() || at->second.ended) return false;
    reply.rows.push_back({"job " + target, or_empty(at->second.job.driver.node)});
    // A submitted driver is told to end, and its job ends with it; one that was started by hand loses its node.
    const auto submission = submissions_.find(at->second.job.submission);
    if (submission != submissions_.end() && is_active(submission->second.info)) {
      stop_submission(submission->second);
      return true;
    }
    end_job(id, "it was killed on request");
    return true;
  }
  return false;
}

}  // namespace mobula::scheduler
