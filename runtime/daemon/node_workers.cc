// The node's worker processes: started from zygotes, watched, killed; and what they print.

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/daemon/node_daemon.h"
#include "runtime/process/limits.h"

namespace mobula::daemon {
namespace {

constexpr std::size_t kLinesHeldMax = 1000;  // per worker and turn; more are counted as dropped
constexpr int kOomScore = 500;               // of workers: the kernel takes them before a daemon

ErrorInfo exit_error(const process::WorkerExited& event, const std::string& kill_reason, const std::string& tail) {
  ErrorInfo error = make_error(ErrorKind::kWorkerDied,
                               kill_reason.empty() ? "the worker process ended: " + process::to_string(event.status)
                                                   : "the worker process was ended: " + kill_reason);
  error.pid = static_cast<std::uint32_t>(event.pid);
  error.signal = event.status.signal;
  error.exit_code = event.status.code;
  error.log_tail = tail;
  return error;
}

}  // namespace

Status NodeDaemon::open_logs_and_workers() {
  auto logs = process::LogHub::create({}, {}, [this](ProcessId process, process::Stream stream, std::string_view line) {
    on_log_line(process, stream, line);
  });
  if (!logs) return logs.error();
  logs_ = *std::move(logs);
  logs_watch_ = std::make_unique<net::Watch>(loop_, logs_->fd(), [this] {
    logs_->poll(monotonic_now());
    settle();
  });
  process::SpawnerConfig config;
  config.log_dir = log_dir_;
  auto spawner = process::Spawner::create(std::move(config));
  if (!spawner) return spawner.error();
  spawner_ = *std::move(spawner);
  spawner_watch_ = std::make_unique<net::Watch>(loop_, spawner_->fd(), [this] {
    poll_spawner();
    settle();
  });
  return {};
}

void NodeDaemon::perform_spawn(const scheduler::Spawn& spawn) {
  programs_->prepare(spawn.runtime, [this, spawn](Result<process::Executable> executable) {
    if (executable) {
      start_worker(spawn, *executable);
    } else {
      post(scheduler::WorkerSpawnFailed{spawn.worker, executable.error()});
    }
    settle();
  });
}

void NodeDaemon::start_worker(const scheduler::Spawn& spawn, const process::Executable& executable) {
  auto ends = logs_->add(spawn.worker, log_dir_ + "/worker-" + to_string(spawn.worker));
  auto control = process::make_socket_pair(SOCK_STREAM);
  if (!ends || !control) {
    post(scheduler::WorkerSpawnFailed{spawn.worker, !ends ? ends.error() : control.error()});
    return;
  }
  process::SpawnRequest request;
  request.worker = spawn.worker;
  request.environment = spawn.runtime.environment;
  std::string names;
  for (const auto& [name, value] : spawn.runtime.environment) names += (names.empty() ? "" : ",") + name;
  for (const auto& [name, value] : spawn.environment) request.environment.emplace_back(name, value);
  request.environment.emplace_back("MOBULA_PROCESS_ID", to_string(spawn.worker));
  request.environment.emplace_back("MOBULA_NODE_ID", to_string(config_.node));
  request.environment.emplace_back("MOBULA_SESSION", session_->path());
  request.environment.emplace_back("MOBULA_JOB_ID", to_string(spawn.job));
  request.environment.emplace_back("MOBULA_RUNTIME_PROGRAM", spawn.runtime.executable);
  request.environment.emplace_back("MOBULA_RUNTIME_ORIGIN", to_string(spawn.runtime.origin));
  request.environment.emplace_back("MOBULA_RUNTIME_VARIABLES", names);
  request.unset = {"MOBULA_NODE_SOCKET", "MOBULA_ADDRESS", "MOBULA_CLUSTER_FILE"};
  request.oom_score = kOomScore;
  request.descriptor_limit = process::original_descriptor_limit();
  request.control = std::move(control->theirs);
  request.out = std::move(ends->out);
  request.err = std::move(ends->err);
  if (Status status = spawner_->spawn(executable, std::move(request)); !status) {
    logs_->finish(spawn.worker, monotonic_now());
    post(scheduler::WorkerSpawnFailed{spawn.worker, status.error()});
    return;
  }
  Worker& worker = workers_[spawn.worker];
  worker.spawn = spawn;
  worker.control = net::Fd(control->ours.release());
}

void NodeDaemon::kill_process(ProcessId process, const std::string& why) {
  const auto found = workers_.find(process);
  if (found != workers_.end()) {
    found->second.killed = true;
    found->second.kill_reason = why;
    if (!spawner_->signal(process, SIGKILL)) {
      // Not started yet: it ends as soon as it is.
    }
    return;
  }
  // A driver whose job was ended: it is told by the loss of its link.
  if (PeerLink* link = peers_.find(Peer::of(process, config_.node)); link != nullptr && link->link) {
    link->link->close_when_flushed(make_error(ErrorKind::kCancelled, why));
  }
}

void NodeDaemon::poll_spawner() {
  std::vector<process::SpawnEvent> events;
  spawner_->poll(events);
  for (process::SpawnEvent& event : events) {
    if (auto* started = std::get_if<process::WorkerStarted>(&event)) {
      const auto found = workers_.find(started->worker);
      if (found == workers_.end()) continue;
      Worker& worker = found->second;
      worker.pid = static_cast<std::uint64_t>(started->pid);
      if (worker.killed) {
        spawner_->signal(started->worker, SIGKILL);
        continue;
      }
      post(scheduler::WorkerSpawned{started->worker, worker.pid});
      process::release_worker(worker.control.get());
      if (const Status set = process::set_nonblocking(worker.control.get()); !set) say(set.error().message);
      serve(net::Link::plain(loop_, std::move(worker.control), "worker pid " + std::to_string(worker.pid)),
            Peer::of(started->worker, config_.node), false);
    } else if (auto* failed = std::get_if<process::WorkerSpawnFailed>(&event)) {
      logs_->finish(failed->worker, monotonic_now());
      workers_.erase(failed->worker);
      post(scheduler::WorkerSpawnFailed{failed->worker, failed->error});
    } else if (auto* exited = std::get_if<process::WorkerExited>(&event)) {
      worker_exited(*exited);
    } else if (auto* notice = std::get_if<process::SpawnNotice>(&event)) {
      say(notice->text);
    }
  }
}

void NodeDaemon::worker_exited(const process::WorkerExited& event) {
  const auto found = workers_.find(event.worker);
  if (found == workers_.end()) return;
  const std::string tail = logs_->finish(event.worker, monotonic_now());
  flush_log_lines();
  post(scheduler::WorkerExited{event.worker, exit_error(event, found->second.kill_reason, tail)});
  workers_.erase(found);
  // Its link may still hold what it sent last; that is read before the loss is seen.
}

void NodeDaemon::on_log_line(ProcessId process, process::Stream stream, std::string_view line) {
  const auto found = workers_.find(process);
  if (found == workers_.end()) return;
  auto& lines = found->second.lines[stream == process::Stream::kErr ? 1 : 0];
  if (lines.size() >= kLinesHeldMax) {
    ++found->second.dropped;
    return;
  }
  lines.emplace_back(line);
  lines_waiting_ = true;
}

void NodeDaemon::flush_log_lines() {
  if (!std::exchange(lines_waiting_, false)) return;
  for (auto& [id, worker] : workers_) {
    for (int stream = 0; stream < 2; ++stream) {
      if (worker.lines[stream].empty()) continue;
      LogLines lines;
      lines.job = worker.spawn.job;
      lines.worker = id;
      lines.pid = worker.pid;
      lines.node = config_.node;
      lines.error_stream = stream == 1;
      lines.lines = std::move(worker.lines[stream]);
      lines.dropped = std::exchange(worker.dropped, 0);
      worker.lines[stream].clear();
      deliver_log_lines(std::move(lines), worker.spawn.runtime.origin);
    }
  }
}

// To the driver of the job when it lives here, else to the node it lives on.
void NodeDaemon::deliver_log_lines(LogLines lines, NodeId origin) {
  PeerLink* driver = nullptr;
  peers_.for_each([&](PeerLink& peer) {
    if (peer.role == Role::kDriver && peer.job == lines.job) driver = &peer;
  });
  if (driver != nullptr) {
    peers_.queue(*driver, Envelope{{}, {}, 0, 0, std::move(lines)});
  } else if (origin && origin != config_.node) {
    route(Peer::of(origin), std::move(lines));
  }
}

}  // namespace mobula::daemon
