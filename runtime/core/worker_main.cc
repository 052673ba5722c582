// A worker's life: from the daemon's go to the end of its last call. Never enters the user's main.

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <vector>

#include "runtime/core/local_runtime.h"
#include "runtime/core/worker_hooks.h"
#include "runtime/process/fd.h"
#include "runtime/process/worker_mode.h"

namespace mobula::core {
namespace {

std::mutex hooks_mutex;

std::vector<void (*)()>& hooks() {
  static auto* all = new std::vector<void (*)()>;  // filled during static initialisation, in any order
  return *all;
}

// Ids that the daemon chose when it asked for this worker.
template <class Tag>
Id<Tag> id_from_environment(const char* name) {
  Id<Tag> id;
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread runs here
  if (text != nullptr) parse_id(text, id);
  ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  return id;
}

// The same key as this worker was started under, so that tasks it submits can run in workers like itself.
RuntimeKey own_runtime_key() {
  RuntimeKey key;
  if (const char* program = std::getenv("MOBULA_RUNTIME_PROGRAM")) key.executable = program;  // NOLINT
  ::unsetenv("MOBULA_RUNTIME_PROGRAM");                                                       // NOLINT
  key.origin = id_from_environment<NodeTag>("MOBULA_RUNTIME_ORIGIN");
  const char* text = std::getenv("MOBULA_RUNTIME_VARIABLES");  // NOLINT(concurrency-mt-unsafe)
  std::stringstream names(text == nullptr ? "" : text);
  ::unsetenv("MOBULA_RUNTIME_VARIABLES");  // NOLINT(concurrency-mt-unsafe)
  for (std::string name; std::getline(names, name, ',');) {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value != nullptr) key.environment.emplace_back(name, value);
  }
  return key;
}

int worker_main(int control_fd) {
  Hello hello;
  hello.role = Role::kWorker;
  const auto process = id_from_environment<ProcessTag>("MOBULA_PROCESS_ID");
  const auto node = id_from_environment<NodeTag>("MOBULA_NODE_ID");
  hello.job = id_from_environment<JobTag>("MOBULA_JOB_ID");
  hello.from = Peer::of(process, node);
  hello.pid = static_cast<std::uint64_t>(::getpid());
  RuntimeKey key = own_runtime_key();
  RuntimeConfig config;
  if (const char* name = std::getenv("MOBULA_NAMESPACE")) config.name_space = name;   // NOLINT(concurrency-mt-unsafe)
  if (const char* session = std::getenv("MOBULA_SESSION")) config.session = session;  // NOLINT(concurrency-mt-unsafe)
  ::unsetenv("MOBULA_SESSION");                                                       // NOLINT(concurrency-mt-unsafe)
  config.queue_bytes_max = kWorkerQueueBytes;
  if (const Status set = process::set_nonblocking(control_fd); !set) {
    std::cerr << "mobula: " << set.error().message << std::endl;
    return 1;
  }
  auto runtime = LocalRuntime::start(net::Fd(control_fd), hello, -1, std::move(config));
  if (!runtime) {
    std::cerr << "mobula: this worker could not join its node: " << runtime.error().message << std::endl;
    return 1;
  }
  (*runtime)->set_runtime_key(std::move(key));
  run_worker_hooks();
  return (*runtime)->work();
}

// Runs before main: the takeover asks for it.
[[maybe_unused]] const bool registered = [] {
  process::set_worker_main(&worker_main);
  return true;
}();

}  // namespace

void add_worker_hook(void (*function)()) {
  const std::lock_guard lock(hooks_mutex);
  hooks().push_back(function);
}

void run_worker_hooks() {
  std::vector<void (*)()> all;
  {
    const std::lock_guard lock(hooks_mutex);
    all = hooks();
  }
  for (void (*function)() : all) function();
}

std::string_view class_of(std::string_view display) {
  display = display.substr(0, display.find('('));
  const auto last = display.rfind("::");
  if (last == std::string_view::npos) return display;
  const std::string_view before = display.substr(0, last);
  const std::string_view name = display.substr(last + 2);
  const auto outer = before.rfind("::");
  return before.substr(outer == std::string_view::npos ? 0 : outer + 2) == name ? before : display;
}

}  // namespace mobula::core
