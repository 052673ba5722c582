#include "runtime/process/zygote.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>

#include "runtime/process/limits.h"
#include "runtime/process/pid_watch.h"
#include "runtime/process/process_group.h"

namespace mobula::process {
namespace {

std::size_t thread_count() {
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return 1;
  std::size_t count = 0;
  while (const dirent* entry = ::readdir(tasks)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(tasks);
  return count;
}

// Threads of a library that ends them before a fork and starts them again after it (OpenBLAS does, by pthread_atfork).
std::size_t threads_that_survive_fork() {
  using Count = int (*)();
  const auto threads = reinterpret_cast<Count>(::dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  const auto parallel = reinterpret_cast<Count>(::dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  constexpr int kPthreads = 1;
  if (threads == nullptr || parallel == nullptr || parallel() != kPthreads) return 0;
  const int count = threads();
  return count > 1 ? static_cast<std::size_t>(count - 1) : 0;
}

[[noreturn]] void setup_failed(const std::string& what) {
  const std::string why = std::strerror(errno);
  const std::string text = "mobula: the worker could not be set up: cannot " + what + ": " + why + "\n";
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) {
    // Nobody is left to tell; the exit status says it too.
  }
  ::_exit(kSetupFailedStatus);
}

void flush_stdio() {
  std::fflush(nullptr);
  std::cout.flush();
  std::clog.flush();
}

// Ends quietly when the daemon goes away before it says go.
void wait_for_go(int control) {
  for (;;) {
    char byte = 0;
    const ssize_t got = ::read(control, &byte, 1);
    if (got == 1 && byte == kGoByte) return;
    if (got < 0 && errno == EINTR) continue;
    ::_exit(0);
  }
}

// The process that made the pair of sockets.
pid_t peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : -1;
}

// The loop's state; the forked child drops it.
class Server {
 public:
  explicit Server(int socket) : socket_(socket) {
    // A program's static initialiser may have ignored SIGCHLD, which would have the kernel reap for us.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, &before_action_);
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, &before_mask_);
    signals_.reset(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  // The worker's control socket, in the worker.
  int run() {
    for (;;) {
      std::array<pollfd, 2> entries{pollfd{socket_.get(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0}};
      const int ready = ::poll(entries.data(), entries.size(), poll_timeout());
      if (ready < 0 && errno != EINTR) end();
      sweeper_.sweep_if_due(monotonic_now());
      if (entries[1].revents != 0) reap();
      if (entries[0].revents != 0) {
        SpawnRequest request;
        if (take_request(request)) return become_worker(std::move(request));
      }
    }
  }

 private:
  int poll_timeout() const {
    if (sweeper_.next_deadline() == Instant::never()) return -1;
    const Duration left = sweeper_.next_deadline() - monotonic_now();
    return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }

  // True in the child.
  bool take_request(SpawnRequest& request) {
    if (receive_request(socket_.get(), request) != PacketOutcome::kDone) end();
    const pid_t parent = ::getpid();
    flush_stdio();
    const pid_t pid = ::fork();
    if (pid == 0) {
      enter_child(parent);
      return true;
    }
    if (pid < 0) {
      answer(SpawnForkFailed{request.worker, errno});
      return false;
    }
    children_[pid] = request.worker;
    sweeper_.forget(pid);
    answer(SpawnForked{request.worker, pid, open_pidfd(pid)});
    return false;
  }

  void enter_child(pid_t parent) {
    socket_.reset();
    signals_.reset();
    ::sigaction(SIGCHLD, &before_action_, nullptr);
    ::sigprocmask(SIG_SETMASK, &before_mask_, nullptr);
    // The zygote ends its workers when the daemon goes; this covers the end of the zygote itself.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != parent) ::_exit(0);
    if (::setsid() < 0) setup_failed("start a session");
  }

  void reap() {
    std::array<signalfd_siginfo, 16> infos;
    while (::read(signals_.get(), infos.data(), sizeof infos) > 0) {}
    for (;;) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      const pid_t pid = info.si_pid;
      signal_group(pid, SIGKILL);
      int wait_status = 0;
      if (::waitpid(pid, &wait_status, 0) != pid) return;
      const auto child = children_.find(pid);
      if (child == children_.end()) continue;  // a process that a static initialiser started
      sweeper_.add(pid, monotonic_now());
      answer(SpawnExited{child->second, pid, wait_status});
      children_.erase(child);
    }
  }

  void answer(const ZygoteMessage& message) {
    if (send_message(socket_.get(), message) != PacketOutcome::kDone) end();
  }

  // The daemon is gone or wants us gone: nothing that was started here may outlive it.
  [[noreturn]] void end() {
    for (const auto& [pid, child] : children_) {
      ::kill(pid, SIGKILL);
      signal_group(pid, SIGKILL);
      sweeper_.add(pid, monotonic_now());
    }
    sweeper_.sweep();
    ::_exit(0);
  }

  Fd socket_;
  Fd signals_;
  struct sigaction before_action_ {};
  sigset_t before_mask_{};
  std::map<pid_t, ProcessId> children_;
  SessionSweeper sweeper_;
};

void apply_environment(const SpawnRequest& request) {
  for (const std::string& name : request.unset) ::unsetenv(name.c_str());
  for (const auto& [name, value] : request.environment) ::setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

std::string why_not_fork() {
  static constexpr std::array<std::pair<const char*, const char*>, 4> kSanitizers{
      {{"__asan_init", "AddressSanitizer"},
       {"__tsan_init", "ThreadSanitizer"},
       {"__msan_init", "MemorySanitizer"},
       {"__hwasan_init", "HWAddressSanitizer"}}};
  for (const auto& [symbol, name] : kSanitizers) {
    if (::dlsym(RTLD_DEFAULT, symbol) != nullptr) return std::string("it is built with ") + name;
  }
  const std::size_t threads = thread_count();
  const std::size_t known = 1 + threads_that_survive_fork();
  if (threads <= known) return {};
  return std::to_string(threads - known) + " thread(s) run before main";
}

int become_worker(SpawnRequest request) {
  if (::dup2(request.out.get(), STDOUT_FILENO) < 0 || ::dup2(request.err.get(), STDERR_FILENO) < 0) {
    setup_failed("redirect its output");
  }
  request.out.reset();
  request.err.reset();
  apply_environment(request);
  if (request.descriptor_limit != 0) set_descriptor_limit(request.descriptor_limit);
  set_oom_score(request.oom_score);  // refused without privilege when it would go down; harmless
  if (!request.title.empty()) ::prctl(PR_SET_NAME, request.title.c_str(), 0, 0, 0);
  if (!request.working_dir.empty() && ::chdir(request.working_dir.c_str()) != 0) {
    setup_failed("enter the working directory " + request.working_dir);
  }
  const int control = request.control.release();
  wait_for_go(control);
  return control;
}

int serve_zygote(int socket, const std::string& load_failure) {
  flush_stdio();
  SpawnHello hello;
  hello.pid = ::getpid();
  hello.why_not = why_not_fork();
  hello.can_fork = hello.why_not.empty();
  hello.failure = load_failure;
  if (send_message(socket, hello) != PacketOutcome::kDone || !load_failure.empty()) ::_exit(1);
  if (hello.can_fork) {
    Server server(socket);
    return server.run();
  }
  SpawnRequest request;
  if (receive_request(socket, request) != PacketOutcome::kDone) ::_exit(0);
  const pid_t daemon = peer_of(socket);
  if (send_message(socket, SpawnForked{request.worker, ::getpid(), Fd()}) != PacketOutcome::kDone) ::_exit(0);
  ::close(socket);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != daemon) ::_exit(0);  // the daemon ended before the line above
  return become_worker(std::move(request));
}

}  // namespace mobula::process
