// A whole cluster of engines in one thread, for tests: real engines; nodes, head, links and user code are played.
//
// Links keep order and delay at random; they break and lose what is on the way; processes are killed. User code holds
// references as the runtime does: counted per process, told to the engine at the first and the last. Every value names
// its object, so a read that gets the wrong bytes is seen, and the played stores know which objects may still be
// mapped.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/core/engine/engine.h"

namespace mobula::core::test {

using namespace std::chrono_literals;

struct WorldOptions {
  std::uint64_t seed = 1;
  int driver_steps = 200;
  bool breaks = false;   // links break
  bool kills = false;    // workers are killed
  bool repeats = false;  // direct messages come twice
  std::size_t workers_max = 24;
};

class World;

struct Read {
  std::optional<ErrorInfo> error;
  std::vector<ObjectLocator> refs;
};

// One process: an engine and the user code around it.
class Process {
 public:
  Process(World& world, ProcessAddress address);

  void post(Event event);
  void step();
  void perform(Actions& actions);
  void arm();

  ObjectLocator make_id();
  void acquire(const ObjectLocator& object);
  void release(ObjectId object);
  void get(const ObjectLocator& object, std::function<void(const Read&)> then);
  ObjectLocator put(std::vector<ObjectLocator> refs, bool stored);
  std::vector<ObjectLocator> submit(std::vector<ArgumentIn> arguments, std::uint32_t returns, TaskId parent);
  std::vector<ObjectLocator> call(ActorId actor, const ObjectLocator& self, std::vector<ArgumentIn> arguments,
                                  TaskId parent);
  std::pair<ActorId, ObjectLocator> create_actor(std::vector<ArgumentIn> arguments, std::int32_t max_restarts);

  void execute(Execute execute);
  void on_ready(Ready& ready);
  // A random argument list made of what is held.
  std::vector<ArgumentIn> some_arguments(const std::vector<ObjectLocator>& held);

  World& world;
  ProcessAddress address;
  Engine engine;
  bool alive = true;
  std::vector<Event> inbox;
  Instant armed = Instant::never();
  std::uint64_t next_object = 0;
  std::uint64_t next_task = 0;
  std::uint64_t next_actor = 0;
  std::uint64_t next_request = 0;
  std::map<ObjectId, int> local;
  std::map<ObjectId, Read> cells;
  std::map<ObjectId, std::vector<std::function<void(const Read&)>>> waiting;
  std::vector<ObjectLocator> kept;  // actor state
  std::optional<LeaseId> lease;
  ActorId hosts;
  std::map<ObjectId, int> pins;  // as the node counts them
  std::set<RequestId> asked;     // actors asked for
};

class World {
 public:
  explicit World(const WorldOptions& options);

  // Lets the driver do its steps, drops everything, and runs until all is quiet. Returns what is wrong, if anything.
  std::string run();

  void at(Instant when, std::function<void()> what);
  void send(Process& from, Send send);
  void to_process(ProcessId to, Peer from, Message message);
  Duration delay() { return Duration(static_cast<std::int64_t>(20'000 + rng.below(500'000))); }
  void violation(std::string what) {
    if (violations.empty()) violations = std::move(what);
  }
  Process& spawn(NodeId node);
  void kill(Process& process, bool graceful = false);

  WorldOptions options;
  Rng rng;
  Instant now{1'000'000'000};
  std::string violations;
  std::uint64_t messages = 0;
  std::uint64_t reads = 0;
  std::uint64_t read_errors = 0;
  std::map<NodeId, std::map<ObjectId, int>> stores;  // copies by node; the number is of pins
  std::map<ProcessId, std::unique_ptr<Process>> processes;
  std::set<std::pair<NodeId, ObjectId>> cached;  // copies brought for a reader: a store may drop them
  bool quiet = false;                            // no more new faults

 private:
  struct Item {
    Instant at;
    std::uint64_t order;
    std::function<void()> what;
    friend bool operator<(const Item& a, const Item& b) { return a.at != b.at ? b.at < a.at : b.order < a.order; }
  };
  struct Pair {
    Instant lost_until[2];  // by the lower, the higher id: a side sends in vain before it
    std::uint64_t epoch = 0;
    Instant last[2];  // delivery of the last message, by sender
  };
  struct PlayedActor {
    ActorInfo info;
    ActorSpec spec;
    std::int32_t restarts = 0;
    ProcessId host;
    std::set<ProcessId> watchers;
  };
  struct PlayedLease {
    RequestLease request;
    ProcessId worker;
    bool returned = false;
  };

  void driver_step(int left);
  void break_link();
  void to_node(Process& from, NodeId node, Message message);
  void to_head(Process& from, Message message);
  void grant_waiting();
  void pin(Process& from, const PinObject& message);
  void free_copy(NodeId node, ObjectId object);
  void start_actor(ActorId id);
  void tell(ActorId id);
  void actor_ended(ActorId id, ErrorInfo why, bool for_good);
  Pair& pair(ProcessId a, ProcessId b);
  std::string at_rest();

  std::priority_queue<Item> queue_;
  std::uint64_t order_ = 0;
  std::uint64_t next_process_ = 100;
  std::map<std::pair<ProcessId, ProcessId>, Pair> pairs_;
  std::map<std::pair<Peer, Peer>, Instant> relayed_;  // delivery of the last message
  std::map<LeaseId, PlayedLease> leases_;
  std::vector<LeaseId> lease_queue_;
  std::map<ActorId, PlayedActor> actors_;
  std::map<RequestId, ActorId> created_;
  Process* driver_ = nullptr;
  std::vector<ObjectLocator> held_;  // by the driver
  std::vector<std::pair<ActorId, ObjectLocator>> handles_;
};

}  // namespace mobula::core::test
