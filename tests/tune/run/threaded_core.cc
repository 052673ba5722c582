// The simplest cluster that tune::run cannot tell from a real one. Threads of killed actors are left behind where they
// are, as processes would vanish: what they hold is small, and the test program ends soon.
#include "tests/tune/run/threaded_core.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <mobula/detail/core.h>

namespace mobula::detail {

struct RefHandle::Cell {
  ObjectLocator locator;
  std::atomic<std::size_t> count{1};
  bool ready = false;  // this and below: under the world's mutex
  std::optional<ErrorInfo> error;
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::vector<RefHandle> refs;
  ActorId actor;  // the actor that lives as long as this does
};

namespace {

struct Call {
  const FunctionRecord* function = nullptr;
  std::vector<CallArgument> arguments;
  std::vector<RefHandle> results;
};

struct FakeActor {
  ActorId id;
  std::shared_ptr<void> instance;
  std::size_t node = 0;
  bool placed = false;
  bool constructed = false;
  bool dead = false;
  double cpus = 0;
  Call constructor;
  std::deque<Call> waiting;
  std::vector<RefHandle> open;  // results of calls that run
};

struct FakeNode {
  double cpus = 0;
  double used = 0;
  bool alive = true;
  std::size_t actors = 0;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<FakeNode> nodes;
  std::map<ActorId, std::shared_ptr<FakeActor>> actors;
  std::deque<std::shared_ptr<FakeActor>> unplaced;
  std::uint64_t sequence = 0;
  std::size_t made = 0;
  std::size_t on_node_max = 0;
  bool refuse = false;
};

World& world() {
  static World* instance = new World;  // outlives the threads that are left behind
  return *instance;
}

thread_local std::size_t current_node = ~std::size_t{0};

RefHandle new_object() {
  auto* cell = new RefHandle::Cell;
  cell->locator.id = ObjectId{7, ++world().sequence};
  return RefHandle::from_counted(cell);
}

ErrorInfo error_of(ErrorKind kind, std::string message) {
  ErrorInfo error;
  error.kind = kind;
  error.message = std::move(message);
  return error;
}

// All below with the world's mutex held, unless they say otherwise.

void fail(const RefHandle& ref, const ErrorInfo& error) {
  if (ref.cell()->ready) return;
  ref.cell()->error = error;
  ref.cell()->ready = true;
}

class FakeInvocation final : public Invocation {
 public:
  FakeInvocation(const Call& call, std::shared_ptr<FakeActor> actor) : call_(call), actor_(std::move(actor)) {
    for (const CallArgument& argument : call.arguments) {
      if (argument.ref) {
        const auto& bytes = argument.ref.cell()->bytes;
        arguments_.push_back({bytes, bytes->data(), bytes->size(), argument.ref.cell()->refs});
      } else {
        const auto bytes = std::make_shared<const std::vector<std::byte>>(argument.value.bytes);
        arguments_.push_back({bytes, bytes->data(), bytes->size(), argument.value.refs});
      }
    }
    rooms_.resize(call.results.size());
  }
  std::size_t argument_count() const override { return arguments_.size(); }
  const InPayload& argument(std::size_t index) override { return arguments_.at(index); }
  std::size_t return_count() const override { return call_.results.size(); }
  std::span<std::byte> result_room(std::size_t index, std::size_t size) override {
    rooms_.at(index).resize(size);
    return rooms_[index];
  }
  void result_done(std::size_t index, std::vector<RefHandle> refs) override {
    const std::lock_guard lock(world().mutex);
    RefHandle::Cell& cell = *call_.results.at(index).cell();
    if (cell.ready) return;  // the actor was killed meanwhile
    cell.bytes = std::make_shared<const std::vector<std::byte>>(std::move(rooms_[index]));
    cell.refs = std::move(refs);
    cell.ready = true;
    world().changed.notify_all();
  }
  void* instance() override { return actor_->instance.get(); }
  void set_instance(std::shared_ptr<void> instance) override { actor_->instance = std::move(instance); }

 private:
  const Call& call_;
  std::shared_ptr<FakeActor> actor_;
  std::vector<InPayload> arguments_;
  std::vector<std::vector<std::byte>> rooms_;
};

// On a thread of its own, without the mutex.
void invoke(const Call& call, const std::shared_ptr<FakeActor>& actor) {
  current_node = actor->node;
  ErrorInfo error = error_of(ErrorKind::kTaskFailed, "");
  try {
    FakeInvocation invocation(call, actor);
    call.function->invoker(invocation);
    return;
  } catch (const std::exception& thrown) {
    error.message = thrown.what();
  }
  const std::lock_guard lock(world().mutex);
  for (const RefHandle& result : call.results) fail(result, error);
  world().changed.notify_all();
}

void start_call(const std::shared_ptr<FakeActor>& actor, Call call) {
  for (const RefHandle& result : call.results) actor->open.push_back(result);
  for (const CallArgument& argument : call.arguments) {
    if (!argument.ref || !argument.ref.cell()->error) continue;
    for (const RefHandle& result : call.results) fail(result, *argument.ref.cell()->error);
    return;
  }
  std::thread([actor, call = std::move(call)] { invoke(call, actor); }).detach();
}

void construct(const std::shared_ptr<FakeActor>& actor) {
  std::thread([actor] {
    invoke(actor->constructor, actor);
    const std::lock_guard lock(world().mutex);
    actor->constructed = true;
    while (!actor->waiting.empty() && !actor->dead) {
      start_call(actor, std::move(actor->waiting.front()));
      actor->waiting.pop_front();
    }
  }).detach();
}

void place_actors() {
  World& w = world();
  while (!w.unplaced.empty()) {
    const auto actor = w.unplaced.front();
    FakeNode* best = nullptr;
    for (FakeNode& node : w.nodes) {
      const bool fits = node.alive && node.cpus - node.used >= actor->cpus;
      if (fits && (best == nullptr || node.used < best->used)) best = &node;
    }
    if (best == nullptr) return;
    w.unplaced.pop_front();
    if (actor->dead) continue;
    best->used += actor->cpus;
    w.on_node_max = std::max(w.on_node_max, ++best->actors);
    actor->node = static_cast<std::size_t>(best - w.nodes.data());
    actor->placed = true;
    construct(actor);
  }
}

void end_actor(const std::shared_ptr<FakeActor>& actor, const std::string& why) {
  if (actor->dead) return;
  actor->dead = true;
  const ErrorInfo error = error_of(ErrorKind::kActorDied, why);
  for (const RefHandle& result : actor->open) fail(result, error);
  for (const Call& call : actor->waiting) {
    for (const RefHandle& result : call.results) fail(result, error);
  }
  if (actor->placed) {
    world().nodes[actor->node].used -= actor->cpus;
    --world().nodes[actor->node].actors;
  }
  world().actors.erase(actor->id);
  place_actors();
  world().changed.notify_all();
}

class FakePut final : public PutBuffer {
 public:
  explicit FakePut(std::size_t size) : bytes(size) {}
  std::span<std::byte> room() override { return bytes; }
  std::vector<std::byte> bytes;
};

}  // namespace

RefHandle RefHandle::acquire(const ObjectLocator&) {
  std::abort();
}
RefHandle::~RefHandle() {
  if (cell_ == nullptr || --cell_->count != 0) return;
  if (cell_->actor) {
    const std::lock_guard lock(world().mutex);
    const auto found = world().actors.find(cell_->actor);
    // Calls that run go on to their end; then nobody holds the actor any more.
    if (found != world().actors.end()) end_actor(std::shared_ptr(found->second), "its last handle is gone");
  }
  delete cell_;
}
RefHandle::RefHandle(const RefHandle& other) : cell_(other.cell_) {
  if (cell_ != nullptr) ++cell_->count;
}
RefHandle::RefHandle(RefHandle&& other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}
RefHandle& RefHandle::operator=(const RefHandle& other) {
  RefHandle copy(other);
  std::swap(cell_, copy.cell_);
  return *this;
}
RefHandle& RefHandle::operator=(RefHandle&& other) noexcept {
  RefHandle moved(std::move(other));
  std::swap(cell_, moved.cell_);
  return *this;
}
const ObjectLocator& RefHandle::locator() const {
  return cell_->locator;
}
ObjectId RefHandle::id() const {
  return cell_ == nullptr ? ObjectId{} : cell_->locator.id;
}

void register_function(const FunctionRecord*) noexcept {}
void kill_actor(const ActorState& state, bool) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().actors.find(state.id);
  if (found != world().actors.end()) end_actor(std::shared_ptr(found->second), "it was killed");
}

std::shared_ptr<const ActorState> create_actor(const FunctionRecord& constructor, std::vector<CallArgument> arguments,
                                               const CallOptions& options) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  if (w.refuse) throw_error(error_of(ErrorKind::kUnschedulable, "no node has so many CPUs"));
  auto actor = std::make_shared<FakeActor>();
  actor->id = ActorId{7, ++w.sequence};
  actor->cpus = options.resources.cpus.value_or(0);
  actor->constructor = Call{&constructor, std::move(arguments), {}};
  ++w.made;
  w.actors[actor->id] = actor;
  auto state = std::make_shared<ActorState>();
  state->id = actor->id;
  state->self = new_object();
  state->self.cell()->actor = actor->id;
  w.unplaced.push_back(actor);
  place_actors();
  return state;
}

std::vector<RefHandle> submit_call(const ActorState& state, const FunctionRecord& method,
                                   std::vector<CallArgument> arguments, std::uint32_t returns, const CallOptions&) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  std::vector<RefHandle> results;
  for (std::uint32_t i = 0; i < returns; ++i) results.push_back(new_object());
  const auto found = w.actors.find(state.id);
  Call call{&method, std::move(arguments), results};
  if (found == w.actors.end()) {
    for (const RefHandle& result : results) fail(result, error_of(ErrorKind::kActorDied, "the actor is dead"));
  } else if (found->second->constructed) {
    start_call(found->second, std::move(call));
  } else {
    found->second->waiting.push_back(std::move(call));
  }
  return results;
}

std::unique_ptr<PutBuffer> begin_put(std::size_t size) {
  return std::make_unique<FakePut>(size);
}
RefHandle finish_put(std::unique_ptr<PutBuffer> buffer, std::vector<RefHandle> refs) {
  const std::lock_guard lock(world().mutex);
  RefHandle object = new_object();
  auto& bytes = static_cast<FakePut&>(*buffer).bytes;
  object.cell()->bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  object.cell()->refs = std::move(refs);
  object.cell()->ready = true;
  return object;
}

InPayload get_one(const RefHandle& ref, Timeout) {
  std::unique_lock lock(world().mutex);
  world().changed.wait(lock, [&ref] { return ref.cell()->ready; });
  if (ref.cell()->error) throw_error(*ref.cell()->error);
  const auto& bytes = ref.cell()->bytes;
  return {bytes, bytes->data(), bytes->size(), ref.cell()->refs};
}

std::vector<bool> wait(std::span<const RefHandle> refs, std::size_t count, Timeout timeout, bool) {
  std::unique_lock lock(world().mutex);
  std::vector<bool> ready(refs.size());
  const auto enough = [&] {
    std::size_t found = 0;
    for (std::size_t i = 0; i < refs.size(); ++i) {
      ready[i] = refs[i].cell()->ready;
      found += ready[i];
    }
    return found >= count;
  };
  if (timeout) {
    world().changed.wait_for(lock, *timeout, enough);
  } else {
    world().changed.wait(lock, enough);
  }
  return ready;
}

CurrentState current_state() {
  CurrentState state;
  state.job = JobId{5};
  state.node = NodeId{current_node + 1};
  state.node_address = "10.0.0." + std::to_string(current_node + 1) + ":4000";
  return state;
}

std::vector<NodeInfo> list_nodes() {
  const std::lock_guard lock(world().mutex);
  std::vector<NodeInfo> nodes;
  for (const FakeNode& node : world().nodes) {
    NodeInfo info;
    info.id = NodeId{nodes.size() + 1};
    info.alive = node.alive;
    info.cpus = node.cpus;
    info.memory = std::uint64_t{1} << 30;
    nodes.push_back(std::move(info));
  }
  return nodes;
}

}  // namespace mobula::detail

namespace mobula::tune::testing {

using mobula::detail::world;

void start_cluster(std::size_t nodes, double cpus) {
  const std::lock_guard lock(world().mutex);
  world().nodes.assign(nodes, mobula::detail::FakeNode{cpus, 0, true, 0});
  world().unplaced.clear();
  world().made = 0;
  world().on_node_max = 0;
  world().refuse = false;
}

void kill_node(std::size_t node) {
  const std::lock_guard lock(world().mutex);
  world().nodes.at(node).alive = false;
  std::vector<std::shared_ptr<mobula::detail::FakeActor>> lost;
  for (const auto& [id, actor] : world().actors) {
    if (actor->placed && actor->node == node) lost.push_back(actor);
  }
  for (const auto& actor : lost) mobula::detail::end_actor(actor, "its node died");
}

std::size_t actors_alive() {
  const std::lock_guard lock(world().mutex);
  return world().actors.size();
}
std::size_t actors_made() {
  const std::lock_guard lock(world().mutex);
  return world().made;
}
std::size_t actors_on_node_max() {
  const std::lock_guard lock(world().mutex);
  return world().on_node_max;
}
void refuse_actors(bool on) {
  const std::lock_guard lock(world().mutex);
  world().refuse = on;
}

}  // namespace mobula::tune::testing
