// A whole cluster in one thread and in virtual time: the real head, nodes, stores and engines, over the real codec.
//
// Around each machine stands what its daemon does in runtime/daemon: routing, relays, spawning, the disk of the head.
// A run has two phases. First faults fall and only safety is looked at; then all is healed, and everything that was
// asked must be answered and everything that was taken given back within a bound of virtual time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "objectstore/store.h"
#include "runtime/base/rng.h"
#include "scheduler/head.h"
#include "scheduler/node.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"

namespace mobula::sim {

struct Options {
  std::uint32_t nodes = 4;
  std::uint32_t workers = 2;  // CPUs of each node
  std::uint64_t seed = 1;
  std::uint32_t minutes = 1;
  std::set<std::string> faults;     // of kFaults
  std::set<std::string> workloads;  // of kWorkloads
  bool codec = true;
  bool check_each = true;  // machines after every step, else once a virtual second
  std::string replay;      // the command that does this run again
};

inline constexpr std::array kFaults = {"worker", "node", "link", "cut", "delay"};
inline constexpr std::array kWorkloads = {"fanout", "nested", "jobs", "ring", "churn"};

struct Outcome {
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;  // calls that ended in a typed error
  std::uint64_t faults = 0;
  double virtual_s = 0;
  std::uint64_t violations = 0;
  std::uint64_t trace = 0;
};

class World {
 public:
  explicit World(Options options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Outcome run();

  // ---- for processes and workloads ----
  Instant now() const { return time.now(); }
  // Later, if that process still lives then.
  void in_process(ProcessId process, Duration wait, std::function<void(Process&)> what);
  // The process ends now (after this event). `graceful`: what it sent still arrives.
  void ends(ProcessId process, bool graceful, const std::string& why);
  void violation(const std::string& what, const std::vector<Peer>& about);
  // Errors are only allowed where something may have been lost.
  void answered(Process& caller, const Read& read, bool fresh);
  ObjectId memory_at(NodeId node, std::uint32_t segment, std::uint64_t offset) const;
  void write_memory(NodeId node, std::uint32_t segment, std::uint64_t offset, ObjectId object);
  bool working() const { return now() < work_until_; }
  bool healed_for_long() const { return now() > healed_at_ + kSettle; }
  std::string story() const;

  const Options options;
  Rng rng;
  Timeline time;
  Trace trace;
  Network network;
  std::map<std::string, std::uint64_t> progress;  // calls that succeeded, by driver

 private:
  static constexpr Duration kSettle = std::chrono::seconds(15);

  struct NodeDaemon {
    std::unique_ptr<scheduler::Node> machine;
    std::unique_ptr<objectstore::Store> store;
    bool head_joined = false;
    bool home = false;              // a driver lives here: it is spared
    std::vector<Envelope> to_head;  // of processes, while the head cannot be reached
    std::deque<scheduler::NodeEvent> events;
    std::deque<objectstore::StoreEvent> store_events;
    bool settling = false;
    Instant armed = Instant::never();
    std::map<ProcessId, bool> spawning;  // true: kill it at once
    std::map<std::pair<std::uint32_t, std::uint64_t>, ObjectId> memory;
    std::map<std::uint64_t, objectstore::Pull> reads;  // that other nodes do here, by token
    std::map<std::uint64_t, NodeId> readers;
  };

  // world.cc
  bool alive(const Peer& peer) const;
  void on_message(const Peer& at, const Peer& from, Envelope envelope);
  void on_joined(const Peer& at, const Peer& other);
  void on_lost(const Peer& at, const Peer& other, const ErrorInfo& why);
  void check_all();
  bool run_until(Instant end, const std::function<bool()>& done);
  bool drivers_done() const;
  bool is_driver(ProcessId process) const;
  std::string unrest() const;
  std::string left_over() const;
  void finish(Outcome& outcome);

  // daemons.cc
  void head_settle();
  void head_perform(scheduler::HeadAction& action);
  void head_deliver(const Peer& to, Message message);
  void head_receive(const Peer& from, Envelope envelope);
  void arm_head();
  NodeId add_node(bool home);
  void kill_node(NodeId id, const std::string& why);
  void connect_head(NodeId id);
  void beat(NodeId id);
  void post(NodeId id, scheduler::NodeEvent event);
  void post_store(NodeId id, objectstore::StoreEvent event);
  void settle(NodeId id);
  void arm(NodeId id);
  void perform(NodeId id, scheduler::NodeAction& action);
  void perform_store(NodeId id, objectstore::StoreAction& action);
  void pull(NodeId id, const objectstore::Pull& pull);
  void read_starts(NodeId id, const objectstore::ReadStarts& read);
  void spawn(NodeId id, const scheduler::Spawn& spawn);
  void node_receive(NodeId id, const Peer& from, Envelope envelope);
  void node_hello(NodeId id, const Peer& from, const Hello& hello);
  void receive_local(NodeId id, const Peer& from, Message message);
  void route(NodeId id, const Peer& to, Message message, const Peer& from = {});
  Process& start_process(ProcessAddress address, RuntimeKey runtime, bool driver);

  // faults.cc
  void start_faults();
  void fault(const char* what, Duration mean, void (World::*act)());
  void kill_a_worker();
  void kill_a_node();
  void break_a_link();
  void cut_a_node();
  void slow_a_node();
  void heal();
  // workloads.cc
  void start_drivers();
  void start_driver(const std::string& name, NodeId node);
  void churn();

  std::unique_ptr<scheduler::Head> head_;
  std::deque<scheduler::HeadEvent> head_events_;
  bool head_settling_ = false;
  Instant head_armed_ = Instant::never();
  std::uint64_t persisted_ = 0;
  Instant disk_free_at_{};
  std::map<Peer, std::deque<Send>> held_;  // until what must be durable first is
  std::set<NodeId> at_head_;               // nodes that have introduced themselves
  std::map<NodeId, NodeDaemon> nodes_;
  std::map<ProcessId, std::unique_ptr<Process>> processes_;
  std::vector<std::pair<std::string, ProcessId>> drivers_;
  Rng faults_rng_;
  std::uint64_t next_token_ = 0;
  std::uint64_t errors_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t violations_ = 0;
  std::size_t node_count_ = 0;
  Instant work_until_{};
  Instant healed_at_ = Instant::never();
  bool faulty_ = false;
};

// The main of a driver.
Script run_driver(Process& self, std::string name);

}  // namespace mobula::sim
