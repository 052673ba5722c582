// What runtime/daemon does around the head's and the nodes' machines.
#include <algorithm>

#include "runtime/base/protocol/roles.h"
#include "runtime/base/result.h"
#include "tests/sim/world.h"

namespace mobula::sim {
namespace {

constexpr Duration kHeadRetry = 200ms;
constexpr Duration kSample = 1s;

Envelope enveloped(Message message) {
  Envelope envelope;
  envelope.message = std::move(message);
  return envelope;
}

bool is_for_store(const Message& message) {
  return std::holds_alternative<RequestSlab>(message) || std::holds_alternative<SealObject>(message) ||
         std::holds_alternative<ReturnSlab>(message) || std::holds_alternative<PinObject>(message) ||
         std::holds_alternative<UnpinObjects>(message) || std::holds_alternative<FreeObjects>(message);
}

}  // namespace

// ---- the head ------------------------------------------------------------------------------------------------------

void World::head_settle() {
  if (head_settling_) return;
  head_settling_ = true;
  while (!head_events_.empty()) {
    const scheduler::HeadEvent event = std::move(head_events_.front());
    head_events_.pop_front();
    scheduler::HeadActions actions;
    head_->step(now(), {&event, 1}, actions);
    if (options.check_each) head_->check();
    for (scheduler::HeadAction& action : actions) head_perform(action);
  }
  head_settling_ = false;
  arm_head();
}

void World::arm_head() {
  const Instant deadline = head_->next_deadline();
  if (deadline >= head_armed_ || deadline == Instant::never()) return;
  head_armed_ = deadline;
  time.at(deadline, [this, deadline] {
    if (head_armed_ != deadline) return;
    head_armed_ = Instant::never();
    head_events_.emplace_back(Tick{});
    head_settle();
  });
}

void World::head_perform(scheduler::HeadAction& action) {
  if (auto* send = std::get_if<Send>(&action)) {
    const Peer link = send->to.kind == PeerKind::kProcess ? Peer::of(send->to.node) : send->to;
    if (send->after > persisted_ || held_.contains(link)) {
      held_[link].push_back(std::move(*send));
    } else {
      head_deliver(send->to, std::move(send->message));
    }
  } else if (const auto* persist = std::get_if<scheduler::Persist>(&action)) {
    disk_free_at_ = std::max(disk_free_at_, now()) + Duration(rng.between(5'000, persist->synced ? 3'000'000 : 20'000));
    time.at(disk_free_at_, [this, sequence = persist->seq] {
      persisted_ = std::max(persisted_, sequence);
      head_events_.emplace_back(scheduler::Persisted{sequence});
      for (auto entry = held_.begin(); entry != held_.end();) {
        std::deque<Send>& queue = entry->second;
        while (!queue.empty() && queue.front().after <= persisted_) {
          head_deliver(queue.front().to, std::move(queue.front().message));
          queue.pop_front();
        }
        entry = queue.empty() ? held_.erase(entry) : std::next(entry);
      }
      head_settle();
    });
  } else {
    violation("the head wants to stop", {Peer::head()});
  }
}

void World::head_deliver(const Peer& to, Message message) {
  const NodeId node = to.kind == PeerKind::kProcess ? to.node : NodeId{to.id};
  if (to.kind == PeerKind::kClient || !at_head_.contains(node)) return;  // PeerLost was or will be said
  Envelope envelope = enveloped(std::move(message));
  if (to.kind == PeerKind::kProcess) envelope.to = to;
  envelope.epoch = head_->epoch();
  network.send(Peer::head(), Peer::of(node), std::move(envelope));
}

void World::head_receive(const Peer& from, Envelope envelope) {
  const NodeId node{from.id};
  if (const auto* hello = std::get_if<Hello>(&envelope.message)) {
    HelloReply reply;
    reply.from = Peer::head();
    reply.epoch = head_->epoch();
    network.send(Peer::head(), from, enveloped(reply));
    at_head_.insert(node);
    head_events_.emplace_back(PeerJoined{from, *hello});
    return head_settle();
  }
  if (!may_pass(Role::kNode, from, Receiver::kHead, envelope)) {
    return violation(std::string("a node may not send ") + name_of(envelope.message) + " to the head", {from});
  }
  Peer sender = from;
  if (envelope.from.kind == PeerKind::kProcess) {
    sender = envelope.from;
    sender.node = node;
  }
  head_events_.emplace_back(Received{sender, std::move(envelope.message)});
  head_settle();
}

// ---- nodes come and go ---------------------------------------------------------------------------------------------

NodeId World::add_node(bool home) {
  const NodeId id{rng.id()};
  NodeDaemon& node = nodes_[id];
  node.home = home;
  scheduler::NodeConfig config;
  config.self.node = id;
  config.self.endpoint = {"node" + std::to_string(++node_count_), 7000};
  config.self.host_name = config.self.endpoint.host;
  config.self.total.cpus = Quantity::whole(options.workers);
  config.self.total.memory = 8ULL << 30U;
  config.self.total.store_memory = 256ULL << 20U;
  node.machine = std::make_unique<scheduler::Node>(config, rng.fork(), scheduler::NodeSnapshot{});
  objectstore::StoreConfig store;
  store.node = id;
  store.capacity = config.self.total.store_memory;
  node.store = std::make_unique<objectstore::Store>(store);
  post(id, Tick{});
  connect_head(id);
  time.after(Duration(rng.between(0, kSample.count())), [this, id] { beat(id); });
  return id;
}

void World::connect_head(NodeId id) {
  if (!nodes_.contains(id)) return;
  Hello hello;
  hello.role = Role::kNode;
  hello.from = Peer::of(id);
  network.send(Peer::of(id), Peer::head(), enveloped(hello));
}

void World::beat(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  scheduler::HostSampled sampled;
  sampled.store_used = found->second.store->stats().used;
  post(id, sampled);
  time.after(kSample, [this, id] { beat(id); });
}

// With all its processes. The others see its links close at once, or only when they have waited long enough.
void World::kill_node(NodeId id, const std::string& why) {
  if (!nodes_.contains(id)) return;
  trace.note(now(), Peer::of(id), Peer::of(id), "(node ends)", 3);
  const Duration notice = faults_rng_.chance(1, 2) ? Duration(20ms) : Duration(3s);
  std::vector<ProcessId> here;
  for (const auto& [process, entry] : processes_) {
    if (entry->address.node == id) here.push_back(process);
  }
  for (const ProcessId process : here) {
    if (processes_.at(process)->driver) violation("a driver loses its node: " + why, {Peer::of(id)});
    network.drop(processes_.at(process)->address.peer(), false, notice);
    processes_.erase(process);
  }
  network.drop(Peer::of(id), false, notice);
  // Transfers that had not begun break like those that had.
  const NodeDaemon& node = nodes_.at(id);
  for (const auto& [token, pull] : node.reads) {
    const objectstore::Pulled pulled{pull.object, id,    {},
                                     {},          false, make_error(ErrorKind::kUnreachable, "its node went away")};
    time.after(notice, [this, reader = node.readers.at(token), pulled] { post_store(reader, pulled); });
  }
  nodes_.erase(id);
}

Process& World::start_process(ProcessAddress address, RuntimeKey runtime, bool driver) {
  auto& place = processes_[address.process];
  place = std::make_unique<Process>(*this, address, std::move(runtime), driver);
  Hello hello;
  hello.role = driver ? Role::kDriver : Role::kWorker;
  hello.from = address.peer();
  hello.job = address.job;
  hello.pid = address.process.value & 0xffffU;
  hello.executable = "program";
  network.send(address.peer(), Peer::of(address.node), enveloped(hello));
  return *place;
}

// ---- a node's daemon -----------------------------------------------------------------------------------------------

void World::post(NodeId id, scheduler::NodeEvent event) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  found->second.events.push_back(std::move(event));
  settle(id);
}

void World::post_store(NodeId id, objectstore::StoreEvent event) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  found->second.store_events.push_back(std::move(event));
  settle(id);
}

void World::settle(NodeId id) {
  NodeDaemon& node = nodes_.at(id);
  if (node.settling) return;
  node.settling = true;
  while (!node.events.empty() || !node.store_events.empty()) {
    if (!node.store_events.empty()) {
      const objectstore::StoreEvent event = std::move(node.store_events.front());
      node.store_events.pop_front();
      objectstore::StoreActions actions;
      node.store->step(now(), {&event, 1}, actions);
      if (options.check_each) node.store->check();
      for (objectstore::StoreAction& action : actions) perform_store(id, action);
      continue;
    }
    const scheduler::NodeEvent event = std::move(node.events.front());
    node.events.pop_front();
    scheduler::NodeActions actions;
    node.machine->step(now(), {&event, 1}, actions);
    if (options.check_each) node.machine->check();
    for (scheduler::NodeAction& action : actions) perform(id, action);
  }
  node.settling = false;
  arm(id);
}

void World::arm(NodeId id) {
  NodeDaemon& node = nodes_.at(id);
  const Instant deadline = std::min(node.machine->next_deadline(), node.store->next_deadline());
  if (deadline >= node.armed || deadline == Instant::never()) return;
  node.armed = deadline;
  time.at(deadline, [this, id, deadline] {
    const auto found = nodes_.find(id);
    if (found == nodes_.end() || found->second.armed != deadline) return;
    found->second.armed = Instant::never();
    found->second.store_events.emplace_back(Tick{});
    post(id, Tick{});
  });
}

void World::perform(NodeId id, scheduler::NodeAction& action) {
  if (auto* send = std::get_if<Send>(&action)) {
    route(id, send->to, std::move(send->message));
  } else if (const auto* one = std::get_if<scheduler::Spawn>(&action)) {
    spawn(id, *one);
  } else if (const auto* kill = std::get_if<scheduler::KillProcess>(&action)) {
    const auto spawning = nodes_.at(id).spawning.find(kill->process);
    if (spawning != nodes_.at(id).spawning.end()) {
      spawning->second = true;
    } else {
      time.after(Duration(rng.between(100'000, 3'000'000)),
                 [this, process = kill->process, why = kill->why] { ends(process, false, why); });
    }
  } else if (const auto* owned = std::get_if<scheduler::FreeOwned>(&action)) {
    post_store(id, objectstore::OwnerGone{owned->process});
  } else if (const auto* job = std::get_if<scheduler::FreeJob>(&action)) {
    post_store(id, objectstore::JobGone{job->job});
  } else if (const auto* stop = std::get_if<scheduler::StopNode>(&action)) {
    // Declared dead while it lived: it starts anew as another node.
    time.after(Duration(0), [this, id, why = stop->why.message] {
      if (!nodes_.contains(id)) return;
      const bool home = nodes_.at(id).home;
      kill_node(id, why);
      add_node(home);
    });
  }
}

void World::spawn(NodeId id, const scheduler::Spawn& spawn) {
  nodes_.at(id).spawning[spawn.worker] = false;
  time.after(Duration(rng.between(2'000'000, 30'000'000)), [this, id, spawn] {
    const auto found = nodes_.find(id);
    if (found == nodes_.end()) return;
    const bool killed = found->second.spawning.at(spawn.worker);
    found->second.spawning.erase(spawn.worker);
    const bool failed = faulty_ && options.faults.contains("worker") && faults_rng_.chance(1, 50);
    if (killed || failed) {
      const ErrorInfo why = make_error(failed ? ErrorKind::kOverloaded : ErrorKind::kWorkerDied, "no process");
      return post(id, scheduler::WorkerSpawnFailed{spawn.worker, why});
    }
    post(id, scheduler::WorkerSpawned{spawn.worker, spawn.worker.value & 0xffffU});
    start_process({spawn.worker, id, spawn.job}, spawn.runtime, false);
  });
}

// ---- messages at a node --------------------------------------------------------------------------------------------

void World::node_hello(NodeId id, const Peer& from, const Hello& hello) {
  if (from.kind == PeerKind::kProcess) {
    HelloReply reply;
    reply.from = Peer::of(id);
    reply.node = id;
    network.send(Peer::of(id), from, enveloped(reply));
    // What it sent before it died still arrives.
    if (const auto found = processes_.find(from.process()); found != processes_.end()) found->second->joined = true;
  }
  Hello named = hello;
  named.from = from;
  post(id, PeerJoined{from, named});
}

void World::node_receive(NodeId id, const Peer& from, Envelope envelope) {
  NodeDaemon& node = nodes_.at(id);
  if (const auto* hello = std::get_if<Hello>(&envelope.message)) return node_hello(id, from, *hello);
  if (std::holds_alternative<HelloReply>(envelope.message)) {
    node.head_joined = true;
    for (Envelope& waiting : node.to_head) network.send(Peer::of(id), Peer::head(), std::move(waiting));
    node.to_head.clear();
    Hello head;
    head.role = Role::kHead;
    head.from = Peer::head();
    return post(id, PeerJoined{Peer::head(), head});
  }
  if (from.kind == PeerKind::kHead) {
    if (envelope.to.kind == PeerKind::kProcess) return route(id, envelope.to, std::move(envelope.message), from);
    return post(id, Received{from, std::move(envelope.message)});
  }
  const bool process = from.kind == PeerKind::kProcess;
  const Role role = !process ? Role::kNode : is_driver(from.process()) ? Role::kDriver : Role::kWorker;
  if (!may_pass(role, from, Receiver::kNode, envelope)) {
    return violation(std::string("may not be sent to a node: ") + name_of(envelope.message), {from, Peer::of(id)});
  }
  if (!process) {
    Peer sender = from;
    if (envelope.from.kind == PeerKind::kProcess) {
      sender = envelope.from;
      sender.node = NodeId{from.id};
    }
    if (envelope.to.kind == PeerKind::kProcess) {
      return route(id, Peer::of(envelope.to.process(), id), std::move(envelope.message), sender);
    }
    return receive_local(id, sender, std::move(envelope.message));
  }
  const bool lease =
      std::holds_alternative<RequestLease>(envelope.message) || std::holds_alternative<ReturnLease>(envelope.message);
  if (envelope.to.kind != PeerKind::kNone && envelope.to != Peer::of(id) && !lease) {
    return route(id, envelope.to, std::move(envelope.message), from);
  }
  receive_local(id, from, std::move(envelope.message));
}

void World::receive_local(NodeId id, const Peer& from, Message message) {
  if (is_for_store(message)) return post_store(id, Received{from, std::move(message)});
  post(id, Received{from, std::move(message)});
}

void World::route(NodeId id, const Peer& to, Message message, const Peer& from) {
  NodeDaemon& node = nodes_.at(id);
  Envelope envelope;
  envelope.from = from;
  envelope.epoch = node.machine->epoch();
  envelope.message = std::move(message);
  if (to.kind == PeerKind::kHead) {
    if (node.head_joined) {
      network.send(Peer::of(id), to, std::move(envelope));
    } else if (from.kind == PeerKind::kProcess) {
      node.to_head.push_back(std::move(envelope));
    }
  } else if (to.kind == PeerKind::kProcess) {
    const auto local = processes_.find(to.process());
    if (local != processes_.end() && local->second->address.node == id) {
      if (local->second->joined) network.send(Peer::of(id), local->second->address.peer(), std::move(envelope));
    } else if (to.node && to.node != id && node.machine->find_node(to.node) != nullptr) {
      envelope.to = to;
      network.send(Peer::of(id), Peer::of(to.node), std::move(envelope));
    }
  } else if (to.kind == PeerKind::kNode) {
    if (to.id == id.value) {
      receive_local(id, from.kind == PeerKind::kNone ? Peer::of(id) : from, std::move(envelope.message));
    } else if (node.machine->find_node(NodeId{to.id}) != nullptr) {
      network.send(Peer::of(id), Peer::of(NodeId{to.id}), std::move(envelope));
    }
  }
}

// ---- shared memory -------------------------------------------------------------------------------------------------

void World::perform_store(NodeId id, objectstore::StoreAction& action) {
  if (auto* send = std::get_if<Send>(&action)) {
    route(id, send->to, std::move(send->message));
  } else if (const auto* grow = std::get_if<objectstore::Grow>(&action)) {
    time.after(50us, [this, id, grown = objectstore::Grown{grow->segment, grow->reserved, std::nullopt}] {
      post_store(id, grown);
    });
  } else if (const auto* one = std::get_if<objectstore::Pull>(&action)) {
    pull(id, *one);
  } else if (const auto* read = std::get_if<objectstore::ReadStarts>(&action)) {
    read_starts(id, *read);
  }
}

// A copy from another node: one question, one stream of bytes, on a connection of its own.
void World::pull(NodeId id, const objectstore::Pull& pull) {
  time.after(Duration(rng.between(200'000, 1'000'000)), [this, id, pull] {
    const auto source = nodes_.find(pull.from);
    if (source == nodes_.end()) {
      const ErrorInfo why = make_error(ErrorKind::kUnreachable, "its node cannot be reached");
      return post_store(id, objectstore::Pulled{pull.object, pull.from, {}, {}, false, why});
    }
    const std::uint64_t token = ++next_token_;
    source->second.reads[token] = pull;
    source->second.readers[token] = id;
    post_store(pull.from, objectstore::ReadWanted{token, pull.object});
  });
}

void World::read_starts(NodeId id, const objectstore::ReadStarts& read) {
  NodeDaemon& node = nodes_.at(id);
  const objectstore::Pull pull = node.reads.at(read.token);
  const NodeId reader = node.readers.at(read.token);
  node.reads.erase(read.token);
  node.readers.erase(read.token);
  const Duration takes = 200us + Duration(static_cast<std::int64_t>(read.range.size));  // 1 GB/s
  time.after(takes, [this, id, reader, pull, read] {
    const bool lives = nodes_.contains(id);
    objectstore::Pulled pulled{pull.object, id, read.owner, read.job, !read.found, std::nullopt};
    if (!lives) pulled.error = make_error(ErrorKind::kUnreachable, "its node went away");
    if (lives && read.found) {
      if (memory_at(id, read.range.segment, read.range.offset) != pull.object) {
        violation("a transfer reads pages that hold another object: " + to_string(pull.object), {Peer::of(id)});
      }
      write_memory(reader, pull.into.segment, pull.into.offset, pull.object);
    }
    if (read.found) post_store(id, objectstore::ReadDone{read.token});
    post_store(reader, pulled);
  });
}

ObjectId World::memory_at(NodeId node, std::uint32_t segment, std::uint64_t offset) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return {};
  const auto cell = found->second.memory.find({segment, offset});
  return cell == found->second.memory.end() ? ObjectId{} : cell->second;
}

void World::write_memory(NodeId node, std::uint32_t segment, std::uint64_t offset, ObjectId object) {
  if (const auto found = nodes_.find(node); found != nodes_.end()) found->second.memory[{segment, offset}] = object;
}

}  // namespace mobula::sim
