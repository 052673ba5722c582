#include "runtime/process/spawner.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "runtime/process/launch.h"
#include "runtime/process/limits.h"
#include "runtime/process/spawner_state.h"

namespace mobula::process {
namespace {

constexpr std::uint64_t kTimerToken = 0;
// How long an ended worker's zygote may take to say how it ended.
constexpr Duration kReportTimeout = std::chrono::seconds(2);
// How often orphans that workers left behind are reaped.
constexpr Duration kOrphanPeriod = std::chrono::seconds(2);
constexpr int kEventsPerRound = 64;
constexpr int kRoundsPerPoll = 16;

}  // namespace

bool is_load_variable(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kPrefixes{"OMP_", "GOMP_", "KMP_",    "OPENBLAS_", "GOTO_",
                                                              "MKL_", "BLIS_", "MALLOC_", "LD_",       "GLIBC_"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

RuntimeKey runtime_key(const Executable& executable, const Environment& environment) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : environment) {
    if (is_load_variable(name)) variables[name] = value;
  }
  return RuntimeKey{executable.id, executable.libraries, Environment(variables.begin(), variables.end())};
}

bool release_worker(int control_socket) {
  return ::send(control_socket, &kGoByte, 1, MSG_NOSIGNAL) == 1;
}

Spawner::Spawner(SpawnerConfig config) : config_(std::move(config)) {}

Spawner::~Spawner() {
  stop();
}

Result<std::unique_ptr<Spawner>> Spawner::create(SpawnerConfig config) {
  std::unique_ptr<Spawner> spawner(new Spawner(std::move(config)));
  if (!open_pidfd(::getpid())) return errno_error("watch processes (pidfd_open, Linux 5.3 or newer, is needed)");
  if (!become_subreaper()) return errno_error("become the reaper of orphaned workers");
  spawner->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!spawner->epoll_) return errno_error("make an epoll descriptor");
  spawner->timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!spawner->timer_) return errno_error("make a timer");
  if (Status done = spawner->watch(spawner->timer_.get(), kTimerToken); !done) return done.error();
  return spawner;
}

Status Spawner::watch(int fd, std::uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno_error("watch a descriptor");
  return {};
}

void Spawner::forget_fd(int fd) {
  if (fd >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Status Spawner::spawn(const Executable& executable, SpawnRequest request) {
  if (stopping_) return make_error(ErrorKind::kRuntimeStopped, "this node is stopping and starts no workers");
  if (!request.control || !request.out || !request.err) {
    return make_error(ErrorKind::kInvalid, "a worker needs a control socket and both output descriptors");
  }
  if (Status fits = check_size(request); !fits) return fits;
  Program& program = program_of(executable, request.environment);
  if (program.waiting.size() >= kWaitingMax) {
    return make_error(ErrorKind::kOverloaded, std::to_string(kWaitingMax) + " workers of " + executable.name +
                                                  " wait to be started already: try again later");
  }
  if (program.alone) {
    const Environment environment = request.environment;
    return start_process(program, environment, std::make_unique<SpawnRequest>(std::move(request)));
  }
  if (program.zygote == 0) {
    if (Status started = start_process(program, {}, nullptr); !started) return started;
  }
  program.waiting.push_back(std::make_unique<SpawnRequest>(std::move(request)));
  send_waiting(*zygotes_.at(program.zygote));
  if (!events_.empty()) arm_timer();
  return {};
}

Status Spawner::prepare(const Executable& executable, const Environment& environment) {
  if (stopping_) return make_error(ErrorKind::kRuntimeStopped, "this node is stopping and starts no workers");
  Program& program = program_of(executable, environment);
  if (program.alone || program.zygote != 0) return {};
  return start_process(program, {}, nullptr);
}

void Spawner::poll(std::vector<SpawnEvent>& events) {
  for (int round = 0; round < kRoundsPerPoll; ++round) {
    std::array<epoll_event, kEventsPerRound> ready;
    const int count = ::epoll_wait(epoll_.get(), ready.data(), kEventsPerRound, 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t token = ready[static_cast<std::size_t>(i)].data.u64;
      if (token == kTimerToken) {
        std::uint64_t ticks = 0;
        if (::read(timer_.get(), &ticks, sizeof ticks) < 0) {
          // It was armed again in between: nothing is lost.
        }
      } else if ((token & kSocketBit) != 0) {
        on_zygote_packets(token & ~kSocketBit);
      } else if (zygotes_.contains(token)) {
        on_zygote_ended(token);
      } else {
        on_worker_ended(token);
      }
    }
    if (count < kEventsPerRound) break;
  }
  run_deadlines(monotonic_now());
  events.insert(events.end(), std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  arm_timer();
}

void Spawner::add_worker(ProcessId id, PidWatch process, std::uint64_t zygote) {
  auto worker = std::make_unique<Worker>();
  worker->id = id;
  worker->watch = std::move(process);
  worker->zygote = zygote;
  const std::uint64_t token = next_token_++;
  const pid_t pid = worker->watch.pid();
  sweeper_.forget(pid);
  // Without a descriptor for it (the zygote had none left) its end is known from the zygote alone.
  if (worker->watch.fd() >= 0) {
    if (Status done = watch(worker->watch.fd(), token); !done) {
      events_.emplace_back(SpawnNotice{true, done.error().message});
    }
  }
  workers_[token] = std::move(worker);
  worker_tokens_[id] = token;
  if (next_orphan_reap_ == Instant::never()) next_orphan_reap_ = monotonic_now() + kOrphanPeriod;
  events_.emplace_back(WorkerStarted{id, pid});
}

void Spawner::on_worker_ended(std::uint64_t token) {
  const auto found = workers_.find(token);
  if (found == workers_.end()) return;
  Worker& worker = *found->second;
  if (worker.zygote != 0) {
    // The zygote reaps it and says how it ended; the descriptor stays readable, so it is not watched any longer.
    forget_fd(worker.watch.fd());
    unreported_.emplace_back(monotonic_now() + kReportTimeout, token);
    return;
  }
  if (const std::optional<ExitStatus> status = worker.watch.reap()) {
    sweeper_.add(worker.watch.pid(), monotonic_now());
    finish_worker(token, *status);
  }
}

// Their zygote is gone: the kernel kills them and makes them our children.
void Spawner::adopt_workers_of(std::uint64_t zygote) {
  for (auto& [token, worker] : workers_) {
    if (worker->zygote != zygote) continue;
    worker->zygote = 0;
    worker->watch.signal(SIGKILL);
    forget_fd(worker->watch.fd());
    if (worker->watch.fd() < 0 || !watch(worker->watch.fd(), token)) {
      unreported_.emplace_back(monotonic_now() + kReportTimeout, token);
    }
  }
}

void Spawner::finish_worker(std::uint64_t token, const ExitStatus& status) {
  const auto found = workers_.find(token);
  if (found == workers_.end()) return;
  Worker& worker = *found->second;
  if (const auto zygote = zygotes_.find(worker.zygote); zygote != zygotes_.end()) {
    if (zygote->second->children > 0) --zygote->second->children;
    zygote->second->idle_since = monotonic_now();
  }
  forget_fd(worker.watch.fd());
  events_.emplace_back(WorkerExited{worker.id, worker.watch.pid(), status});
  worker_tokens_.erase(worker.id);
  workers_.erase(found);
}

bool Spawner::signal(ProcessId worker, int number) {
  const auto token = worker_tokens_.find(worker);
  return token != worker_tokens_.end() && workers_.at(token->second)->watch.signal(number);
}

pid_t Spawner::pid_of(ProcessId worker) const {
  const auto token = worker_tokens_.find(worker);
  return token == worker_tokens_.end() ? 0 : workers_.at(token->second)->watch.pid();
}

namespace {

// When a zygote is due: to have said hello, or to end because nobody needs it.
template <class Zygote>
Instant deadline_of(const Zygote& zygote, bool waiting, const SpawnerConfig& config) {
  if (zygote.state == Zygote::State::kStarting) return zygote.started + config.start_timeout;
  const bool idle = zygote.state == Zygote::State::kServing && zygote.children == 0 && zygote.in_flight.empty() &&
                    zygote.only_for == nullptr && !waiting;
  return idle ? zygote.idle_since + config.idle_timeout : Instant::never();
}

}  // namespace

void Spawner::run_deadlines(Instant now) {
  for (auto& [token, zygote] : zygotes_) {
    if (deadline_of(*zygote, !zygote->program->waiting.empty(), config_) > now) continue;
    if (zygote->state == Zygote::State::kStarting) {
      fail_requests(*zygote,
                    "the program " + zygote->program->executable.name + " did not get as far as main within " +
                        std::to_string(config_.start_timeout / std::chrono::seconds(1)) +
                        " s: does a static initialiser block?",
                    true);
      zygote->watch.signal(SIGKILL);
    }
    zygote->ended_by_us = true;
    end_zygote(*zygote);
  }
  while (!unreported_.empty() && unreported_.front().first <= now) {
    const std::uint64_t token = unreported_.front().second;
    unreported_.pop_front();
    finish_worker(token, ExitStatus{});
  }
  sweeper_.sweep_if_due(now);
  if (now >= next_orphan_reap_) {
    std::vector<pid_t> ours;
    for (const auto& [token, worker] : workers_) ours.push_back(worker->watch.pid());
    std::sort(ours.begin(), ours.end());
    reap_orphans(ours);
    next_orphan_reap_ = workers_.empty() ? Instant::never() : now + kOrphanPeriod;
  }
}

Instant Spawner::next_deadline() const {
  if (!events_.empty()) return Instant{1};
  Instant next = std::min(sweeper_.next_deadline(), next_orphan_reap_);
  for (const auto& [token, zygote] : zygotes_) {
    next = std::min(next, deadline_of(*zygote, !zygote->program->waiting.empty(), config_));
  }
  if (!unreported_.empty()) next = std::min(next, unreported_.front().first);
  return next;
}

void Spawner::arm_timer() {
  itimerspec setting{};
  if (const Instant next = next_deadline(); next != Instant::never()) {
    // steady_clock is CLOCK_MONOTONIC; zero would disarm the timer.
    const std::int64_t at = std::max<std::int64_t>(next.nanoseconds, 1);
    setting.it_value.tv_sec = at / 1'000'000'000;
    setting.it_value.tv_nsec = at % 1'000'000'000;
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void Spawner::stop(Duration timeout) {
  if (stopping_ || !epoll_ || !timer_) return;
  stopping_ = true;
  for (auto& [token, zygote] : zygotes_) {
    if (zygote->state != Zygote::State::kServing) zygote->watch.signal(SIGKILL);
    zygote->ended_by_us = true;
    end_zygote(*zygote);
  }
  for (auto& [token, worker] : workers_) worker->watch.signal(SIGKILL);
  const Instant deadline = monotonic_now() + timeout;
  bool forced = false;
  std::vector<SpawnEvent> ignored;
  while (!zygotes_.empty() || !workers_.empty()) {
    poll(ignored);
    ignored.clear();
    if (zygotes_.empty() && workers_.empty()) break;
    const Duration left = deadline - monotonic_now();
    if (left <= Duration::zero()) {
      if (forced) break;
      forced = true;
      for (auto& [token, zygote] : zygotes_) zygote->watch.signal(SIGKILL);
    }
    epoll_event event{};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    ::epoll_wait(epoll_.get(), &event, 1, static_cast<int>(std::clamp<std::int64_t>(milliseconds, 0, 100)));
  }
  sweeper_.sweep();
  reap_orphans({});
}

}  // namespace mobula::process
