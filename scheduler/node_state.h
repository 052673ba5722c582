// What a node keeps of its workers, leases and actors, and the steps each may take from one phase to the next.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/message.h"
#include "runtime/base/resources.h"
#include "runtime/base/time.h"

namespace mobula::scheduler {

// ---- workers -------------------------------------------------------------------------------------------------------

enum class WorkerPhase : std::uint8_t {
  kSpawning,  // asked for, has not joined yet
  kIdle,      // warm, waits for the next lease or actor of its pool
  kLeased,    // a caller uses it
  kBlocked,   // leased or hosting, waits in get or wait: its CPUs are lent
  kHosting,   // an actor lives in it
  kDying,     // told to end; gone when the driver says so
};
const char* name_of(WorkerPhase phase);
// CHECKs that the step exists.
void advance(WorkerPhase& phase, WorkerPhase next);

// Which workers are interchangeable: same job, same program, same environment.
struct PoolKey {
  JobId job;
  RuntimeKey runtime;
  std::vector<std::pair<std::string, std::string>> environment;  // added to the runtime's own; sorted
  friend auto operator<=>(const PoolKey&, const PoolKey&) = default;
};

// Who waits for a worker of a pool.
using Claim = std::variant<LeaseId, ActorId>;

struct Pool {
  std::deque<ProcessId> idle;  // the warmest last
  std::deque<Claim> waiting;   // resources are theirs already; first come, first served
  std::uint32_t spawning = 0;
  std::uint32_t workers = 0;   // all of them
  std::uint32_t failures = 0;  // spawns that failed in a row
  Instant retry_at{};          // no spawn before this
  bool empty() const { return idle.empty() && waiting.empty() && workers == 0; }
};

struct Worker {
  WorkerPhase phase = WorkerPhase::kSpawning;
  PoolKey pool;
  std::uint64_t pid = 0;
  bool joined = false;
  LeaseId lease;                      // when leased
  ActorId actor;                      // when hosting
  Allocation held;                    // when dying without lease or actor: given back when the process is gone
  Quantity lent;                      // of its CPUs, given to others while it blocks
  std::uint32_t blocked = 0;          // threads of it that wait
  Instant since{};                    // of this phase
  Instant act_at = Instant::never();  // spawn timeout, end of idleness, next kill
  std::string why;                    // it was told to end
};

// ---- leases --------------------------------------------------------------------------------------------------------

enum class LeasePhase : std::uint8_t {
  kQueued,    // waits for resources, here or elsewhere
  kMoved,     // another node decides over it
  kStarting,  // resources are taken, waits for a worker
  kGranted,   // the caller has the worker
};
const char* name_of(LeasePhase phase);
void advance(LeasePhase& phase, LeasePhase next);

struct Lease {
  RequestLease request;
  LeasePhase phase = LeasePhase::kQueued;
  NodeId passed_by;  // the node that passed it on to us; zero: asked by our own process
  Instant since{};   // asked
  // Queued:
  bool elsewhere_first = false;  // its arguments lie elsewhere: ask the head before it is granted here
  bool asking = false;           // FindNode is out
  Instant ask_at{};              // next FindNode, or the repeat of the one that is out
  Duration backoff{};
  std::vector<NodeId> refused;
  // Moved:
  NodeId moved_to;
  std::uint32_t passes = 0;  // how often it was passed on; goes out as `hops`
  // Starting, granted:
  Allocation allocation;
  PoolKey pool;
  ProcessId worker;
  std::uint64_t order = 0;  // of the grant
  bool called_back = false;
};

// What a job holds on this node, for fair shares.
struct JobUse {
  Quantity cpus;  // without what blocked workers lent
  Quantity gpus;
  std::uint64_t memory = 0;
  friend bool operator==(const JobUse&, const JobUse&) = default;
};

// A lease of another node's process that waits for a node such as this one, as the head has told.
struct WantedHere {
  JobId job;
  ResourceRequest request;
  Instant until{};  // forgotten then: it has found a place, or is shown again
};

// What waits in one line: leases of one job that want the same.
struct ShapeKey {
  JobId job;
  ResourceRequest request;
  friend auto operator<=>(const ShapeKey&, const ShapeKey&) = default;
};

// ---- actors --------------------------------------------------------------------------------------------------------

enum class HostPhase : std::uint8_t {
  kWaiting,   // resources are taken, waits for a worker
  kStarting,  // its constructor runs
  kAlive,
  kStopping,  // told to end
  kEnded,     // reported until the head acknowledges it
};
const char* name_of(HostPhase phase);
void advance(HostPhase& phase, HostPhase next);

struct HostedActor {
  ActorSpec spec;
  std::uint64_t incarnation = 0;
  HostPhase phase = HostPhase::kWaiting;
  ProcessId worker;
  PoolKey pool;
  Allocation held;   // for life
  Allocation extra;  // until its constructor has run
  ActorAddress address;
  ActorEnded ended;                   // what is, or will be, reported
  Instant act_at = Instant::never();  // next report, or the end of a graceful stop
};

// ---- processes, jobs, drivers of submissions -----------------------------------------------------------------------

// A process of this node that has joined: a worker or a driver.
struct LocalProcess {
  Role role = Role::kWorker;
  JobId job;
  std::uint64_t pid = 0;
};

struct LocalJob {
  JobDescription description;  // when the driver is (or was) here
  bool driver_here = false;
  bool finished = false;  // JobFinished is repeated until EndJob arrives
  Instant act_at = Instant::never();
};

enum class DriverPhase : std::uint8_t { kStarting, kRunning, kStopping, kEnded };

struct SubmittedDriver {
  SubmitJob job;
  DriverPhase phase = DriverPhase::kStarting;
  std::uint64_t pid = 0;
  Allocation held;
  DriverStatus status;
  Instant act_at = Instant::never();
};

// A question passed on to this node's processes.
struct NodeQuery {
  Peer asker;
  Query query;
  std::set<ProcessId> waiting;
  QueryReply reply;
  Instant deadline{};
};

}  // namespace mobula::scheduler
