#include "scheduler/node.h"

#include <algorithm>
#include <type_traits>

#include "runtime/base/check.h"
#include "runtime/base/result.h"
#include "scheduler/type_list.h"

namespace mobula::scheduler {
namespace {

// Timers of one node are looked at together, no finer than this.
constexpr Duration kSweepGrain = std::chrono::milliseconds(5);

// What a node's control machine does not take: messages that its driver relays or answers, that other machines of the
// daemon handle (store, transfer, logs, keys), or that only go from a node outwards. All others have a `receive`.
using NotForNode =
    Types<Hello, HelloReply, DefineSpec, PushCalls, CallsDone, GiveBack, StealBack, CancelCall, LeaseGranted,
          LeaseMoved, AssignWorker, ProcessStatus, CreateActor, ActorCreated, HostActor, ExitActor, KillActor,
          WatchActor, UnwatchActor, ActorUpdate, FindActor, ActorFound, ResolveObjects, ObjectsResolved, BorrowObjects,
          ObjectsBorrowed, ReleaseObjects, HandoffDone, ObjectLocation, RequestSlab, SlabGranted, SealObject,
          ReturnSlab, PinObject, ObjectPinned, UnpinObjects, FreeObjects, ChunkRequest, ChunkReply, RegisterNode,
          Heartbeat, NodeLeaves, NodeResolved, RequestLinkKey, LinkKeyGranted, LinkAccepted, RegisterJob, JobFinished,
          SubmitJob, StopSubmission, GetSubmission, SubmissionReply, DriverStatus, PutContent, ContentStored,
          GetContent, ContentChunk, LogLines, ReadLog, LogChunk>;

}  // namespace

Node::Node(const NodeConfig& config, Rng rng, const NodeSnapshot&)
    : config_(config), rng_(rng), free_(config.self.total), reported_free_(config.self.total) {
  MOBULA_CHECK(config_.self.node, "a node needs an id");
}

void Node::step(Instant now, std::span<const NodeEvent> events, NodeActions& actions) {
  now_ = std::max(now_, now);
  out_ = &actions;
  for (const auto& event : events) {
    std::visit([this](const auto& what) { on(what); }, event);
  }
  if (now_ >= sweep_at_) sweep();
  if (dirty_) pump();
  if (ask_dirty_) ask_heads();
  maybe_heartbeat();
  out_ = nullptr;
}

Instant Node::next_deadline() const {
  Instant at = sweep_at_;
  if (head_up_) at = std::min(at, registered_ ? next_heartbeat_ : next_register_);
  return at;
}

void Node::on(const Received& event) {
  std::visit(
      [this, &event](const auto& message) {
        if constexpr (!kIn<std::decay_t<decltype(message)>, NotForNode>) receive(event.from, message);
      },
      event.message);
}

void Node::on(const PeerJoined& event) {
  switch (event.peer.kind) {
    case PeerKind::kHead: head_joined(); break;
    case PeerKind::kProcess:
      if (workers_.contains(event.peer.process())) {
        worker_joined(event.peer.process(), event.hello);
      } else if (event.hello.role == Role::kDriver) {
        driver_joined(event.peer, event.hello);
      }
      break;
    case PeerKind::kNode:  // membership is the head's word, not a link's state
    case PeerKind::kClient:
    case PeerKind::kNone: break;
  }
}

void Node::on(const PeerLost& event) {
  switch (event.peer.kind) {
    case PeerKind::kHead: head_lost(); break;
    case PeerKind::kProcess: {
      const ProcessId process = event.peer.process();
      if (workers_.contains(process)) {
        // The process itself ends with WorkerExited; without its link it is of no use.
        retire(process, "its link to the node broke");
      } else if (processes_.contains(process)) {
        driver_lost(process, event.why);
      }
      break;
    }
    case PeerKind::kClient:
      std::erase_if(queries_, [&event](const NodeQuery& query) { return query.asker == event.peer; });
      break;
    case PeerKind::kNode:
      broken_links_[NodeId{event.peer.id}] = now_ + config_.repeat;
      want(now_ + config_.repeat);
      break;
    case PeerKind::kNone: break;
  }
}

void Node::on(const HostSampled& event) {
  const std::uint64_t worst = std::max(sample_.loop_lag_ns, event.loop_lag_ns);
  sample_ = event;
  sample_.loop_lag_ns = worst;
}

void Node::on(const Tick&) {}

void Node::send(const Peer& to, Message message) {
  out_->push_back(Send{to, std::move(message), 0});
}

void Node::act(NodeAction action) {
  out_->push_back(std::move(action));
}

void Node::want(Instant at) {
  sweep_at_ = std::min(sweep_at_, std::max(at, now_ + kSweepGrain));
}

void Node::sweep() {
  // Each part looks at its own timers and wants the next.
  sweep_at_ = Instant::never();
  sweep_membership();
  sweep_jobs();
  sweep_workers();
  sweep_actors();
  sweep_finds();
  sweep_queries();
  fair_share();
}

NodeStats Node::stats() const {
  NodeStats stats = counters_;
  for (const auto& [id, lease] : leases_) {
    switch (lease.phase) {
      case LeasePhase::kQueued: ++stats.leases_queued; break;
      case LeasePhase::kMoved: ++stats.leases_away; break;
      case LeasePhase::kStarting:
      case LeasePhase::kGranted: ++stats.leases_held; break;
    }
  }
  stats.workers = workers_.size();
  stats.workers_idle = idle_workers_;
  stats.actors = actors_.size();
  stats.processes = processes_.size();
  stats.free = free_;
  stats.head_up = head_up_;
  stats.epoch = epoch_;
  return stats;
}

const NodeDescription* Node::find_node(NodeId node) const {
  if (node == config_.self.node) return &config_.self;
  const auto at = directory_.find(node);
  return at == directory_.end() ? nullptr : &at->second;
}

}  // namespace mobula::scheduler
