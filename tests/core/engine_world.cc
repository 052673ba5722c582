#include "tests/core/engine_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/result.h"

namespace mobula::core::test {
namespace {

SpecRef spec_of(std::uint32_t number) {
  static std::map<std::uint32_t, SpecRef> specs;
  SpecRef& ref = specs[number];
  if (!ref.spec) {
    CallSpec spec;
    spec.job = JobId{7};
    spec.name = number == 1 ? "task" : number == 2 ? "method" : "task_with_retries";
    spec.max_retries = number == 3 ? 5 : 0;
    spec.resources.cpus = Quantity::whole(1);
    ref = SpecRef{number, std::make_shared<const CallSpec>(spec)};
  }
  return ref;
}

InlineValue value_of(ObjectId object, std::vector<ObjectLocator> refs) {
  return InlineValue{Bytes::copy_of(to_string(object)), std::move(refs)};
}

}  // namespace

// ---- a process
// ----------------------------------------------------------------------------------------------------------------

Process::Process(World& in, ProcessAddress at)
    : world(in), address(at), engine([&] {
        EngineConfig config;
        config.self = at;
        return config;
      }()) {}

void Process::post(Event event) {
  if (!alive) return;
  const bool first = inbox.empty();
  inbox.push_back(std::move(event));
  // Steps take several events at once, as a runtime's do.
  if (first) world.at(world.now + Duration(static_cast<std::int64_t>(world.rng.below(3000))), [this] { step(); });
}

void Process::step() {
  if (!alive) return;
  auto events = std::exchange(inbox, {});
  Actions actions;
  engine.step(world.now, events, actions);
  engine.check();
  perform(actions);
  arm();
}

void Process::arm() {
  const Instant deadline = engine.next_deadline();
  if (deadline >= armed) return;
  armed = deadline;
  world.at(std::max(deadline, world.now), [this] {
    armed = Instant::never();
    post(Tick{});
  });
}

void Process::perform(Actions& actions) {
  for (Send& send : actions.sends) world.send(*this, std::move(send));
  for (Ready& ready : actions.ready) on_ready(ready);
  for (Execute& one : actions.execute) execute(std::move(one));
  for (Order& order : actions.orders) {
    if (const auto* exit = std::get_if<ExitProcess>(&order)) {
      (void)exit;
      world.at(world.now + 1ms, [this] {
        if (alive) world.kill(*this, true);
      });
    } else if (const auto* answer = std::get_if<ActorAnswer>(&order)) {
      asked.erase(answer->request);
    }
  }
}

ObjectLocator Process::make_id() {
  return ObjectLocator{ObjectId{address.process.value, ++next_object}, address.node, address.job};
}

void Process::acquire(const ObjectLocator& object) {
  if (local[object.id]++ == 0) post(RefAcquired{object});
}

void Process::release(ObjectId object) {
  const auto found = local.find(object);
  if (found == local.end() || found->second == 0) {
    world.violation("a reference is dropped twice");
    return;
  }
  if (--found->second > 0) return;
  local.erase(found);
  cells.erase(object);
  post(RefDropped{object});
}

void Process::get(const ObjectLocator& object, std::function<void(const Read&)> then) {
  if (const auto known = cells.find(object.id); known != cells.end()) {
    then(known->second);
    return;
  }
  auto& waiters = waiting[object.id];
  waiters.push_back(std::move(then));
  post(Want{object, WantMode::kValue});
}

void Process::on_ready(Ready& ready) {
  Read read;
  ++world.reads;
  if (std::holds_alternative<ReadyOnly>(ready.outcome)) return;
  if (auto* error = std::get_if<ErrorInfo>(&ready.outcome)) {
    ++world.read_errors;
    const bool allowed = world.options.kills || (world.options.breaks && error->kind == ErrorKind::kActorUnavailable);
    if (!allowed) world.violation("an object was lost: " + to_string(ready.object) + " " + error->message);
    read.error = std::move(*error);
  } else if (auto* value = std::get_if<InlineValue>(&ready.outcome)) {
    if (value->bytes.text() != to_string(ready.object)) {
      world.violation("wrong bytes for " + to_string(ready.object) + ": " + std::string(value->bytes.text()));
    }
    read.refs = value->refs;
  } else {
    auto& pinned = std::get<PinnedLocation>(ready.outcome);
    if (pinned.object != ready.object || !pins.contains(pinned.object)) {
      world.violation("a pinned object is not in the store");
    }
    read.refs = pinned.refs;
    const ObjectId object = ready.object;
    world.at(world.now + world.delay(), [this, object] { post(ViewReleased{object}); });
  }
  if (local.contains(ready.object) && ready.outcome.index() != 1) cells[ready.object] = read;
  const auto found = waiting.find(ready.object);
  if (found == waiting.end()) return;
  auto waiters = std::move(found->second);
  waiting.erase(found);
  for (auto& then : waiters) then(read);
}

ObjectLocator Process::put(std::vector<ObjectLocator> refs, bool stored) {
  const ObjectLocator object = make_id();
  local[object.id] = 1;
  if (stored) {
    world.stores[address.node][object.id] += 0;
    post(PutStored{object.id, 1000, std::move(refs)});
  } else {
    post(PutInline{object.id, value_of(object.id, std::move(refs))});
  }
  return object;
}

std::vector<ObjectLocator> Process::submit(std::vector<ArgumentIn> arguments, std::uint32_t returns, TaskId parent) {
  SubmitTask submit;
  submit.task = TaskId{address.process.value, ++next_task};
  submit.spec = spec_of(world.options.kills || world.rng.chance(1, 2) ? 3 : 1);
  submit.arguments = std::move(arguments);
  submit.returns = returns;
  submit.parent = parent;
  std::vector<ObjectLocator> results;
  for (std::uint32_t i = 0; i < returns; ++i) {
    results.push_back(make_id());
    local[results.back().id] = 1;
  }
  submit.first_return = results.front().id;
  post(std::move(submit));
  return results;
}

std::vector<ObjectLocator> Process::call(ActorId actor, const ObjectLocator& self, std::vector<ArgumentIn> arguments,
                                         TaskId parent) {
  SubmitActorCall submit;
  submit.task = TaskId{address.process.value, ++next_task};
  submit.spec = spec_of(2);
  submit.actor = actor;
  submit.self = self;
  submit.arguments = std::move(arguments);
  submit.parent = parent;
  submit.max_task_retries = world.rng.chance(1, 2) ? 3 : 0;
  const ObjectLocator result = make_id();
  local[result.id] = 1;
  submit.first_return = result.id;
  post(std::move(submit));
  return {result};
}

std::pair<ActorId, ObjectLocator> Process::create_actor(std::vector<ArgumentIn> arguments, std::int32_t max_restarts) {
  SubmitActor submit;
  submit.request = RequestId{address.process.value, ++next_request};
  submit.spec.actor = ActorId{address.process.value, ++next_actor};
  submit.spec.constructor = *spec_of(2).spec;
  submit.spec.max_restarts = max_restarts;
  submit.spec.max_concurrency = world.rng.chance(1, 3) ? 3 : 1;
  submit.arguments = std::move(arguments);
  const ObjectLocator handle = make_id();
  local[handle.id] = 1;
  submit.handle = handle.id;
  asked.insert(submit.request);
  const ActorId actor = submit.spec.actor;
  post(std::move(submit));
  return {actor, handle};
}

std::vector<ArgumentIn> Process::some_arguments(const std::vector<ObjectLocator>& held) {
  std::vector<ArgumentIn> arguments;
  while (world.rng.chance(1, 2) && arguments.size() < 3) {
    if (!held.empty() && world.rng.chance(1, 2)) {
      arguments.emplace_back(held[world.rng.below(held.size())]);
    } else {
      InlineValue value{Bytes::copy_of("argument"), {}};
      while (!held.empty() && world.rng.chance(1, 2)) value.refs.push_back(held[world.rng.below(held.size())]);
      arguments.emplace_back(std::move(value));
    }
  }
  return arguments;
}

// User code: reads, submits, puts, keeps and returns references at random.
void Process::execute(Execute execute) {
  struct Running {
    Execute execute;
    std::vector<ObjectLocator> held;
    int left = 0;
  };
  auto running = std::make_shared<Running>();
  running->execute = std::move(execute);
  for (const ArgumentOut& argument : running->execute.arguments) {
    if (const auto* value = std::get_if<InlineValue>(&argument)) {
      for (const ObjectLocator& ref : value->refs) running->held.push_back(ref);
    } else {
      const auto& pinned = std::get<PinnedLocation>(argument);
      if (!pins.contains(pinned.object)) world.violation("a pinned argument is not in the store");
      for (const ObjectLocator& ref : pinned.refs) running->held.push_back(ref);
      const ObjectId object = pinned.object;
      world.at(world.now + world.delay(), [this, object] { post(ViewReleased{object}); });
    }
  }
  for (const ObjectLocator& ref : running->held) acquire(ref);
  running->left = static_cast<int>(world.rng.below(4));

  auto finish = [this, running] {
    CallFinished finished;
    finished.task = running->execute.task;
    finished.attempt = running->execute.attempt;
    finished.run_ns = world.rng.below(300'000);
    if (running->execute.constructor) finished.actor = running->execute.actor;
    auto& held = running->held;
    std::vector<ObjectLocator> in_results;
    for (std::uint32_t i = 0; i < running->execute.returns; ++i) {
      const ObjectId object = return_id(running->execute.first_return, i);
      std::vector<ObjectLocator> refs;
      while (!held.empty() && world.rng.chance(1, 2)) refs.push_back(held[world.rng.below(held.size())]);
      in_results.insert(in_results.end(), refs.begin(), refs.end());
      if (world.rng.chance(1, 4)) {
        world.stores[address.node][object] += 0;
        finished.results.emplace_back(StoredResult{1000, refs});
      } else {
        finished.results.emplace_back(value_of(object, refs));
      }
    }
    if (running->execute.actor && !held.empty() && world.rng.chance(1, 3)) {
      kept.push_back(held.back());
      held.pop_back();
      if (kept.size() > 3) {
        release(kept.front().id);
        kept.erase(kept.begin());
      }
    }
    std::vector<ObjectLocator> later;
    for (const ObjectLocator& ref : held) {
      const bool returned = std::find(in_results.begin(), in_results.end(), ref) != in_results.end();
      if (returned || world.rng.chance(1, 3)) {
        later.push_back(ref);
      } else {
        release(ref.id);
      }
    }
    post(std::move(finished));
    for (const ObjectLocator& ref : later) release(ref.id);
  };

  auto next = std::make_shared<std::function<void()>>();
  *next = [this, running, finish, next] {
    if (!alive) return;
    if (running->left-- <= 0) {
      finish();
      world.at(world.now, [next] { *next = nullptr; });  // breaks the cycle of pointers
      return;
    }
    const auto go_on = [this, next] {
      world.at(world.now + world.delay() / 4, [next] {
        if (*next) (*next)();
      });
    };
    auto& held = running->held;
    // What an actor owns ends with it, and its last handle may go any time: it makes no objects of its own.
    const bool may_own = !running->execute.actor;
    const std::uint64_t what = world.rng.below(5);
    if (what == 0 && may_own) {
      held.push_back(put(held.empty() || world.rng.chance(1, 2) ? std::vector<ObjectLocator>{}
                                                                : std::vector<ObjectLocator>{held.back()},
                         world.rng.chance(1, 4)));
    } else if (what == 1 && may_own && world.now < Instant{30'000'000'000} && world.rng.chance(1, 3)) {
      for (const ObjectLocator& result : submit(some_arguments(held), 1, running->execute.task)) held.push_back(result);
    } else if (what == 2 && !held.empty()) {
      const ObjectLocator object = held[world.rng.below(held.size())];
      acquire(object);  // a read holds it
      post(ThreadBlocked{});
      get(object, [this, running, go_on, object](const Read& read) {
        post(ThreadUnblocked{});
        for (const ObjectLocator& ref : read.refs) {
          acquire(ref);
          running->held.push_back(ref);
        }
        release(object.id);
        go_on();
      });
      return;
    } else if (what == 3 && !held.empty()) {
      release(held.back().id);
      held.pop_back();
    }
    go_on();
  };
  world.at(world.now + world.delay() / 4, [next] {
    if (*next) (*next)();
  });
}

// ---- the world
// ----------------------------------------------------------------------------------------------------------------

World::World(const WorldOptions& with) : options(with), rng(with.seed) {
  stores[NodeId{1}];
  stores[NodeId{2}];
  driver_ = &spawn(NodeId{1});
}

void World::at(Instant when, std::function<void()> what) {
  queue_.push({when, order_++, std::move(what)});
}

Process& World::spawn(NodeId node) {
  const ProcessAddress address{ProcessId{++next_process_}, node, JobId{7}};
  auto& place = processes[address.process];
  place = std::make_unique<Process>(*this, address);
  return *place;
}

World::Pair& World::pair(ProcessId a, ProcessId b) {
  return pairs_[{std::min(a, b), std::max(a, b)}];
}

void World::send(Process& from, Send send) {
  ++messages;
  if (std::getenv("MOBULA_TRACE") != nullptr) {
    std::printf("%lld %s -> %s %s\n", static_cast<long long>(now.nanoseconds / 1000),
                to_string(from.address.process).c_str() + 12, to_string(send.to).c_str(), name_of(send.message));
    const auto list = [](const char* what, const std::vector<ObjectId>& objects) {
      for (const ObjectId object : objects) std::printf("    %s %s\n", what, to_string(object).c_str());
    };
    if (const auto* freed = std::get_if<FreeObjects>(&send.message)) list("frees", freed->objects);
    if (const auto* wanted = std::get_if<PinObject>(&send.message)) list("pins", {wanted->object});
    if (const auto* place = std::get_if<ObjectLocation>(&send.message)) list("has", {place->object});
    if (const auto* calls = std::get_if<PushCalls>(&send.message)) {
      for (const Call& call : calls->calls)
        list("call", {ObjectId{call.task.maker, call.task.sequence}, call.first_return});
    }
    if (const auto* back = std::get_if<GiveBack>(&send.message)) {
      for (const TaskId& task : back->tasks) list("back", {ObjectId{task.maker, task.sequence}});
    }
    if (const auto* done = std::get_if<CallsDone>(&send.message)) {
      for (const CallResult& result : done->results) list("done", {ObjectId{result.task.maker, result.task.sequence}});
    }
    if (const auto* borrow = std::get_if<BorrowObjects>(&send.message)) list("borrows", borrow->objects);
    if (const auto* release = std::get_if<ReleaseObjects>(&send.message)) list("releases", release->objects);
  }
  if (send.to.kind == PeerKind::kHead || send.to.kind == PeerKind::kNode) {
    // Over the node: one FIFO link.
    Instant& last = relayed_[{from.address.peer(), send.to}];
    last = std::max(now + delay(), last);
    at(last, [this, process = from.address.process, send = std::move(send)]() mutable {
      Process& sender = *processes.at(process);
      if (!sender.alive) return;
      if (send.to.kind == PeerKind::kHead) {
        to_head(sender, std::move(send.message));
      } else {
        to_node(sender, NodeId{send.to.id}, std::move(send.message));
      }
    });
    return;
  }
  const ProcessId to = send.to.process();
  if (to == from.address.process) {
    violation("a process sends to itself");
    return;
  }
  Pair& link = pair(from.address.process, to);
  const int side = from.address.process < to ? 0 : 1;
  if (now < link.lost_until[side]) return;  // into a link that is broken already
  const Instant when = std::max({now + delay(), link.last[side], link.lost_until[1 - side] + Duration(1)});
  link.last[side] = when;
  const Peer sender = from.address.peer();
  at(when, [this, to, sender, epoch = link.epoch, message = std::move(send.message)]() mutable {
    Process& target = *processes.at(to);
    if (pair(sender.process(), to).epoch != epoch) return;
    if (!target.alive) {
      Process& source = *processes.at(sender.process());
      at(now + delay(), [&source, peer = target.address.peer()] {
        source.post(PeerLost{peer, make_error(ErrorKind::kUnreachable, "connection refused")});
      });
      return;
    }
    if (options.repeats && rng.chance(1, 30)) target.post(Received{sender, message});
    target.post(Received{sender, std::move(message)});
  });
}

void World::to_process(ProcessId to, Peer from, Message message) {
  Instant& last = relayed_[{from, processes.at(to)->address.peer()}];
  last = std::max(now + delay(), last);
  at(last, [this, to, from, message = std::move(message)]() mutable {
    processes.at(to)->post(Received{from, std::move(message)});
  });
}

void World::break_link() {
  if (pairs_.empty() || quiet) return;
  auto place = pairs_.begin();
  std::advance(place, static_cast<std::ptrdiff_t>(rng.below(pairs_.size())));
  Pair& link = place->second;
  ++link.epoch;
  for (int side = 0; side < 2; ++side) {
    Process& process = *processes.at(side == 0 ? place->first.first : place->first.second);
    Process& other = *processes.at(side == 0 ? place->first.second : place->first.first);
    link.lost_until[side] = std::max(now + delay() * 4, link.last[side]);
    link.last[side] = link.lost_until[side];
    at(link.lost_until[side], [&process, peer = other.address.peer()] {
      process.post(PeerLost{peer, make_error(ErrorKind::kUnreachable, "the link broke")});
    });
  }
}

void World::kill(Process& process, bool graceful) {
  process.alive = false;
  process.inbox.clear();
  const ProcessId id = process.address.process;
  ErrorInfo why = make_error(ErrorKind::kWorkerDied, "it was killed");
  why.signal = 9;
  for (auto& [ends, link] : pairs_) {
    if (ends.first != id && ends.second != id) continue;
    const ProcessId other = ends.first == id ? ends.second : ends.first;
    const int side = other < id ? 0 : 1;
    if (!graceful) ++link.epoch;  // else what it sent still arrives
    link.lost_until[side] = std::max(now + delay(), graceful ? link.last[1 - side] : now);
    at(link.lost_until[side], [this, other, peer = process.address.peer(), why] {
      processes.at(other)->post(PeerLost{peer, why});
    });
  }
  for (auto& [lease, played] : leases_) {
    if (played.returned) continue;
    if (played.request.caller.process == id) {
      played.returned = true;
      if (played.worker) {
        // The node ends workers of a caller that is gone, or takes them back.
        processes.at(played.worker)->lease.reset();
      }
    } else if (played.worker == id) {
      played.returned = true;
      to_process(played.request.caller.process, Peer::of(process.address.node), LeaseLost{lease, why});
    }
  }
  for (auto& [node, store] : stores) {
    for (auto copy = store.begin(); copy != store.end();) {
      copy = copy->first.maker == id.value ? store.erase(copy) : std::next(copy);
    }
  }
  if (process.hosts) actor_ended(process.hosts, why, false);
  for (auto& [actor, played] : actors_) {
    if (actor.maker == id.value && played.info.phase != ActorPhase::kDead) actor_ended(actor, why, true);
  }
  grant_waiting();
}

void World::free_copy(NodeId node, ObjectId object) {
  stores[node].erase(object);
}

void World::pin(Process& from, const PinObject& message) {
  const NodeId node = from.address.node;
  ObjectPinned reply;
  reply.object = message.object;
  reply.size = message.size;
  reply.mapped = message.map;
  auto& store = stores[node];
  if (!store.contains(message.object)) {
    const bool somewhere = std::any_of(message.nodes.begin(), message.nodes.end(),
                                       [&](NodeId other) { return stores[other].contains(message.object); });
    if (somewhere) {
      store[message.object] = 0;
      cached.emplace(node, message.object);
      reply.copied = true;
    } else {
      reply.error = make_error(ErrorKind::kObjectLost, "no copy");
    }
  }
  if (!reply.error && message.map) ++from.pins[message.object];
  to_process(from.address.process, Peer::of(node), std::move(reply));
}

void World::to_node(Process& from, NodeId node, Message message) {
  if (auto* request = std::get_if<RequestLease>(&message)) {
    const auto [lease, is_new] = leases_.try_emplace(request->lease);
    if (!is_new) return;
    lease->second.request = *request;
    lease_queue_.push_back(request->lease);
    grant_waiting();
  } else if (auto* back = std::get_if<ReturnLease>(&message)) {
    PlayedLease& lease = leases_[back->lease];
    if (std::exchange(lease.returned, true)) return;
    if (lease.worker) {
      Process& worker = *processes.at(lease.worker);
      if (back->worker_failed && worker.alive) {
        kill(worker);
      } else {
        worker.lease.reset();
      }
    }
    grant_waiting();
  } else if (auto* probe = std::get_if<ProbeProcess>(&message)) {
    const Process& asked = *processes.at(probe->process);
    ErrorInfo why = make_error(ErrorKind::kWorkerDied, "it was killed");
    to_process(from.address.process, Peer::of(node),
               ProcessStatus{probe->process, asked.alive, asked.alive ? ErrorInfo{} : why});
  } else if (auto* wanted = std::get_if<PinObject>(&message)) {
    pin(from, *wanted);
  } else if (auto* unpin = std::get_if<UnpinObjects>(&message)) {
    for (const ObjectId object : unpin->objects) {
      if (--from.pins[object] < 0) violation("unpinned too often");
      if (from.pins[object] == 0) from.pins.erase(object);
    }
  } else if (auto* freed = std::get_if<FreeObjects>(&message)) {
    for (const ObjectId object : freed->objects) free_copy(node, object);
  } else if (auto* started = std::get_if<ActorStarted>(&message)) {
    PlayedActor& actor = actors_.at(started->actor);
    if (actor.info.phase == ActorPhase::kDead || actor.info.incarnation != started->incarnation) return;
    actor.info.phase = ActorPhase::kAlive;
    actor.info.address = started->address;
    tell(started->actor);
  } else if (auto* ended = std::get_if<ActorEnded>(&message)) {
    actor_ended(ended->actor, ended->error, true);
  }
}

void World::grant_waiting() {
  std::vector<LeaseId> waiting;
  for (const LeaseId id : std::exchange(lease_queue_, {})) {
    PlayedLease& lease = leases_.at(id);
    if (lease.returned) continue;
    Process* free = nullptr;
    std::size_t alive = 0;
    for (auto& [process, worker] : processes) {
      if (!worker->alive || worker.get() == driver_) continue;
      ++alive;
      if (!worker->lease && !worker->hosts && free == nullptr) free = worker.get();
    }
    if (free == nullptr && alive < options.workers_max) free = &spawn(NodeId{1 + rng.below(2)});
    if (free == nullptr) {
      waiting.push_back(id);
      continue;
    }
    free->lease = id;
    lease.worker = free->address.process;
    const Peer node = Peer::of(free->address.node);
    AssignWorker assign;
    assign.lease = id;
    assign.job = JobId{7};
    assign.caller = lease.request.caller;
    to_process(free->address.process, node, assign);
    to_process(lease.request.caller.process, node, LeaseGranted{id, free->address, {}});
  }
  lease_queue_ = std::move(waiting);
}

// ---- the head
// -----------------------------------------------------------------------------------------------------------------

void World::to_head(Process& from, Message message) {
  const ProcessId process = from.address.process;
  if (auto* create = std::get_if<CreateActor>(&message)) {
    const ActorId id = create->spec.actor;
    if (created_.try_emplace(create->request, id).second) {
      PlayedActor& actor = actors_[id];
      actor.spec = create->spec;
      actor.info.actor = id;
      actor.watchers.insert(process);
      start_actor(id);
    }
    to_process(process, Peer::head(), ActorCreated{create->request, std::nullopt, actors_.at(id).info});
  } else if (auto* watch = std::get_if<WatchActor>(&message)) {
    PlayedActor& actor = actors_.at(watch->actor);
    actor.watchers.insert(process);
    to_process(process, Peer::head(), ActorUpdate{actor.info});
  } else if (auto* unwatch = std::get_if<UnwatchActor>(&message)) {
    actors_.at(unwatch->actor).watchers.erase(process);
  } else if (auto* killed = std::get_if<KillActor>(&message)) {
    PlayedActor& actor = actors_.at(killed->actor);
    if (actor.info.phase == ActorPhase::kDead) return;
    Process* host = actor.host ? processes.at(actor.host).get() : nullptr;
    if (host != nullptr && host->alive && killed->graceful) {
      to_process(actor.host, Peer::of(host->address.node), ExitActor{killed->actor});
    } else {
      actor_ended(killed->actor, make_error(ErrorKind::kActorDied, "killed"), true);
      if (host != nullptr && host->alive) kill(*host);
    }
  }
}

void World::start_actor(ActorId id) {
  PlayedActor& actor = actors_.at(id);
  ++actor.info.incarnation;
  Process& host = spawn(NodeId{1 + rng.below(2)});
  host.hosts = id;
  actor.host = host.address.process;
  to_process(actor.host, Peer::of(host.address.node), HostActor{actor.spec, actor.info.incarnation, 0});
}

void World::tell(ActorId id) {
  const PlayedActor& actor = actors_.at(id);
  for (const ProcessId watcher : actor.watchers) to_process(watcher, Peer::head(), ActorUpdate{actor.info});
}

void World::actor_ended(ActorId id, ErrorInfo why, bool for_good) {
  PlayedActor& actor = actors_.at(id);
  if (actor.info.phase == ActorPhase::kDead) return;
  const bool again = !for_good && actor.restarts < actor.spec.max_restarts;
  if (!again) {
    if (for_good && actor.host && processes.at(actor.host)->alive) {
      at(now + 10s, [this, host = actor.host] {
        if (processes.at(host)->alive) kill(*processes.at(host), true);
      });
    }
    why.kind = ErrorKind::kActorDied;
    actor.info.phase = ActorPhase::kDead;
    actor.info.error = why;
    tell(id);
    return;
  }
  ++actor.restarts;
  actor.info.phase = ActorPhase::kRestarting;
  tell(id);
  at(now + delay(), [this, id] {
    if (actors_.at(id).info.phase == ActorPhase::kRestarting) start_actor(id);
  });
}

// ---- the driver's program
// ---------------------------------------------------------------------------------------------------

void World::driver_step(int left) {
  if (left == 0) {
    for (const ObjectLocator& object : std::exchange(held_, {})) driver_->release(object.id);
    for (const auto& [actor, handle] : std::exchange(handles_, {})) driver_->release(handle.id);
    quiet = true;
    return;
  }
  const std::uint64_t what = rng.below(10);
  if (what < 2) {
    const bool nested = !held_.empty() && rng.chance(1, 2);
    held_.push_back(
        driver_->put(nested ? std::vector<ObjectLocator>{held_[rng.below(held_.size())]} : std::vector<ObjectLocator>{},
                     rng.chance(1, 3)));
  } else if (what < 5) {
    const auto returns = static_cast<std::uint32_t>(1 + rng.below(3));
    for (const ObjectLocator& result : driver_->submit(driver_->some_arguments(held_), returns, {}))
      held_.push_back(result);
  } else if (what == 5 && handles_.size() < 3) {
    handles_.push_back(driver_->create_actor(driver_->some_arguments(held_), options.kills ? 2 : 0));
  } else if (what < 8 && !handles_.empty()) {
    const auto& [actor, handle] = handles_[rng.below(handles_.size())];
    for (const ObjectLocator& result : driver_->call(actor, handle, driver_->some_arguments(held_), {}))
      held_.push_back(result);
  } else if (what == 8 && !held_.empty()) {
    const ObjectLocator object = held_[rng.below(held_.size())];
    driver_->acquire(object);
    driver_->get(object, [this, object](const Read& read) {
      for (const ObjectLocator& ref : read.refs) {
        driver_->acquire(ref);
        held_.push_back(ref);
      }
      driver_->release(object.id);
      if (quiet) {
        for (const ObjectLocator& late : std::exchange(held_, {})) driver_->release(late.id);
      }
    });
  } else {
    for (int i = 0; i < 3 && !held_.empty(); ++i) {
      const std::size_t place = rng.below(held_.size());
      driver_->release(held_[place].id);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(place));
    }
    if (!handles_.empty() && rng.chance(1, 4)) {
      driver_->release(handles_.front().second.id);
      handles_.erase(handles_.begin());
    }
  }
  if (options.breaks && rng.chance(1, 3)) break_link();
  if (options.kills && rng.chance(1, 12)) {
    auto place = processes.begin();
    std::advance(place, static_cast<std::ptrdiff_t>(rng.below(processes.size())));
    if (place->second->alive && place->second.get() != driver_) kill(*place->second);
  }
  at(now + delay(), [this, left] { driver_step(left - 1); });
}

std::string World::run() {
  at(now, [this] { driver_step(options.driver_steps); });
  const Instant end = now + 400s;
  bool dropped_state = false;
  at(Instant{121'000'000'000}, [] {});
  while (!queue_.empty() && violations.empty()) {
    const Item item = queue_.top();
    if (item.at > end) break;
    queue_.pop();
    now = std::max(now, item.at);
    item.what();
    if (quiet && !dropped_state && now > Instant{120'000'000'000}) {
      // Actors that still stand (kept by handles that other actors keep) give up their state.
      dropped_state = true;
      for (auto& [id, process] : processes) {
        if (!process->alive) continue;
        for (const ObjectLocator& ref : std::exchange(process->kept, {})) process->release(ref.id);
      }
    }
  }
  return violations.empty() ? at_rest() : violations;
}

std::string World::at_rest() {
  // The driver last: what it waits for is somebody else's fault more often than not.
  for (auto place = processes.rbegin(); place != processes.rend(); ++place) {
    const auto& [id, process] = *place;
    if (!process->alive) continue;
    const std::string name = to_string(id) + (process.get() == driver_ ? " (driver)" : "");
    if (!process->asked.empty()) return "an actor was asked for and never answered, by " + name;
    if (!process->waiting.empty()) {
      return "a read of " + to_string(process->waiting.begin()->first) + " was never answered in " + name;
    }
    if (!process->local.empty()) return "user code still holds references in " + name;
    if (!process->pins.empty()) return "pins are left in " + name;
    if (!process->engine.idle()) {
      const EngineStats stats = process->engine.stats();
      return "engine " + name + " is not idle: calls " + std::to_string(stats.submitter.calls) + ", leases " +
             std::to_string(stats.submitter.leases) + ", requests " + std::to_string(stats.submitter.lease_requests) +
             ", waiting " + std::to_string(stats.executor.waiting) + ", running " +
             std::to_string(stats.executor.running) + ", objects " + std::to_string(stats.owner.objects) +
             ", borrowed " + std::to_string(stats.owner.borrowed) + ", lent " + std::to_string(stats.owner.lent) +
             ", pinned " + std::to_string(stats.owner.pinned) + "\n" + process->engine.describe_objects(10);
    }
  }
  for (const auto& [node, store] : stores) {
    for (const auto& [object, count] : store) {
      // A reader that was killed cannot report its copy.
      if (options.kills && cached.contains({node, object})) continue;
      // A result that was sealed after its owner's death: the store's to find, not the engine's.
      if (!processes.at(owner_of(object))->alive) continue;
      return "object " + to_string(object) + " is left in the store of node " + to_string(node);
    }
  }
  return {};
}

}  // namespace mobula::core::test
