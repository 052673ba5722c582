// Spawner: zygotes, from their start to their end.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "runtime/process/launch.h"
#include "runtime/process/rotating_file.h"
#include "runtime/process/spawner_state.h"
#include "runtime/process/worker_mode.h"

namespace mobula::process {
namespace {

constexpr std::size_t kLogTailBytes = 4096;

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += ':';
    text += part;
  }
  return text;
}

// The folder before whatever LD_LIBRARY_PATH is to be otherwise.
std::string library_path(const std::string& folder, const Environment& environment) {
  const char* own = std::getenv(kLibraryPath);  // NOLINT(concurrency-mt-unsafe): nothing in a daemon sets variables
  std::string rest = own == nullptr ? "" : own;
  for (const auto& [name, value] : environment) {
    if (name == kLibraryPath) rest = value;
  }
  return rest.empty() ? folder : folder + ":" + rest;
}

// Where a new zygote writes before it has workers; -1 (our own stderr) when there is no folder for it.
Fd open_log(const std::string& dir, std::uint64_t token, std::string& path) {
  if (dir.empty()) return Fd();
  path = dir + "/zygote-" + std::to_string(::getpid()) + "-" + std::to_string(token) + ".log";
  return Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
}

}  // namespace

Spawner::Program& Spawner::program_of(const Executable& executable, const Environment& environment) {
  RuntimeKey key = runtime_key(executable, environment);
  std::unique_ptr<Program>& program = programs_[key];
  if (!program) {
    program = std::make_unique<Program>();
    program->key = std::move(key);
    program->executable = executable;
  }
  return *program;
}

Status Spawner::start_process(Program& program, const Environment& extra, std::unique_ptr<SpawnRequest> only_for) {
  Result<SocketPair> pair = make_socket_pair(SOCK_SEQPACKET);
  if (!pair) return pair.error();
  if (Status done = set_nonblocking(pair->ours.get()); !done) return done;

  auto zygote = std::make_unique<Zygote>();
  zygote->token = next_token_++;
  zygote->program = &program;
  zygote->started = monotonic_now();
  const Fd log = open_log(config_.log_dir, zygote->token, zygote->log_path);

  const bool by_descriptor = program.executable.file != nullptr;
  LaunchSpec spec;
  spec.path = by_descriptor ? "" : program.executable.path;
  spec.executable_fd = by_descriptor ? program.executable.file->get() : -1;
  spec.argv = {program.executable.name.empty() ? "worker" : program.executable.name, kZygoteArgument};
  Environment environment = config_.environment;
  environment.insert(environment.end(), program.key.load_environment.begin(), program.key.load_environment.end());
  environment.insert(environment.end(), extra.begin(), extra.end());
  std::string mark = std::to_string(kExtraFd);
  if (by_descriptor) mark += ":" + std::to_string(kExecutableFd);
  environment.emplace_back(kWorkerMark, mark);
  if (!program.executable.libraries.empty()) {
    environment.emplace_back(kWorkerLibraries, join(program.executable.libraries));
  }
  if (const std::string& folder = program.executable.library_dir; !folder.empty()) {
    environment.emplace_back(kLibraryPath, library_path(folder, environment));
    environment.emplace_back(kWorkerLibraryDir, folder);
  }
  spec.environment = environment_with(environment);
  spec.out = log ? log.get() : STDERR_FILENO;
  spec.err = spec.out;
  spec.extra = pair->theirs.get();
  Result<pid_t> pid = launch(spec);
  if (!pid) return pid.error();

  Fd pidfd = open_pidfd(*pid);
  if (!pidfd) {
    const ErrorInfo error = errno_error("watch a worker's process");
    ::kill(*pid, SIGKILL);
    return error;
  }
  zygote->watch = PidWatch(*pid, std::move(pidfd));
  zygote->socket = std::move(pair->ours);
  if (Status done = watch(zygote->watch.fd(), zygote->token); !done) return done;
  if (Status done = watch(zygote->socket.get(), zygote->token | kSocketBit); !done) return done;
  if (only_for) {
    zygote->only_for = std::move(only_for);
  } else {
    program.zygote = zygote->token;
  }
  zygotes_[zygote->token] = std::move(zygote);
  arm_timer();
  return {};
}

void Spawner::on_hello(Zygote& zygote, const SpawnHello& hello) {
  const std::string& name = zygote.program->executable.name;
  if (hello.version != kSpawnProtocolVersion) {
    fail_requests(zygote,
                  "the program " + name + " is linked to a libmobula of another version (worker protocol " +
                      std::to_string(hello.version) + ", this node speaks " + std::to_string(kSpawnProtocolVersion) +
                      "): link it to the version that runs the cluster",
                  true);
    return end_zygote(zygote);
  }
  if (!hello.failure.empty()) {
    fail_requests(zygote, "the program " + name + " cannot start workers: " + hello.failure, true);
    return end_zygote(zygote);
  }
  zygote.state = Zygote::State::kServing;
  zygote.served = true;
  zygote.idle_since = monotonic_now();
  if (!hello.can_fork && !zygote.program->alone) {
    zygote.program->alone = true;
    events_.emplace_back(SpawnNotice{true, "workers of " + name +
                                               " are executed one by one instead of forked, because " + hello.why_not +
                                               ": each start takes as long as the program's own"});
  }
  if (hello.can_fork) return send_waiting(zygote);

  // This process becomes one worker; whoever else waits gets a process of its own.
  Program& program = *zygote.program;
  if (program.zygote == zygote.token) program.zygote = 0;
  if (!zygote.only_for && !program.waiting.empty()) {
    zygote.only_for = std::move(program.waiting.front());
    program.waiting.pop_front();
  }
  if (!zygote.only_for) {
    zygote.ended_by_us = true;
    end_zygote(zygote);
  } else {
    send_waiting(zygote);
  }
  start_waiting_alone(program);
}

void Spawner::start_waiting_alone(Program& program) {
  while (!program.waiting.empty()) {
    std::unique_ptr<SpawnRequest> request = std::move(program.waiting.front());
    program.waiting.pop_front();
    const ProcessId worker = request->worker;
    const Environment environment = request->environment;
    if (Status done = start_process(program, environment, std::move(request)); !done) {
      events_.emplace_back(WorkerSpawnFailed{worker, done.error()});
    }
  }
}

void Spawner::send_waiting(Zygote& zygote) {
  if (zygote.state != Zygote::State::kServing) return;
  while (zygote.in_flight.size() < kInFlightMax) {
    std::unique_ptr<SpawnRequest> request;
    auto& waiting = zygote.program->waiting;
    if (zygote.only_for) {
      request = std::move(zygote.only_for);
      zygote.state = Zygote::State::kSpent;
    } else if (!zygote.program->alone && zygote.state == Zygote::State::kServing && !waiting.empty()) {
      request = std::move(waiting.front());
      waiting.pop_front();
    } else {
      return;
    }
    switch (send_request(zygote.socket.get(), *request)) {
      case PacketOutcome::kDone: zygote.in_flight.push_back(request->worker); break;
      case PacketOutcome::kWouldBlock:
        // The socket is full of requests that are in flight: the next answer sends more. A process that takes one
        // request only has an empty socket.
        if (!zygote.in_flight.empty()) {
          waiting.push_front(std::move(request));
          return;
        }
        [[fallthrough]];
      case PacketOutcome::kFailed:
        events_.emplace_back(WorkerSpawnFailed{request->worker, errno_error("ask for a worker")});
        break;
      case PacketOutcome::kClosed:
        // Its end is noticed by its pidfd, which fails or restarts what waits.
        if (zygote.state == Zygote::State::kSpent) {
          zygote.only_for = std::move(request);
        } else {
          waiting.push_front(std::move(request));
        }
        return;
    }
  }
}

void Spawner::on_zygote_packets(std::uint64_t token) {
  for (;;) {
    const auto found = zygotes_.find(token);
    if (found == zygotes_.end() || !found->second->socket) return;
    Zygote& zygote = *found->second;
    ZygoteMessage message;
    const PacketOutcome outcome = receive_message(zygote.socket.get(), message);
    if (outcome == PacketOutcome::kWouldBlock) return;
    if (outcome == PacketOutcome::kFailed) {
      events_.emplace_back(SpawnNotice{true, "a zygote of " + zygote.program->executable.name + " sent junk: ended"});
    }
    if (outcome != PacketOutcome::kDone) return end_zygote(zygote);
    if (auto* hello = std::get_if<SpawnHello>(&message)) {
      on_hello(zygote, *hello);
    } else if (auto* forked = std::get_if<SpawnForked>(&message)) {
      on_forked(zygote, std::move(*forked));
    } else if (auto* failed = std::get_if<SpawnForkFailed>(&message)) {
      if (!zygote.in_flight.empty()) zygote.in_flight.pop_front();
      errno = failed->error;
      events_.emplace_back(WorkerSpawnFailed{failed->worker, errno_error("fork a worker (is the number of processes "
                                                                         "limited: ulimit -u, cgroup pids?)")});
      send_waiting(zygote);
    } else if (auto* exited = std::get_if<SpawnExited>(&message)) {
      if (const auto worker = worker_tokens_.find(exited->worker); worker != worker_tokens_.end()) {
        finish_worker(worker->second, ExitStatus::from_wait(exited->wait_status));
      }
    }
  }
}

void Spawner::on_forked(Zygote& zygote, SpawnForked forked) {
  if (!zygote.in_flight.empty()) zygote.in_flight.pop_front();
  zygote.forked = true;
  if (zygote.state != Zygote::State::kSpent) {
    ++zygote.children;
    add_worker(forked.worker, PidWatch(forked.pid, std::move(forked.pidfd)), zygote.token);
    return send_waiting(zygote);
  }
  // The process itself is the worker now.
  forget_fd(zygote.socket.get());
  forget_fd(zygote.watch.fd());
  PidWatch watch = std::move(zygote.watch);
  const std::uint64_t token = zygote.token;
  zygotes_.erase(token);
  add_worker(forked.worker, std::move(watch), 0);
}

void Spawner::fail_requests(Zygote& zygote, const std::string& why, bool waiting_too) {
  const auto fail = [&](ProcessId worker) {
    events_.emplace_back(WorkerSpawnFailed{worker, make_error(ErrorKind::kWorkerDied, why)});
  };
  for (const ProcessId worker : zygote.in_flight) fail(worker);
  zygote.in_flight.clear();
  if (zygote.only_for) fail(zygote.only_for->worker);
  zygote.only_for.reset();
  if (!waiting_too || zygote.program->zygote != zygote.token) return;
  for (const auto& request : zygote.program->waiting) fail(request->worker);
  zygote.program->waiting.clear();
}

// Closing its socket tells it to kill its workers and end; its pidfd tells us when it has. Until then it stays its
// program's zygote, so that requests queue behind its end instead of racing with it.
void Spawner::end_zygote(Zygote& zygote) {
  if (zygote.state == Zygote::State::kEnding) return;
  zygote.state = Zygote::State::kEnding;
  forget_fd(zygote.socket.get());
  zygote.socket.reset();
}

void Spawner::on_zygote_ended(std::uint64_t token) {
  // What it still said comes first: exits of its workers, perhaps that it became one.
  on_zygote_packets(token);
  const auto found = zygotes_.find(token);
  if (found == zygotes_.end()) return;
  Zygote& zygote = *found->second;
  const std::optional<ExitStatus> status = zygote.watch.reap();
  if (!status) return;
  Program& program = *zygote.program;
  const bool serves = program.zygote == token;
  // What waits goes to a new zygote, unless this one never made a worker: the next would fare no better.
  const bool restart = serves && !stopping_ && !program.waiting.empty() && (zygote.forked || zygote.ended_by_us);
  std::string why = "the process of " + program.executable.name + " that starts workers ended with ";
  why += to_string(*status);
  if (!zygote.served) {
    why += " before main (is a library missing?)";
    const std::string tail = file_tail(zygote.log_path, kLogTailBytes);
    if (!tail.empty()) why += "; it wrote:\n" + tail;
  } else if (!status->clean() && !stopping_) {
    events_.emplace_back(SpawnNotice{true, why + "; its workers ended with it"});
  }
  fail_requests(zygote, why, !restart);
  if (serves) program.zygote = 0;
  if (zygote.socket) forget_fd(zygote.socket.get());
  forget_fd(zygote.watch.fd());
  if (!zygote.log_path.empty() && status->clean()) ::unlink(zygote.log_path.c_str());
  zygotes_.erase(token);
  adopt_workers_of(token);
  if (restart) {
    if (Status done = start_process(program, {}, nullptr); !done) {
      for (const auto& waits : program.waiting) events_.emplace_back(WorkerSpawnFailed{waits->worker, done.error()});
      program.waiting.clear();
    }
  }
  drop_unused_programs();
}

// A program without process or request is forgotten, and with it its descriptor; that it cannot be forked is worth
// remembering, so that it is said once.
void Spawner::drop_unused_programs() {
  std::set<const Program*> used;
  for (const auto& [token, zygote] : zygotes_) used.insert(zygote->program);
  std::erase_if(programs_, [&](const auto& entry) {
    const Program& program = *entry.second;
    const bool remember = program.alone && programs_.size() <= kProgramsMax;
    return !remember && program.waiting.empty() && !used.contains(&program);
  });
}

}  // namespace mobula::process
