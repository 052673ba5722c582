// The head machine: membership, actors, names, jobs, submissions and questions of one cluster.
//
// Pure: events in, ordered actions out; see "Machines" in ARCHITECTURE.md. The head decides what must be one decision
// for the whole cluster (which actor carries a name, which incarnation is the living one, who is dead) and picks nodes;
// it stays off the path of every call. Whatever it decides is written first: a Send carries the newest write of its
// step, so nobody sees what may vanish. Restart is the constructor: a snapshot of records goes in, nodes come back and
// say what they hold.
#pragma once

#include <cstdint>
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
#include "runtime/base/protocol/records.h"
#include "runtime/base/rng.h"
#include "runtime/base/time.h"
#include "scheduler/bounded.h"
#include "scheduler/head_state.h"
#include "scheduler/policy.h"

namespace mobula::scheduler {

struct HeadConfig {
  ClusterId cluster;  // the store's, when there is one
  Endpoint listen;
  Endpoint advertised;
  std::string build;
  std::int64_t wall_offset_ms = 0;  // wall clock minus monotonic clock, for times that people read

  Duration dead_after = std::chrono::seconds(3);        // a node without a heartbeat
  Duration link_grace = std::chrono::seconds(2);        // a node whose link broke and did not come back
  Duration return_grace = std::chrono::seconds(8);      // after a restart: nodes of the store that do not come back
  Duration late_tick = std::chrono::milliseconds(500);  // own tick later than this: everybody gets grace
  Duration settle = std::chrono::seconds(1);            // membership unchanged this long: "never" may be said
  Duration sweep = std::chrono::milliseconds(250);      // grain of all timers
  Duration repeat = std::chrono::seconds(2);            // StartActor, StopActor, StartDriver without an answer
  Duration find_show = std::chrono::milliseconds(100);  // a FindNode that waits this long is shown to nodes
  Duration find_stale = std::chrono::seconds(3);        // not asked again for so long: forgotten
  std::uint32_t stop_tries = 10;
  Duration unknown_watch = std::chrono::seconds(5);  // before a watched, unknown actor is called dead
  Duration query_wait = std::chrono::seconds(2);
};

inline constexpr std::size_t kMaxNodes = 20'000;
inline constexpr std::size_t kMaxActors = 1'000'000;
inline constexpr std::size_t kMaxDeadActors = 10'000;
inline constexpr std::size_t kMaxDeadNodes = 4'096;
inline constexpr std::size_t kMaxEndedJobsKept = 1'000;
inline constexpr std::size_t kMaxSubmissions = 10'000;
inline constexpr std::size_t kMaxEndedSubmissions = 1'000;
inline constexpr std::size_t kMaxWatchersPerActor = 65'536;
inline constexpr std::size_t kMaxUnknownWatches = 10'000;
inline constexpr std::size_t kMaxEarlyKills = 4'096;
inline constexpr std::size_t kMaxGoneProcesses = 16'384;
inline constexpr std::size_t kMaxHeadQueries = 256;
inline constexpr std::size_t kMaxFindsKept = 4'096;
inline constexpr std::size_t kMaxRows = 100'000;

// All records of the store, in any order.
using HeadSnapshot = std::vector<Record>;

// ---- events --------------------------------------------------------------------------------------------------------

// All writes up to and including `seq` are as durable as they asked to be.
struct Persisted {
  std::uint64_t seq = 0;
};

using HeadEvent = std::variant<Received, PeerJoined, PeerLost, Persisted, Tick>;

// ---- actions -------------------------------------------------------------------------------------------------------

// One batch, written whole or not at all, in order of `seq` (1, 2, 3, ...). `synced`: flushed to the disk before
// Persisted.
struct Persist {
  std::uint64_t seq = 0;
  bool synced = false;
  std::vector<RecordWrite> writes;
};
// The head daemon ends itself, once its last sends are out.
struct StopHead {
  std::string why;
};

using HeadAction = std::variant<Send, Persist, StopHead>;
using HeadActions = std::vector<HeadAction>;

struct LogPlace {
  NodeId node;       // zero: not known here, any node may have it
  std::string name;  // the node's name for it: a submission, or the id of a worker or node
  std::optional<ErrorInfo> error;
};

struct HeadStats {
  std::uint64_t epoch = 0;
  std::uint64_t finds = 0;
  std::uint64_t heartbeats = 0;
  std::uint64_t persists = 0;
  std::uint64_t actors_created = 0;
  std::uint64_t actors_restarted = 0;
  std::uint64_t nodes_died = 0;
  std::size_t nodes = 0;
  std::size_t actors_alive = 0;
  std::size_t actors_pending = 0;  // waiting to be placed
  std::size_t actors = 0;          // not dead
  std::size_t jobs = 0;            // not ended
  std::size_t submissions = 0;
  std::size_t watchers = 0;
};

class Head {
 public:
  Head(const HeadConfig& config, Rng rng, const HeadSnapshot& snapshot);

  // Appends to `actions`.
  void step(Instant now, std::span<const HeadEvent> events, HeadActions& actions);
  Instant next_deadline() const;
  HeadStats stats() const;
  void check() const;

  std::uint64_t epoch() const { return epoch_; }
  // For the daemon's router and for sharing content; nullptr when unknown or dead.
  const NodeDescription* find_node(NodeId node) const;
  std::vector<NodeId> live_nodes() const;
  // Whose log that is and where it lies, for ReadLog: of a worker, actor, job, submission or node.
  LogPlace log_place(const std::string& entity) const;
  // True while a submission that has not ended needs these files.
  bool needs_content(const std::string& hash) const;

 private:
  // head.cc: dispatch, restart
  void on(const Received& event);
  void on(const PeerJoined& event);
  void on(const PeerLost& event);
  void on(const Persisted& event);
  void on(const Tick& event);
  void restore(const HeadSnapshot& snapshot);
  void restore_one(const ClusterRecord& record);
  void restore_one(const NodeRecord& record);
  void restore_one(const ActorRecord& record);
  void restore_one(const JobRecord& record);
  void restore_one(const SubmissionRecord& record);
  void start();
  void send(const Peer& to, Message message);
  void send_fast(const Peer& to, Message message);  // waits for the epoch's record only
  void persist(RecordWrite write, bool synced);
  void sweep();
  std::int64_t wall_ms() const { return config_.wall_offset_ms + now_.nanoseconds / 1'000'000; }

  // head_membership.cc: nodes that come, beat, leave and die
  void receive(const Peer& from, const RegisterNode& message);
  void receive(const Peer& from, const Heartbeat& message);
  void receive(const Peer& from, const NodeLeaves& message);
  void receive(const Peer& from, const ProcessGone& message);
  void refuse_node(const Peer& to);
  void node_gone(NodeId node, const std::string& why);
  void broadcast(const Message& message, NodeId except);
  bool settled() const;  // membership has not changed lately, and all nodes of the store are back or dead
  bool gathering() const { return not_returned_ > 0; }
  NodeView* view_of(NodeId node);
  void put_view(const RegisterNode& message);
  void sweep_nodes();

  // head_finds.cc: nodes for leases
  void receive(const Peer& from, const FindNode& message);
  void show_to_a_node(const FindNode& find, NodeId asker);
  void serve_finds(NodeId node);
  void sweep_finds();

  // head_actors.cc: what processes ask about actors
  void receive(const Peer& from, const CreateActor& message);
  void receive(const Peer& from, const KillActor& message);
  void receive(const Peer& from, const WatchActor& message);
  void receive(const Peer& from, const UnwatchActor& message);
  void receive(const Peer& from, const FindActor& message);
  std::optional<ErrorInfo> refusal(const CreateActor& message) const;
  ActorEntry& add_actor(const CreateActor& message);
  void watch(const Peer& peer, ActorEntry& entry);
  void drop_watcher(const Peer& peer);
  void end_owned(ProcessId owner, const std::string& why);
  void kill(ActorEntry& entry, bool no_restart, bool graceful, const std::string& why);
  void sweep_watches();

  // head_placing.cc: the life of an actor on nodes
  void receive(const Peer& from, const ActorStarted& message);
  void receive(const Peer& from, const ActorEnded& message);
  void reconcile(const RegisterNode& message);
  void reconcile_one(NodeId node, const ActorInfo& reported);
  void adopt(NodeId node, const ActorInfo& reported);
  void now_alive(ActorEntry& entry, NodeId node, const ActorAddress& address);
  void settle_on(ActorEntry& entry, NodeId node);
  bool place(ActorEntry& entry);
  void place_pending();
  void queue(ActorEntry& entry);
  void unqueue(ActorId id);
  void unplace(ActorEntry& entry);
  void actor_failed(ActorEntry& entry, const ErrorInfo& error);  // restarts it or declares it dead
  void actor_dead(ActorEntry& entry, ErrorInfo error);
  void stop_at(NodeId node, ActorId actor, std::uint64_t incarnation, bool graceful);
  void publish(const ActorEntry& entry);
  void save(const ActorEntry& entry);
  void sweep_actors();

  // head_jobs.cc
  void receive(const Peer& from, const RegisterJob& message);
  void receive(const Peer& from, const JobFinished& message);
  void end_job(JobId id, const std::string& why);
  void save(const JobEntry& entry);

  // head_submissions.cc
  void receive(const Peer& from, const SubmitJob& message);
  void receive(const Peer& from, const StopSubmission& message);
  void receive(const Peer& from, const GetSubmission& message);
  void receive(const Peer& from, const DriverStatus& message);
  void place_submission(SubmissionEntry& entry);
  void stop_submission(SubmissionEntry& entry);
  void end_submission(SubmissionEntry& entry, SubmissionPhase phase, std::int32_t exit_code, std::string message);
  void save(const SubmissionEntry& entry);
  void sweep_submissions();

  // head_check.cc
  void check_nodes() const;
  void check_actors() const;

  // head_queries.cc
  void receive(const Peer& from, const Query& message);
  void receive(const Peer& from, const QueryReply& message);
  QueryReply status_rows() const;
  QueryReply node_rows() const;
  QueryReply actor_rows() const;
  QueryReply job_rows() const;
  void explain_into(const std::string& target, QueryReply& reply) const;
  bool kill_here(const std::string& target, QueryReply& reply);
  void stop_all(const Peer& from, const Query& message);
  void ask_nodes(const Peer& from, const Query& message, QueryReply seed);
  void finish_query(std::uint64_t sequence);
  void query_node_gone(NodeId node);
  void sweep_queries();

  HeadConfig config_;
  Rng rng_;
  Instant now_{};
  HeadActions* out_ = nullptr;               // set during a step only
  std::optional<std::size_t> open_persist_;  // index in *out_ of this step's Persist
  std::uint64_t epoch_ = 0;
  std::uint64_t persist_seq_ = 0;
  std::uint64_t persisted_ = 0;
  bool started_ = false;  // the epoch's record is written
  Instant next_sweep_ = Instant::never();

  // Nodes; views_ is sorted by node and holds those that are back.
  std::map<NodeId, NodeEntry> nodes_;
  std::vector<NodeView> views_;
  BoundedMemory<NodeId, std::string> dead_nodes_{kMaxDeadNodes};
  std::size_t not_returned_ = 0;
  Instant membership_changed_{};
  std::uint64_t turn_ = 0;
  BoundedMemory<LeaseId, WaitingFind> finds_{kMaxFindsKept};

  // Actors.
  std::map<ActorId, ActorEntry> actors_;  // dead ones too, as long as dead_actors_ remembers them
  std::map<std::pair<std::string, std::string>, ActorId> names_;  // (name space, name) of those not dead
  std::map<std::uint64_t, ActorId> pending_;                      // to be placed, first come first served
  std::map<ActorId, std::uint64_t> pending_turn_;
  std::uint64_t next_pending_ = 1;
  bool retry_pending_ = false;
  std::set<ActorId> starting_;  // StartActor is out
  std::map<std::pair<ActorId, std::uint64_t>, Stopping> stopping_;
  BoundedMemory<ActorId, bool> dead_actors_{kMaxDeadActors};
  BoundedMemory<ActorId, bool> early_kills_{kMaxEarlyKills};
  std::map<ProcessId, std::set<ActorId>> owned_;  // by creator: not dead, not detached
  std::map<JobId, std::set<ActorId>> of_job_;     // not dead, not detached
  BoundedMemory<ProcessId, bool> gone_processes_{kMaxGoneProcesses};
  std::map<Peer, std::set<ActorId>> watching_;
  struct UnknownWatch {
    std::vector<Peer> watchers;
    Instant deadline{};
  };
  std::map<ActorId, UnknownWatch> unknown_watches_;

  // Jobs, submissions, questions.
  std::map<JobId, JobEntry> jobs_;
  BoundedMemory<JobId, bool> ended_jobs_{kMaxEndedJobsKept};
  std::map<std::string, SubmissionEntry> submissions_;
  BoundedMemory<std::string, bool> ended_submissions_{kMaxEndedSubmissions};
  std::map<std::uint64_t, HeadQuery> queries_;
  std::uint64_t query_sequence_ = 0;
  std::uint64_t self_id_ = 0;  // maker of the ids of passed-on questions

  HeadStats counters_;
};

}  // namespace mobula::scheduler
