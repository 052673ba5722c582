#include "tests/sim/process.h"

#include <algorithm>

#include "runtime/base/result.h"
#include "tests/sim/world.h"

namespace mobula::sim {

Process::Process(World& in, ProcessAddress at, RuntimeKey runtime, bool is_driver)
    : world(in), address(at), driver(is_driver), engine([&] {
        core::EngineConfig config;
        config.self = at;
        return config;
      }()),
      runtime_(std::move(runtime)) {}

Process::~Process() {
  for (const auto& [number, script] : scripts_) script.destroy();
}

// ---- the engine ----------------------------------------------------------------------------------------------------

// Steps take several events at once, as a runtime's do.
void Process::post(core::Event event) {
  inbox_.push_back(std::move(event));
  if (inbox_.size() > 1) return;
  world.in_process(address.process, Duration(static_cast<std::int64_t>(world.rng.below(3000))),
                   [](Process& self) { self.step(); });
}

void Process::step() {
  auto events = std::exchange(inbox_, {});
  core::Actions actions;
  engine.step(world.now(), events, actions);
  if (world.options.check_each) engine.check();
  perform(actions);
  arm();
  maybe_exit();
}

void Process::arm() {
  const Instant deadline = engine.next_deadline();
  if (deadline >= armed_) return;
  armed_ = deadline;
  world.in_process(address.process, std::max(Duration(0), deadline - world.now()), [deadline](Process& self) {
    if (self.armed_ != deadline) return;
    self.armed_ = Instant::never();
    self.post(Tick{});
  });
}

void Process::perform(core::Actions& actions) {
  for (Send& one : actions.sends) send(std::move(one));
  for (core::Ready& ready : actions.ready) on_ready(ready);
  for (core::Execute& execute : actions.execute) work_.push_back(std::move(execute));
  for (const core::Order& one : actions.orders) order(one);
  start_calls();
}

void Process::order(const core::Order& order) {
  if (const auto* exit = std::get_if<core::ExitProcess>(&order)) exit_ = exit->why;
}

// A worker that shall end first finishes what it has begun; then its messages go out and it is gone.
void Process::maybe_exit() {
  if (!exit_ || running_ > 0 || !work_.empty() || driver) return;
  exit_.reset();
  leave();
}

void Process::leave() {
  inbox_.emplace_back(core::JobEnding{});
  auto events = std::exchange(inbox_, {});
  core::Actions actions;
  engine.step(world.now(), events, actions);
  for (Send& one : actions.sends) send(std::move(one));
  world.ends(address.process, true, "it exited");
}

// ---- messages ------------------------------------------------------------------------------------------------------

void Process::send(Send send) {
  if (send.to.kind == PeerKind::kProcess) return send_direct(std::move(send));
  Envelope envelope;
  const Peer node = Peer::of(address.node);
  if (send.to != node && send.to.kind != PeerKind::kNone) envelope.to = send.to;  // the daemon relays
  envelope.message = std::move(send.message);
  world.network.send(address.peer(), node, std::move(envelope));
}

// The first time, the own node is asked where the other one is; it will also say when that is gone.
void Process::send_direct(Send send) {
  const NodeId node = send.to.node;
  if (node != address.node && !known_nodes_.contains(node)) {
    auto& waiting = unresolved_[node];
    waiting.push_back(std::move(send));
    if (waiting.size() == 1) this->send(Send{Peer::of(address.node), ResolveNode{node}, 0});
    return;
  }
  world.network.send(address.peer(), send.to, Envelope{{}, {}, 0, 0, std::move(send.message)});
}

void Process::resolved(const NodeResolved& message) {
  if (message.alive) {
    known_nodes_.insert(message.node);
  } else {
    known_nodes_.erase(message.node);
  }
  const auto found = unresolved_.find(message.node);
  if (found == unresolved_.end()) return;
  auto waiting = std::move(found->second);
  unresolved_.erase(found);
  std::set<Peer> failed;
  for (Send& one : waiting) {
    if (message.alive) {
      send_direct(std::move(one));
    } else if (failed.insert(one.to).second) {
      post(PeerLost{one.to, make_error(ErrorKind::kUnreachable, "its node is gone")});
    }
  }
}

void Process::message(const Peer& from, Envelope envelope) {
  const Peer sender = envelope.from.kind == PeerKind::kNone ? from : envelope.from;
  if (std::holds_alternative<HelloReply>(envelope.message)) return;
  if (const auto* node = std::get_if<NodeResolved>(&envelope.message)) resolved(*node);
  if (const auto* granted = std::get_if<SlabGranted>(&envelope.message)) {
    const auto found = slabs_.find(granted->request);
    if (found == slabs_.end()) return;
    const WaitingSeal waiting = found->second;
    slabs_.erase(found);
    if (!granted->error) {
      world.write_memory(address.node, granted->segment, granted->offset, waiting.object);
      const Peer node = Peer::of(address.node);
      send(
          {node, SealObject{waiting.object, owner_of(waiting.object), address.job, granted->slab, 0, waiting.size}, 0});
      send({node, ReturnSlab{granted->slab}, 0});
      *waiting.done = true;
    }
    return resume(waiting.script);
  }
  post(Received{sender, std::move(envelope.message)});
}

void Process::lost(const Peer& other, const ErrorInfo& why) {
  if (other == Peer::of(address.node)) return world.ends(address.process, false, "its node is gone");
  post(PeerLost{other, why});
}

// ---- user code -----------------------------------------------------------------------------------------------------

void Process::run(Script script) {
  const std::uint64_t number = ++next_script_;
  script.handle.promise().number = number;
  scripts_.emplace(number, script.handle);
  world.in_process(address.process, Duration(0), [number](Process& self) { self.resume(number); });
}

void Process::resume(std::uint64_t number) {
  const auto found = scripts_.find(number);
  if (found == scripts_.end()) return;
  const auto script = found->second;
  script.resume();
  if (!script.done()) return;
  scripts_.erase(number);
  script.destroy();
  start_calls();
}

void Process::Sleep::await_suspend(std::coroutine_handle<Script::promise_type> script) {
  process.world.in_process(process.address.process, wait,
                           [number = script.promise().number](Process& self) { self.resume(number); });
}

bool Process::Get::await_ready() {
  const auto known = process.cells_.find(object.id);
  if (known == process.cells_.end()) return false;
  read = known->second;
  blocks = false;
  return true;
}

void Process::Get::await_suspend(std::coroutine_handle<Script::promise_type> script) {
  process.waiting_[object.id].push_back({script.promise().number, &read});
  process.post(core::Want{object, core::WantMode::kValue});
  if (blocks) process.post(core::ThreadBlocked{});
}

Read Process::Get::await_resume() {
  if (blocks) process.post(core::ThreadUnblocked{});
  return std::move(read);
}

void Process::Seal::await_suspend(std::coroutine_handle<Script::promise_type> script) {
  const std::uint64_t request = ++process.next_request_;
  process.slabs_[request] = {script.promise().number, object, size, &done};
  process.send({Peer::of(process.address.node), RequestSlab{request, size}, 0});
}

ObjectLocator Process::make_object() {
  const ObjectLocator object{{address.process.value, ++next_object_}, address.node, address.job};
  local_[object.id] = 1;
  return object;
}

void Process::put_sealed(const ObjectLocator& object, std::uint64_t size) {
  post(core::PutStored{object.id, size, {}});
}

SpecRef Process::spec(const std::string& what, std::int32_t retries, bool actor) {
  SpecRef& ref = specs_[what];
  if (!ref.spec) {
    CallSpec spec;
    spec.job = address.job;
    spec.name = what;
    spec.function.symbol = what;
    spec.max_retries = retries;
    if (!actor) {
      spec.runtime = runtime_;
      spec.resources.cpus = Quantity::whole(1);
    }
    ref = SpecRef{static_cast<std::uint32_t>(specs_.size()), std::make_shared<const CallSpec>(spec)};
  }
  return ref;
}

ObjectLocator Process::submit(const std::string& what, std::vector<ArgumentIn> arguments, TaskId parent) {
  core::SubmitTask event;
  event.task = {address.process.value, ++next_task_};
  event.spec = spec(what, 3, false);
  event.arguments = std::move(arguments);
  const ObjectLocator result = make_object();
  event.first_return = result.id;
  event.parent = parent;
  post(std::move(event));
  ++submitted;
  return result;
}

std::pair<ActorId, ObjectLocator> Process::create_actor(std::int32_t max_restarts, std::int32_t max_task_retries) {
  core::SubmitActor event;
  event.request = {address.process.value, ++next_request_};
  ActorSpec& actor = event.spec;
  actor.actor = {address.process.value, ++next_actor_};
  actor.owner = address;
  actor.constructor = *spec("Ring", 0, false).spec;
  actor.placement = actor.constructor.resources;
  actor.constructor.resources.cpus = {};
  actor.max_restarts = max_restarts;
  actor.max_task_retries = max_task_retries;
  const ActorId id = actor.actor;
  const ObjectLocator handle = make_object();
  event.handle = handle.id;
  post(std::move(event));
  return {id, handle};
}

ObjectLocator Process::call(ActorId actor, const ObjectLocator& self, const std::string& what,
                            std::vector<ArgumentIn> arguments, TaskId parent) {
  core::SubmitActorCall event;
  event.task = {address.process.value, ++next_task_};
  event.actor = actor;
  event.self = self;
  event.spec = spec(what, 0, true);
  event.arguments = std::move(arguments);
  const ObjectLocator result = make_object();
  event.first_return = result.id;
  event.parent = parent;
  post(std::move(event));
  ++submitted;
  return result;
}

void Process::acquire(const ObjectLocator& object) {
  if (local_[object.id]++ == 0) post(core::RefAcquired{object});
}

void Process::release(ObjectId object) {
  const auto found = local_.find(object);
  if (found == local_.end()) return world.violation("a reference is dropped twice", {address.peer()});
  if (--found->second > 0) return;
  local_.erase(found);
  cells_.erase(object);
  post(core::RefDropped{object});
}

void Process::start_calls() {
  while (!work_.empty() && running_ < threads_) {
    core::Execute execute = std::move(work_.front());
    work_.pop_front();
    ++running_;
    if (execute.constructor) threads_ = execute.max_concurrency;
    for (const ArgumentOut& argument : execute.arguments) {
      if (const auto* pinned = std::get_if<PinnedLocation>(&argument)) view(*pinned, "an argument");
    }
    run(run_call(*this, std::move(execute)));
  }
}

void Process::finish(core::CallFinished finished) {
  --running_;
  post(std::move(finished));
}

// ---- values --------------------------------------------------------------------------------------------------------

// The pages must hold that object, now and for as long as they are looked at.
void Process::view(const PinnedLocation& pinned, const char* who) {
  if (world.memory_at(address.node, pinned.segment, pinned.offset) != pinned.object) {
    world.violation(std::string(who) + " lies in pages that hold another object: " + to_string(pinned.object),
                    {address.peer(), Peer::of(address.node)});
  }
}

void Process::read_of(core::Ready& ready, Read& read) {
  if (auto* error = std::get_if<ErrorInfo>(&ready.outcome)) {
    read.error = std::move(*error);
  } else if (auto* value = std::get_if<InlineValue>(&ready.outcome)) {
    if (value->bytes.text() != to_string(ready.object)) {
      world.violation("wrong bytes for " + to_string(ready.object) + ": " + std::string(value->bytes.text()),
                      {address.peer()});
    }
    read.refs = value->refs;
  } else {
    const PinnedLocation pinned = std::get<PinnedLocation>(ready.outcome);
    if (pinned.object != ready.object) world.violation("another object was pinned than wanted", {address.peer()});
    view(pinned, "a value");
    read.refs = pinned.refs;
    world.in_process(address.process, Duration(world.rng.between(1'000, 3'000'000)), [pinned](Process& self) {
      self.view(pinned, "a value that is looked at");
      self.post(core::ViewReleased{pinned.object});
    });
  }
}

void Process::on_ready(core::Ready& ready) {
  if (std::holds_alternative<core::ReadyOnly>(ready.outcome)) return;
  Read read;
  const bool inlined = ready.outcome.index() != 1;
  read_of(ready, read);
  if (inlined && local_.contains(ready.object)) cells_[ready.object] = read;
  const auto found = waiting_.find(ready.object);
  if (found == waiting_.end()) return;
  const auto waiters = std::move(found->second);
  waiting_.erase(found);
  for (const Waiter& waiter : waiters) {
    *waiter.read = read;
    const std::uint64_t number = waiter.script;
    world.in_process(address.process, Duration(0), [number](Process& self) { self.resume(number); });
  }
}

std::string Process::waits() const {
  std::string text;
  std::size_t lines = 0;
  for (const auto& [object, waiters] : waiting_) {
    if (++lines > 5) return text + "    and more\n";
    text += "    reads " + to_string(object) + "\n";
  }
  if (!slabs_.empty()) text += "    waits for room in shared memory\n";
  const core::EngineStats all = engine.stats();
  const auto count = [&text](const char* what, std::size_t number) {
    if (number > 0) text += "    " + std::to_string(number) + " " + what + "\n";
  };
  count("calls not settled", all.submitter.calls);
  count("leases", all.submitter.leases);
  count("lease requests", all.submitter.lease_requests);
  count("calls waiting to run", all.executor.waiting);
  count("calls running", all.executor.running);
  count("objects borrowed", all.owner.borrowed);
  count("objects pinned in the store", all.owner.pinned);
  count("objects lent", all.owner.lent);
  return text + engine.describe_objects(5);
}

}  // namespace mobula::sim
