// Starting and stopping the daemons of this machine.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/cli/commands.h"
#include "runtime/process/build_id.h"
#include "runtime/process/daemon_launch.h"
#include "runtime/process/pid_watch.h"
#include "runtime/process/session_dir.h"

namespace mobula::cli {
namespace {

constexpr Duration kStopTimeout = std::chrono::seconds(10);

struct Started {
  nlohmann::json ready;
  pid_t pid = 0;
};

void add(std::vector<std::string>& arguments, const char* name, const std::string& value) {
  if (value.empty()) return;
  arguments.emplace_back(name);
  arguments.push_back(value);
}

template <class T>
void add(std::vector<std::string>& arguments, const char* name, const std::optional<T>& value) {
  if (value) add(arguments, name, nlohmann::json(*value).dump());
}

Result<Started> launch(std::vector<std::string> arguments, const std::string& log_path) {
  process::DaemonSpec spec;
  spec.binary = process::executable_path();
  spec.arguments = std::move(arguments);
  spec.log_path = log_path;
  auto started = process::spawn_daemon(spec);
  if (!started) return started.error();
  return Started{nlohmann::json::parse(started->ready, nullptr, false), started->pid};
}

// Logs outlive the daemons on purpose: beside the cluster file unless told otherwise.
Result<std::string> log_folder(const StartOptions& options, const std::string& cluster_file, ClusterId cluster) {
  const std::filesystem::path folder =
      options.daemon.log_dir.empty()
          ? std::filesystem::path(cluster_file).parent_path() / ("logs-" + to_string(cluster))
          : std::filesystem::path(options.daemon.log_dir);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return make_error(ErrorKind::kInvalid, "cannot make the log folder " + folder.string() + ": " + error.message() +
                                               ". Name another with --log-dir.");
  }
  ::chmod(folder.c_str(), 0700);
  return std::filesystem::absolute(folder).string();
}

std::vector<std::string> node_arguments(const StartOptions& options, const std::string& cluster_file,
                                        const std::string& address, const std::string& logs) {
  const daemon::DaemonOptions& daemon = options.daemon;
  std::vector<std::string> arguments{"daemon", "--cluster-file", cluster_file};
  add(arguments, "--address", address);
  add(arguments, "--node-ip-address", daemon.node_ip_address);
  add(arguments, "--advertise", daemon.advertise);
  add(arguments, "--port-range", daemon.port_range);
  add(arguments, "--num-cpus", daemon.cpus);
  add(arguments, "--num-gpus", daemon.gpus);
  add(arguments, "--memory", daemon.memory);
  add(arguments, "--object-store-memory", daemon.object_store_memory);
  add(arguments, "--spill-dir", daemon.spill_dir);
  add(arguments, "--log-dir", logs);
  for (const std::string& one : options.resources) add(arguments, "--resources", one);
  for (const std::string& one : options.labels) add(arguments, "--labels", one);
  if (daemon.insecure) arguments.emplace_back("--insecure");
  return arguments;
}

void print_started(const nlohmann::json& out, const StartOptions& options, const std::string& cluster_file) {
  if (options.json) {
    std::cout << out.dump() << std::endl;
    return;
  }
  if (options.daemon.insecure) std::cout << "INSECURE: anybody on this machine can run code as you.\n";
  if (options.head) {
    std::cout << "Head started: address " << out["address"].get<std::string>() << ", cluster "
              << out["cluster"].get<std::string>() << "\nNode " << out["node"].get<std::string>()
              << " runs beside it.\n\n"
              << "Cluster file (keep it secret, mode 0600): " << cluster_file << "\n"
              << "Join another node: copy that file and run\n"
              << "  mobula start --address " << out["address"].get<std::string>() << " --cluster-file FILE\n"
              << "Run a program:  MOBULA_CLUSTER_FILE=" << cluster_file << " ./program\n"
              << "Stop:           mobula stop --cluster-file " << cluster_file << "\n";
  } else {
    std::cout << "Node " << out["node"].get<std::string>() << " joined " << out["address"].get<std::string>() << ".\n";
  }
  std::cout << "Logs: " << out["logs"].get<std::string>() << std::endl;
}

int block_on(const std::vector<pid_t>& pids) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::vector<process::PidWatch> watches;
  for (const pid_t pid : pids) {
    if (auto watch = process::PidWatch::open(pid)) watches.push_back(*std::move(watch));
  }
  for (;;) {
    const timespec tick{1, 0};
    const int got = ::sigtimedwait(&set, nullptr, &tick);
    bool gone = false;
    for (const auto& watch : watches) gone = gone || watch.exited();
    if (got != SIGINT && got != SIGTERM && !gone) continue;
    for (auto watch = watches.rbegin(); watch != watches.rend(); ++watch) watch->signal(SIGTERM);
    for (const auto& watch : watches) watch.wait(kStopTimeout);
    return gone && got != SIGINT && got != SIGTERM ? kFailed : kOk;
  }
}

Result<net::ClusterFile> open_or_create(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return net::load_cluster_file(path);
  net::ClusterFile file;
  Rng rng(random_seed());
  file.cluster = ClusterId{rng.id()};
  file.key = net::Key::random();
  if (Status status = net::create_cluster_file(path, file); !status) return status.error();
  return file;
}

int start_head(const StartOptions& options) {
  const std::string path = std::filesystem::absolute(cluster_file_path({"", options.daemon.cluster_file})).string();
  auto file = open_or_create(path);
  if (!file) return report(file.error(), options.json);
  if (!file->key) {
    return report(make_error(ErrorKind::kUnauthenticated, path + " holds no cluster key; name another --cluster-file"),
                  options.json);
  }
  auto logs = log_folder(options, path, file->cluster);
  if (!logs) return report(logs.error(), options.json);
  const std::string store =
      options.daemon.store.empty()
          ? (std::filesystem::path(path).parent_path() / ("store-" + to_string(file->cluster))).string()
          : std::filesystem::absolute(options.daemon.store).string();
  std::vector<std::string> arguments{"daemon", "--head", "--cluster-file", path, "--store", store};
  add(arguments, "--node-ip-address", options.daemon.node_ip_address);
  add(arguments, "--advertise", options.daemon.advertise);
  add(arguments, "--port-range",
      options.port.empty() || options.port == "0" ? options.daemon.port_range : options.port);
  if (options.daemon.insecure) arguments.emplace_back("--insecure");
  auto head = launch(arguments, *logs + "/head.log");
  if (!head) return report(head.error(), options.json);
  const std::string address = head->ready.value("endpoint", "");
  file->address = address;
  if (Status status = net::replace_cluster_file(path, *file); !status) {
    ::kill(head->pid, SIGTERM);
    return report(status.error(), options.json);
  }
  std::vector<std::string> node = node_arguments(options, path, address, *logs);
  node.emplace_back("--head-node");
  auto beside = launch(node, *logs + "/node-" + std::to_string(::getpid()) + ".log");
  if (!beside) {
    ::kill(head->pid, SIGTERM);
    return report(beside.error(), options.json);
  }
  print_started({{"address", address},
                 {"cluster", to_string(file->cluster)},
                 {"cluster_file", path},
                 {"node", beside->ready.value("node", "")},
                 {"pids", {head->pid, beside->pid}},
                 {"store", store},
                 {"logs", *logs}},
                options, path);
  return options.block ? block_on({head->pid, beside->pid}) : kOk;
}

int start_node(const StartOptions& options) {
  const std::string path = std::filesystem::absolute(cluster_file_path({"", options.daemon.cluster_file})).string();
  auto file = net::load_cluster_file(path);
  if (!file) return report(file.error(), options.json);
  auto logs = log_folder(options, path, file->cluster);
  if (!logs) return report(logs.error(), options.json);
  const std::string address = options.daemon.address.empty() ? file->address : options.daemon.address;
  auto node =
      launch(node_arguments(options, path, address, *logs), *logs + "/node-" + std::to_string(::getpid()) + ".log");
  if (!node) return report(node.error(), options.json);
  print_started({{"address", address},
                 {"cluster", to_string(file->cluster)},
                 {"cluster_file", path},
                 {"node", node->ready.value("node", "")},
                 {"pids", {node->pid}},
                 {"logs", *logs}},
                options, path);
  return options.block ? block_on({node->pid}) : kOk;
}

// The head leaves its process id beside its store, in a file that it locks.
std::vector<pid_t> heads_of(const net::ClusterFile& file, const std::string& path) {
  std::vector<pid_t> pids;
  const auto folder = std::filesystem::path(path).parent_path();
  for (const auto& name : {folder / ("head-" + to_string(file.cluster) + ".pid")}) {
    std::ifstream in(name);
    pid_t pid = 0;
    if (in >> pid && pid > 1) pids.push_back(pid);
  }
  return pids;
}

// Only a process that still is a mobula daemon is signalled: its number may have been given to another.
bool is_mobula(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline");
  std::string line((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return line.find("mobula") != std::string::npos && line.find("daemon") != std::string::npos;
}

}  // namespace

int start(const StartOptions& options) {
  return options.head ? start_head(options) : start_node(options);
}

int stop(const StopOptions& options) {
  std::vector<pid_t> pids;
  ClusterId cluster;
  if (!options.all) {
    const std::string path = std::filesystem::absolute(cluster_file_path(options.cluster)).string();
    auto file = net::load_cluster_file(path);
    if (!file) return report(file.error(), options.json);
    cluster = file->cluster;
    for (const pid_t pid : heads_of(*file, path)) pids.push_back(pid);
  } else {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      struct stat info {};
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (::stat(entry.path().c_str(), &info) != 0 || info.st_uid != ::geteuid()) continue;
      std::ifstream in(entry.path() / "cmdline");
      std::string line((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      if (line.find("daemon") != std::string::npos && line.find("--head") != std::string::npos &&
          is_mobula(std::stoi(name))) {
        pids.push_back(std::stoi(name));
      }
    }
  }
  for (const process::FoundSession& session : process::find_sessions(cluster)) {
    if (session.alive && session.record.pid > 1 && (options.all || !session.record.private_cluster)) {
      pids.push_back(session.record.pid);
    }
  }
  std::size_t stopped = 0;
  std::vector<process::PidWatch> watches;
  for (const pid_t pid : pids) {
    if (!is_mobula(pid)) continue;
    if (auto watch = process::PidWatch::open(pid)) watches.push_back(*std::move(watch));
  }
  for (auto watch = watches.rbegin(); watch != watches.rend(); ++watch) watch->signal(SIGTERM);
  for (const process::PidWatch& watch : watches) {
    if (!watch.wait(kStopTimeout)) {
      watch.signal(SIGKILL);
      watch.wait(kStopTimeout);
    }
    ++stopped;
  }
  process::remove_stale_sessions();
  if (options.json) {
    std::cout << nlohmann::json{{"stopped", stopped}}.dump() << std::endl;
  } else {
    std::cout << (stopped == 0 ? "Nothing of this cluster runs on this machine."
                               : "Stopped " + std::to_string(stopped) + " daemons.")
              << std::endl;
  }
  return kOk;
}

}  // namespace mobula::cli
