// How a driver gets onto a cluster: it joins a node of this machine, or starts one, or starts a private cluster.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <mobula/detail/core.h>
#include <mobula/options.h>
#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/core/local_runtime.h"
#include "runtime/core/log_printer.h"
#include "runtime/net/cluster_file.h"
#include "runtime/process/build_id.h"
#include "runtime/process/daemon_launch.h"
#include "runtime/process/find_binary.h"
#include "runtime/process/host_info.h"
#include "runtime/process/libraries.h"
#include "runtime/process/limits.h"
#include "runtime/process/session_dir.h"
#include "runtime/process/worker_mode.h"

namespace mobula::core {
namespace {

constexpr std::uint64_t kQueueShare = 8;  // of the memory: the bound of queued calls

std::string from_environment(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, at init
  return text == nullptr ? std::string() : std::string(text);
}

std::string number(double value) {
  return nlohmann::json(value).dump();
}

// The daemon is asked to end with us: it watches our link and, until we join, our process id.
Result<std::string> start_daemon(std::vector<std::string> arguments) {
  auto binary = process::find_mobula_binary();
  if (!binary) return binary.error();
  process::DaemonSpec spec;
  spec.binary = *binary;
  spec.arguments = {"daemon"};
  spec.log_path = from_environment("MOBULA_DAEMON_LOG");  // for whoever looks into a private cluster
  for (std::string& argument : arguments) spec.arguments.push_back(std::move(argument));
  spec.arguments.push_back("--driver-pid");
  spec.arguments.push_back(std::to_string(::getpid()));
  auto started = process::spawn_daemon(spec);
  if (!started) return started.error();
  const auto ready = nlohmann::json::parse(started->ready, nullptr, false);
  if (!ready.is_object() || !ready.contains("socket")) {
    return make_error(ErrorKind::kInvalid, "the mobula binary " + *binary + " is of another version than this library");
  }
  return ready["socket"].get<std::string>();
}

Result<std::string> start_private_cluster(const InitOptions& options) {
  std::vector<std::string> arguments{"--private"};
  const auto add = [&](const char* name, std::string value) {
    arguments.emplace_back(name);
    arguments.push_back(std::move(value));
  };
  if (options.cpus) add("--num-cpus", number(*options.cpus));
  if (options.gpus) add("--num-gpus", number(*options.gpus));
  if (options.memory) add("--memory", std::to_string(*options.memory));
  if (options.object_store_memory) add("--object-store-memory", std::to_string(*options.object_store_memory));
  std::string resources;
  for (const auto& [name, value] : options.resources)
    resources += (resources.empty() ? "" : ",") + name + "=" + number(value);
  if (!resources.empty()) add("--resources", resources);
  return start_daemon(std::move(arguments));
}

// The socket of a node of that cluster on this machine, started if there is none.
Result<std::string> join_cluster(const std::string& address, std::string path) {
  if (path.empty()) path = net::default_cluster_file();
  auto file = net::load_cluster_file(path);
  if (!file) return file.error();
  for (const process::FoundSession& session : process::find_sessions(file->cluster)) {
    if (session.alive && (address.empty() || session.record.head_endpoint == address)) return session.node_socket();
  }
  for (const process::FoundSession& session : process::find_sessions(file->cluster)) {
    if (session.alive) return session.node_socket();
  }
  if (!file->key) {
    return make_error(ErrorKind::kUnauthenticated,
                      "no node of this cluster runs on this machine, and " + path + " holds a " +
                          net::name_of(file->leaf->identity.role) +
                          " key, which may not start one. Start a node here (`mobula start --address ...`) or use the "
                          "cluster file.");
  }
  std::vector<std::string> arguments{"--cluster-file", std::filesystem::absolute(path).string(), "--num-cpus", "0"};
  if (!address.empty()) {
    arguments.emplace_back("--address");
    arguments.push_back(address);
  }
  return start_daemon(std::move(arguments));
}

struct Driver {
  std::mutex mutex;
  std::shared_ptr<LocalRuntime> runtime;
  std::shared_ptr<LogPrinter> printer;
};
Driver& driver() {
  static auto* instance = new Driver;  // outlives statics: stop() may run in one's destructor
  return *instance;
}

Result<std::string> find_node(const InitOptions& options) {
  const std::string given = from_environment("MOBULA_NODE_SOCKET");  // a submitted driver
  const std::string address = options.address.empty() ? from_environment("MOBULA_ADDRESS") : options.address;
  const std::string file =
      options.cluster_file.empty() ? from_environment("MOBULA_CLUSTER_FILE") : options.cluster_file;
  if (options.address.empty() && options.cluster_file.empty() && !given.empty()) return given;
  if (address.empty() && file.empty()) return start_private_cluster(options);
  return join_cluster(address, file);
}

void start_driver(int argc, char** argv, const InitOptions& options) {
  if (process::started_as_worker()) {
    throw_error(make_error(ErrorKind::kInvalid,
                           "this process is a worker, but its main was entered: link libmobula.so dynamically, so that "
                           "worker mode can take over before main"));
  }
  Driver& state = driver();
  const std::lock_guard lock(state.mutex);
  if (state.runtime) {
    throw_error(make_error(ErrorKind::kInvalid, "mobula::init was called already; there is one Runtime a process"));
  }
  process::raise_descriptor_limit();
  auto socket = find_node(options);
  if (!socket) throw_error(socket.error());
  auto connected = net::connect_unix(*socket, monotonic_now() + std::chrono::seconds(5));
  if (!connected) throw_error(connected.error());

  Rng rng(random_seed());
  Hello hello;
  hello.role = Role::kDriver;
  hello.from = Peer::of(ProcessId{rng.id()}, {});
  hello.job = JobId{rng.id()};
  hello.pid = static_cast<std::uint64_t>(::getpid());
  hello.log_to_driver = options.log_to_driver;
  if (const std::string submission = from_environment("MOBULA_SUBMISSION"); !submission.empty()) {
    hello.features.push_back("submission=" + submission);
  }
  auto id = process::executable_id();
  auto executable = process::executable_fd();
  if (!id) throw_error(id.error());
  if (!executable) throw_error(executable.error());
  const std::vector<process::Library> libraries = process::libraries_to_ship();
  hello.executable = process::program_id(*id, libraries);
  for (const process::Library& library : libraries) hello.libraries.push_back(process::to_line(library));
  hello.executable_path = process::executable_path();
  hello.name = options.job_name;
  if (hello.name.empty())
    hello.name = std::filesystem::path(argc > 0 ? argv[0] : hello.executable_path.c_str()).filename().string();

  RuntimeConfig config;
  config.name_space = options.name_space.empty() ? to_string(hello.job) : options.name_space;
  config.log_to_driver = options.log_to_driver;
  config.queue_bytes_max = options.queue_bytes != 0
                               ? options.queue_bytes
                               : static_cast<std::size_t>(process::host_info().memory_total / kQueueShare);
  RuntimeKey key;
  key.executable = hello.executable;
  key.environment = {{"MOBULA_NAMESPACE", config.name_space}};
  auto runtime = LocalRuntime::start(*std::move(connected), hello, executable->get(), std::move(config));
  if (!runtime) throw_error(runtime.error());
  key.origin = (*runtime)->context().self.node;
  (*runtime)->set_runtime_key(std::move(key));
  state.runtime = *runtime;
  state.printer = std::make_shared<LogPrinter>((*runtime)->loop());
  (*runtime)->set_log_printer([printer = state.printer](const LogLines& lines) { printer->print(lines); });
}

void stop_driver() {
  Driver& state = driver();
  const std::lock_guard lock(state.mutex);
  if (!state.runtime) return;
  state.runtime->stop();
  state.printer->finish();
  state.runtime.reset();
  state.printer.reset();
}

}  // namespace
}  // namespace mobula::core

namespace mobula::detail {

void start(int argc, char** argv, const InitOptions& options) {
  core::start_driver(argc, argv, options);
}

void stop() noexcept {
  try {
    core::stop_driver();
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody left to tell, and nothing of the user's is at stake
  }
}

}  // namespace mobula::detail
