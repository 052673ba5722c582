// scheduler::Submitter, the caller's side of every task and actor call of one process.
//
// Tasks of one shape (resources, kind of worker) share a queue. The queue asks its node for leases and pushes calls
// straight to the leased workers; node and head are off the path of calls from then on. A lease holds about a
// millisecond of measured work, so that short calls travel in batches and long ones never wait behind each other. Calls
// to an actor go to its process in the order in which they were submitted here, numbered per incarnation, so that a
// repeat after a broken link runs nothing twice. Whatever fails ends in a typed error or in another attempt, never in
// silence.
//
// Messages are gathered and come out by flush(): a step that submits a thousand calls pushes them in a few messages.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/id_map.h"
#include "runtime/base/outbox.h"
#include "runtime/base/timers.h"
#include "scheduler/submitter_io.h"
#include "scheduler/watermark.h"

namespace mobula::scheduler {

struct SubmitterStats {
  std::size_t calls = 0;   // not settled
  std::size_t leases = 0;  // granted
  std::size_t lease_requests = 0;
  std::size_t actors = 0;  // known here
  std::uint64_t queued_bytes = 0;
  std::uint64_t settled = 0;
  std::uint64_t failed = 0;  // settled with an error
  std::uint64_t retries = 0;
};

class Submitter {
 public:
  explicit Submitter(const SubmitterConfig& config);

  // Takes values out of `events`.
  void step(Instant now, std::span<SubmitterEvent> events, SubmitterActions& actions);
  // Hands queued calls to leases and actors, and moves what was gathered into `actions.sends`.
  void flush(Instant now, SubmitterActions& actions);
  Instant next_deadline() const { return timers_.next(); }
  SubmitterStats stats() const;
  void check() const;
  // No call, request or lease is left.
  bool idle() const;

 private:
  enum class CallState : std::uint8_t { kWaiting, kQueued, kPushed };
  struct Task {
    SpecRef spec;
    std::vector<CallValue> arguments;
    TaskId parent;
    ActorId actor;  // actor calls
    ObjectId first_return;
    std::uint32_t returns = 1;
    std::uint32_t attempt = 0;
    std::int32_t retries = 0;  // charged so far
    std::int32_t max_retries = 0;
    std::uint32_t unresolved = 0;  // arguments that are not ready
    CallState state = CallState::kWaiting;
    bool pinned = false;
    bool cancelled = false;
    bool force = false;
    bool recursive = true;
    std::uint64_t bytes = 0;
    std::uint64_t lease = 0;       // tasks, when pushed
    std::uint64_t order = 0;       // actor calls, when pushed: the sequence
    std::vector<NodeId> left_on;   // where earlier attempts died
    std::int64_t estimate_ns = 0;  // as counted in the lease's pipeline
  };
  struct Shape {
    ResourceRequest request;
    RuntimeKey runtime;
    std::deque<std::uint64_t> queue;      // tasks
    std::vector<std::uint64_t> open;      // granted leases that may have room; in order of opening
    std::vector<std::uint64_t> requests;  // leases asked for
    std::size_t granted = 0;
    bool dirty = false;
    bool surplus_timer = false;
    Instant empty_since;
  };
  enum class LeaseState : std::uint8_t { kRequested, kGranted };
  struct Lease {
    LeaseState state = LeaseState::kRequested;
    std::uint32_t shape = 0;
    NodeId node;  // that decides on it
    Peer worker;
    std::deque<std::uint64_t> pipeline;  // tasks pushed, in order
    std::int64_t work_ns = 0;            // estimated, in the pipeline
    bool open = false;                   // listed in its shape
    bool reclaimed = false;
    bool broken = false;   // no link to the worker
    bool stalled = false;  // gave calls back: nothing more until it answers
    bool idle_timer = false;
    bool steal_timer = false;
    bool stall_timer = false;
    Instant idle_since;
    Instant head_since;  // when the oldest call can have started
    std::vector<std::pair<NodeId, std::uint64_t>> locality;
    std::string name;
  };
  struct Actor {
    ActorInfo info;
    bool known = false;     // the head has told something
    bool own = false;       // created here
    bool settled = false;   // own: ActorSettled was reported
    bool lasting = false;   // own: named or detached
    bool reachable = true;  // as far as known
    bool troubled = false;  // its link broke and is being looked after
    bool ask_timer = false;
    bool idle_timer = false;
    bool dirty = false;
    bool ending = false;  // KillActor is repeated until it is dead
    KillActor kill;
    ObjectLocator self;
    std::deque<std::uint64_t> queue;     // calls not pushed, in order
    std::deque<std::uint64_t> inflight;  // pushed and not answered, in order
    std::uint64_t next_order = 0;        // last sequence given out in this incarnation
    Instant idle_since;
  };
  struct Creation {
    ActorSpec spec;
    ObjectId handle;
    RequestId request;
    std::uint32_t unresolved = 0;
    bool sent = false;
  };
  struct Link {
    std::vector<bool> defined;    // specs, by number
    std::size_t batch_bytes = 0;  // in the last PushCalls that was begun
    std::vector<std::uint64_t> leases;
    std::vector<ActorId> actors;
  };
  enum class TimerKind : std::uint8_t {
    kLeaseIdle,
    kLeaseRequest,
    kLeaseSteal,
    kLeaseStall,
    kShapeSurplus,
    kActorAsk,
    kActorIdle,
    kRequest
  };
  enum class NeededBy : std::uint8_t { kTask, kCreation };
  struct Waiter {
    NeededBy kind = NeededBy::kTask;
    ActorId actor;
    std::uint64_t task = 0;
    friend bool operator==(const Waiter&, const Waiter&) = default;
  };
  using Request = std::variant<CreateActor, FindActor>;

  // submitter.cc: calls
  void on(SubmitTask& event);
  void on(SubmitActorCall& event);
  void on(Cancel& event);
  void on(JobEnding& event);
  void on(ObjectKnown& event);
  void on(CancelChildren& event);
  void on(NodeLost& event);
  void on(PeerTroubled& event);
  void on(PeerUsable& event);
  void on(NodeGone& event);
  void on(Received& event);
  void on(Tick& event);
  void receive(const Peer& from, CallsDone& message);
  void receive(const Peer& from, GiveBack& message);

  TaskId task_id(std::uint64_t sequence) const { return {config_.self.process.value, sequence}; }
  Task& new_task(TaskId id, SpecRef spec, std::vector<ArgumentIn> arguments, std::uint32_t returns, ObjectId first,
                 TaskId parent);
  void take_arguments(std::vector<ArgumentIn> arguments, std::vector<CallValue>& values, std::uint32_t& unresolved,
                      const Waiter& waiter);
  void drop_waiters(const std::vector<CallValue>& arguments, const Waiter& waiter);
  void resolve(Task& task, std::uint64_t sequence, ObjectId object, const Outcome& outcome);
  void resolve(Creation& creation, ActorId actor, ObjectId object, const Outcome& outcome);
  void enqueue(Task& task, std::uint64_t sequence);
  void settle(std::uint64_t sequence, CallResult* result, std::optional<ErrorInfo> error, const Peer& executor);
  void fail(std::uint64_t sequence, ErrorInfo error);
  void fail_everything(const ErrorInfo& error);
  void answered(const Peer& from, CallResult& result);
  // Another attempt, or the error. `charged`: the attempt counts.
  void retry_or_fail(std::uint64_t sequence, const ErrorInfo& error, bool charged, std::deque<std::uint64_t>& requeue);
  void cancel(std::uint64_t sequence, bool force, bool recursive);
  Peer where(const Task& task) const;
  void push(const Peer& to, LeaseId lease, std::uint64_t sequence, Task& task);
  Link& link(const Peer& peer) { return links_[peer.process()]; }
  void tidy_link(ProcessId process);

  // submitter_leases.cc
  void receive(const Peer& from, LeaseGranted& message);
  void receive(const Peer& from, LeaseFailed& message);
  void receive(const Peer& from, LeaseMoved& message);
  void receive(const Peer& from, LeaseLost& message);
  void receive(const Peer& from, ReclaimLease& message);
  LeaseId lease_id(std::uint64_t sequence) const { return {config_.self.process.value, sequence}; }
  std::uint32_t shape_of(const SpecRef& spec);
  std::int64_t estimate_ns(std::uint32_t spec_number) const;
  void measure(std::uint32_t spec_number, std::uint64_t run_ns);
  void touch_shape(std::uint32_t index);
  void dispatch(std::uint32_t index);
  void request_leases(std::uint32_t index);
  void send_request(std::uint64_t sequence, Lease& lease);
  bool has_room(const Lease& lease, std::int64_t estimate) const;
  bool usable(const Lease& lease) const;
  void open_lease(std::uint64_t sequence, Lease& lease);
  void push_task(std::uint64_t lease_sequence, Lease& lease, std::uint64_t sequence);
  void leave_pipeline(std::uint64_t sequence, Task& task);
  void after_answer(std::uint64_t sequence);
  void return_lease(std::uint64_t sequence, bool worker_failed);
  void erase_lease(std::uint64_t sequence);
  void lose_lease(std::uint64_t sequence, const ErrorInfo& error);
  void repeat_lease(std::uint64_t sequence);
  void lease_timer(TimerKind kind, std::uint64_t sequence);
  void drop_surplus(std::uint32_t index);

  // submitter_actors.cc
  void on(SubmitActor& event);
  void on(LookUpActor& event);
  void on(AdoptActor& event);
  void on(EndActor& event);
  void on(HandleGone& event);
  void receive(const Peer& from, ActorCreated& message);
  void receive(const Peer& from, ActorFound& message);
  void receive(const Peer& from, ActorUpdate& message);
  void create(ActorId actor);
  void fail_creation(ActorId actor, const ErrorInfo& error);
  Actor& actor_entry(ActorId id);
  void watch(ActorId id, Actor& actor);
  void update_actor(const ActorInfo& info);
  void settle_actor(ActorId id, Actor& actor);
  void touch_actor(ActorId id, Actor& actor);
  void pump(ActorId id);
  // The process it ran in is gone: another attempt for calls that may have one, `error` for the others.
  void drop_inflight(ActorId id, const ErrorInfo& error);
  // All unanswered calls, pushed or not.
  void fail_queue(ActorId id, const ErrorInfo& error);
  void leave_actor(Actor& actor, ActorId id, std::uint64_t sequence);
  void call_gone(ActorId id, Actor& actor);
  void given_back(ActorId id, const std::vector<std::uint64_t>& sequences);
  void repeat_actor(ActorId id);
  void host_trouble(ActorId id, const PeerTroubled& event);
  void actor_timer(TimerKind kind, ActorId id);
  void repeat_request(RequestId id);
  void set_host(ActorId id, Actor& actor, const ActorAddress& address);
  void clear_host(ActorId id, Actor& actor);

  SubmitterConfig config_;
  Instant now_;
  SubmitterActions* actions_ = nullptr;  // during a step
  bool stopped_ = false;
  Outbox outbox_;
  Timers<TimerKind> timers_;
  Watermark watermark_;
  IdMap<std::uint64_t, Task> tasks_;              // by sequence
  IdMap<ObjectId, std::vector<Waiter>> waiters_;  // for arguments
  std::vector<Shape> shapes_;
  std::map<std::pair<ResourceRequest, RuntimeKey>, std::uint32_t> shape_index_;
  std::vector<std::uint32_t> spec_shapes_;  // by spec number; index plus one
  std::vector<std::int64_t> spec_ns_;       // by spec number: measured; 0: not yet
  std::vector<std::uint32_t> dirty_shapes_;
  IdMap<std::uint64_t, Lease> leases_;
  std::uint64_t last_lease_ = 0;
  IdMap<ProcessId, Link> links_;
  IdMap<ActorId, Actor> actors_;
  std::vector<ActorId> dirty_actors_;
  IdMap<ActorId, Creation> creations_;
  IdMap<RequestId, Request> requests_;  // sent to the head, not answered
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t reported_bytes_ = 0;
  std::uint64_t settled_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t retried_ = 0;
};

}  // namespace mobula::scheduler
