#include <doctest/doctest.h>

#include "runtime/base/result.h"
#include "tests/scheduler/node_fixture.h"

namespace mobula::scheduler::test {

TEST_CASE("a lease that fits: spawn, join, assign before grant") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  f.ask(caller, 1);
  const auto spawns = f.did<Spawn>();
  REQUIRE(spawns.size() == 1);
  CHECK(spawns[0].job == JobId{5});
  CHECK(spawns[0].environment == std::vector<std::pair<std::string, std::string>>{{"OMP_NUM_THREADS", "1"}});
  CHECK(f.free_cpus() == Quantity::whole(1));  // taken while it starts
  f.step({WorkerSpawned{spawns[0].worker, 77}});
  f.joins(spawns[0].worker);
  REQUIRE(f.actions.size() == 2);
  const auto& assign = std::get<Send>(f.actions[0]);
  const auto& grant = std::get<Send>(f.actions[1]);
  CHECK(assign.to == Peer::of(spawns[0].worker, f.self()));
  CHECK(std::get<AssignWorker>(assign.message).lease == LeaseId{100, 1});
  CHECK(grant.to == caller.peer());
  CHECK(std::get<LeaseGranted>(grant.message).worker.process == spawns[0].worker);
}

TEST_CASE("a returned worker is warm for the next lease") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  const ProcessId worker = f.lease(caller, 1);
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  CHECK(f.node.stats().workers_idle == 1);
  CHECK(f.free_cpus() == Quantity::whole(2));
  CHECK(f.lease(caller, 2) == worker);
  CHECK(f.did<Spawn>().empty());
}

TEST_CASE("another job gets a worker of its own") {
  NodeFixture f;
  const auto one = f.driver(100, 5);
  const auto two = f.driver(200, 6);
  const ProcessId worker = f.lease(one, 1);
  f.receive(one.peer(), ReturnLease{{100, 1}, false});
  CHECK(f.lease(two, 1) != worker);
}

TEST_CASE("leases wait in order and are served as others come back") {
  NodeFixture f(1);
  const auto caller = f.driver(100, 5);
  const ProcessId worker = f.lease(caller, 1);
  f.ask(caller, 2);
  CHECK(f.actions.empty());
  f.ask(caller, 3);
  CHECK(f.node.stats().leases_queued == 2);
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  auto granted = f.sent<LeaseGranted>();
  REQUIRE(granted.size() == 1);
  CHECK(granted[0].second.lease == LeaseId{100, 2});
  CHECK(granted[0].second.worker.process == worker);
}

TEST_CASE("duplicates get the first answer, in every phase") {
  NodeFixture f(1);
  const auto caller = f.driver(100, 5);
  f.ask(caller, 1);
  const ProcessId worker = f.did<Spawn>().at(0).worker;
  f.ask(caller, 1);  // starting
  CHECK(f.actions.empty());
  f.joins(worker);
  f.ask(caller, 1);  // granted
  REQUIRE(f.sent<LeaseGranted>().size() == 1);
  CHECK(f.sent<LeaseGranted>()[0].second.worker.process == worker);
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  f.ask(caller, 1);  // returned: never again
  CHECK(f.actions.empty());
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  CHECK(f.free_cpus() == Quantity::whole(1));
}

TEST_CASE("a return that overtakes its request leaves a tombstone") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  f.ask(caller, 1);
  CHECK(f.actions.empty());
  CHECK(f.node.stats().leases_held == 0);
}

TEST_CASE("a return while it starts frees the resources; the worker becomes idle") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  f.ask(caller, 1);
  const ProcessId worker = f.did<Spawn>().at(0).worker;
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  CHECK(f.free_cpus() == Quantity::whole(2));
  f.joins(worker);
  CHECK(f.node.stats().workers_idle == 1);
  CHECK(f.sent<LeaseGranted>().empty());
}

TEST_CASE("a worker that its caller gave up is ended, and its resources free when it is gone") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  const ProcessId worker = f.lease(caller, 1);
  f.receive(caller.peer(), ReturnLease{{100, 1}, true});
  REQUIRE(f.did<KillProcess>().size() == 1);
  CHECK(f.did<KillProcess>()[0].process == worker);
  CHECK(f.free_cpus() == Quantity::whole(1));
  f.step({WorkerExited{worker, make_error(ErrorKind::kWorkerDied, "killed")}});
  CHECK(f.free_cpus() == Quantity::whole(2));
  CHECK(f.node.stats().workers == 0);
}

TEST_CASE("a worker that dies: the caller hears how, what it owns is freed") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  const ProcessId worker = f.lease(caller, 1);
  ErrorInfo died = make_error(ErrorKind::kWorkerDied, "ended by a signal");
  died.signal = 11;
  f.step({WorkerExited{worker, died}});
  const auto lost = f.sent<LeaseLost>();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].first == caller.peer());
  CHECK(lost[0].second.error.signal == 11);
  CHECK(lost[0].second.error.node == f.self());
  REQUIRE(f.did<FreeOwned>().size() == 1);
  CHECK(f.did<FreeOwned>()[0].process == worker);
  CHECK(f.free_cpus() == Quantity::whole(2));
  // The same request again hears the same.
  f.ask(caller, 1);
  CHECK(f.sent<LeaseLost>().size() == 1);
  // And whoever asks after the process.
  f.receive(caller.peer(), ProbeProcess{worker});
  const auto status = f.sent<ProcessStatus>();
  REQUIRE(status.size() == 1);
  CHECK_FALSE(status[0].second.alive);
  CHECK(status[0].second.error.signal == 11);
}

TEST_CASE("a worker whose link broke is ended even if its process lives") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  const ProcessId worker = f.lease(caller, 1);
  f.step({PeerLost{Peer::of(worker, f.self()), {}}});
  CHECK(f.did<KillProcess>().size() == 1);
  CHECK(f.sent<LeaseLost>().empty());
  f.step({WorkerExited{worker, make_error(ErrorKind::kWorkerDied, "killed")}});
  CHECK(f.sent<LeaseLost>().size() == 1);
}

TEST_CASE("spawns that fail are tried again, then the lease fails with the reason") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  f.ask(caller, 1);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    auto spawns = f.did<Spawn>();
    if (spawns.empty()) spawns = (f.pass(2s), f.did<Spawn>());
    REQUIRE(spawns.size() == 1);
    f.step({WorkerSpawnFailed{spawns[0].worker, make_error(ErrorKind::kOverloaded, "no more processes")}});
    if (attempt < 3) CHECK(f.sent<LeaseFailed>().empty());
  }
  const auto failed = f.sent<LeaseFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].second.error.message == "no more processes");
  CHECK(f.free_cpus() == Quantity::whole(2));
  f.ask(caller, 2);
  f.step({WorkerSpawnFailed{f.did<Spawn>().at(0).worker, make_error(ErrorKind::kUnknownFunction, "no such program")}});
  CHECK(f.sent<LeaseFailed>().size() == 1);
}

TEST_CASE("a worker that never joins is ended and counts as a failed spawn") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  f.ask(caller, 1);
  const ProcessId first = f.did<Spawn>().at(0).worker;
  f.pass(61s);
  REQUIRE(f.did<KillProcess>().size() == 1);
  CHECK(f.did<KillProcess>()[0].process == first);
  CHECK(f.did<Spawn>().size() == 1);  // another try
  f.joins(f.did<Spawn>()[0].worker);
  CHECK(f.sent<LeaseGranted>().size() == 1);
}

TEST_CASE("a blocked worker lends its CPUs; waking may overdraw them") {
  NodeFixture f(1);
  const auto caller = f.driver(100, 5);
  const ProcessId parent = f.lease(caller, 1);
  const ProcessAddress parent_address{parent, f.self(), JobId{5}};
  f.ask(parent_address, 1);
  CHECK(f.did<Spawn>().empty());
  f.receive(parent_address.peer(), WorkerBlocked{{100, 1}});
  REQUIRE(f.did<Spawn>().size() == 1);
  const ProcessId child = f.did<Spawn>()[0].worker;
  f.receive(parent_address.peer(), WorkerBlocked{{100, 1}});  // a second thread
  f.joins(child);
  CHECK(f.sent<LeaseGranted>().at(0).first == parent_address.peer());
  f.receive(parent_address.peer(), WorkerUnblocked{{100, 1}});
  CHECK(f.free_cpus() == Quantity::whole(0));
  f.receive(parent_address.peer(), WorkerUnblocked{{100, 1}});
  CHECK(f.free_cpus() == Quantity::whole(-1));  // both run
  f.receive(parent_address.peer(), ReturnLease{{parent.value, 1}, false});
  CHECK(f.free_cpus() == Quantity::whole(0));
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  CHECK(f.free_cpus() == Quantity::whole(1));
}

TEST_CASE("a worker that dies while it blocks gives back no CPU twice") {
  NodeFixture f(2);
  const auto caller = f.driver(100, 5);
  const ProcessId worker = f.lease(caller, 1);
  f.receive(Peer::of(worker, f.self()), WorkerBlocked{{100, 1}});
  CHECK(f.free_cpus() == Quantity::whole(2));
  f.step({WorkerExited{worker, {}}});
  CHECK(f.free_cpus() == Quantity::whole(2));
}

TEST_CASE("tasks that wait for tasks nest deeper than there are CPUs") {
  NodeFixture f(1);
  ProcessAddress caller = f.driver(100, 5);
  LeaseId last{};
  for (int depth = 0; depth < 50; ++depth) {
    const ProcessId worker = f.lease(caller, 1);
    last = {caller.process.value, 1};
    f.receive(Peer::of(worker, f.self()), WorkerBlocked{last});
    caller = {worker, f.self(), JobId{5}};
  }
  CHECK(f.node.stats().workers == 50);
}

TEST_CASE("idle workers end after a while, and at once above the bound") {
  NodeFixture f(4);
  const auto caller = f.driver(100, 5);
  for (std::uint64_t i = 1; i <= 4; ++i) f.lease(caller, i);
  for (std::uint64_t i = 1; i <= 4; ++i) f.receive(caller.peer(), ReturnLease{{100, i}, false});
  CHECK(f.node.stats().workers_idle == 4);
  f.lease(caller, 9, cpus(2));  // another environment: another pool
  f.receive(caller.peer(), ReturnLease{{100, 9}, false});
  CHECK(f.node.stats().workers_idle == 4);
  CHECK(f.did<KillProcess>().size() == 1);
  f.pass(31s);
  CHECK(f.node.stats().workers_idle == 0);
}

TEST_CASE("GPUs: the worker sees the granted devices only, and is not reused") {
  NodeConfig config;
  config.self = describe(1, 4);
  config.self.total.devices = {{"GPU-a", Quantity::whole(1), 100, 100}, {"GPU-b", Quantity::whole(1), 100, 100}};
  NodeFixture f(4, config);
  const auto caller = f.driver(100, 5);
  ResourceRequest request = cpus(2);
  request.gpus = Quantity::whole(1);
  f.ask(caller, 1, request);
  const auto spawn = f.did<Spawn>().at(0);
  CHECK(spawn.environment ==
        std::vector<std::pair<std::string, std::string>>{{"CUDA_VISIBLE_DEVICES", "GPU-a"}, {"OMP_NUM_THREADS", "2"}});
  f.joins(spawn.worker);
  CHECK(f.sent<LeaseGranted>().at(0).second.allocation.devices.at(0).uuid == "GPU-a");
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  CHECK(f.did<KillProcess>().size() == 1);
  CHECK(f.node.stats().free.devices[0].share == Quantity::whole(0));  // until its process is gone
  f.step({WorkerExited{spawn.worker, {}}});
  CHECK(f.node.stats().free.devices[0].share == Quantity::whole(1));
}

TEST_CASE("the user's own OMP_NUM_THREADS stays") {
  NodeFixture f;
  const auto caller = f.driver(100, 5);
  auto request = NodeFixture::request(caller, 1);
  request.runtime.environment = {{"OMP_NUM_THREADS", "7"}};
  f.receive(caller.peer(), request);
  CHECK(f.did<Spawn>().at(0).environment.empty());
}

TEST_CASE("a driver that goes: its leases, workers and job end") {
  NodeFixture f;
  f.head_joins();
  const auto caller = f.driver(100, 5);
  REQUIRE(f.sent<RegisterJob>().size() == 1);
  const ProcessId worker = f.lease(caller, 1);
  f.step({PeerLost{caller.peer(), make_error(ErrorKind::kUnreachable, "closed")}});
  CHECK(f.did<KillProcess>().size() == 1);
  CHECK(f.sent<JobFinished>().size() == 1);
  CHECK(f.sent<ProcessGone>().size() == 1);
  CHECK(f.did<FreeOwned>().at(0).process == caller.process);
  f.pass(1100ms);
  CHECK(f.sent<JobFinished>().size() == 1);  // repeated
  f.receive(Peer::head(), EndJob{JobId{5}});
  CHECK(f.did<FreeJob>().size() == 1);
  f.step({WorkerExited{worker, {}}});
  f.pass(5s);
  CHECK(f.sent<JobFinished>().empty());
  CHECK(f.node.stats().workers == 0);
  CHECK(f.free_cpus() == Quantity::whole(2));
}

TEST_CASE("the end of a job is idempotent and spares other jobs") {
  NodeFixture f(4);
  f.head_joins();
  const auto one = f.driver(100, 5);
  const auto two = f.driver(200, 6);
  f.lease(one, 1);
  f.lease(two, 1);
  f.receive(Peer::head(), EndJob{JobId{5}});
  CHECK(f.did<KillProcess>().size() == 2);  // the worker, and the driver that lives
  f.receive(Peer::head(), EndJob{JobId{5}});
  CHECK(f.did<FreeJob>().empty());
  CHECK(f.node.stats().leases_held == 2);
}

}  // namespace mobula::scheduler::test
