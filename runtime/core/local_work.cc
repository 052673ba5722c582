// The worker's side of LocalRuntime: running calls on threads of user code.

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include "runtime/core/local_runtime.h"

namespace mobula::core {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);  // NOLINT(cppcoreguidelines-no-malloc): its contract
  return result;
}

// Everything the invoker of one call sees.
class LocalInvocation final : public detail::Invocation {
 public:
  LocalInvocation(LocalRuntime& runtime, std::vector<detail::InPayload> arguments, ObjectId first_return,
                  std::size_t returns, JobId owner_job, void* instance)
      : runtime_(runtime), arguments_(std::move(arguments)), results_(returns), first_return_(first_return),
        owner_job_(owner_job), instance_(instance) {}

  ~LocalInvocation() override {
    for (Pending& pending : results_) {
      if (pending.room && !pending.done) runtime_.pages().give_back(*pending.room);
    }
  }

  std::size_t argument_count() const override { return arguments_.size(); }
  const detail::InPayload& argument(std::size_t index) override { return arguments_.at(index); }
  std::size_t return_count() const override { return results_.size(); }

  std::span<std::byte> result_room(std::size_t index, std::size_t size) override {
    Pending& pending = results_.at(index);
    if (size <= kInlineMax) {
      pending.bytes.resize(size);
      return pending.bytes;
    }
    auto room = runtime_.pages().allocate(size);
    if (!room) throw_error(room.error());
    pending.room = *std::move(room);
    return {pending.room->data, size};
  }

  void result_done(std::size_t index, std::vector<detail::RefHandle> refs) override {
    Pending& pending = results_.at(index);
    std::vector<ObjectLocator> locators;
    locators.reserve(refs.size());
    for (const detail::RefHandle& ref : refs) locators.push_back(ref.locator());
    for (detail::RefHandle& ref : refs) kept_.push_back(std::move(ref));
    if (pending.room) {
      const ObjectId id = return_id(first_return_, static_cast<std::uint32_t>(index));
      runtime_.pages().seal(*pending.room, id, owner_job_, pending.room->size);
      pending.result = StoredResult{pending.room->size, std::move(locators)};
    } else {
      pending.result = InlineValue{Bytes::adopt(std::move(pending.bytes)), std::move(locators)};
    }
    pending.done = true;
  }

  void* instance() override { return instance_; }
  void set_instance(std::shared_ptr<void> instance) override { made_ = std::move(instance); }

  void drop_arguments() { arguments_.clear(); }
  std::shared_ptr<void> take_instance() { return std::move(made_); }
  // A void result is an empty value.
  std::vector<ResultIn> take_results() {
    std::vector<ResultIn> results;
    results.reserve(results_.size());
    for (Pending& pending : results_) {
      results.push_back(pending.done ? std::move(pending.result) : ResultIn{InlineValue{}});
    }
    return results;
  }
  std::vector<detail::RefHandle> take_kept() { return std::move(kept_); }

 private:
  struct Pending {
    std::vector<std::byte> bytes;
    std::optional<SlabRoom> room;
    ResultIn result;
    bool done = false;
  };
  LocalRuntime& runtime_;
  std::vector<detail::InPayload> arguments_;
  std::vector<Pending> results_;
  std::vector<detail::RefHandle> kept_;  // references in results, until the engine has them
  ObjectId first_return_;
  JobId owner_job_;
  void* instance_;
  std::shared_ptr<void> made_;
};

void flush_output() {
  std::cout.flush();
  std::fflush(stdout);
  std::fflush(stderr);
}

ErrorInfo user_error(std::string type, std::string message) {
  ErrorInfo error = make_error(ErrorKind::kTaskFailed, std::move(message));
  error.type = std::move(type);
  return error;
}

// Runs the invoker; what user code throws becomes data.
std::optional<ErrorInfo> invoke(detail::Invoker invoker, detail::Invocation& invocation, bool& cancelled) {
  try {
    invoker(invocation);
    return std::nullopt;
  } catch (const Error& error) {
    cancelled = error.kind() == ErrorKind::kCancelled;
    if (error.kind() == ErrorKind::kSignatureMismatch || error.kind() == ErrorKind::kStoreFull) return error.info();
    return user_error(std::string("mobula::") + name_of(error.kind()), error.what());
  } catch (const std::exception& error) {
    return user_error(demangled(typeid(error).name()), error.what());
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    return user_error(type == nullptr ? "unknown" : demangled(type->name()), "an exception that is no std::exception");
  }
}

}  // namespace

int LocalRuntime::work() {
  worker_thread();
  {
    const std::lock_guard lock(work_mutex_);
    if (!exit_ && fatal_) return 0;
  }
  flush_output();
  stop();
  return 0;
}

void LocalRuntime::worker_thread() {
  for (;;) {
    loop_.run_until([this] { return work_size_.load(std::memory_order_acquire) > 0 || leaving_.load() || stopping_; });
    std::optional<Execute> next;
    {
      const std::lock_guard lock(work_mutex_);
      if (!work_.empty()) {
        next = std::move(work_.front());
        work_.pop_front();
        work_size_.store(work_.size(), std::memory_order_release);
      } else if (leaving_ || stopping_) {
        return;
      }
    }
    if (next) run_one(*std::move(next));
  }
}

void LocalRuntime::start_threads(std::uint32_t count) {
  // The first thread runs calls too.
  while (threads_.size() + 1 < count) {
    threads_.emplace_back([this] { worker_thread(); });
  }
}

void LocalRuntime::run_one(Execute execute) {
  RunningCall running;
  running.execute = &execute;
  void* instance = nullptr;
  {
    const std::lock_guard lock(work_mutex_);
    if (!execute.constructor) running_[execute.task] = &running;
    if (const auto found = instances_.find(execute.actor); found != instances_.end()) instance = found->second.get();
  }
  if (execute.constructor) start_threads(execute.max_concurrency);
  set_running_call(&running);
  const Instant started = monotonic_now();
  CallFinished finished;
  finished.task = execute.task;
  finished.attempt = execute.attempt;
  if (execute.constructor) finished.actor = execute.actor;

  std::vector<detail::InPayload> arguments;
  arguments.reserve(execute.arguments.size());
  for (ArgumentOut& argument : execute.arguments) {
    CellValue value;
    if (auto* inlined = std::get_if<InlineValue>(&argument)) {
      value.bytes = std::move(inlined->bytes);
      value.refs = std::move(inlined->refs);
    } else {
      value = pinned_value(std::get<PinnedLocation>(std::move(argument)));
      if (value.error) finished.error = value.error;
    }
    arguments.push_back(payload_of(value));
  }
  execute.arguments.clear();
  std::vector<detail::RefHandle> kept;
  const auto function = find_function(execute.spec->function, execute.spec->name);
  if (!function) finished.error = function.error();
  if (!finished.error) {
    LocalInvocation invocation(*this, std::move(arguments), execute.first_return, execute.returns, execute.caller.job,
                               instance);
    finished.error = invoke((*function)->invoker, invocation, finished.cancelled);
    invocation.drop_arguments();
    if (!finished.error) {
      finished.results = invocation.take_results();
      kept = invocation.take_kept();
      if (execute.constructor) {
        const std::lock_guard lock(work_mutex_);
        instances_[execute.actor] = invocation.take_instance();
      }
    }
  }
  arguments.clear();
  finish_call(execute, std::move(finished), started);
  set_running_call(nullptr);
}

void LocalRuntime::finish_call(const Execute& execute, CallFinished finished, Instant started) {
  flush_output();
  finished.run_ns = static_cast<std::uint64_t>((monotonic_now() - started).count());
  if (finished.error) {
    finished.error->node = context().self.node;
    finished.error->pid = static_cast<std::uint32_t>(::getpid());
    finished.error->task = execute.spec->name;
    if (finished.error->kind == ErrorKind::kTaskFailed && !finished.cancelled)
      finished.error->log_tail = own_log_tail();
  }
  {
    const std::lock_guard lock(work_mutex_);
    if (!execute.constructor) running_.erase(execute.task);
  }
  post_finished(std::move(finished));
}

}  // namespace mobula::core
