#include "runtime/process/process_group.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/process/launch.h"

namespace mobula::process {
namespace {

// Field 6 of /proc/<pid>/stat; -1 when the process is gone or a zombie.
pid_t session_of(const char* pid_text) {
  std::array<char, 64> path{};
  if (std::strlen(pid_text) > 32) return -1;
  std::strcpy(path.data(), "/proc/");
  std::strcat(path.data(), pid_text);
  std::strcat(path.data(), "/stat");
  const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  std::array<char, 512> text{};
  const ssize_t got = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  if (got <= 0) return -1;
  // The command name in brackets may itself contain brackets and spaces: the last one ends it.
  const char* after_name = std::strrchr(text.data(), ')');
  if (after_name == nullptr || after_name[1] == '\0') return -1;
  const char* state = after_name + 2;
  if (*state == 'Z' || *state == 'X') return -1;
  char* end = nullptr;
  std::strtol(state + 1, &end, 10);  // parent
  std::strtol(end, &end, 10);        // group
  return static_cast<pid_t>(std::strtol(end, &end, 10));
}

}  // namespace

ExitStatus ExitStatus::from_wait(int wait_status) {
  ExitStatus status;
  status.known = true;
  if (WIFSIGNALED(wait_status)) {
    status.signal = WTERMSIG(wait_status);
    status.core = WCOREDUMP(wait_status);
  } else {
    status.code = WEXITSTATUS(wait_status);
  }
  return status;
}

std::string to_string(const ExitStatus& status) {
  if (!status.known) return "unknown status";
  if (status.signal == 0) return "exit status " + std::to_string(status.code);
  const char* name = ::sigdescr_np(status.signal);
  return "signal " + std::to_string(status.signal) + " (" + (name != nullptr ? name : "unknown") + ")";
}

bool signal_group(pid_t group, int signal) {
  if (group < 2 || group == ::getpgrp()) return false;
  return ::kill(-group, signal) == 0;
}

std::optional<ExitStatus> reap_with_group(pid_t pid) {
  siginfo_t info{};
  int outcome = 0;
  do {
    outcome = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  } while (outcome != 0 && errno == EINTR);
  if (outcome != 0) return ExitStatus{};      // ECHILD: not ours
  if (info.si_pid == 0) return std::nullopt;  // still running
  signal_group(pid, SIGKILL);
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0) {
    if (errno != EINTR) return ExitStatus{};
  }
  forget_launched(pid);
  return ExitStatus::from_wait(wait_status);
}

std::size_t kill_sessions(const std::vector<pid_t>& sessions) {
  if (sessions.empty()) return 0;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return 0;
  const pid_t self = ::getpid();
  std::size_t killed = 0;
  while (const dirent* entry = ::readdir(proc)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const pid_t session = session_of(entry->d_name);
    if (session < 2 || !std::binary_search(sessions.begin(), sessions.end(), session)) continue;
    const pid_t pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid != self && ::kill(pid, SIGKILL) == 0) ++killed;
  }
  ::closedir(proc);
  return killed;
}

void SessionSweeper::add(pid_t session, Instant now) {
  const auto at = std::lower_bound(sessions_.begin(), sessions_.end(), session);
  if (at == sessions_.end() || *at != session) sessions_.insert(at, session);
  if (deadline_ == Instant::never()) deadline_ = now + kDelay;
}

void SessionSweeper::forget(pid_t session) {
  const auto at = std::lower_bound(sessions_.begin(), sessions_.end(), session);
  if (at != sessions_.end() && *at == session) sessions_.erase(at);
}

void SessionSweeper::sweep_if_due(Instant now) {
  if (now >= deadline_) sweep();
}

void SessionSweeper::sweep() {
  kill_sessions(sessions_);
  sessions_.clear();
  deadline_ = Instant::never();
}

}  // namespace mobula::process
