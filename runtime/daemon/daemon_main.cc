#include "runtime/daemon/daemon_main.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/daemon/head_daemon.h"
#include "runtime/daemon/head_files.h"
#include "runtime/daemon/node_daemon.h"
#include "runtime/daemon/node_files.h"
#include "runtime/process/daemon_launch.h"
#include "runtime/process/fd.h"
#include "runtime/process/host_info.h"
#include "runtime/process/limits.h"

namespace mobula::daemon {
namespace {

constexpr double kStoreShare = 0.3;  // of the memory, unless told otherwise
constexpr Duration kReadyTimeout = std::chrono::seconds(20);
constexpr Duration kLogCheck = std::chrono::seconds(1);

void log_line(const std::string& line) {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
  std::fprintf(stderr, "%s %s\n", stamp, line.c_str());
}

Result<NodeResources> resources_of(const DaemonOptions& options) {
  const process::HostInfo host = process::host_info();
  NodeResources total;
  const auto cpus = Quantity::from_double(options.cpus.value_or(std::max(1.0, host.cpus)));
  const auto gpus = Quantity::from_double(options.gpus.value_or(0));
  if (!cpus || !gpus || gpus->units % Quantity::kOne != 0) {
    return make_error(ErrorKind::kInvalid, "--num-cpus takes a number from 0 up, --num-gpus a whole one");
  }
  total.cpus = *cpus;
  for (std::int64_t i = 0; i < gpus->units / Quantity::kOne; ++i) {
    total.devices.push_back({"GPU-" + std::to_string(i), Quantity::whole(1), 0, 0});
  }
  const std::uint64_t memory = host.memory_total;
  total.store_memory =
      options.object_store_memory.value_or(static_cast<std::uint64_t>(kStoreShare * static_cast<double>(memory)));
  total.store_memory -= total.store_memory % 4096;
  total.memory = options.memory.value_or(memory > total.store_memory ? memory - total.store_memory : 0);
  for (const auto& [name, value] : options.resources) {
    const auto quantity = Quantity::from_double(value);
    if (!quantity) return make_error(ErrorKind::kInvalid, "--resources " + name + ": give a number from 0 up");
    if (quantity->units > 0) total.custom.emplace_back(name, *quantity);
  }
  std::sort(total.custom.begin(), total.custom.end());
  return total;
}

// One process's daemons and what ends them.
class Daemons {
 public:
  explicit Daemons(const DaemonOptions& options) : options_(options), rng_(random_seed()) {}

  int run() {
    watch_signals();
    const Status status = open();
    if (!status) {
      log_line("event=start_failed " + status.error().message);
      if (options_.ready_fd >= 0) process::announce_failure(options_.ready_fd, status.error());
      return 1;
    }
    rotate_log();
    loop_.run();
    node_files_.reset();
    head_files_.reset();
    node_.reset();
    head_.reset();
    std::error_code ignored;
    if (!pid_file_.empty()) std::filesystem::remove(pid_file_, ignored);
    return exit_code_;
  }

 private:
  Status open() {
    if (options_.kind == DaemonOptions::Kind::kPrivate) return open_private();
    auto file =
        net::load_cluster_file(options_.cluster_file.empty() ? net::default_cluster_file() : options_.cluster_file);
    if (!file) return file.error();
    if (!file->key) {
      return make_error(ErrorKind::kUnauthenticated,
                        "this cluster file holds no cluster key: daemons need the one that "
                        "`mobula start --head` made");
    }
    return options_.kind == DaemonOptions::Kind::kHead ? open_head(*file) : open_node(*file);
  }

  Status open_private() {
    HeadDaemonConfig head;
    head.cluster = ClusterId{rng_.id()};
    head.listen = false;
    head.log = log_line;
    head.on_stop = [this](const std::string& why) { stop(0, why); };
    auto opened = HeadDaemon::start(loop_, head, storage::memory_record_store());
    if (!opened) return opened.error();
    head_ = *std::move(opened);
    NodeDaemonConfig node;
    node.cluster = head.cluster;
    node.listen = false;
    node.is_head_node = true;
    if (Status status = start_node(std::move(node)); !status) return status;
    auto pair = process::make_socket_pair(SOCK_STREAM);
    if (!pair) return pair.error();
    if (Status set = process::set_nonblocking(pair->ours.get()); !set) return set;
    if (Status set = process::set_nonblocking(pair->theirs.get()); !set) return set;
    head_->connect_local(net::Link::plain(loop_, net::Fd(pair->theirs.release()), "the node of this process"));
    node_->connect_head_local(net::Link::plain(loop_, net::Fd(pair->ours.release()), "the head of this process"));
    return {};
  }

  Status open_head(const net::ClusterFile& file) {
    HeadDaemonConfig config;
    config.cluster = file.cluster;
    config.key = options_.insecure ? net::Key::insecure() : *file.key;
    config.key_epoch = file.epoch;
    if (!options_.node_ip_address.empty()) config.listen_host = options_.node_ip_address;
    config.advertised_host = options_.advertise;
    config.log = log_line;
    config.on_stop = [this](const std::string& why) { stop(why.empty() ? 0 : 1, why); };
    if (!options_.port_range.empty()) {
      auto ports = net::parse_port_range(options_.port_range);
      if (!ports) return ports.error();
      config.ports = *ports;
    }
    auto store = storage::open_record_store(options_.store);
    if (!store) return store.error();
    auto opened = HeadDaemon::start(loop_, std::move(config), *std::move(store));
    if (!opened) return opened.error();
    head_ = *std::move(opened);
    auto files = HeadFiles::open(loop_, *head_, options_.store + "/content");
    if (!files) return files.error();
    head_files_ = *std::move(files);
    pid_file_ =
        std::filesystem::path(options_.cluster_file).parent_path() / ("head-" + to_string(file.cluster) + ".pid");
    std::ofstream(pid_file_) << ::getpid() << "\n";  // for `mobula stop`
    const Endpoint at = head_->endpoint();
    announce({{"endpoint", net::to_string(net::HostPort{at.host, at.port})}, {"cluster", to_string(file.cluster)}});
    return {};
  }

  Status open_node(const net::ClusterFile& file) {
    auto head = net::parse_host_port(options_.address.empty() ? file.address : options_.address);
    if (!head) return head.error();
    NodeDaemonConfig config;
    config.cluster = file.cluster;
    config.key = options_.insecure ? net::Key::insecure() : *file.key;
    config.key_epoch = file.epoch;
    config.head = *head;
    config.listen_host = options_.node_ip_address;
    if (config.listen_host.empty()) {
      auto local = net::local_address_towards(*head);
      if (!local) return local.error();
      config.listen_host = *local;
    }
    config.advertised_host = options_.advertise;
    if (!options_.port_range.empty()) {
      auto ports = net::parse_port_range(options_.port_range);
      if (!ports) return ports.error();
      config.ports = *ports;
    }
    config.is_head_node = options_.is_head_node;
    if (Status status = start_node(std::move(config)); !status) return status;
    auto files = NodeFiles::open(*node_);
    if (!files) return files.error();
    node_files_ = *std::move(files);
    return {};
  }

  Status start_node(NodeDaemonConfig config) {
    auto total = resources_of(options_);
    if (!total) return total.error();
    config.total = *std::move(total);
    config.labels = options_.labels;
    std::sort(config.labels.begin(), config.labels.end());
    config.node = NodeId{rng_.id()};
    config.log_dir = options_.log_dir;
    config.driver_pid = options_.driver_pid;
    config.log = log_line;
    config.on_stop = [this](const ErrorInfo& why, bool) {
      if (!ready_ && options_.ready_fd >= 0) {
        process::announce_failure(options_.ready_fd, why);
        ready_ = true;
      }
      stop(0, why.message);
    };
    auto opened = NodeDaemon::start(loop_, std::move(config));
    if (!opened) return opened.error();
    node_ = *std::move(opened);
    node_->set_on_registered([this] { node_ready(); });
    loop_.call_after(kReadyTimeout, [this] {
      if (ready_ || options_.ready_fd < 0) return;
      process::announce_failure(
          options_.ready_fd,
          make_error(ErrorKind::kUnreachable, "the head at " + net::to_string(node_->config().head) +
                                                  " did not answer. Is it running, and is --address right?"));
      ready_ = true;
      stop(1, "the head did not answer");
    });
    return {};
  }

  void node_ready() {
    const Endpoint at = node_->endpoint();
    announce({{"node", to_string(node_->config().node)},
              {"socket", node_->session().node_socket()},
              {"endpoint", net::to_string(net::HostPort{at.host, at.port})},
              {"cluster", to_string(node_->config().cluster)},
              {"head", net::to_string(node_->config().head)}});
  }

  void announce(nlohmann::json line) {
    if (std::exchange(ready_, true)) return;
    line["pid"] = ::getpid();
    if (options_.ready_fd >= 0) process::announce_ready(options_.ready_fd, line.dump());
    log_line("event=ready " + line.dump());
  }

  void rotate_log() {
    process::StdioRotator(daemon_log_path(), kDaemonLogRotation).check();
    loop_.call_after(kLogCheck, [this] { rotate_log(); });
  }

  void watch_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    signals_ = net::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    signal_watch_ = std::make_unique<net::Watch>(loop_, signals_.get(), [this] {
      signalfd_siginfo info{};
      while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {}
      stop(0, "told to by a signal");
    });
  }

  void stop(int code, const std::string& why) {
    if (std::exchange(stopping_, true)) return;
    log_line("event=stop why=\"" + why + "\"");
    exit_code_ = code;
    if (node_) {
      node_->route(Peer::head(), NodeLeaves{});
      node_->settle();
    }
    loop_.call_after(std::chrono::milliseconds(20), [this] { loop_.stop(); });
  }

  DaemonOptions options_;
  Rng rng_;
  net::Loop loop_;
  net::Fd signals_;
  std::unique_ptr<net::Watch> signal_watch_;
  std::unique_ptr<HeadDaemon> head_;
  std::unique_ptr<NodeDaemon> node_;
  std::unique_ptr<HeadFiles> head_files_;
  std::unique_ptr<NodeFiles> node_files_;
  std::filesystem::path pid_file_;
  bool ready_ = false;
  bool stopping_ = false;
  int exit_code_ = 0;
};

}  // namespace

int run_daemon(const DaemonOptions& options) {
  process::raise_descriptor_limit();
  Daemons daemons(options);
  return daemons.run();
}

}  // namespace mobula::daemon
