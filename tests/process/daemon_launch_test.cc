#include "runtime/process/daemon_launch.h"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>

#include "runtime/process/process_group.h"
#include "runtime/process/rotating_file.h"
#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

DaemonSpec spec_of(const std::string& mode, const ScratchDir& scratch) {
  DaemonSpec spec;
  spec.binary = program_path("starting_daemon_program");
  spec.arguments = {mode};
  spec.log_path = scratch.path() + "/daemon.log";
  return spec;
}

}  // namespace

TEST_CASE("a daemon that is ready is left running in a session of its own, with its log") {
  ScratchDir scratch;
  const Result<DaemonStarted> daemon = spawn_daemon(spec_of("ready", scratch));
  REQUIRE(daemon.ok());
  CHECK(daemon->ready == "{\"port\":1}");
  CHECK(::kill(daemon->pid, 0) == 0);
  CHECK(file_tail(scratch.path() + "/daemon.log", 1000) == "the daemon says hello\n");
  ::kill(daemon->pid, SIGKILL);
  CHECK(gone(daemon->pid));
  CHECK(reap_with_group(daemon->pid)->signal == SIGKILL);
}

TEST_CASE("a daemon's own words are the error") {
  ScratchDir scratch;
  const Result<DaemonStarted> daemon = spawn_daemon(spec_of("failure", scratch));
  REQUIRE_FALSE(daemon.ok());
  CHECK(daemon.error().kind == ErrorKind::kUnauthenticated);
  CHECK(daemon.error().message == "the key is wrong:\nuse the other one");
}

TEST_CASE("a daemon that just ends is explained by its status and log") {
  ScratchDir scratch;
  const Result<DaemonStarted> daemon = spawn_daemon(spec_of("exit", scratch));
  REQUIRE_FALSE(daemon.ok());
  CHECK(daemon.error().message.find("exit status 5") != std::string::npos);
  CHECK(daemon.error().message.find("the daemon says hello") != std::string::npos);
}

TEST_CASE("a silent daemon is killed at the deadline") {
  ScratchDir scratch;
  DaemonSpec spec = spec_of("silent", scratch);
  spec.timeout = std::chrono::milliseconds(200);
  const Result<DaemonStarted> daemon = spawn_daemon(spec);
  REQUIRE_FALSE(daemon.ok());
  CHECK(daemon.error().kind == ErrorKind::kTimeout);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // nothing of it is left to reap
}

TEST_CASE("a daemon that does not exist") {
  ScratchDir scratch;
  DaemonSpec spec = spec_of("ready", scratch);
  spec.binary = "/nonexistent/mobula";
  const Result<DaemonStarted> daemon = spawn_daemon(spec);
  REQUIRE_FALSE(daemon.ok());
  CHECK(daemon.error().message.find("/nonexistent/mobula") != std::string::npos);
}

}  // namespace mobula::process::testing
