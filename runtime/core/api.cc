// The functions of mobula/detail/core.h: what the header templates call.

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <mobula/detail/core.h>

#include "runtime/core/local_runtime.h"
#include "runtime/core/worker_hooks.h"
#include "runtime/process/libraries.h"

namespace mobula::detail {
namespace {

using core::LocalRuntime;
using core::WantMode;

Instant deadline_of(Timeout timeout) {
  return timeout ? monotonic_now() + std::max(Duration::zero(), *timeout) : Instant::never();
}

class HeapBuffer final : public PutBuffer {
 public:
  explicit HeapBuffer(std::size_t size) : bytes(size) {}
  std::span<std::byte> room() override { return bytes; }
  std::vector<std::byte> bytes;
};

class StoreBuffer final : public PutBuffer {
 public:
  StoreBuffer(std::shared_ptr<LocalRuntime> runtime, core::SlabRoom room, std::size_t size)
      : runtime_(std::move(runtime)), room_(std::move(room)), size_(size) {}
  ~StoreBuffer() override {
    if (!sealed_) runtime_->pages().give_back(room_);
  }
  std::span<std::byte> room() override { return {room_.data, size_}; }
  RefHandle seal(const std::vector<RefHandle>& refs) {
    sealed_ = true;
    return runtime_->put_stored(room_, size_, refs);
  }

 private:
  std::shared_ptr<LocalRuntime> runtime_;
  core::SlabRoom room_;
  std::size_t size_;
  bool sealed_ = false;
};

[[noreturn]] void throw_timeout(std::size_t missing, std::size_t all) {
  throw_error(
      make_error(ErrorKind::kTimeout, std::to_string(missing) + " of " + std::to_string(all) +
                                          " objects were not ready in time. `mobula explain` with the id of their "
                                          "task says what it waits for."));
}

void check_handle(const RefHandle& ref) {
  if (!ref) {
    throw_error(make_error(ErrorKind::kInvalid,
                           "an empty ObjectRef was passed: one that was default-constructed, moved from or reset"));
  }
}

void check_refs(std::span<const RefHandle> refs) {
  for (const RefHandle& ref : refs) check_handle(ref);
}

}  // namespace

// ---- handles
// ---------------------------------------------------------------------------------------------------------------

RefHandle RefHandle::acquire(const ObjectLocator& locator) {
  return LocalRuntime::require()->refs().acquire(locator);
}

RefHandle::~RefHandle() {
  if (cell_ != nullptr) cell_->table->release(cell_);
}

RefHandle::RefHandle(const RefHandle& other) : cell_(other.cell_) {
  if (cell_ != nullptr) cell_->count.fetch_add(1, std::memory_order_relaxed);
}

RefHandle::RefHandle(RefHandle&& other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}

RefHandle& RefHandle::operator=(const RefHandle& other) {
  if (this != &other) *this = RefHandle(other);
  return *this;
}

RefHandle& RefHandle::operator=(RefHandle&& other) noexcept {
  if (this != &other) {
    Cell* before = std::exchange(cell_, std::exchange(other.cell_, nullptr));
    if (before != nullptr) before->table->release(before);
  }
  return *this;
}

const ObjectLocator& RefHandle::locator() const {
  return cell_->locator;
}

ObjectId RefHandle::id() const {
  return cell_ == nullptr ? ObjectId{} : cell_->locator.id;
}

// ---- calls
// -----------------------------------------------------------------------------------------------------------------

std::vector<RefHandle> submit_task(const FunctionRecord& function, std::vector<CallArgument> arguments,
                                   std::uint32_t returns, const CallOptions& options) {
  return LocalRuntime::require()->submit(function, std::move(arguments), returns, options);
}

std::shared_ptr<const ActorState> create_actor(const FunctionRecord& constructor, std::vector<CallArgument> arguments,
                                               const CallOptions& options) {
  return LocalRuntime::require()->create_actor(core::key_of(constructor), constructor.display, constructor.fingerprint,
                                               std::move(arguments), options);
}

std::shared_ptr<const ActorState> find_actor(const std::string& name, const std::string& name_space,
                                             const char* class_name) {
  const ActorInfo info = LocalRuntime::require()->find_actor(name, name_space);
  // Methods are compared one by one when they are called; a handle of another class is caught here.
  if (class_name != nullptr && class_name[0] != '\0' && !info.display.empty() &&
      core::class_of(info.display) != core::class_of(class_name)) {
    throw_error(make_error(ErrorKind::kSignatureMismatch,
                           "the actor named " + name + " is a " + info.display + ", not a " + class_name));
  }
  auto state = std::make_shared<ActorState>();
  state->id = info.actor;
  state->job = info.job;
  state->display = info.display;
  return state;
}

std::shared_ptr<const ActorState> adopt_actor(ActorState state) {
  return std::make_shared<const ActorState>(std::move(state));
}

std::vector<RefHandle> submit_call(const ActorState& actor, const FunctionRecord& method,
                                   std::vector<CallArgument> arguments, std::uint32_t returns,
                                   const CallOptions& options) {
  return LocalRuntime::require()->submit_call(actor, method, std::move(arguments), returns, options);
}

void kill_actor(const ActorState& actor, bool no_restart) {
  LocalRuntime::require()->end_actor(actor.id, no_restart);
}

void cancel(const RefHandle& ref, bool force, bool recursive) {
  check_handle(ref);
  LocalRuntime::require()->cancel(ref.id(), force, recursive);
}

// ---- objects
// ---------------------------------------------------------------------------------------------------------------

std::unique_ptr<PutBuffer> begin_put(std::size_t size) {
  auto runtime = LocalRuntime::require();
  if (size <= kInlineMax) return std::make_unique<HeapBuffer>(size);
  auto room = runtime->pages().allocate(size);
  if (!room) throw_error(room.error());
  return std::make_unique<StoreBuffer>(std::move(runtime), *std::move(room), size);
}

RefHandle finish_put(std::unique_ptr<PutBuffer> buffer, std::vector<RefHandle> refs) {
  if (auto* heap = dynamic_cast<HeapBuffer*>(buffer.get())) {
    return LocalRuntime::require()->put_inline(std::move(heap->bytes), refs);
  }
  return dynamic_cast<StoreBuffer&>(*buffer).seal(refs);
}

std::vector<Outcome> get(std::span<const RefHandle> refs, Timeout timeout) {
  check_refs(refs);
  auto runtime = LocalRuntime::require();
  runtime->await(refs, refs.size(), WantMode::kValue, deadline_of(timeout));
  std::vector<Outcome> outcomes(refs.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const auto& cell = *refs[i].cell();
    if (!cell.readable.load(std::memory_order_acquire)) {
      outcomes[i].error = make_error(ErrorKind::kTimeout, "it was not ready in time");
      continue;
    }
    const auto value = cell.value.load();
    if (value->error) {
      outcomes[i].error = value->error;
    } else {
      outcomes[i].payload = runtime->payload_of(*value);
    }
  }
  return outcomes;
}

InPayload get_one(const RefHandle& ref, Timeout timeout) {
  check_handle(ref);
  auto runtime = LocalRuntime::require();
  const auto& cell = *ref.cell();
  if (!cell.readable.load(std::memory_order_acquire) &&
      !runtime->await({&ref, 1}, 1, WantMode::kValue, deadline_of(timeout))) {
    throw_timeout(1, 1);
  }
  const auto value = cell.value.load();
  if (value->error) throw_error(*value->error);
  return runtime->payload_of(*value);
}

std::vector<bool> wait(std::span<const RefHandle> refs, std::size_t count, Timeout timeout, bool fetch) {
  check_refs(refs);
  auto runtime = LocalRuntime::require();
  runtime->await(refs, std::min(count, refs.size()), fetch ? WantMode::kBring : WantMode::kReady, deadline_of(timeout));
  std::vector<bool> ready(refs.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    ready[i] = (fetch ? refs[i].cell()->here : refs[i].cell()->ready).load(std::memory_order_acquire);
  }
  return ready;
}

// ---- the process
// -----------------------------------------------------------------------------------------------------------

bool running() noexcept {
  return LocalRuntime::current() != nullptr;
}

CurrentState current_state() {
  auto runtime = LocalRuntime::require();
  CurrentState state;
  state.job = runtime->context().self.job;
  state.node = runtime->context().self.node;
  state.process = runtime->context().self.process;
  state.node_address = runtime->context().node_address;
  const core::RunningCall* running = LocalRuntime::running_call();
  if (running == nullptr) return state;
  const core::Execute& execute = *running->execute;
  state.job = execute.caller.job;
  state.task = execute.task;
  state.actor = execute.actor;
  state.attempt = execute.attempt;
  state.task_name = execute.spec->name;
  state.cancelled = running->cancelled.load();
  state.restarted = execute.incarnation > 1;
  if (execute.allocation) {
    const Allocation& held = *execute.allocation;
    state.cpus = held.cpus.to_double();
    state.memory = held.memory;
    for (const auto& [name, quantity] : held.custom) state.custom.emplace_back(name, quantity.to_double());
    for (const DeviceGrant& device : held.devices) {
      state.devices.push_back({device.uuid, device.share.to_double(), device.memory});
    }
  }
  return state;
}

std::vector<NodeInfo> list_nodes() {
  Query query;
  query.kind = QueryKind::kNodes;
  QueryReply reply = LocalRuntime::require()->ask(std::move(query), std::chrono::seconds(10));
  if (reply.error) throw_error(*std::move(reply.error));
  const auto column = [&](const char* name) {
    const auto found = std::find(reply.columns.begin(), reply.columns.end(), name);
    return static_cast<std::size_t>(found - reply.columns.begin());
  };
  const auto cell = [](const std::vector<std::string>& row, std::size_t index) {
    return index < row.size() ? row[index] : std::string();
  };
  const auto number = [](const std::string& text) { return text.empty() ? 0.0 : std::strtod(text.c_str(), nullptr); };
  std::vector<NodeInfo> nodes;
  for (const auto& row : reply.rows) {
    NodeInfo node;
    parse_id(cell(row, column("node")), node.id);
    node.address = cell(row, column("endpoint"));
    node.alive = cell(row, column("state")) == "alive";
    node.cpus = number(cell(row, column("cpus_total")));
    node.cpus_free = number(cell(row, column("cpus_free")));
    node.memory = static_cast<std::uint64_t>(number(cell(row, column("memory_total"))));
    node.gpus = number(cell(row, column("gpus_total")));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// Workers load it with the libraries that came with it, those first.
void load_library(const std::string& path) {
  auto runtime = LocalRuntime::require();
  char* full = ::realpath(path.c_str(), nullptr);
  const std::string absolute = full == nullptr ? path : full;
  std::free(full);  // NOLINT(cppcoreguidelines-no-malloc): its contract
  const std::vector<process::Library> before = process::libraries_to_ship();
  if (::dlopen(absolute.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
    throw_error(
        make_error(ErrorKind::kInvalid, "cannot load " + path + ": " + (why == nullptr ? "unknown error" : why)));
  }
  const std::vector<process::Library> after = process::libraries_to_ship();
  std::vector<std::string> lines;
  for (auto library = after.rbegin(); library != after.rend(); ++library) {
    const bool fresh = std::find(before.begin(), before.end(), *library) == before.end();
    if (fresh || library->path == absolute) lines.push_back(process::to_line(*library));
  }
  runtime->add_libraries(lines);
}

void on_worker_start(void (*function)()) {
  core::add_worker_hook(function);
}

}  // namespace mobula::detail
