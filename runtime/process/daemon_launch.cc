#include "runtime/process/daemon_launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "runtime/process/fd.h"
#include "runtime/process/launch.h"
#include "runtime/process/pid_watch.h"
#include "runtime/process/rotating_file.h"

namespace mobula::process {
namespace {

// On the pipe: 'R', a line of JSON and a newline; or 'E', the error kind as a number, a space, the text, and the end.
constexpr char kReadyTag = 'R';
constexpr char kFailureTag = 'E';
constexpr std::size_t kAnnouncementBytesMax = 64 * 1024;
constexpr std::size_t kLogTailBytes = 2048;
constexpr Duration kExitTimeout = std::chrono::seconds(2);

enum class Heard { kReady, kFailure, kEnd, kTimeout };

// Reads until the announcement is complete.
Heard listen(int fd, Instant deadline, std::string& text) {
  for (;;) {
    const Duration left = deadline - monotonic_now();
    if (left <= Duration::zero()) return Heard::kTimeout;
    pollfd entry{fd, POLLIN, 0};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(milliseconds, 1'000'000)));
    if (ready <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return !text.empty() && text.front() == kFailureTag ? Heard::kFailure : Heard::kEnd;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kAnnouncementBytesMax) return Heard::kEnd;
    if (text.front() == kReadyTag && text.find('\n') != std::string::npos) return Heard::kReady;
  }
}

ErrorInfo parse_failure(std::string_view text) {
  text.remove_prefix(1);
  unsigned kind = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9' && kind < 1000) {
    kind = kind * 10 + static_cast<unsigned>(text.front() - '0');
    text.remove_prefix(1);
  }
  if (!text.empty()) text.remove_prefix(1);
  return make_error(static_cast<ErrorKind>(kind), std::string(text));
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Kills the daemon that did not come up and whatever it started; returns how it had ended, if by itself.
std::optional<ExitStatus> put_down(pid_t pid, bool give_time) {
  Result<PidWatch> watch = PidWatch::open(pid);
  if (!watch) return std::nullopt;
  const bool by_itself = give_time && watch->wait(kExitTimeout);
  if (!by_itself) {
    watch->signal(SIGKILL);
    watch->wait(kExitTimeout);
  }
  const std::optional<ExitStatus> status = watch->reap();
  kill_sessions({pid});
  return by_itself ? status : std::nullopt;
}

std::string with_log_tail(std::string text, const std::string& log_path) {
  if (log_path.empty()) return text;
  const std::string tail = file_tail(log_path, kLogTailBytes);
  if (tail.empty()) return text + " (its log " + log_path + " is empty)";
  return text + "; the end of its log " + log_path + ":\n" + tail;
}

}  // namespace

Result<DaemonStarted> spawn_daemon(const DaemonSpec& spec) {
  Result<Pipe> pipe = make_pipe();
  if (!pipe) return pipe.error();
  Fd log;
  if (!spec.log_path.empty()) {
    log.reset(::open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!log) return errno_error("open the log file " + spec.log_path);
  }
  LaunchSpec launch_spec;
  launch_spec.path = spec.binary;
  launch_spec.argv = {spec.binary};
  launch_spec.argv.insert(launch_spec.argv.end(), spec.arguments.begin(), spec.arguments.end());
  launch_spec.argv.insert(launch_spec.argv.end(), {"--ready-fd", std::to_string(kExtraFd)});
  launch_spec.environment = environment_with(spec.environment);
  launch_spec.working_dir = spec.working_dir;
  launch_spec.out = log.get();
  launch_spec.err = log.get();
  launch_spec.extra = pipe->write.get();
  launch_spec.new_session = spec.own_session;
  Result<pid_t> pid = launch(launch_spec);
  if (!pid) return pid.error();
  pipe->write.reset();

  std::string text;
  switch (listen(pipe->read.get(), monotonic_now() + spec.timeout, text)) {
    case Heard::kReady: return DaemonStarted{*pid, text.substr(1, text.find('\n') - 1)};
    case Heard::kFailure: put_down(*pid, true); return parse_failure(text);
    case Heard::kEnd: {
      const std::optional<ExitStatus> status = put_down(*pid, true);
      const std::string how = status ? "ended with " + to_string(*status) : std::string("closed its pipe");
      return make_error(ErrorKind::kUnreachable,
                        with_log_tail(spec.binary + " " + how + " before it was ready", spec.log_path));
    }
    case Heard::kTimeout: break;
  }
  put_down(*pid, false);
  return make_error(ErrorKind::kTimeout, with_log_tail(spec.binary + " was not ready within " +
                                                           std::to_string(spec.timeout / std::chrono::milliseconds(1)) +
                                                           " ms and was killed",
                                                       spec.log_path));
}

bool announce_ready(int ready_fd, const std::string& json) {
  const Fd owned(ready_fd);
  return write_all(ready_fd, kReadyTag + json + "\n");
}

bool announce_failure(int ready_fd, const ErrorInfo& error) {
  const Fd owned(ready_fd);
  const std::string text = error.message.substr(0, kAnnouncementBytesMax / 2);
  return write_all(ready_fd, kFailureTag + std::to_string(static_cast<unsigned>(error.kind)) + " " + text);
}

}  // namespace mobula::process
