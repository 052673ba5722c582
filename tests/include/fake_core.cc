// A stand-in for libmobula.so: the functions of mobula/detail/core.h in one thread of one process, so that all of the
// public headers is tested with real encoding and real invokers, and without a cluster. Tasks run when they are
// submitted, or in order at fake::run().
#include "tests/include/fake_core.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <new>
#include <stdexcept>
#include <typeinfo>
#include <utility>

namespace mobula::detail {

struct RefHandle::Cell {
  ObjectLocator locator;
  std::size_t count = 0;
  bool ready = false;
  std::optional<ErrorInfo> error;
  std::shared_ptr<std::byte> memory;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  std::vector<RefHandle> refs;
};

namespace {

struct FakeActor {
  ActorState state;
  std::shared_ptr<void> instance;
  std::optional<ErrorInfo> death;
  std::string name;
};

struct Job {
  const FunctionRecord* function = nullptr;
  std::vector<CallArgument> arguments;
  std::vector<RefHandle> results;
  std::shared_ptr<FakeActor> actor;
};

struct World {
  std::map<ObjectId, RefHandle::Cell*> cells;
  std::map<ActorId, std::shared_ptr<FakeActor>> actors;
  std::deque<Job> queue;
  std::vector<ObjectId> cancelled;
  CallOptions last_options;
  const FunctionRecord* last_function = nullptr;
  std::uint64_t sequence = 0;
  std::size_t puts = 0;
  std::size_t submitted = 0;
  bool held = false;
  bool misaligned = false;
  bool running = false;
};

World& world() {
  static World* instance = new World;  // outlives refs in static objects
  return *instance;
}

std::vector<const FunctionRecord*>& registry() {
  static auto* instance = new std::vector<const FunctionRecord*>;
  return *instance;
}

RefHandle new_object() {
  auto* cell = new RefHandle::Cell;
  cell->locator.id = ObjectId{7, ++world().sequence};
  cell->locator.owner_node = NodeId{3};
  cell->count = 1;
  world().cells[cell->locator.id] = cell;
  return RefHandle::from_counted(cell);
}

void store(RefHandle::Cell& cell, std::span<const std::byte> bytes, std::vector<RefHandle> refs) {
  const std::size_t shift = world().misaligned ? 1 : 0;
  auto* memory = static_cast<std::byte*>(::operator new(bytes.size() + 1, std::align_val_t(64)));
  cell.memory =
      std::shared_ptr<std::byte>(memory, [](std::byte* old) { ::operator delete(old, std::align_val_t(64)); });
  std::memcpy(memory + shift, bytes.data(), bytes.size());
  cell.data = memory + shift;
  cell.size = bytes.size();
  cell.refs = std::move(refs);
  cell.ready = true;
}

void fail(RefHandle::Cell& cell, ErrorInfo error) {
  if (cell.ready) return;
  cell.error = std::move(error);
  cell.ready = true;
}

InPayload payload_of(const RefHandle::Cell& cell) {
  return {cell.memory, cell.data, cell.size, cell.refs};
}

std::string type_of_current_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  int status = 0;
  char* demangled = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : type->name();
  std::free(demangled);
  return name;
}

class FakeInvocation final : public Invocation {
 public:
  explicit FakeInvocation(Job& job) : job_(job) {
    for (CallArgument& argument : job.arguments) {
      if (argument.ref) {
        arguments_.push_back(payload_of(*argument.ref.cell()));
      } else {
        temporaries_.push_back(new_object());
        store(*temporaries_.back().cell(), argument.value.bytes, std::move(argument.value.refs));
        arguments_.push_back(payload_of(*temporaries_.back().cell()));
      }
    }
    rooms_.resize(job.results.size());
  }
  std::size_t argument_count() const override { return arguments_.size(); }
  const InPayload& argument(std::size_t index) override { return arguments_.at(index); }
  std::size_t return_count() const override { return job_.results.size(); }
  std::span<std::byte> result_room(std::size_t index, std::size_t size) override {
    rooms_.at(index).resize(size);
    return rooms_[index];
  }
  void result_done(std::size_t index, std::vector<RefHandle> refs) override {
    store(*job_.results.at(index).cell(), rooms_.at(index), std::move(refs));
  }
  void* instance() override { return job_.actor == nullptr ? nullptr : job_.actor->instance.get(); }
  void set_instance(std::shared_ptr<void> instance) override { job_.actor->instance = std::move(instance); }

 private:
  Job& job_;
  std::vector<RefHandle> temporaries_;
  std::vector<InPayload> arguments_;
  std::vector<std::vector<std::byte>> rooms_;
};

void fail_all(Job& job, const ErrorInfo& error) {
  for (RefHandle& result : job.results) fail(*result.cell(), error);
  if (job.function->kind == FunctionKind::kConstructor) {
    job.actor->death = error;
    job.actor->death->kind = ErrorKind::kActorDied;
  }
}

void execute(Job& job) {
  for (const CallArgument& argument : job.arguments) {
    if (argument.ref && argument.ref.cell()->error) return fail_all(job, *argument.ref.cell()->error);
  }
  if (job.actor != nullptr && job.actor->death) return fail_all(job, *job.actor->death);
  ErrorInfo error;
  error.kind = ErrorKind::kTaskFailed;
  error.task = job.function->display;
  try {
    FakeInvocation invocation(job);
    job.function->invoker(invocation);
    return;
  } catch (const Error& thrown) {
    error.message = thrown.info().message;
    error.type = name_of(thrown.kind());
  } catch (const std::exception& thrown) {
    error.message = thrown.what();
    error.type = type_of_current_exception();
  } catch (...) {
    error.type = type_of_current_exception();
  }
  fail_all(job, error);
}

void submit(Job job, const CallOptions& options) {
  World& w = world();
  w.last_options = options;
  w.last_function = job.function;
  ++w.submitted;
  if (w.held) {
    w.queue.push_back(std::move(job));
  } else {
    execute(job);
  }
}

std::vector<RefHandle> new_objects(std::uint32_t count) {
  std::vector<RefHandle> objects;
  for (std::uint32_t i = 0; i < count; ++i) objects.push_back(new_object());
  return objects;
}

ErrorInfo timeout_error() {
  ErrorInfo error;
  error.kind = ErrorKind::kTimeout;
  error.message = "not ready in time";
  return error;
}

class FakePut final : public PutBuffer {
 public:
  explicit FakePut(std::size_t size) : bytes_(size) {}
  std::span<std::byte> room() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

RefHandle RefHandle::acquire(const ObjectLocator& locator) {
  Cell* cell = world().cells.at(locator.id);
  ++cell->count;
  return from_counted(cell);
}
RefHandle::~RefHandle() {
  if (cell_ == nullptr || --cell_->count != 0) return;
  world().cells.erase(cell_->locator.id);
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

void register_function(const FunctionRecord* record) noexcept {
  registry().push_back(record);
}

std::vector<RefHandle> submit_task(const FunctionRecord& function, std::vector<CallArgument> arguments,
                                   std::uint32_t returns, const CallOptions& options) {
  std::vector<RefHandle> results = new_objects(returns);
  submit(Job{&function, std::move(arguments), results, nullptr}, options);
  return results;
}

std::shared_ptr<const ActorState> create_actor(const FunctionRecord& constructor, std::vector<CallArgument> arguments,
                                               const CallOptions& options) {
  World& w = world();
  if (options.get_if_exists) {
    for (const auto& [id, actor] : w.actors) {
      if (!options.name.empty() && actor->name == options.name) return std::make_shared<ActorState>(actor->state);
    }
  }
  auto actor = std::make_shared<FakeActor>();
  actor->state.id = ActorId{7, ++w.sequence};
  actor->state.job = JobId{5};
  actor->state.display = constructor.display;
  actor->name = options.name;
  w.actors[actor->state.id] = actor;
  auto handle = std::make_shared<ActorState>(actor->state);
  handle->self = new_object();
  submit(Job{&constructor, std::move(arguments), {}, actor}, options);
  return handle;
}

std::shared_ptr<const ActorState> find_actor(const std::string& name, const std::string&, const char*) {
  for (const auto& [id, actor] : world().actors) {
    if (actor->name == name) return std::make_shared<ActorState>(actor->state);
  }
  ErrorInfo error;
  error.kind = ErrorKind::kActorDied;
  error.message = "there is no actor named '" + name + "'";
  throw_error(error);
}

std::shared_ptr<const ActorState> adopt_actor(ActorState state) {
  return std::make_shared<ActorState>(std::move(state));
}

std::vector<RefHandle> submit_call(const ActorState& actor, const FunctionRecord& method,
                                   std::vector<CallArgument> arguments, std::uint32_t returns,
                                   const CallOptions& options) {
  std::vector<RefHandle> results = new_objects(returns);
  submit(Job{&method, std::move(arguments), results, world().actors.at(actor.id)}, options);
  return results;
}

void kill_actor(const ActorState& actor, bool) {
  FakeActor& found = *world().actors.at(actor.id);
  found.death = ErrorInfo{};
  found.death->kind = ErrorKind::kActorDied;
  found.instance.reset();
}

void cancel(const RefHandle& ref, bool, bool) {
  world().cancelled.push_back(ref.id());
  ErrorInfo error;
  error.kind = ErrorKind::kCancelled;
  fail(*ref.cell(), error);
}

std::unique_ptr<PutBuffer> begin_put(std::size_t size) {
  return std::make_unique<FakePut>(size);
}
RefHandle finish_put(std::unique_ptr<PutBuffer> buffer, std::vector<RefHandle> refs) {
  ++world().puts;
  RefHandle object = new_object();
  store(*object.cell(), buffer->room(), std::move(refs));
  return object;
}

std::vector<Outcome> get(std::span<const RefHandle> refs, Timeout) {
  std::vector<Outcome> outcomes;
  for (const RefHandle& ref : refs) {
    Outcome& outcome = outcomes.emplace_back();
    if (!ref.cell()->ready)
      outcome.error = timeout_error();
    else if (ref.cell()->error)
      outcome.error = ref.cell()->error;
    else
      outcome.payload = payload_of(*ref.cell());
  }
  return outcomes;
}

InPayload get_one(const RefHandle& ref, Timeout timeout) {
  Outcome outcome = std::move(get(std::span(&ref, 1), timeout).front());
  if (outcome.error) throw_error(*outcome.error);
  return std::move(outcome.payload);
}

std::vector<bool> wait(std::span<const RefHandle> refs, std::size_t, Timeout, bool) {
  std::vector<bool> ready;
  for (const RefHandle& ref : refs) ready.push_back(ref.cell()->ready);
  return ready;
}

void start(int, char**, const InitOptions&) {
  if (world().running) throw_error(ErrorInfo{ErrorKind::kInvalid, "a Runtime exists already", {}, {}, {}, 0, 0, 0, {}});
  world().running = true;
}
void stop() noexcept {
  world().running = false;
}
bool running() noexcept {
  return world().running;
}

CurrentState current_state() {
  CurrentState state;
  state.job = JobId{5};
  state.node = NodeId{3};
  return state;
}
std::vector<NodeInfo> list_nodes() {
  return {NodeInfo{}};
}
void on_worker_start(void (*)()) {}
void load_library(const std::string&) {}

}  // namespace mobula::detail

namespace fake {

using mobula::detail::RefHandle;
using mobula::detail::world;

void reset() {
  auto& w = world();
  w.queue.clear();
  w.actors.clear();
  w.cancelled.clear();
  w.puts = 0;
  w.submitted = 0;
  w.held = false;
  w.misaligned = false;
  w.running = false;
}
void hold() {
  world().held = true;
}
void run() {
  world().held = false;
  while (!world().queue.empty()) {
    auto job = std::move(world().queue.front());
    world().queue.pop_front();
    mobula::detail::execute(job);
  }
}
void deliver_misaligned(bool on) {
  world().misaligned = on;
}
std::size_t live_objects() {
  return world().cells.size();
}
std::size_t puts() {
  return world().puts;
}
std::size_t submitted() {
  return world().submitted;
}
std::vector<mobula::ObjectId> cancelled() {
  return world().cancelled;
}
const mobula::detail::CallOptions& last_options() {
  return world().last_options;
}
const mobula::detail::FunctionRecord* last_function() {
  return world().last_function;
}
std::span<const mobula::detail::FunctionRecord* const> functions() {
  return mobula::detail::registry();
}
std::vector<std::byte> bytes_of(const RefHandle& ref) {
  return {ref.cell()->data, ref.cell()->data + ref.cell()->size};
}
RefHandle object_of(std::vector<std::byte> bytes, std::vector<RefHandle> refs) {
  RefHandle object = mobula::detail::new_object();
  mobula::detail::store(*object.cell(), bytes, std::move(refs));
  return object;
}
RefHandle error_of(mobula::ErrorInfo error) {
  RefHandle object = mobula::detail::new_object();
  mobula::detail::fail(*object.cell(), std::move(error));
  return object;
}

}  // namespace fake
