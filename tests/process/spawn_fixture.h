// A daemon's part in a test: starts workers of this folder's programs, waits for events, talks to the workers.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/time.h"
#include "runtime/process/pid_watch.h"
#include "runtime/process/spawner.h"

namespace mobula::process::testing {

// With a sanitizer every worker is executed, none forked: tests about zygotes are skipped.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kForks = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kForks = false;
#else
inline constexpr bool kForks = true;
#endif
#else
inline constexpr bool kForks = true;
#endif

constexpr Duration kPatience = std::chrono::seconds(30);

inline std::string program_path(const std::string& name) {
  return std::string(MOBULA_BINARY_DIR) + "/bin/tests/programs/" + name;
}

// A folder that goes with the test.
class ScratchDir {
 public:
  ScratchDir() {
    char pattern[] = "/tmp/mobula-test-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// True when the process has ended within `timeout`, reaped or not.
inline bool gone(pid_t pid, Duration timeout = kPatience) {
  const Result<PidWatch> watch = PidWatch::open(pid);
  return !watch || watch->wait(timeout);
}

class TestDaemon {
 public:
  explicit TestDaemon(SpawnerConfig config = {}) {
    if (config.log_dir.empty()) config.log_dir = scratch_.path();
    Result<std::unique_ptr<Spawner>> made = Spawner::create(std::move(config));
    REQUIRE(made.ok());
    spawner_ = std::move(*made);
  }

  static Executable executable(const std::string& name) {
    Executable result;
    result.id = result.name = name;
    result.path = program_path(name);
    return result;
  }

  // The worker's output, both streams, comes out of output_of().
  ProcessId ask_for(const Executable& executable, SpawnRequest request = {}) {
    const ProcessId id{next_id_++};
    Result<SocketPair> control = make_socket_pair(SOCK_STREAM);
    Result<Pipe> output = make_pipe();
    REQUIRE(control.ok());
    REQUIRE(output.ok());
    request.worker = id;
    request.control = std::move(control->theirs);
    request.err = std::move(*duplicate(output->write.get()));
    request.out = std::move(output->write);
    controls_[id] = std::move(control->ours);
    outputs_[id] = std::move(output->read);
    const Status asked = spawner_->spawn(executable, std::move(request));
    REQUIRE_MESSAGE(asked.ok(), (asked.ok() ? std::string() : asked.error().message));
    return id;
  }

  // A worker that is started and released.
  ProcessId start(const Executable& executable, SpawnRequest request = {}) {
    const ProcessId id = ask_for(executable, std::move(request));
    wait_until([&] { return started(id) || failed(id); });
    REQUIRE_MESSAGE(started(id), (failed(id) ? failures_.at(id).message : std::string()));
    release(id);
    return id;
  }

  void release(ProcessId id) { REQUIRE(release_worker(controls_.at(id).get())); }

  void tell(ProcessId id, const std::string& line) {
    const std::string text = line + "\n";
    REQUIRE(::send(controls_.at(id).get(), text.data(), text.size(), MSG_NOSIGNAL) > 0);
  }
  std::string ask(ProcessId id, const std::string& question) {
    tell(id, question);
    std::string answer;
    for (char c = 0; ::read(controls_.at(id).get(), &c, 1) == 1 && c != '\n';) answer += c;
    return answer;
  }
  void hang_up(ProcessId id) { controls_.at(id).reset(); }

  // All it printed; returns when every writer has closed.
  std::string output_of(ProcessId id) {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(outputs_.at(id).get(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

  void wait_until(const std::function<bool()>& condition) {
    const Instant deadline = monotonic_now() + kPatience;
    while (!condition()) {
      REQUIRE_MESSAGE(monotonic_now() < deadline, "nothing more came from the spawner");
      pollfd entry{spawner_->fd(), POLLIN, 0};
      ::poll(&entry, 1, 1000);
      std::vector<SpawnEvent> events;
      spawner_->poll(events);
      for (SpawnEvent& event : events) take(std::move(event));
    }
  }
  ExitStatus exit_of(ProcessId id) {
    wait_until([&] { return exits_.contains(id); });
    return exits_.at(id);
  }
  ErrorInfo failure_of(ProcessId id) {
    wait_until([&] { return failed(id); });
    return failures_.at(id);
  }

  bool started(ProcessId id) const { return pids_.contains(id); }
  bool failed(ProcessId id) const { return failures_.contains(id); }
  bool exited(ProcessId id) const { return exits_.contains(id); }
  pid_t pid(ProcessId id) const { return pids_.at(id); }
  Spawner& spawner() { return *spawner_; }
  const std::vector<std::string>& notices() const { return notices_; }
  const std::string& log_dir() const { return scratch_.path(); }

 private:
  void take(SpawnEvent event) {
    if (auto* begun = std::get_if<WorkerStarted>(&event)) {
      CHECK_FALSE(started(begun->worker));
      pids_[begun->worker] = begun->pid;
    } else if (auto* failure = std::get_if<WorkerSpawnFailed>(&event)) {
      failures_[failure->worker] = failure->error;
    } else if (auto* exit = std::get_if<WorkerExited>(&event)) {
      CHECK(started(exit->worker));
      CHECK_FALSE(exited(exit->worker));
      CHECK(exit->pid == pids_.at(exit->worker));
      exits_[exit->worker] = exit->status;
    } else if (auto* notice = std::get_if<SpawnNotice>(&event)) {
      notices_.push_back(notice->text);
    }
  }

  ScratchDir scratch_;
  std::unique_ptr<Spawner> spawner_;
  std::uint64_t next_id_ = 1;
  std::map<ProcessId, Fd> controls_;
  std::map<ProcessId, Fd> outputs_;
  std::map<ProcessId, pid_t> pids_;
  std::map<ProcessId, ErrorInfo> failures_;
  std::map<ProcessId, ExitStatus> exits_;
  std::vector<std::string> notices_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mobula::process::testing
