// The caller's side of LocalRuntime: submitting, waiting, reading.

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/core/local_runtime.h"
#include "runtime/process/libraries.h"

namespace mobula::core {
namespace {

constexpr std::size_t kScanMax = 16;  // missing references looked at before a wait for all of them gives up for now

Quantity quantity_or_throw(double value, const char* what) {
  const auto quantity = Quantity::from_double(value);
  if (!quantity) {
    throw_error(make_error(ErrorKind::kInvalid, std::string("a call cannot ask for ") + std::to_string(value) + " " +
                                                    what + ": give a number from 0 up, in steps of 0.0001"));
  }
  return *quantity;
}

ResourceRequest request_of(const detail::Resources& from, double default_cpus) {
  ResourceRequest request;
  request.cpus = quantity_or_throw(from.cpus.value_or(default_cpus), "CPUs");
  request.gpus = quantity_or_throw(from.gpus, "GPUs");
  if (request.gpus > Quantity::whole(1) && request.gpus.units % Quantity::kOne != 0) {
    throw_error(make_error(ErrorKind::kInvalid,
                           "more than one GPU must be a whole number of devices, not " + to_string(request.gpus)));
  }
  request.gpu_memory = from.gpu_memory;
  request.memory = from.memory;
  request.store_memory = from.object_store_memory;
  for (const auto& [name, value] : from.custom) {
    if (const Quantity quantity = quantity_or_throw(value, name.c_str()); quantity.units > 0) {
      request.custom.emplace_back(name, quantity);
    }
  }
  std::sort(request.custom.begin(), request.custom.end());
  request.labels.assign(from.labels.begin(), from.labels.end());
  std::sort(request.labels.begin(), request.labels.end());
  return request;
}

std::vector<ObjectLocator> locators_of(const std::vector<detail::RefHandle>& refs) {
  std::vector<ObjectLocator> locators;
  locators.reserve(refs.size());
  for (const detail::RefHandle& ref : refs) locators.push_back(ref.locator());
  return locators;
}

}  // namespace

ObjectId LocalRuntime::new_object() {
  return {context().self.process.value, next_object_.fetch_add(1)};
}

void LocalRuntime::set_runtime_key(RuntimeKey key) {
  const std::lock_guard lock(specs_mutex_);
  runtime_key_ = std::move(key);
  plain_tasks_.clear();
}

void LocalRuntime::add_libraries(const std::vector<std::string>& lines) {
  const std::lock_guard lock(specs_mutex_);
  plain_tasks_.clear();
  std::map<std::string, std::string> environment(runtime_key_.environment.begin(), runtime_key_.environment.end());
  std::string& all = environment[process::kLibrariesVariable];
  for (const std::string& line : lines) {
    if (("\n" + all).find("\n" + line + "\n") == std::string::npos) all += line + "\n";
  }
  runtime_key_.environment.assign(environment.begin(), environment.end());
}

SpecRef LocalRuntime::intern(CallSpec spec) {
  const std::lock_guard lock(specs_mutex_);
  const auto found = specs_.find(spec);
  if (found != specs_.end()) return found->second;
  SpecRef ref;
  ref.number = static_cast<std::uint32_t>(specs_.size() + 1);
  ref.spec = std::make_shared<const CallSpec>(spec);
  specs_.emplace(std::move(spec), ref);
  return ref;
}

SpecRef LocalRuntime::spec_of(const detail::FunctionRecord& function, const detail::CallOptions& options,
                              bool actor_call) {
  static const detail::CallOptions kPlain;
  const bool plain = options == kPlain;
  auto& known = actor_call ? plain_methods_ : plain_tasks_;
  if (plain) {
    const std::lock_guard lock(specs_mutex_);
    if (const auto found = known.find(&function); found != known.end()) return found->second;
  }
  SpecRef ref =
      intern(make_spec(key_of(function), options.name.empty() ? function.display : options.name, options, actor_call));
  if (plain) {
    const std::lock_guard lock(specs_mutex_);
    known.emplace(&function, ref);
  }
  return ref;
}

CallSpec LocalRuntime::make_spec(const FunctionKey& function, const std::string& display,
                                 const detail::CallOptions& options, bool actor_call) const {
  CallSpec spec;
  spec.job = context().self.job;
  spec.function = function;
  spec.name = display;
  if (!actor_call) {
    spec.resources = request_of(options.resources, 1);
    {
      const std::lock_guard lock(specs_mutex_);
      spec.runtime = runtime_key_;
    }
    for (const auto& [name, value] : options.environment) {
      std::erase_if(spec.runtime.environment, [&](const auto& entry) { return entry.first == name; });
      spec.runtime.environment.emplace_back(name, value);
    }
    std::sort(spec.runtime.environment.begin(), spec.runtime.environment.end());
  }
  spec.max_retries = options.max_retries;
  spec.retry_exceptions = options.retry_exceptions;
  return spec;
}

InlineValue LocalRuntime::inline_of(detail::OutPayload& payload) {
  return {Bytes::adopt(std::move(payload.bytes)), locators_of(payload.refs)};
}

// Large values become objects of their own. `keep` holds references until the engine has the call.
std::vector<ArgumentIn> LocalRuntime::take_arguments(std::vector<detail::CallArgument>& arguments,
                                                     std::vector<detail::RefHandle>& keep) {
  std::vector<ArgumentIn> taken;
  taken.reserve(arguments.size());
  for (detail::CallArgument& argument : arguments) {
    if (argument.ref) {
      taken.emplace_back(argument.ref.locator());
      keep.push_back(std::move(argument.ref));
    } else if (argument.value.bytes.size() > kInlineMax) {
      auto room = pages_.allocate(argument.value.bytes.size());
      if (!room) throw_error(room.error());
      std::memcpy(room->data, argument.value.bytes.data(), argument.value.bytes.size());
      detail::RefHandle stored = put_stored(*room, argument.value.bytes.size(), argument.value.refs);
      taken.emplace_back(stored.locator());
      keep.push_back(std::move(stored));
    } else {
      taken.emplace_back(inline_of(argument.value));
      for (detail::RefHandle& ref : argument.value.refs) keep.push_back(std::move(ref));
    }
  }
  return taken;
}

void LocalRuntime::wait_for_room(bool fail) {
  if (queued_bytes_.load(std::memory_order_relaxed) <= config_.queue_bytes_max) return;
  if (fail) {
    throw_error(make_error(ErrorKind::kOverloaded,
                           std::to_string(queued_bytes_.load()) +
                               " bytes of calls wait already, more than the bound of " +
                               std::to_string(config_.queue_bytes_max) +
                               ". Wait for results before submitting more, or raise InitOptions::queue_bytes."));
  }
  pump(Flush::kNow);
  loop_.run_until([this] { return queued_bytes_.load() <= config_.queue_bytes_max || stopping_; });
}

std::vector<detail::RefHandle> LocalRuntime::make_returns(ObjectId& first, std::uint32_t returns) {
  first = {context().self.process.value, next_object_.fetch_add(std::max(1U, returns))};
  std::vector<detail::RefHandle> handles;
  handles.reserve(returns);
  for (std::uint32_t i = 0; i < returns; ++i) {
    handles.push_back(refs_->create({return_id(first, i), context().self.node, context().self.job}));
  }
  return handles;
}

std::vector<detail::RefHandle> LocalRuntime::submit(const detail::FunctionRecord& function,
                                                    std::vector<detail::CallArgument> arguments, std::uint32_t returns,
                                                    const detail::CallOptions& options) {
  wait_for_room(options.fail_when_overloaded);
  std::vector<detail::RefHandle> keep;
  SubmitTask event;
  event.spec = spec_of(function, options, false);
  event.arguments = take_arguments(arguments, keep);
  event.returns = returns;
  auto handles = make_returns(event.first_return, returns);
  event.task = {context().self.process.value, next_task_.fetch_add(1)};
  if (const RunningCall* running = running_call()) event.parent = running->execute->task;
  post_call(std::move(event));
  return handles;
}

std::vector<detail::RefHandle> LocalRuntime::submit_call(const detail::ActorState& actor,
                                                         const detail::FunctionRecord& method,
                                                         std::vector<detail::CallArgument> arguments,
                                                         std::uint32_t returns, const detail::CallOptions& options) {
  wait_for_room(options.fail_when_overloaded);
  std::vector<detail::RefHandle> keep;
  SubmitActorCall event;
  event.actor = actor.id;
  event.spec = spec_of(method, options, true);
  event.arguments = take_arguments(arguments, keep);
  event.returns = returns;
  auto handles = make_returns(event.first_return, returns);
  if (actor.self) event.self = actor.self.locator();
  event.task = {context().self.process.value, next_task_.fetch_add(1)};
  if (const RunningCall* running = running_call()) event.parent = running->execute->task;
  post_call(std::move(event));
  return handles;
}

std::shared_ptr<const detail::ActorState> LocalRuntime::create_actor(const FunctionKey& constructor,
                                                                     const std::string& display,
                                                                     std::uint64_t class_fingerprint,
                                                                     std::vector<detail::CallArgument> arguments,
                                                                     const detail::CallOptions& options) {
  std::vector<detail::RefHandle> keep;
  SubmitActor event;
  event.request = {context().self.process.value, next_request_.fetch_add(1)};
  ActorSpec& spec = event.spec;
  spec.actor = {context().self.process.value, next_actor_.fetch_add(1)};
  spec.owner = context().self;
  spec.constructor = make_spec(constructor, display, options, false);
  // One CPU to be placed and none while it lives, unless told otherwise.
  spec.placement = spec.constructor.resources;
  if (!options.resources.cpus) spec.constructor.resources.cpus = {};
  spec.name = options.name;
  spec.name_space = options.name_space.empty() ? config_.name_space : options.name_space;
  spec.detached = options.detached;
  spec.get_if_exists = options.get_if_exists;
  spec.max_restarts = options.max_restarts;
  spec.max_task_retries = options.max_task_retries;
  spec.max_concurrency = std::max(1U, options.max_concurrency);
  spec.class_fingerprint = class_fingerprint;
  event.arguments = take_arguments(arguments, keep);
  event.handle = new_object();
  const ObjectLocator self{event.handle, context().self.node, context().self.job};
  auto state = std::make_shared<detail::ActorState>();
  state->id = spec.actor;
  state->job = context().self.job;
  state->display = display;
  state->self = refs_->create_ready(self, {});
  const RequestId request = event.request;
  const bool named = !options.name.empty();
  post(std::move(event));
  pump(Flush::kNow);
  // Only what can be refused is waited for: a name may be taken, or belong to an actor that is wanted instead.
  if (named) {
    const ActorInfo info = await_answer(request);
    if (info.actor != state->id) {
      state->id = info.actor;
      state->job = info.job;
      state->self = {};
    }
  } else {
    forget_answer(request);
  }
  return state;
}

ActorInfo LocalRuntime::find_actor(const std::string& name, const std::string& name_space) {
  const RequestId request{context().self.process.value, next_request_.fetch_add(1)};
  post(LookUpActor{request, name, name_space.empty() ? config_.name_space : name_space});
  pump(Flush::kNow);
  return await_answer(request);
}

ActorInfo LocalRuntime::await_answer(RequestId request) {
  std::optional<std::variant<ActorInfo, ErrorInfo>> answer;
  const bool blocked = begin_blocking();
  loop_.run_until([&] {
    const std::lock_guard lock(answers_mutex_);
    const auto found = actor_answers_.find(request);
    if (found != actor_answers_.end()) {
      answer = std::move(found->second);
      actor_answers_.erase(found);
    }
    return answer.has_value() || stopping_;
  });
  if (blocked) end_blocking();
  if (!answer) throw_error(make_error(ErrorKind::kRuntimeStopped, "the runtime has ended"));
  if (auto* error = std::get_if<ErrorInfo>(&*answer)) throw_error(std::move(*error));
  return std::get<ActorInfo>(std::move(*answer));
}

void LocalRuntime::forget_answer(RequestId request) {
  const std::lock_guard lock(answers_mutex_);
  if (actor_answers_.erase(request) == 0) unwanted_answers_.insert(request);
}

void LocalRuntime::end_actor(ActorId actor, bool no_restart) {
  post(EndActor{actor, no_restart});
  pump(Flush::kNow);
}

void LocalRuntime::cancel(ObjectId object, bool force, bool recursive) {
  post(Cancel{{}, object, force, recursive});
  pump(Flush::kNow);
}

detail::RefHandle LocalRuntime::put_inline(std::vector<std::byte> bytes, const std::vector<detail::RefHandle>& refs) {
  const ObjectLocator locator{new_object(), context().self.node, context().self.job};
  InlineValue value{Bytes::adopt(std::move(bytes)), locators_of(refs)};
  CellValue ready;
  ready.bytes = value.bytes;
  ready.refs = value.refs;
  ready.readable = true;
  detail::RefHandle handle = refs_->create_ready(locator, std::move(ready));
  post(PutInline{locator.id, std::move(value)});
  pump(Flush::kSoon);
  return handle;
}

detail::RefHandle LocalRuntime::put_stored(const SlabRoom& room, std::uint64_t size,
                                           const std::vector<detail::RefHandle>& refs) {
  const ObjectLocator locator{new_object(), context().self.node, context().self.job};
  pages_.seal(room, locator.id, context().self.job, size);
  CellValue ready;
  ready.here = true;
  detail::RefHandle handle = refs_->create_ready(locator, std::move(ready));
  post(PutStored{locator.id, size, locators_of(refs)});
  pump(Flush::kSoon);
  return handle;
}

// ---- waiting
// -----------------------------------------------------------------------------------------------------------------

bool LocalRuntime::begin_blocking() {
  if (running_call() == nullptr) return false;
  post(ThreadBlocked{});
  pump(Flush::kNow);
  return true;
}

void LocalRuntime::end_blocking() {
  post(ThreadUnblocked{});
  pump(Flush::kSoon);
}

bool LocalRuntime::await(std::span<const detail::RefHandle> refs, std::size_t count, WantMode mode, Instant deadline) {
  const auto satisfied = [mode](const Cell& cell) {
    const std::atomic<bool>& flag = mode == WantMode::kValue   ? cell.readable
                                    : mode == WantMode::kBring ? cell.here
                                                               : cell.ready;
    return flag.load(std::memory_order_acquire);
  };
  std::size_t ready = 0;
  std::vector<std::uint32_t> missing;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    if (satisfied(*refs[i].cell())) {
      ++ready;
    } else {
      missing.push_back(static_cast<std::uint32_t>(i));
    }
  }
  if (ready >= count) return true;
  std::vector<bool> wanted(refs.size(), false);
  const std::uint64_t self = context().self.process.value;
  const RunningCall* running = running_call();
  bool blocked = false;
  bool told = false;
  // Own results come by themselves; what others own, and what lies in the store, must be asked for, once.
  const auto done = [&] {
    bool asked = false;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      const std::uint32_t index = missing[i];
      const Cell& cell = *refs[index].cell();
      if (satisfied(cell)) {
        ++ready;
        continue;
      }
      missing[kept++] = index;
      if (!wanted[index] && (cell.locator.id.maker != self || cell.ready.load(std::memory_order_acquire))) {
        wanted[index] = true;
        post(Want{cell.locator, mode});
        asked = true;
      }
      // All are needed and many of the first are missing: the rest can wait for the next look.
      if (told && !asked && kept > kScanMax && count == refs.size()) {
        const auto rest = missing.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        const auto end = std::move(rest, missing.end(), missing.begin() + static_cast<std::ptrdiff_t>(kept));
        kept = static_cast<std::size_t>(end - missing.begin());
        break;
      }
    }
    missing.resize(kept);
    if (asked || !told) pump(Flush::kNow);
    told = true;
    return ready >= count || stopping_ || (running != nullptr && running->cancelled.load());
  };
  if (!done()) {
    blocked = begin_blocking();
    loop_.run_until(done, deadline);
  }
  if (blocked) end_blocking();
  if (ready >= count) return true;
  for (const std::uint32_t index : missing) {
    if (wanted[index]) post(Unwant{refs[index].id()});
  }
  pump(Flush::kSoon);
  if (running != nullptr && running->cancelled.load()) {
    throw_error(make_error(ErrorKind::kCancelled, "this task was cancelled while it waited"));
  }
  if (stopping_) throw_error(make_error(ErrorKind::kRuntimeStopped, "the runtime has ended"));
  return false;
}

detail::InPayload LocalRuntime::payload_of(const CellValue& value) {
  detail::InPayload payload;
  payload.owner = value.bytes.owner();
  payload.data = value.bytes.data();
  payload.size = value.bytes.size();
  payload.refs.reserve(value.refs.size());
  for (const ObjectLocator& locator : value.refs) payload.refs.push_back(refs_->acquire(locator));
  return payload;
}

}  // namespace mobula::core
