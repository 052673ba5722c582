// The node machine: owns one machine's resources, worker pool, leases and hosted actors.
//
// Pure: events in, ordered actions out; see "Machines" in ARCHITECTURE.md. The node alone commits its resources: the
// head only offers, and a lease that was passed on is granted or refused at once, never queued away from home. What the
// node knows of other nodes is the head's directory. It goes on without a head: leases that fit here are granted, the
// rest wait.
//
// Who speaks to whom: a process addresses its own node only. Leases that were passed on are granted by the other node
// to the caller directly; the caller's node forwards what the caller says about them, so it also knows whom to tell
// when the caller ends. A lease that ends at another node without its caller's doing is told to the caller's node as
// well.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/machine.h"
#include "runtime/base/protocol/message.h"
#include "runtime/base/resources.h"
#include "runtime/base/rng.h"
#include "runtime/base/time.h"
#include "scheduler/bounded.h"
#include "scheduler/node_state.h"
#include "scheduler/policy.h"

namespace mobula::scheduler {

struct NodeConfig {
  NodeDescription self;             // node, endpoint, total resources, labels, ...
  std::int64_t wall_offset_ms = 0;  // wall clock minus monotonic clock, for times that people read

  Duration heartbeat_interval = std::chrono::milliseconds(500);
  Duration heartbeat_gap = std::chrono::milliseconds(20);  // least time between two, when free resources change
  Duration register_repeat = std::chrono::seconds(1);
  Duration head_grace = std::chrono::seconds(60);  // without a head round trip: then workers end
  Duration repeat = std::chrono::seconds(1);       // reports that need an acknowledgement

  Duration fair_wait = std::chrono::milliseconds(100);  // a job waits this long before leases are called back
  Duration reclaim_repeat = std::chrono::milliseconds(200);
  Duration find_repeat = std::chrono::seconds(1);             // FindNode without an answer
  Duration find_backoff_min = std::chrono::milliseconds(50);  // after "nowhere now"
  Duration find_backoff_max = std::chrono::seconds(1);
  Duration wanted_time = std::chrono::milliseconds(1500);   // how long room is kept for a lease the head has shown
  Duration locality_wait = std::chrono::milliseconds(100);  // for the head's word on a better node
  std::uint64_t locality_min_bytes = 1 << 20;               // more than here by this: worth asking

  Duration spawn_timeout = std::chrono::seconds(60);
  Duration spawn_backoff = std::chrono::milliseconds(200);  // after a failed spawn, times the failures in a row
  std::uint32_t spawn_attempts = 3;
  Duration idle_timeout = std::chrono::seconds(30);
  Duration kill_repeat = std::chrono::seconds(10);
  Duration graceful_stop = std::chrono::seconds(30);
  Duration exit_grace = std::chrono::seconds(2);           // for an actor that ends by itself to send its last results
  std::uint32_t idle_workers_max = 0;                      // 0: one for each whole CPU, at least 1
  std::uint32_t workers_soft_max = 0;                      // 0: 4 for each whole CPU and 16; actors do not count
  Duration over_cap_gap = std::chrono::milliseconds(100);  // above it, one more worker each such time
  std::uint32_t prestart = 1;                              // spare workers for a line that waits

  Duration unlisted_grace = std::chrono::seconds(10);  // longer than a restarted head waits for its nodes
  Duration resolve_wait = std::chrono::seconds(2);     // before an unknown node is called dead
  Duration query_wait = std::chrono::milliseconds(1500);
};

// Bounds of what peers can make a node keep.
inline constexpr std::size_t kMaxLeasesPerProcess = 20'000;
inline constexpr std::size_t kMaxFindsOut = 64;
inline constexpr std::size_t kMaxWantedHere = 256;
inline constexpr std::size_t kMaxEndedLeases = 16'384;
inline constexpr std::size_t kMaxEndedProcesses = 4'096;
inline constexpr std::size_t kMaxStoppedActors = 4'096;
inline constexpr std::size_t kMaxEndedJobs = 4'096;
inline constexpr std::size_t kMaxRemovedNodes = 4'096;
inline constexpr std::size_t kMaxResolveWatches = 65'536;
inline constexpr std::size_t kMaxNodeQueries = 256;
inline constexpr std::size_t kMaxQueuedShapes = 64;

// A node keeps nothing on disk: a restarted daemon is a new node.
struct NodeSnapshot {};

// ---- events --------------------------------------------------------------------------------------------------------

// The process exists; it has not joined yet.
struct WorkerSpawned {
  ProcessId worker;
  std::uint64_t pid = 0;
};
// kInvalid, kUnknownFunction, kUnauthenticated: trying again is of no use. Every other kind is tried again.
struct WorkerSpawnFailed {
  ProcessId worker;
  ErrorInfo error;
};
// The process, all its children and its descriptors are gone. `error` says how: signal, exit code, pid, log tail.
struct WorkerExited {
  ProcessId worker;
  ErrorInfo error;
};
struct DriverStarted {
  std::string submission;
  std::uint64_t pid = 0;
};
// Also when it could not be started (exit_code 127 and a message).
struct DriverExited {
  std::string submission;
  std::int32_t exit_code = 0;  // 128 + signal when a signal ended it
  std::string message;
};
// For the next heartbeat; from the samplers.
struct HostSampled {
  std::uint64_t store_used = 0;
  std::uint64_t loop_lag_ns = 0;
  std::uint32_t load_permille = 0;
};

using NodeEvent = std::variant<Received, PeerJoined, PeerLost, WorkerSpawned, WorkerSpawnFailed, WorkerExited,
                               DriverStarted, DriverExited, HostSampled, Tick>;

// ---- actions -------------------------------------------------------------------------------------------------------

// Start a worker. `environment` comes on top of runtime.environment (sorted): OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES.
// Answered by WorkerSpawned or WorkerSpawnFailed; the worker itself then joins as Peer::of(worker, self).
struct Spawn {
  ProcessId worker;
  JobId job;
  RuntimeKey runtime;
  std::vector<std::pair<std::string, std::string>> environment;
};
// End it with all its children: answered by WorkerExited (WorkerSpawnFailed when it does not exist yet). Also for
// drivers whose job is ended by the head. Repeated when no answer comes.
struct KillProcess {
  ProcessId process;
  std::string why;
};
// For the object store: free what this process owns, drop its pins and slabs.
struct FreeOwned {
  ProcessId process;
};
// For the object store: the job has ended. Free what its processes owned, but what `keep` (detached actors) own or pin.
struct FreeJob {
  JobId job;
  std::vector<ProcessId> keep;
};
// Idempotent by submission. Answered by DriverStarted or DriverExited.
struct StartDriverProcess {
  SubmitJob job;
};
// TERM, later KILL; answered by DriverExited.
struct StopDriverProcess {
  std::string submission;
};
// The daemon ends, or (restart) starts anew as another node, because the head has declared this one dead.
struct StopNode {
  ErrorInfo why;
  bool restart = false;
};

using NodeAction =
    std::variant<Send, Spawn, KillProcess, FreeOwned, FreeJob, StartDriverProcess, StopDriverProcess, StopNode>;
using NodeActions = std::vector<NodeAction>;

struct NodeStats {
  std::uint64_t leases_granted = 0;
  std::uint64_t leases_moved = 0;
  std::uint64_t leases_refused = 0;
  std::uint64_t leases_called_back = 0;
  std::uint64_t leases_lost = 0;
  std::uint64_t workers_spawned = 0;
  std::uint64_t workers_exited = 0;
  std::uint64_t heartbeats = 0;
  std::size_t leases_queued = 0;
  std::size_t leases_held = 0;  // starting or granted
  std::size_t leases_away = 0;  // moved
  std::size_t workers = 0;
  std::size_t workers_idle = 0;
  std::size_t actors = 0;
  std::size_t processes = 0;
  NodeResources free;
  bool head_up = false;
  std::uint64_t epoch = 0;
};

class Node {
 public:
  Node(const NodeConfig& config, Rng rng, const NodeSnapshot& snapshot);

  // Appends to `actions`.
  void step(Instant now, std::span<const NodeEvent> events, NodeActions& actions);
  Instant next_deadline() const;
  NodeStats stats() const;
  void check() const;

  // For the daemon: what HelloReply and status files say.
  const NodeDescription& self() const { return config_.self; }
  std::uint64_t epoch() const { return epoch_; }
  // The directory, as the driver's router needs it; nullptr when unknown or removed.
  const NodeDescription* find_node(NodeId node) const;

 private:
  // node.cc: dispatch
  void on(const Received& event);
  void on(const PeerJoined& event);
  void on(const PeerLost& event);
  void on(const WorkerSpawned& event);
  void on(const WorkerSpawnFailed& event);
  void on(const WorkerExited& event);
  void on(const DriverStarted& event);
  void on(const DriverExited& event);
  void on(const HostSampled& event);
  void on(const Tick& event);
  void send(const Peer& to, Message message);
  void act(NodeAction action);
  void want(Instant at);  // sweep no later than this
  void sweep();
  bool local(const ProcessAddress& address) const { return address.node == config_.self.node; }

  // node_leases.cc: a lease from its request to its end
  void receive(const Peer& from, const RequestLease& message);
  void receive(const Peer& from, const ReturnLease& message);
  void receive(const Peer& from, const LeaseLost& message);
  void receive(const Peer& from, const LeaseFailed& message);
  void receive(const Peer& from, const ProcessGone& message);
  void repeat_answer(const Lease& lease);
  Lease& add_lease(const RequestLease& message);
  void enqueue(Lease& lease, bool in_front);
  void unqueue(const Lease& lease);
  void drop_lease(LeaseId id, bool worker_failed);  // the caller wants it no more
  void fail_lease(LeaseId id, ErrorInfo error);
  void lose_lease(LeaseId id, ErrorInfo error);
  void end_lease(LeaseId id, std::optional<Message> answer);
  void drop_leases_of(ProcessId caller);
  void forget_away(const Lease& lease);

  // node_finds.cc: leases that go elsewhere
  void receive(const Peer& from, const NodeFound& message);
  void receive(const Peer& from, const LeaseRefused& message);
  void receive(const Peer& from, const FindNode& message);
  void receive(const Peer& from, const ReclaimLease& message);
  void pass_on(const Lease& lease);
  void settle_with(NodeId node);
  bool wants_elsewhere(const RequestLease& message) const;
  void ask_head(Lease& lease);
  void ask_heads();
  void ask_again_soon();
  void stay_here(Lease& lease);
  void move_lease(Lease& lease, NodeId node);
  void sweep_finds();

  // node_grants.cc: resources, whose turn it is, fair shares
  void pump();
  bool try_grant(LeaseId id);
  bool owed_to_another(const RequestLease& request) const;
  void charge(JobId job, const Allocation& allocation, bool back);
  void give_back(Allocation& allocation, JobId job, Worker* worker);
  std::uint64_t share_of(const JobUse& use) const;
  void fair_share();
  std::map<JobId, std::size_t> jobs_in_need(std::set<JobId>& competing);
  void rebalance(const std::map<JobId, std::size_t>& waiting, std::uint64_t fair);
  void call_back(LeaseId id);

  // node_workers.cc: the pool
  PoolKey pool_for(JobId job, const RuntimeKey& runtime, const Allocation& allocation) const;
  void supply(const PoolKey& key);  // matches claims and idle workers, spawns what is missing
  void spawn(const PoolKey& key);
  bool may_spawn(const PoolKey& key);
  void assign(ProcessId id, const Claim& claim);
  void assign_lease(ProcessId id, Lease& lease);
  void make_idle(ProcessId id);
  void trim_idle();
  void retire(ProcessId id, const std::string& why);  // tells it to end
  void forget_worker(ProcessId id);
  void forget_pool_if_empty(const PoolKey& key);
  void unclaim(const PoolKey& key, const Claim& claim);
  void spawn_failed(const PoolKey& key, const ErrorInfo& error);
  void worker_joined(ProcessId id, const Hello& hello);
  void set_phase(Worker& worker, WorkerPhase next);
  void sweep_workers();
  std::uint32_t idle_max() const;
  std::uint32_t workers_max() const;

  // node_processes.cc: blocked workers, ends of processes
  void receive(const Peer& from, const WorkerBlocked& message);
  void receive(const Peer& from, const WorkerUnblocked& message);
  void receive(const Peer& from, const ProbeProcess& message);
  Worker* blocking_worker(const Peer& from, LeaseId lease);
  void worker_ended(ProcessId id, ErrorInfo error);
  void process_ended(ProcessId id, const ErrorInfo& error);

  // node_actors.cc
  void receive(const Peer& from, const StartActor& message);
  void receive(const Peer& from, const StopActor& message);
  void receive(const Peer& from, const ActorStarted& message);
  void receive(const Peer& from, const ActorEnded& message);
  void admit_actor(const StartActor& message);
  void host(ProcessId id, HostedActor& actor);
  void report(HostedActor& actor);
  void actor_over(HostedActor& actor);
  void detach_worker(HostedActor& actor, const std::string& why);
  void stop_actor(HostedActor& actor, bool graceful, const std::string& why);
  void actor_spawn_failed(ActorId id, const ErrorInfo& error, bool fatal);
  void sweep_actors();

  // node_membership.cc
  void head_joined();
  void head_lost();
  void register_now();
  void heartbeat();
  void maybe_heartbeat();
  void correct_head();  // it believes in room that is not there
  void end_everything(const std::string& why);
  void remove_node(NodeId node);
  void learn_node(const NodeDescription& description);
  void receive(const Peer& from, const NodeRegistered& message);
  void receive(const Peer& from, const HeartbeatAck& message);
  void receive(const Peer& from, const NodesChanged& message);
  void receive(const Peer& from, const ResolveNode& message);
  std::vector<QueuedShape> queued_shapes() const;
  Duration heartbeat_gap() const;
  void sweep_membership();

  // node_jobs.cc
  void receive(const Peer& from, const EndJob& message);
  void receive(const Peer& from, const StartDriver& message);
  void receive(const Peer& from, const StopDriver& message);
  void driver_joined(const Peer& peer, const Hello& hello);
  void driver_lost(ProcessId process, const ErrorInfo& why);
  void report_jobs();
  void report(SubmittedDriver& driver);
  bool hosts_detached(ProcessId process) const;
  void sweep_jobs();

  // node_check.cc
  void check_resources() const;
  void check_leases() const;
  void check_workers() const;

  // node_queries.cc
  void receive(const Peer& from, const Query& message);
  void receive(const Peer& from, const QueryReply& message);
  void ask_processes(const Peer& from, const Query& message, QueryReply seed);
  void query_process_gone(ProcessId process);
  QueryReply worker_rows(const Query& query) const;
  QueryReply doctor_rows(const Query& query) const;
  void explain_into(const Query& query, QueryReply& reply) const;
  void kill_target(const Query& query, QueryReply& reply);
  void sweep_queries();

  NodeConfig config_;
  Rng rng_;
  Instant now_{};
  NodeActions* out_ = nullptr;  // set during a step only

  // Resources. `used_` is what each job holds now, without what blocked workers lent.
  NodeResources free_;
  std::map<JobId, JobUse> used_;
  bool dirty_ = false;      // something may be granted now
  bool ask_dirty_ = false;  // some lease may be asked for elsewhere now

  // Leases.
  std::map<LeaseId, Lease> leases_;
  std::map<ShapeKey, std::deque<LeaseId>> queues_;
  std::set<LeaseId> elsewhere_;  // queued ones that ask the head first: in no queue
  std::uint64_t grant_order_ = 0;
  std::size_t finds_out_ = 0;
  Instant next_fair_{};
  std::map<LeaseId, WantedHere> wanted_;  // by the processes of other nodes, as the head has told
  BoundedMemory<LeaseId, std::optional<Message>> ended_leases_{kMaxEndedLeases};
  BoundedMemory<LeaseId, std::uint32_t> refused_leases_{kMaxEndedLeases};  // hops of the newest that was refused
  std::map<NodeId, Instant> broken_links_;            // to settle with these nodes what the link may have lost
  std::map<NodeId, std::set<LeaseId>> away_;          // moved leases by node
  std::map<ProcessId, std::set<LeaseId>> by_caller_;  // all leases here, by who asked

  // Workers and processes.
  std::map<ProcessId, Worker> workers_;
  std::map<PoolKey, Pool> pools_;
  std::size_t task_workers_ = 0;  // spawning, idle or leased: what the soft bound counts
  std::size_t idle_workers_ = 0;
  Instant over_cap_at_{};
  std::map<ProcessId, LocalProcess> processes_;
  BoundedMemory<ProcessId, ErrorInfo> ended_processes_{kMaxEndedProcesses};

  // Actors.
  std::map<ActorId, HostedActor> actors_;
  BoundedMemory<ActorId, std::uint64_t> stopped_actors_{kMaxStoppedActors};

  // Head and other nodes.
  bool head_up_ = false;
  bool registered_ = false;
  bool ended_all_ = false;  // head_grace ran out
  std::uint64_t epoch_ = 0;
  std::uint64_t heartbeat_sequence_ = 0;
  Instant last_round_trip_ = Instant::never();  // never: no head so far
  Instant next_heartbeat_ = Instant::never();
  Instant last_heartbeat_{};
  Instant next_register_ = Instant::never();
  NodeResources reported_free_;
  HostSampled sample_;
  std::map<NodeId, NodeDescription> directory_;  // without this node
  std::map<NodeId, Instant> unlisted_;           // not in the last list of a head: removed then
  BoundedMemory<NodeId, bool> removed_nodes_{kMaxRemovedNodes};
  std::map<NodeId, std::set<ProcessId>> resolve_watches_;
  std::size_t resolve_watch_count_ = 0;
  std::map<std::pair<NodeId, ProcessId>, Instant> unresolved_;

  // Jobs.
  std::map<JobId, LocalJob> jobs_;
  BoundedMemory<JobId, bool> ended_jobs_{kMaxEndedJobs};
  std::map<std::string, SubmittedDriver> drivers_;

  std::vector<NodeQuery> queries_;
  std::uint64_t query_sequence_ = 0;

  Instant sweep_at_ = Instant::never();
  NodeStats counters_;
};

}  // namespace mobula::scheduler
