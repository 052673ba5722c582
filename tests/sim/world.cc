#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>

#include "runtime/base/result.h"

namespace mobula::sim {
namespace {

constexpr Duration kWorkBound = 180s;  // after healing, until all work is done
constexpr Duration kRestBound = 60s;   // then, until nothing is held; and again after the drivers have left

// What a call may end in when processes, nodes or links fail.
bool excusable(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kTaskFailed:  // user code passes on what its own calls ended in
    case ErrorKind::kWorkerDied:
    case ErrorKind::kActorDied:
    case ErrorKind::kActorUnavailable:
    case ErrorKind::kObjectLost:
    case ErrorKind::kOwnerDied:
    case ErrorKind::kUnreachable: return true;
    default: return false;
  }
}

}  // namespace

World::World(Options with)
    : options(std::move(with)), rng(options.seed),
      network(
          time, trace, rng.fork(), options.codec,
          {[this](const Peer& peer) { return alive(peer); },
           [this](const Peer& at, const Peer& from, Envelope envelope) { on_message(at, from, std::move(envelope)); },
           [this](const Peer& at, const Peer& other) { on_joined(at, other); },
           [this](const Peer& at, const Peer& other, const ErrorInfo& why) { on_lost(at, other, why); }}),
      faults_rng_(rng.fork()) {
  scheduler::HeadConfig config;
  config.cluster = ClusterId{1};
  config.listen = config.advertised = {"head", 6000};
  head_ = std::make_unique<scheduler::Head>(config, rng.fork(), scheduler::HeadSnapshot{});
}

World::~World() = default;

// ---- what the network asks and says --------------------------------------------------------------------------------

bool World::alive(const Peer& peer) const {
  switch (peer.kind) {
    case PeerKind::kHead: return true;
    case PeerKind::kNode: return nodes_.contains(NodeId{peer.id});
    case PeerKind::kProcess: return processes_.contains(peer.process());
    default: return false;
  }
}

void World::on_message(const Peer& at, const Peer& from, Envelope envelope) {
  if (at.kind == PeerKind::kHead) return head_receive(from, std::move(envelope));
  if (at.kind == PeerKind::kNode) return node_receive(NodeId{at.id}, from, std::move(envelope));
  processes_.at(at.process())->message(from, std::move(envelope));
}

// Daemons say hello on their links, see there.
void World::on_joined(const Peer& at, const Peer& other) {
  if (at.kind != other.kind) return;
  Hello hello;
  hello.from = other;
  hello.role = at.kind == PeerKind::kNode ? Role::kNode : Role::kWorker;
  if (at.kind == PeerKind::kNode) return post(NodeId{at.id}, PeerJoined{other, hello});
  processes_.at(at.process())->post(PeerJoined{other, hello});
}

void World::on_lost(const Peer& at, const Peer& other, const ErrorInfo& why) {
  if (at.kind == PeerKind::kProcess) return processes_.at(at.process())->lost(other, why);
  if (at.kind == PeerKind::kHead) {
    held_.erase(other);
    if (at_head_.erase(NodeId{other.id}) == 0) return;
    head_events_.emplace_back(PeerLost{other, why});
    return head_settle();
  }
  const NodeId id{at.id};
  if (other.kind == PeerKind::kHead) {
    time.after(200ms, [this, id] { connect_head(id); });
    if (std::exchange(nodes_.at(id).head_joined, false)) post(id, PeerLost{other, why});
    return;
  }
  nodes_.at(id).store_events.emplace_back(PeerLost{other, why});
  post(id, PeerLost{other, why});
}

void World::in_process(ProcessId process, Duration wait, std::function<void(Process&)> what) {
  time.after(wait, [this, process, what = std::move(what)] {
    const auto found = processes_.find(process);
    if (found != processes_.end()) what(*found->second);
  });
}

void World::ends(ProcessId process, bool graceful, const std::string& why) {
  time.after(Duration(0), [this, process, graceful, why] {
    const auto found = processes_.find(process);
    if (found == processes_.end()) return;
    const ProcessAddress address = found->second->address;
    const bool driver = found->second->driver;
    trace.note(now(), address.peer(), address.peer(), "(process ends)", 2);
    network.drop(address.peer(), graceful || rng.chance(1, 2), 500us);
    processes_.erase(found);
    if (driver) return;
    ErrorInfo error = make_error(ErrorKind::kWorkerDied, why);
    error.signal = graceful ? 0 : 9;
    time.after(Duration(rng.between(1'000, 2'000'000)), [this, address, error] {
      post(address.node, scheduler::WorkerExited{address.process, error});
    });
  });
}

// ---- checkers ------------------------------------------------------------------------------------------------------

void World::violation(const std::string& what, const std::vector<Peer>& about) {
  if (++violations_ > 1) return;
  std::fprintf(stderr, "violation at %.6f s: %s\n%sreplay: %s\n", static_cast<double>(now().nanoseconds) / 1e9,
               what.c_str(), trace.story(about, 60).c_str(), options.replay.c_str());
}

std::string World::story() const {
  return trace.story({}, 60);
}

void World::answered(Process& caller, const Read& read, bool fresh) {
  ++caller.answered;
  ++calls_;
  if (!read.error) return;
  ++errors_;
  const bool nothing_fails = options.faults.empty() && !options.workloads.contains("churn");
  if (!nothing_fails && !fresh && excusable(read.error->kind)) return;
  violation(std::string("a call failed that should not: ") + name_of(read.error->kind) + ": " + read.error->message,
            {caller.address.peer()});
}

void World::check_all() {
  head_->check();
  for (const auto& [id, node] : nodes_) {
    node.machine->check();
    node.store->check();
  }
  for (const auto& [id, process] : processes_) process->engine.check();
}

bool World::is_driver(ProcessId process) const {
  return std::any_of(drivers_.begin(), drivers_.end(), [&](const auto& driver) { return driver.second == process; });
}

bool World::drivers_done() const {
  for (const auto& [name, id] : drivers_) {
    if (processes_.at(id)->has_scripts()) return false;
  }
  return true;
}

// Why not all is given back yet; empty when it is.
std::string World::unrest() const {
  for (const auto& [id, process] : processes_) {
    if (!process->engine.idle()) {
      return "process " + to_string(id) + " on node " + to_string(process->address.node) + " still holds\n" +
             process->waits();
    }
  }
  for (const auto& [id, node] : nodes_) {
    const scheduler::NodeStats stats = node.machine->stats();
    if (stats.leases_queued + stats.leases_held + stats.leases_away + stats.actors != 0) {
      return "node " + to_string(id) + " has " + std::to_string(stats.leases_queued) + " queued, " +
             std::to_string(stats.leases_held) + " held, " + std::to_string(stats.leases_away) + " moved leases, " +
             std::to_string(stats.actors) + " actors";
    }
    if (stats.free != node.machine->self().total) return "not all of node " + to_string(id) + " is free";
    if (!stats.head_up) return "node " + to_string(id) + " has no head";
  }
  const scheduler::HeadStats head = head_->stats();
  if (head.actors != 0) return "the head knows " + std::to_string(head.actors) + " actors that are not dead";
  if (head.nodes != nodes_.size()) return "the head knows " + std::to_string(head.nodes) + " nodes";
  return {};
}

// What is left when all drivers have gone; empty when nothing is.
std::string World::left_over() const {
  if (!processes_.empty()) return std::to_string(processes_.size()) + " processes are left";
  const scheduler::HeadStats head = head_->stats();
  if (head.jobs + head.watchers != 0) {
    return "the head has " + std::to_string(head.jobs) + " jobs, " + std::to_string(head.watchers) + " watchers";
  }
  for (const auto& [id, node] : nodes_) {
    const objectstore::StoreStats store = node.store->stats();
    if (store.objects + store.slabs + store.pins + store.waiting != 0) {
      return "the store of node " + to_string(id) + " has " + std::to_string(store.objects) + " objects, " +
             std::to_string(store.slabs) + " slabs, " + std::to_string(store.pins) + " pins, " +
             std::to_string(store.waiting) + " waiting";
    }
    const scheduler::NodeStats stats = node.machine->stats();
    if (stats.workers + stats.processes != 0) {
      return "node " + to_string(id) + " believes in " + std::to_string(stats.workers) + " workers, " +
             std::to_string(stats.processes) + " processes";
    }
  }
  return {};
}

// ---- a run ---------------------------------------------------------------------------------------------------------

// In steps of virtual time, between which `done` is asked. False when `end` came first.
bool World::run_until(Instant end, const std::function<bool()>& done) {
  while (now() < end && violations_ == 0) {
    if (done()) return true;
    const Instant next = std::min(end, now() + 250ms);
    while (violations_ == 0 && time.step(next)) {}
    if (!options.check_each && now().nanoseconds % 1'000'000'000 < 250'000'000) check_all();
  }
  return violations_ == 0 && done();
}

Outcome World::run() {
  head_events_.emplace_back(Tick{});
  head_settle();
  for (std::uint32_t i = 0; i < options.nodes; ++i) add_node(false);
  const auto all_joined = [this] { return head_->stats().nodes == nodes_.size(); };
  if (!run_until(now() + 30s, all_joined)) violation("the nodes do not come together", {Peer::head()});
  start_drivers();
  work_until_ = now() + std::chrono::minutes(options.minutes);
  start_faults();
  run_until(work_until_, [] { return false; });
  heal();
  if (violations_ == 0 && !run_until(now() + kWorkBound, [this] { return drivers_done(); })) {
    for (const auto& [name, id] : drivers_) {
      if (!processes_.contains(id) || !processes_.at(id)->has_scripts()) continue;
      violation("the work of " + name + " does not end:\n" + processes_.at(id)->waits(),
                {processes_.at(id)->address.peer()});
    }
  }
  const auto quiet = [this] { return unrest().empty(); };
  if (violations_ == 0 && !run_until(now() + kRestBound, quiet)) violation("no rest: " + unrest(), {});
  for (const auto& [name, id] : drivers_) {
    if (violations_ == 0) processes_.at(id)->leave();
  }
  const auto empty = [this] { return left_over().empty(); };
  if (violations_ == 0 && !run_until(now() + kRestBound, empty)) violation("left over: " + left_over(), {});
  if (violations_ == 0) check_all();
  Outcome outcome;
  finish(outcome);
  return outcome;
}

void World::finish(Outcome& outcome) {
  const bool calm = options.faults.empty() && !options.workloads.contains("churn");
  const auto a = progress.find("jobs-a");
  const auto b = progress.find("jobs-b");
  if (violations_ == 0 && calm && a != progress.end() && b != progress.end() &&
      (a->second * 5 < b->second || b->second * 5 < a->second)) {
    violation("two equal jobs got very unequal shares: " + std::to_string(a->second) + " and " +
                  std::to_string(b->second) + " calls",
              {});
  }
  outcome.events = time.events();
  outcome.messages = network.messages();
  outcome.calls = calls_;
  outcome.errors = errors_;
  outcome.faults = faults_;
  outcome.virtual_s = static_cast<double>(now().nanoseconds) / 1e9 - 1;
  outcome.violations = violations_;
  outcome.trace = trace.hash();
}

}  // namespace mobula::sim
