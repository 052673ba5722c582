#include "scheduler/head.h"

#include <algorithm>
#include <type_traits>

#include "runtime/base/check.h"
#include "runtime/base/result.h"
#include "scheduler/type_list.h"

namespace mobula::scheduler {
namespace {

// What the head's control machine does not take: messages between processes and nodes, what its driver handles
// (content, logs), and what only goes from the head outwards. All others have a `receive`.
using NotForHead =
    Types<Hello, HelloReply, DefineSpec, PushCalls, CallsDone, GiveBack, StealBack, CancelCall, RequestLease,
          LeaseGranted, LeaseFailed, LeaseMoved, ReturnLease, ReclaimLease, LeaseLost, AssignWorker, WorkerBlocked,
          WorkerUnblocked, NodeFound, LeaseRefused, ProbeProcess, ProcessStatus, ActorCreated, StartActor, HostActor,
          StopActor, ExitActor, ActorUpdate, ActorFound, ResolveObjects, ObjectsResolved, BorrowObjects,
          ObjectsBorrowed, ReleaseObjects, HandoffDone, ObjectLocation, RequestSlab, SlabGranted, SealObject,
          ReturnSlab, PinObject, ObjectPinned, UnpinObjects, FreeObjects, ChunkRequest, ChunkReply, NodeRegistered,
          HeartbeatAck, NodesChanged, ResolveNode, NodeResolved, RequestLinkKey, LinkKeyGranted, LinkAccepted, EndJob,
          SubmissionReply, StartDriver, StopDriver, PutContent, ContentStored, GetContent, ContentChunk, LogLines,
          ReadLog, LogChunk>;

}  // namespace

Head::Head(const HeadConfig& config, Rng rng, const HeadSnapshot& snapshot)
    : config_(config), rng_(rng), self_id_(rng_.id()) {
  restore(snapshot);
  ++epoch_;
}

void Head::step(Instant now, std::span<const HeadEvent> events, HeadActions& actions) {
  now_ = std::max(now_, now);
  out_ = &actions;
  open_persist_.reset();
  if (!started_) start();
  if (next_sweep_ != Instant::never() && now_ > next_sweep_ + config_.late_tick) {
    // This process did not run: it has heard nobody, so it may declare nobody dead.
    for (auto& [id, node] : nodes_) node.dead_at = std::max(node.dead_at, now_ + config_.dead_after);
  }
  for (const auto& event : events) {
    std::visit([this](const auto& what) { on(what); }, event);
  }
  if (now_ >= next_sweep_) sweep();
  if (retry_pending_) place_pending();
  out_ = nullptr;
  open_persist_.reset();
}

// The first write of this head: what carries its epoch waits for it.
void Head::start() {
  started_ = true;
  membership_changed_ = now_;
  next_sweep_ = now_ + config_.sweep;
  for (auto& [id, node] : nodes_) node.dead_at = now_ + config_.return_grace;
  persist(Record{ClusterRecord{kStoreSchema, config_.cluster, epoch_, config_.listen, config_.advertised}}, true);
}

Instant Head::next_deadline() const {
  return started_ ? next_sweep_ : Instant{};
}

void Head::on(const Received& event) {
  std::visit(
      [this, &event](const auto& message) {
        if constexpr (!kIn<std::decay_t<decltype(message)>, NotForHead>) receive(event.from, message);
      },
      event.message);
}

void Head::on(const PeerJoined& event) {
  if (event.peer.kind != PeerKind::kNode) return;
  const auto at = nodes_.find(NodeId{event.peer.id});
  if (at != nodes_.end()) at->second.link_up = true;  // RegisterNode follows
}

void Head::on(const PeerLost& event) {
  switch (event.peer.kind) {
    case PeerKind::kNode: {
      const auto at = nodes_.find(NodeId{event.peer.id});
      if (at == nodes_.end()) return;
      // Not death, but a suspicion: a node that lives comes back at once.
      at->second.link_up = false;
      at->second.dead_at = std::min(at->second.dead_at, now_ + config_.link_grace);
      break;
    }
    case PeerKind::kClient:
      drop_watcher(event.peer);
      std::erase_if(queries_, [&event](const auto& entry) { return entry.second.asker == event.peer; });
      for (auto& [id, entry] : submissions_) {
        std::erase_if(entry.waiters, [&event](const auto& waiter) { return waiter.first == event.peer; });
      }
      break;
    case PeerKind::kProcess: drop_watcher(event.peer); break;
    case PeerKind::kHead:
    case PeerKind::kNone: break;
  }
}

void Head::on(const Persisted& event) {
  MOBULA_CHECK(event.seq <= persist_seq_, "only what was asked for can be durable");
  persisted_ = std::max(persisted_, event.seq);
}

void Head::on(const Tick&) {}

void Head::send(const Peer& to, Message message) {
  out_->push_back(Send{to, std::move(message), persist_seq_});
}

void Head::send_fast(const Peer& to, Message message) {
  out_->push_back(Send{to, std::move(message), std::min<std::uint64_t>(persist_seq_, 1)});
}

void Head::persist(RecordWrite write, bool synced) {
  if (!open_persist_) {
    out_->push_back(Persist{++persist_seq_, false, {}});
    open_persist_ = out_->size() - 1;
    ++counters_.persists;
  }
  auto& batch = std::get<Persist>((*out_)[*open_persist_]);
  batch.synced = batch.synced || synced;
  batch.writes.push_back(std::move(write));
}

void Head::sweep() {
  next_sweep_ = now_ + config_.sweep;
  sweep_nodes();
  sweep_actors();
  sweep_watches();
  sweep_submissions();
  sweep_queries();
  sweep_finds();
}

HeadStats Head::stats() const {
  HeadStats stats = counters_;
  stats.epoch = epoch_;
  stats.nodes = views_.size();
  for (const auto& [id, entry] : actors_) {
    if (entry.info.phase == ActorPhase::kDead) continue;
    ++stats.actors;
    if (entry.info.phase == ActorPhase::kAlive) ++stats.actors_alive;
  }
  stats.actors_pending = pending_.size();
  for (const auto& [id, job] : jobs_) stats.jobs += job.ended ? 0 : 1;
  stats.submissions = submissions_.size();
  for (const auto& [peer, watched] : watching_) stats.watchers += watched.size();
  return stats;
}

const NodeDescription* Head::find_node(NodeId node) const {
  const auto at = nodes_.find(node);
  return at == nodes_.end() ? nullptr : &at->second.description;
}

std::vector<NodeId> Head::live_nodes() const {
  std::vector<NodeId> nodes;
  for (const NodeView& view : views_) nodes.push_back(view.node);
  return nodes;
}

LogPlace Head::log_place(const std::string& entity) const {
  const auto none = [](std::string why) {
    return LogPlace{{}, {}, make_error(ErrorKind::kObjectLost, std::move(why))};
  };
  const auto of_submission = [&](const SubmissionEntry& entry) {
    const SubmissionInfo& info = entry.info;
    if (info.node) return LogPlace{info.node, info.submission, {}};
    return none(info.submission + " has not been started" + (info.message.empty() ? "" : ": " + info.message) +
                ". `mobula explain " + info.submission + "` says what it waits for.");
  };
  if (const auto at = submissions_.find(entity); at != submissions_.end()) return of_submission(at->second);
  if (entity.starts_with("job-")) return none("no submission \"" + entity + "\" is known; see `mobula list jobs`");
  if (ActorId actor; parse_id(entity, actor)) {
    const auto at = actors_.find(actor);
    if (at == actors_.end()) return none("no actor " + entity + " is known; see `mobula list actors`");
    const ProcessAddress& host = at->second.info.address.host;
    if (!host.process) return none("the actor " + entity + " runs in no worker now, so it has no log");
    return {host.node, to_string(host.process), {}};
  }
  std::uint64_t id = 0;
  if (!parse_hex(entity, id)) {
    return none("\"" + entity + "\" is no id of a worker, actor, job, submission or node; `mobula list` shows them");
  }
  if (nodes_.contains(NodeId{id})) return {NodeId{id}, entity, {}};
  if (const auto at = jobs_.find(JobId{id}); at != jobs_.end()) {
    const auto submission = submissions_.find(at->second.job.submission);
    if (submission != submissions_.end()) return of_submission(submission->second);
    return none("job " + entity +
                " was not submitted: its driver prints on the terminal it was started from. For its "
                "workers see `mobula list workers --filter job=" +
                entity + "`.");
  }
  for (const auto& [actor_id, entry] : actors_) {
    if (entry.info.address.host.process.value == id) return {entry.info.address.host.node, entity, {}};
  }
  return {{}, entity, {}};
}

bool Head::needs_content(const std::string& hash) const {
  for (const auto& [id, entry] : submissions_) {
    const SubmissionPhase phase = entry.info.phase;
    if (phase != SubmissionPhase::kPending && phase != SubmissionPhase::kRunning) continue;
    if (entry.job.working_dir == hash) return true;
  }
  return false;
}

}  // namespace mobula::scheduler
