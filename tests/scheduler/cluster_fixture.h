// A head and nodes wired to each other in one process, with drivers and workers that behave as the real ones do towards
// their node, faults drawn from a seed, and invariants checked after every step. Smaller and meaner than the simulator
// (no codec, no submitter): it is for finding what the two machines do to each other.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "scheduler/head.h"
#include "scheduler/node.h"
#include "tests/scheduler/node_fixture.h"

namespace mobula::scheduler::test {

class Cluster {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::size_t nodes = 3;
    std::size_t drivers = 2;
    std::size_t leases_each = 40;
    std::size_t actors_each = 6;
    bool worker_deaths = false;
    bool link_breaks = false;
    bool node_deaths = false;
    bool head_restarts = false;
    bool zero_cpu_homes = false;  // drivers live on nodes without CPUs
  };

  explicit Cluster(const Options& options) : options_(options), rng_(options.seed) {
    head_ = make_head({});
    for (std::size_t i = 0; i < options_.nodes; ++i) add_node(1 + static_cast<int>(rng_.below(3)));
    for (std::size_t i = 0; i < options_.drivers; ++i) {
      if (options_.zero_cpu_homes) add_node(0);
      homes_.push_back(std::prev(nodes_.end())->first);
    }
    for (std::size_t i = 0; i < options_.drivers; ++i) add_driver(homes_[i], JobId{i + 1});
  }

  // Runs until every driver has what it wanted, or `limit` of virtual time has passed. Faults stop half way.
  bool run(Duration limit) {
    const Instant end = now_ + limit;
    faults_until_ = now_ + limit / 3;
    while (now_ < end) {
      turn();
      if (all_done()) return true;
    }
    return false;
  }
  // Once all is done no lease is left, though the drivers still live: what a fault lost was settled.
  bool quiet(Duration limit) {
    faults_until_ = now_;
    const Instant end = now_ + limit;
    while (now_ < end) {
      turn();
      if (leases() == 0) return true;
    }
    return false;
  }
  // All drivers go; true when nothing is left of them anywhere.
  bool drain(Duration limit) {
    faults_until_ = now_;
    for (auto& [process, driver] : drivers_) {
      deliver_event(driver.address.node, PeerLost{driver.address.peer(), make_error(ErrorKind::kUnreachable, "done")});
      driver.gone = true;
    }
    const Instant end = now_ + limit;
    while (now_ < end) {
      turn();
      if (at_rest()) return true;
    }
    return false;
  }
  std::size_t leases() const {
    std::size_t count = 0;
    for (const auto& [id, node] : nodes_) {
      const NodeStats stats = node->stats();
      count += stats.leases_held + stats.leases_queued + stats.leases_away;
    }
    return count;
  }
  bool at_rest() const {
    for (const auto& [id, node] : nodes_) {
      const NodeStats stats = node->stats();
      if (stats.leases_held + stats.leases_queued + stats.leases_away + stats.actors != 0) return false;
      if (stats.workers != stats.workers_idle || !(stats.free == node->self().total)) return false;
    }
    return head_->stats().actors == 0;
  }
  std::size_t answered() const { return answered_; }
  std::size_t lost() const { return lost_; }
  std::size_t faults_made() const { return faults_made_; }
  const std::map<NodeId, std::unique_ptr<Node>>& nodes() const { return nodes_; }
  const Head& head() const { return *head_; }
  std::size_t granted_to(JobId job) const {
    const auto at = granted_.find(job);
    return at == granted_.end() ? 0 : at->second;
  }
  void hold_for(Duration least, Duration most) {
    hold_least_ = least;
    hold_most_ = most;
  }

 private:
  struct Wanted {
    RequestLease request;
    Instant repeat{};
  };
  struct Held {
    ProcessAddress worker;
    Instant until{};
    Instant probe{};
  };
  struct Driver {
    ProcessAddress address;
    std::size_t leases_left = 0;
    std::size_t actors_left = 0;
    std::uint64_t sequence = 0;
    std::map<LeaseId, Wanted> wanted;
    std::map<LeaseId, Held> held;
    std::map<ActorId, Instant> actors;  // until when; then killed
    std::map<ActorId, CreateActor> creating;
    bool gone = false;
  };
  struct FakeWorker {
    NodeId node;
    bool joined = false;
    bool doomed = false;
  };
  struct Timed {
    std::uint64_t order;
    std::function<void()> act;
  };

  std::unique_ptr<Head> make_head(const HeadSnapshot& snapshot) {
    HeadConfig config;
    config.cluster = ClusterId{42};
    return std::make_unique<Head>(config, rng_.fork(), snapshot);
  }

  NodeId add_node(int cpu_count) {
    const NodeId id{++next_node_};
    NodeConfig config;
    config.self = describe(id.value, cpu_count);
    nodes_[id] = std::make_unique<Node>(config, rng_.fork(), NodeSnapshot{});
    join_head(id);
    return id;
  }
  void join_head(NodeId id) {
    later(rng_.between(1, 50), [this, id] {
      if (!nodes_.contains(id) || head_links_.contains(id)) return;
      head_links_.insert(id);
      step_head({PeerJoined{Peer::of(id), {}}});
      deliver_event(id, PeerJoined{Peer::head(), {}});
    });
  }
  void add_driver(NodeId node, JobId job) {
    const ProcessId process{rng_.id()};
    Driver& driver = drivers_[process];
    driver.address = {process, node, job};
    driver.leases_left = options_.leases_each;
    driver.actors_left = options_.actors_each;
    Hello hello;
    hello.role = Role::kDriver;
    hello.job = job;
    deliver_event(node, PeerJoined{driver.address.peer(), hello});
  }

  // ---- time and wires ----
  void later(std::int64_t milliseconds, std::function<void()> act) {
    agenda_.emplace(std::pair{now_ + std::chrono::milliseconds(milliseconds), ++order_}, std::move(act));
  }
  // In order per pair, with a delay of their own.
  void wire(const Peer& from, const Peer& to, std::function<void()> act) {
    Instant& last = last_on_wire_[{from, to}];
    last = std::max(last, now_ + std::chrono::microseconds(rng_.between(50, 3000)));
    agenda_.emplace(std::pair{last, ++order_}, std::move(act));
  }
  void turn() {
    Instant next = now_ + std::chrono::milliseconds(20);
    if (!agenda_.empty()) next = std::min(next, agenda_.begin()->first.first);
    next = std::min(next, head_->next_deadline());
    for (const auto& [id, node] : nodes_) next = std::min(next, node->next_deadline());
    now_ = std::max(now_, next);
    while (!agenda_.empty() && agenda_.begin()->first.first <= now_) {
      const auto act = std::move(agenda_.begin()->second);
      agenda_.erase(agenda_.begin());
      act();
    }
    if (head_->next_deadline() <= now_) step_head({Tick{}});
    std::vector<NodeId> due;
    for (const auto& [id, node] : nodes_) {
      if (node->next_deadline() <= now_) due.push_back(id);
    }
    for (const NodeId id : due) deliver_event(id, Tick{});
    for (auto& [process, driver] : drivers_) drive(driver);
    if (now_ < faults_until_) faults();
  }

  void step_head(std::vector<HeadEvent> events) {
    HeadActions actions;
    head_->step(now_, events, actions);
    head_->check();
    for (auto& action : actions) {
      if (auto* batch = std::get_if<Persist>(&action)) {
        for (const auto& write : batch->writes) keep(write);
      } else if (auto* send = std::get_if<Send>(&action)) {
        head_sends(send->to, std::move(send->message));
      }
    }
  }
  void head_sends(const Peer& to, Message message) {
    const NodeId node = to.kind == PeerKind::kNode ? NodeId{to.id} : to.node;
    if (!head_links_.contains(node)) return;
    const std::uint64_t era = head_era_[node];
    wire(Peer::head(), Peer::of(node), [this, node, to, era, message = std::move(message)]() mutable {
      if (head_era_[node] != era) return;
      if (to.kind == PeerKind::kNode) {
        deliver_event(node, Received{Peer::head(), std::move(message)});
      } else {
        process_hears(to.process(), message);
      }
    });
  }
  void deliver_event(NodeId id, NodeEvent event) {
    const auto at = nodes_.find(id);
    if (at == nodes_.end()) return;
    NodeActions actions;
    at->second->step(now_, std::vector<NodeEvent>{std::move(event)}, actions);
    at->second->check();
    for (auto& action : actions) {
      std::visit([this, id](auto& what) { perform(id, what); }, action);
    }
  }
  void to_head(NodeId node, const Peer& from, Message message) {
    if (!head_links_.contains(node)) return;
    const std::uint64_t era = head_era_[node];
    wire(Peer::of(node), Peer::head(), [this, node, from, era, message = std::move(message)]() mutable {
      if (head_era_[node] == era) step_head({Received{from, std::move(message)}});
    });
  }
  void perform(NodeId id, Send& send) {
    switch (send.to.kind) {
      case PeerKind::kHead: to_head(id, Peer::of(id), std::move(send.message)); break;
      case PeerKind::kNode: node_to_node(id, NodeId{send.to.id}, send.to, std::move(send.message)); break;
      case PeerKind::kProcess: {
        const NodeId home = send.to.node;
        if (home != id) {
          node_to_node(id, home, send.to, std::move(send.message));
        } else {
          wire(Peer::of(id), send.to,
               [this, to = send.to, message = std::move(send.message)] { process_hears(to.process(), message); });
        }
        break;
      }
      case PeerKind::kClient:
      case PeerKind::kNone: break;
    }
  }
  void node_to_node(NodeId from, NodeId to, Peer final, Message message) {
    const auto pair = std::pair{std::min(from, to), std::max(from, to)};
    const std::uint64_t era = link_era_[pair];
    wire(Peer::of(from), Peer::of(to), [this, from, to, final, pair, era, message = std::move(message)]() mutable {
      if (link_era_[pair] != era) return;
      if (!nodes_.contains(to)) {
        deliver_event(from, PeerLost{Peer::of(to), make_error(ErrorKind::kUnreachable, "refused")});
      } else if (final.kind == PeerKind::kNode) {
        deliver_event(to, Received{Peer::of(from), std::move(message)});
      } else {
        process_hears(final.process(), message);
      }
    });
  }
  void perform(NodeId id, Spawn& spawn) {
    workers_[spawn.worker] = FakeWorker{id, false, false};
    const ProcessId worker = spawn.worker;
    if (faulty() && options_.worker_deaths && rng_.chance(1, 20)) {
      later(rng_.between(1, 10), [this, id, worker] {
        if (workers_.erase(worker) != 0) {
          deliver_event(id, WorkerSpawnFailed{worker, make_error(ErrorKind::kOverloaded, "no process")});
        }
      });
      return;
    }
    later(rng_.between(1, 20), [this, id, worker] {
      const auto at = workers_.find(worker);
      if (at == workers_.end() || at->second.doomed) return;
      at->second.joined = true;
      deliver_event(id, WorkerSpawned{worker, worker.value & 0xffff});
      deliver_event(id, PeerJoined{Peer::of(worker, id), {}});
    });
  }
  void perform(NodeId id, KillProcess& kill) {
    const auto at = workers_.find(kill.process);
    if (at == workers_.end()) return;
    at->second.doomed = true;
    later(rng_.between(1, 10), [this, id, worker = kill.process] { end_worker(id, worker, 9); });
  }
  void perform(NodeId, FreeOwned&) {}
  void perform(NodeId, FreeJob&) {}
  void perform(NodeId, StartDriverProcess&) {}
  void perform(NodeId, StopDriverProcess&) {}
  void perform(NodeId id, StopNode&) { kill_node(id, true); }

  void end_worker(NodeId id, ProcessId worker, int signal) {
    if (workers_.erase(worker) == 0) return;
    ErrorInfo error = make_error(ErrorKind::kWorkerDied, "ended");
    error.signal = signal;
    deliver_event(id, WorkerExited{worker, error});
  }

  // ---- processes ----
  void say_node(const ProcessAddress& who, Message message) {
    wire(who.peer(), Peer::of(who.node), [this, who, message = std::move(message)]() mutable {
      deliver_event(who.node, Received{who.peer(), std::move(message)});
    });
  }
  void say_head(const ProcessAddress& who, Message message) {
    wire(who.peer(), Peer::of(who.node), [this, who, message = std::move(message)]() mutable {
      if (nodes_.contains(who.node)) to_head(who.node, who.peer(), std::move(message));
    });
  }
  void process_hears(ProcessId process, const Message& message) {
    if (const auto driver = drivers_.find(process); driver != drivers_.end() && !driver->second.gone) {
      std::visit([&](const auto& what) { hears(driver->second, what); }, message);
    } else if (const auto worker = workers_.find(process); worker != workers_.end() && !worker->second.doomed) {
      worker_hears(process, worker->second, message);
    }
  }
  void worker_hears(ProcessId process, FakeWorker& worker, const Message& message) {
    const auto* host = std::get_if<HostActor>(&message);
    if (host == nullptr) return;
    const ProcessAddress address{process, worker.node, host->spec.constructor.job};
    if (rng_.chance(1, 20)) {
      say_node(address, ActorEnded{host->spec.actor, host->incarnation, ActorEnd::kConstructorFailed,
                                   make_error(ErrorKind::kTaskFailed, "threw")});
    } else {
      say_node(address, ActorStarted{host->spec.actor, host->incarnation, {address, 0}});
    }
  }
  template <class M>
  void hears(Driver&, const M&) {}
  void hears(Driver& driver, const LeaseGranted& message) {
    if (driver.wanted.erase(message.lease) == 0) {
      if (!driver.held.contains(message.lease)) say_node(driver.address, ReturnLease{message.lease, false});
      return;
    }
    ++granted_[driver.address.job];
    driver.held[message.lease] = {message.worker,
                                  now_ + Duration(rng_.between(hold_least_.count(), hold_most_.count())), now_ + 2s};
  }
  void hears(Driver& driver, const LeaseFailed& message) {
    if (driver.wanted.erase(message.lease) != 0) ++answered_;
  }
  void hears(Driver& driver, const LeaseLost& message) {
    // Lost leases count: their tasks would be told. One that was never granted is asked for anew.
    if (driver.held.erase(message.lease) != 0) ++lost_, ++answered_;
    if (driver.wanted.erase(message.lease) != 0) ++driver.leases_left;
  }
  void hears(Driver& driver, const ReclaimLease& message) {
    if (const auto at = driver.held.find(message.lease); at != driver.held.end()) {
      give_back(driver, at);
    } else if (!driver.wanted.contains(message.lease)) {
      say_node(driver.address, ReturnLease{message.lease, false});
    }
  }
  void hears(Driver& driver, const ActorCreated& message) {
    if (message.error) driver.creating.erase({message.request.maker, message.request.sequence}), ++answered_;
  }
  void hears(Driver& driver, const ActorUpdate& message) {
    const ActorId id = message.info.actor;
    if (message.info.phase == ActorPhase::kAlive && driver.creating.erase(id) != 0) {
      driver.actors[id] = now_ + std::chrono::milliseconds(rng_.between(10, 300));
    }
    if (message.info.phase == ActorPhase::kDead) {
      if (driver.creating.erase(id) + driver.actors.erase(id) != 0) ++answered_;
    }
  }
  std::map<LeaseId, Held>::iterator give_back(Driver& driver, std::map<LeaseId, Held>::iterator at) {
    say_node(driver.address, ReturnLease{at->first, faulty() && rng_.chance(1, 10)});
    ++answered_;
    return driver.held.erase(at);
  }
  void drive(Driver& driver) {
    if (driver.gone || !nodes_.contains(driver.address.node)) return;
    while (driver.leases_left > 0 && driver.wanted.size() < 4) {
      --driver.leases_left;
      const double size = rng_.chance(1, 4) ? 0.5 : 1;
      RequestLease request = NodeFixture::request(driver.address, ++driver.sequence, cpus(size));
      say_node(driver.address, request);
      driver.wanted[request.lease] = {request, now_ + 1s};
    }
    for (auto& [id, wanted] : driver.wanted) {
      if (wanted.repeat > now_) continue;
      wanted.repeat = now_ + 1s;
      say_node(driver.address, wanted.request);
    }
    for (auto at = driver.held.begin(); at != driver.held.end();) {
      // The link to a worker breaks when it, or its node, is gone: its caller notices by itself.
      const bool broken = !workers_.contains(at->second.worker.process);
      if (at->second.until <= now_ || (broken && at->second.probe <= now_)) {
        at = give_back(driver, at);
      } else {
        ++at;
      }
    }
    while (driver.actors_left > 0 && driver.creating.size() < 3) {
      --driver.actors_left;
      CreateActor create;
      create.spec.actor = {driver.address.process.value, ++driver.sequence};
      create.request = {create.spec.actor.maker, create.spec.actor.sequence};
      create.spec.owner = driver.address;
      create.spec.constructor.job = driver.address.job;
      create.spec.constructor.runtime.executable = "abc";
      create.spec.placement = cpus(1);
      create.spec.max_restarts = static_cast<std::int32_t>(rng_.below(3));
      driver.creating[create.spec.actor] = create;
    }
    if (now_ < driver_asks_) return;
    for (auto& [id, create] : driver.creating) {
      say_head(driver.address, create);
      say_head(driver.address, WatchActor{id});
    }
    for (auto at = driver.actors.begin(); at != driver.actors.end(); ++at) {
      say_head(driver.address, WatchActor{at->first});
      if (at->second <= now_) say_head(driver.address, KillActor{at->first, true, rng_.chance(1, 3)});
    }
    if (&driver == &drivers_.rbegin()->second) driver_asks_ = now_ + 100ms;
  }
  bool all_done() const {
    for (const auto& [process, driver] : drivers_) {
      if (driver.gone || !nodes_.contains(driver.address.node)) continue;
      if (driver.leases_left + driver.actors_left + driver.wanted.size() + driver.held.size() + driver.actors.size() +
              driver.creating.size() !=
          0) {
        return false;
      }
    }
    return true;
  }

  // ---- faults ----
  bool faulty() const { return now_ < faults_until_; }
  void faults() {
    if (options_.worker_deaths && !workers_.empty() && rng_.chance(1, 60)) {
      auto at = workers_.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(rng_.below(workers_.size())));
      end_worker(at->second.node, ProcessId{at->first}, 11);
      ++faults_made_;
    }
    if (options_.link_breaks && rng_.chance(1, 40)) break_link();
    if (options_.node_deaths && rng_.chance(1, 400)) {
      std::vector<NodeId> candidates;
      for (const auto& [id, node] : nodes_) {
        if (std::find(homes_.begin(), homes_.end(), id) == homes_.end()) candidates.push_back(id);
      }
      if (!candidates.empty()) kill_node(candidates[rng_.below(candidates.size())], true);
    }
    if (options_.head_restarts && rng_.chance(1, 500)) restart_head();
  }
  void break_link() {
    ++faults_made_;
    std::vector<NodeId> ids;
    for (const auto& [id, node] : nodes_) ids.push_back(id);
    const NodeId one = ids[rng_.below(ids.size())];
    const NodeId other = ids[rng_.below(ids.size())];
    if (one == other) {
      break_head_link(one);
      return;
    }
    ++link_era_[{std::min(one, other), std::max(one, other)}];
    deliver_event(one, PeerLost{Peer::of(other), {}});
    deliver_event(other, PeerLost{Peer::of(one), {}});
  }
  void break_head_link(NodeId id) {
    if (head_links_.erase(id) == 0) return;
    ++head_era_[id];
    step_head({PeerLost{Peer::of(id), {}}});
    deliver_event(id, PeerLost{Peer::head(), {}});
    join_head(id);
  }
  void kill_node(NodeId id, bool replace) {
    if (!nodes_.contains(id)) return;
    ++faults_made_;
    const int cpu_count = static_cast<int>(nodes_.at(id)->self().total.cpus.units / Quantity::kOne);
    nodes_.erase(id);
    std::erase_if(workers_, [id](const auto& entry) { return entry.second.node == id; });
    ++head_era_[id];
    if (head_links_.erase(id) != 0) step_head({PeerLost{Peer::of(id), {}}});
    if (replace) add_node(cpu_count);
  }
  void restart_head() {
    ++faults_made_;
    HeadSnapshot snapshot;
    for (const auto& [key, record] : store_) snapshot.push_back(record);
    head_ = make_head(snapshot);
    step_head({Tick{}});
    const std::set<NodeId> linked = std::exchange(head_links_, {});
    for (const auto& [id, node] : nodes_) ++head_era_[id];
    for (const NodeId id : linked) {
      deliver_event(id, PeerLost{Peer::head(), {}});
      join_head(id);
    }
  }
  void keep(const RecordWrite& write) {
    if (const auto* erase = std::get_if<EraseRecord>(&write)) {
      store_.erase({erase->kind, erase->key});
      return;
    }
    const auto& record = std::get<Record>(write);
    store_.insert_or_assign({static_cast<std::uint8_t>(record.index()), key_of(record)}, record);
  }

  Options options_;
  Rng rng_;
  Instant now_{1'000'000'000};
  Instant faults_until_ = Instant::never();
  Instant driver_asks_{};
  Duration hold_least_ = 1ms;
  Duration hold_most_ = 60ms;
  std::unique_ptr<Head> head_;
  std::map<NodeId, std::unique_ptr<Node>> nodes_;
  std::uint64_t next_node_ = 0;
  std::vector<NodeId> homes_;
  std::map<ProcessId, Driver> drivers_;
  std::map<ProcessId, FakeWorker> workers_;
  std::set<NodeId> head_links_;
  std::map<NodeId, std::uint64_t> head_era_;
  std::map<std::pair<NodeId, NodeId>, std::uint64_t> link_era_;
  std::map<std::pair<Peer, Peer>, Instant> last_on_wire_;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> agenda_;
  std::uint64_t order_ = 0;
  std::map<std::pair<std::uint8_t, std::string>, Record> store_;
  std::size_t answered_ = 0;
  std::size_t lost_ = 0;
  std::size_t faults_made_ = 0;
  std::map<JobId, std::size_t> granted_;
};

}  // namespace mobula::scheduler::test
