// Workers by zygote, on real processes: what they are when they start, how their ends are reported, what dies with
// them.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>

#include "runtime/process/daemon_launch.h"
#include "runtime/process/limits.h"
#include "runtime/process/rotating_file.h"
#include "tests/process/spawn_fixture.h"
#include "tests/skip.h"

namespace mobula::process::testing {
namespace {

const Executable& plain() {
  static const Executable executable = TestDaemon::executable("static_worker_program");
  return executable;
}

}  // namespace

TEST_CASE("a worker has run the static initialisers once and never enters main") {
  TestDaemon daemon;
  const ProcessId worker = daemon.start(plain());
  CHECK(daemon.ask(worker, "inits") == "1");
  CHECK(daemon.ask(worker, "env MOBULA_WORKER_MODE") == "(unset)");
  daemon.tell(worker, "exit 0");
  CHECK(daemon.exit_of(worker).clean());
  const std::string output = daemon.output_of(worker);
  CHECK_FALSE(contains(output, "main was entered"));
  CHECK_FALSE(contains(output, "buffered before"));  // belongs to the zygote alone
}

TEST_CASE("a worker leads its own session and is what was asked for") {
  TestDaemon daemon;
  SpawnRequest request;
  request.environment = {{"FROM_REQUEST", "yes"}, {"OMP_NUM_THREADS", "3"}};
  request.unset = {"PATH"};
  request.working_dir = daemon.log_dir();
  request.title = "w:plus";
  request.descriptor_limit = 77;
  const ProcessId worker = daemon.start(plain(), std::move(request));
  const std::string pid = std::to_string(daemon.pid(worker));
  CHECK(daemon.ask(worker, "pid") == pid);
  CHECK(daemon.ask(worker, "session") == pid);
  CHECK(daemon.ask(worker, "env FROM_REQUEST") == "yes");
  CHECK(daemon.ask(worker, "env OMP_NUM_THREADS") == "3");
  CHECK(daemon.ask(worker, "env PATH") == "(unset)");
  CHECK(daemon.ask(worker, "dir") == daemon.log_dir());
  CHECK(daemon.ask(worker, "title") == "w:plus");
  CHECK(daemon.ask(worker, "limit") == "77");
  // Standard input, output, error, and its control socket: nothing of the zygote's or of other workers.
  const std::string descriptors = daemon.ask(worker, "descriptors");
  CHECK(std::count(descriptors.begin(), descriptors.end(), ' ') == 4);
}

TEST_CASE("a program is started from its descriptor, whatever became of its file") {
  TestDaemon daemon;
  ScratchDir scratch;
  const std::string copy = scratch.path() + "/program";
  std::filesystem::copy_file(program_path("static_worker_program"), copy);
  Executable executable = plain();
  executable.id = "by descriptor";
  executable.file = std::make_shared<const Fd>(::open(copy.c_str(), O_RDONLY | O_CLOEXEC));
  executable.path.clear();
  std::filesystem::remove(copy);
  const ProcessId worker = daemon.start(executable);
  CHECK(daemon.ask(worker, "inits") == "1");
  const std::string descriptors = daemon.ask(worker, "descriptors");
  CHECK(std::count(descriptors.begin(), descriptors.end(), ' ') == 4);
}

TEST_CASE("every way to end is reported once, with its status") {
  TestDaemon daemon;
  const auto end_by = [&](const std::string& order) {
    const ProcessId worker = daemon.start(plain());
    daemon.tell(worker, order);
    return daemon.exit_of(worker);
  };
  CHECK(end_by("exit 0") == ExitStatus{true, 0, 0, false});
  CHECK(end_by("exit 7") == ExitStatus{true, 7, 0, false});
  CHECK(end_by("abort").signal == SIGABRT);
  if (kForks) CHECK(end_by("segfault").signal == SIGSEGV);  // a sanitizer makes it an exit status
  CHECK(end_by("throw").code == 70);

  const ProcessId killed = daemon.start(plain());
  CHECK(daemon.spawner().signal(killed, SIGKILL));
  CHECK(daemon.exit_of(killed).signal == SIGKILL);
  CHECK_FALSE(daemon.spawner().signal(killed, SIGKILL));

  const ProcessId from_outside = daemon.start(plain());
  ::kill(daemon.pid(from_outside), SIGKILL);
  CHECK(daemon.exit_of(from_outside).signal == SIGKILL);
  CHECK(daemon.spawner().worker_count() == 0);
  CHECK(daemon.spawner().zygote_count() == (kForks ? 1 : 0));
}

TEST_CASE("what a worker started ends with it, in its group and in others of its session") {
  TestDaemon daemon;
  const ProcessId worker = daemon.start(plain());
  const pid_t child = std::stoi(daemon.ask(worker, "child"));
  const pid_t in_own_group = std::stoi(daemon.ask(worker, "child-in-own-group"));
  CHECK(::kill(child, 0) == 0);
  CHECK(::kill(in_own_group, 0) == 0);
  daemon.tell(worker, "exit 0");
  CHECK(daemon.exit_of(worker).clean());
  CHECK(gone(child));
  CHECK(gone(in_own_group));
}

TEST_CASE("no user code runs before the go") {
  TestDaemon daemon;
  const ProcessId worker = daemon.ask_for(plain());
  daemon.wait_until([&] { return daemon.started(worker); });
  CHECK_FALSE(daemon.exited(worker));
  SUBCASE("it serves after it") {
    daemon.release(worker);
    CHECK(daemon.ask(worker, "inits") == "1");
  }
  SUBCASE("a daemon that changes its mind hangs up") {
    daemon.hang_up(worker);
    CHECK(daemon.exit_of(worker).clean());
    CHECK(daemon.output_of(worker).empty());
  }
}

TEST_CASE("a worker that cannot be set up says why on its standard error") {
  TestDaemon daemon;
  SpawnRequest request;
  request.working_dir = "/nonexistent/folder";
  const ProcessId worker = daemon.ask_for(plain(), std::move(request));
  CHECK(daemon.exit_of(worker).code == kSetupFailedStatus);
  CHECK(contains(daemon.output_of(worker), "cannot enter the working directory /nonexistent/folder"));
}

TEST_CASE("a zygote serves all workers of its program and load-time environment, and only those") {
  if (!kForks) return mobula::testing::skip("a program with a sanitizer is not forked");
  TestDaemon daemon;
  const ProcessId first = daemon.start(plain());
  const ProcessId second = daemon.start(plain());
  CHECK(daemon.ask(first, "ppid") == daemon.ask(second, "ppid"));
  CHECK(daemon.spawner().zygote_count() == 1);
  SpawnRequest request;
  request.environment = {{"OMP_NUM_THREADS", "4"}};
  const ProcessId third = daemon.start(plain(), std::move(request));
  CHECK(daemon.ask(first, "ppid") != daemon.ask(third, "ppid"));
  CHECK(daemon.spawner().zygote_count() == 2);
}

TEST_CASE("many workers at once") {
  TestDaemon daemon;
  std::vector<ProcessId> workers;
  for (int i = 0; i < 64; ++i) workers.push_back(daemon.ask_for(plain()));
  for (const ProcessId worker : workers) {
    daemon.wait_until([&] { return daemon.started(worker); });
    daemon.release(worker);
  }
  for (const ProcessId worker : workers) CHECK(daemon.ask(worker, "pid") == std::to_string(daemon.pid(worker)));
  for (const ProcessId worker : workers) daemon.tell(worker, "exit 0");
  for (const ProcessId worker : workers) CHECK(daemon.exit_of(worker).clean());
}

TEST_CASE("an idle zygote ends and the next worker gets a new one") {
  if (!kForks) return mobula::testing::skip("a program with a sanitizer is not forked");
  SpawnerConfig config;
  config.idle_timeout = std::chrono::milliseconds(20);
  TestDaemon daemon(std::move(config));
  const ProcessId first = daemon.start(plain());
  daemon.tell(first, "exit 0");
  CHECK(daemon.exit_of(first).clean());
  daemon.wait_until([&] { return daemon.spawner().zygote_count() == 0; });
  const ProcessId second = daemon.start(plain());
  CHECK(daemon.ask(second, "inits") == "1");
}

TEST_CASE("a zygote that is killed takes its workers with it, each reported, and is replaced") {
  if (!kForks) return mobula::testing::skip("a program with a sanitizer is not forked");
  TestDaemon daemon;
  const ProcessId first = daemon.start(plain());
  const ProcessId second = daemon.start(plain());
  const pid_t child = std::stoi(daemon.ask(second, "child"));
  ::kill(std::stoi(daemon.ask(first, "ppid")), SIGKILL);
  CHECK(daemon.exit_of(first).signal == SIGKILL);
  CHECK(daemon.exit_of(second).signal == SIGKILL);
  CHECK(gone(child));
  REQUIRE(daemon.notices().size() == 1);
  CHECK(contains(daemon.notices()[0], "ended with signal 9"));
  const ProcessId third = daemon.start(plain());
  CHECK(daemon.ask(third, "inits") == "1");
}

TEST_CASE("a program with threads before main is executed once per worker, said once") {
  TestDaemon daemon;
  const Executable threaded = TestDaemon::executable("threaded_worker_program");
  std::vector<ProcessId> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(daemon.ask_for(threaded));
  for (const ProcessId worker : workers) {
    daemon.wait_until([&] { return daemon.started(worker); });
    daemon.release(worker);
    CHECK(daemon.ask(worker, "inits") == "1");
    CHECK(daemon.ask(worker, "ppid") == std::to_string(::getpid()));
    CHECK(daemon.ask(worker, "session") == std::to_string(daemon.pid(worker)));
  }
  SpawnRequest request;
  request.environment = {{"FROM_REQUEST", "yes"}};
  const ProcessId late = daemon.start(threaded, std::move(request));
  CHECK(daemon.ask(late, "env FROM_REQUEST") == "yes");
  const pid_t child = std::stoi(daemon.ask(late, "child"));
  const pid_t in_own_group = std::stoi(daemon.ask(late, "child-in-own-group"));
  daemon.tell(late, "abort");
  CHECK(daemon.exit_of(late).signal == SIGABRT);
  CHECK(gone(child));
  daemon.wait_until([&] { return gone(in_own_group, Duration::zero()); });
  for (const ProcessId worker : workers) {
    daemon.tell(worker, "exit 5");
    CHECK(daemon.exit_of(worker).code == 5);
  }
  REQUIRE(daemon.notices().size() == 1);
  CHECK(contains(daemon.notices()[0], kForks ? "1 thread(s) run before main" : "Sanitizer"));
}

TEST_CASE("a program that cannot start fails every request with what it wrote") {
  TestDaemon daemon;
  SUBCASE("it ends before main") {
    const Executable broken = TestDaemon::executable("broken_worker_program");
    const ProcessId first = daemon.ask_for(broken);
    const ProcessId second = daemon.ask_for(broken);
    CHECK(contains(daemon.failure_of(first).message, "exit status 3"));
    CHECK(contains(daemon.failure_of(first).message, "found no configuration"));
    CHECK(contains(daemon.failure_of(second).message, "exit status 3"));
  }
  SUBCASE("it is no program of Mobula at all") {
    Executable foreign;
    foreign.id = foreign.name = "true";
    foreign.path = "/bin/true";
    const ProcessId worker = daemon.ask_for(foreign);
    CHECK(contains(daemon.failure_of(worker).message, "before main"));
  }
  SUBCASE("its library does not load") {
    Executable incomplete = plain();
    incomplete.id = "incomplete";
    incomplete.libraries = {"/nonexistent/libmissing.so"};
    const ProcessId worker = daemon.ask_for(incomplete);
    CHECK(contains(daemon.failure_of(worker).message, "/nonexistent/libmissing.so"));
  }
}

TEST_CASE("a missing executable is refused at once") {
  TestDaemon daemon;
  Executable missing;
  missing.id = missing.name = "missing";
  missing.path = "/nonexistent/program";
  SpawnRequest request;
  request.worker = ProcessId{1};
  request.control = std::move(*duplicate(2));
  request.out = std::move(*duplicate(2));
  request.err = std::move(*duplicate(2));
  const Status asked = daemon.spawner().spawn(missing, std::move(request));
  REQUIRE_FALSE(asked.ok());
  CHECK(contains(asked.error().message, "/nonexistent/program"));
}

TEST_CASE("too large an environment is refused by name") {
  TestDaemon daemon;
  SpawnRequest request;
  request.control = std::move(*duplicate(2));
  request.out = std::move(*duplicate(2));
  request.err = std::move(*duplicate(2));
  request.environment = {{"BIG", std::string(kSpawnPacketBytesMax, 'x')}};
  const Status asked = daemon.spawner().spawn(plain(), std::move(request));
  REQUIRE_FALSE(asked.ok());
  CHECK(contains(asked.error().message, "environment"));
}

TEST_CASE("a static initialiser that blocks is given up") {
  SpawnerConfig config;
  config.start_timeout = std::chrono::milliseconds(100);
  TestDaemon daemon(std::move(config));
  Executable sleeper;
  sleeper.id = sleeper.name = "sleeper";
  sleeper.path = program_path("blocked_worker_program");
  const ProcessId worker = daemon.ask_for(sleeper);
  CHECK(contains(daemon.failure_of(worker).message, "does a static initialiser block?"));
  daemon.wait_until([&] { return daemon.spawner().zygote_count() == 0; });
}

TEST_CASE("stop ends everything") {
  TestDaemon daemon;
  const ProcessId forked = daemon.start(plain());
  const ProcessId executed = daemon.start(TestDaemon::executable("threaded_worker_program"));
  const pid_t child = std::stoi(daemon.ask(forked, "child"));
  const pid_t straggler = std::stoi(daemon.ask(forked, "child-in-own-group"));
  const pid_t child_of_executed = std::stoi(daemon.ask(executed, "child"));
  daemon.spawner().stop();
  CHECK(daemon.spawner().worker_count() == 0);
  CHECK(daemon.spawner().zygote_count() == 0);
  const pid_t of_executed = daemon.pid(executed);
  for (const pid_t pid : {daemon.pid(forked), of_executed, child, straggler, child_of_executed}) CHECK(gone(pid));
}

TEST_CASE("a daemon that is killed leaves no worker and no child of one") {
  for (const std::string program : {"static_worker_program", "threaded_worker_program"}) {
    CAPTURE(program);
    ScratchDir scratch;
    DaemonSpec spec;
    spec.binary = program_path("daemon_program");
    spec.arguments = {program_path(program)};
    spec.log_path = scratch.path() + "/daemon.log";
    const Result<DaemonStarted> daemon = spawn_daemon(spec);
    REQUIRE_MESSAGE(daemon.ok(), (daemon.ok() ? std::string() : daemon.error().message));
    std::vector<pid_t> pids;
    for (std::size_t at = 0; at < daemon->ready.size(); at = daemon->ready.find(' ', at) + 1) {
      pids.push_back(std::stoi(daemon->ready.substr(at)));
    }
    REQUIRE(pids.size() == 6);
    for (const pid_t pid : pids) CHECK(::kill(pid, 0) == 0);
    ::kill(daemon->pid, SIGKILL);
    CHECK(gone(daemon->pid));
    reap_with_group(daemon->pid);
    const bool forked = kForks && program == "static_worker_program";
    // Of an executed worker the kernel ends the worker itself; the zygote ends what forked workers started as well.
    for (std::size_t i = 0; i < (forked ? pids.size() : 2); ++i) CHECK(gone(pids[i]));
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  }
}

TEST_CASE("how long a worker takes to start") {
  TestDaemon daemon;
  const ProcessId warm = daemon.start(plain());
  CHECK(daemon.ask(warm, "inits") == "1");
  std::vector<std::int64_t> microseconds;
  for (int i = 0; i < 50; ++i) {
    const Instant begin = monotonic_now();
    const ProcessId worker = daemon.start(plain());
    CHECK(daemon.ask(worker, "inits") == "1");
    microseconds.push_back((monotonic_now() - begin) / std::chrono::microseconds(1));
    daemon.tell(worker, "exit 0");
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::cout << "worker start by zygote, asked for to first answer: median " << microseconds[25] << " us, worst "
            << microseconds.back() << " us\n";
}

}  // namespace mobula::process::testing
