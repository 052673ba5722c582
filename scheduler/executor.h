// scheduler::Executor, the worker's side: what callers push is run once, in order, and answered.
//
// Tasks of the current lease run one at a time in the order pushed. Calls to an actor hosted here run in the order each
// caller numbered them, up to `max_concurrency` at once. A call that is pushed again gets its first answer in every
// phase (waiting, running, answered, cancelled before it was seen); answers are kept until the caller acknowledges
// them. A worker that is about to block gives its unstarted tasks back, else a task could wait for one queued behind
// itself.
//
// Messages are gathered and come out by flush(): answers of one step travel together.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/id_map.h"
#include "runtime/base/outbox.h"
#include "runtime/base/timers.h"
#include "scheduler/executor_io.h"

namespace mobula::scheduler {

struct ExecutorStats {
  std::size_t waiting = 0;  // calls here that do not run
  std::size_t running = 0;
  std::size_t answers = 0;  // kept for a repeat
  std::size_t actors = 0;
  std::uint64_t executed = 0;
  std::uint64_t given_back = 0;
  std::uint64_t repeats = 0;  // pushed again and not run again
};

class Executor {
 public:
  explicit Executor(const ExecutorConfig& config);

  // Takes values out of `events`.
  void step(Instant now, std::span<ExecutorEvent> events, ExecutorActions& actions);
  // Starts what can run and moves what was gathered into `actions.sends`.
  void flush(Instant now, ExecutorActions& actions);
  Instant next_deadline() const { return timers_.next(); }
  ExecutorStats stats() const;
  void check() const;
  // No call is here.
  bool idle() const { return calls_.empty() && early_.empty(); }

 private:
  enum class Phase : std::uint8_t { kPinning, kReady, kRunning, kEnding };
  struct Active {
    Call call;
    Peer caller;
    std::shared_ptr<const CallSpec> spec;
    LeaseId lease;
    Phase phase = Phase::kReady;
    bool cancelled = false;
    std::vector<PinnedLocation> pinned;
    CallResult result;  // when ending
  };
  struct Answer {
    CallResult result;
    std::size_t bytes = 0;
    bool dropped = false;  // only that it was answered is known
  };
  struct Caller {
    Peer peer;
    std::vector<std::shared_ptr<const CallSpec>> specs;  // by number
    std::uint64_t acknowledged = 0;
    IdMap<std::uint64_t, Answer> answers;  // by sequence of the task
    std::deque<std::uint64_t> answered;    // their keys, oldest first
    std::size_t kept = 0;                  // answers not dropped
    std::size_t kept_bytes = 0;
    std::deque<std::uint64_t> droppable;  // answers not dropped, oldest first
  };
  struct Lane {
    std::uint64_t next = 1;
    std::map<std::uint64_t, Call> early;  // by sequence
    bool timer = false;
    Instant gap_since;
  };
  enum class ActorState : std::uint8_t { kStarting, kAlive, kDraining };
  struct Hosted {
    ActorSpec spec;
    std::shared_ptr<const CallSpec> constructor;
    std::uint64_t incarnation = 0;
    std::uint32_t slot = 0;
    ActorState state = ActorState::kStarting;
    std::uint32_t running = 0;
    std::uint32_t ending = 0;  // ran, not answered
    bool dirty = false;
    std::optional<ErrorInfo> error;  // of the constructor
    std::deque<TaskId> queue;        // accepted, not started
    std::map<ProcessId, Lane> lanes;
  };
  struct Early {
    Peer from;
    LeaseId lease;
    Call call;
    Instant since;
  };
  enum class TimerKind : std::uint8_t { kEarly, kLane };

  void on(CallFinished& event);
  void on(ThreadBlocked& event);
  void on(ThreadUnblocked& event);
  void on(ArgumentsReady& event);
  void on(AnswerCleared& event);
  void on(RepeatAnswer& event);
  void on(PeerTroubled& event);
  void on(NodeGone& event);
  void on(Received& event);
  void on(Tick& event);
  void receive(const Peer& from, DefineSpec& message);
  void receive(const Peer& from, PushCalls& message);
  void receive(const Peer& from, StealBack& message);
  void receive(const Peer& from, CancelCall& message);
  void receive(const Peer& from, AssignWorker& message);
  void receive(const Peer& from, HostActor& message);
  void receive(const Peer& from, ExitActor& message);

  Caller& caller_entry(const Peer& peer);
  void acknowledge(Caller& caller, std::uint64_t watermark);
  void accept(const Peer& from, LeaseId lease, Call call);
  void accept_task(const Peer& from, LeaseId lease, Call call, std::shared_ptr<const CallSpec> spec);
  bool known_already(const Peer& from, Caller& caller, const Call& call);
  bool was_cancelled(TaskId task);
  // Makes it an active call; asks for its stored arguments.
  Active& admit(const Peer& from, LeaseId lease, Call call, std::shared_ptr<const CallSpec> spec);
  void start_tasks();
  void run(Active& active);
  void forget(TaskId task);
  void give_back(const Peer& caller, TaskId task);
  void give_back_queue();
  // Answers without running, or after it; the call is forgotten.
  void answer(TaskId task, CallResult result);
  void send_answer(const Peer& caller, const CallResult& result);
  void refuse(const Peer& from, const Call& call, ErrorInfo error, bool cancelled);
  void keep_answer(Caller& caller, CallResult result);
  void release_arguments(Active& active);
  void leave_queue(const Active& active);
  void caller_gone(ProcessId process);
  void to_node(Message message);

  // executor_actors.cc
  void accept_actor_call(const Peer& from, Call call, std::shared_ptr<const CallSpec> spec);
  void enter(Hosted& hosted, const Peer& from, Lane& lane, Call call);
  void drain_early(ActorId id, Hosted& hosted, const Peer& from, Lane& lane);
  void touch(ActorId id, Hosted& hosted);
  void start_methods(ActorId id);
  void constructor_pinned(ActorId id, ArgumentsReady& event);
  void construct(ActorId id, std::vector<PinnedLocation> pinned);
  void constructor_finished(CallFinished& event);
  void constructor_cleared(ActorId id);
  void end_actor(ActorId id, ActorEnd end, const ErrorInfo& error);
  void maybe_drained(ActorId id);
  void lane_timer(ActorId id);
  void lanes_gone(ProcessId process);

  ExecutorConfig config_;
  Instant now_;
  ExecutorActions* actions_ = nullptr;  // during a step
  Outbox outbox_;
  Timers<TimerKind> timers_;
  std::size_t done_bytes_ = 0;  // in the CallsDone begun last
  LeaseId lease_;
  Peer lease_caller_;
  std::shared_ptr<const Allocation> allocation_;
  std::deque<LeaseId> past_leases_;
  std::uint32_t blocked_ = 0;
  IdMap<TaskId, Active> calls_;
  std::deque<TaskId> queue_;  // tasks accepted, not started
  std::uint32_t tasks_running_ = 0;
  std::deque<Early> early_;  // of leases the node has not told of
  IdMap<ProcessId, Caller> callers_;
  IdMap<TaskId, bool> tombstones_;
  std::deque<TaskId> tombstone_order_;
  IdMap<ActorId, Hosted> hosted_;
  std::vector<ActorId> dirty_actors_;
  std::uint64_t executed_ = 0;
  std::uint64_t given_back_ = 0;
  std::uint64_t repeats_ = 0;
};

}  // namespace mobula::scheduler
