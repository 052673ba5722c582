#include "runtime/process/pid_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

namespace mobula::process {
namespace {

// True when `fd` is readable within `timeout`.
bool readable(int fd, Duration timeout) {
  const Instant deadline = monotonic_now() + timeout;
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    const Duration left = std::max(deadline - monotonic_now(), Duration::zero());
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(milliseconds, 1'000'000)));
    if (ready > 0) return true;
    if (ready == 0 && monotonic_now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Fd open_pidfd(pid_t pid) {
  // pidfd_open always sets CLOEXEC.
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

Result<PidWatch> PidWatch::open(pid_t pid) {
  Fd pidfd = open_pidfd(pid);
  if (!pidfd) return errno_error("watch process " + std::to_string(pid));
  return PidWatch(pid, std::move(pidfd));
}

bool PidWatch::exited() const {
  return pidfd_ ? readable(pidfd_.get(), Duration::zero()) : ::kill(pid_, 0) != 0;
}

bool PidWatch::signal(int number) const {
  if (pid_ < 2) return false;
  if (!pidfd_) return ::kill(pid_, number) == 0;
  return ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) == 0;
}

bool PidWatch::wait(Duration timeout) const {
  if (!pidfd_) return exited();
  return readable(pidfd_.get(), timeout);
}

}  // namespace mobula::process
