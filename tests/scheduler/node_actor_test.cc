#include <doctest/doctest.h>

#include "runtime/base/result.h"
#include "tests/scheduler/node_fixture.h"

namespace mobula::scheduler::test {

namespace {

const ActorId kActor{100, 1};

ActorSpec spec(double placement = 1, double held = 0) {
  ActorSpec spec;
  spec.actor = kActor;
  spec.owner = {ProcessId{100}, NodeId{1}, JobId{5}};
  spec.constructor.job = JobId{5};
  spec.constructor.name = "Counter";
  spec.constructor.resources = cpus(held);
  spec.constructor.runtime.executable = "abc";
  spec.placement = cpus(placement);
  return spec;
}

struct ActorFixture : NodeFixture {
  ActorFixture() : NodeFixture(2) { head_joins(); }
  ProcessId start(std::uint64_t incarnation = 1, ActorSpec what = spec()) {
    receive(Peer::head(), StartActor{what, incarnation});
    const ProcessId worker = did<Spawn>().at(0).worker;
    joins(worker);
    REQUIRE(sent<HostActor>().size() == 1);
    return worker;
  }
  void alive(ProcessId worker, std::uint64_t incarnation = 1) {
    receive(Peer::of(worker, self()), ActorStarted{kActor, incarnation, {{worker, self(), JobId{5}}, 0}});
    REQUIRE(sent<ActorStarted>().size() == 1);
    CHECK(sent<ActorStarted>()[0].first == Peer::head());
  }
};

}  // namespace

TEST_CASE("an actor: placed with its CPU, alive without it") {
  ActorFixture f;
  f.receive(Peer::head(), StartActor{spec(), 1});
  CHECK(f.free_cpus() == Quantity::whole(1));
  const ProcessId worker = f.did<Spawn>().at(0).worker;
  f.joins(worker);
  REQUIRE(f.actions.size() >= 2);
  CHECK(std::holds_alternative<AssignWorker>(std::get<Send>(f.actions[0]).message));
  CHECK(std::holds_alternative<HostActor>(std::get<Send>(f.actions[1]).message));
  f.alive(worker);
  CHECK(f.free_cpus() == Quantity::whole(2));
  // Asked again, answered again.
  f.receive(Peer::head(), StartActor{spec(), 1});
  CHECK(f.sent<ActorStarted>().size() == 1);
  CHECK(f.did<Spawn>().empty());
}

TEST_CASE("explicit CPUs are held for life") {
  ActorFixture f;
  f.alive(f.start(1, spec(2, 2)));
  CHECK(f.free_cpus() == Quantity::whole(0));
}

TEST_CASE("no room: said at once, may be offered again") {
  ActorFixture f;
  f.receive(Peer::head(), StartActor{spec(3), 1});
  REQUIRE(f.sent<ActorEnded>().size() == 1);
  CHECK(f.sent<ActorEnded>()[0].second.end == ActorEnd::kNoRoom);
  f.receive(Peer::head(), StopActor{kActor, 1, false});
  CHECK(f.node.stats().actors == 0);
  f.receive(Peer::head(), StartActor{spec(1), 1});
  CHECK(f.did<Spawn>().size() == 1);
}

TEST_CASE("a process that dies is reported until the head acknowledges") {
  ActorFixture f;
  const ProcessId worker = f.start();
  f.alive(worker);
  ErrorInfo died = make_error(ErrorKind::kWorkerDied, "ended by a signal");
  died.signal = 9;
  f.step({WorkerExited{worker, died}});
  REQUIRE(f.sent<ActorEnded>().size() == 1);
  CHECK(f.sent<ActorEnded>()[0].second.end == ActorEnd::kProcessDied);
  CHECK(f.sent<ActorEnded>()[0].second.error.signal == 9);
  f.pass(1100ms);
  CHECK(f.sent<ActorEnded>().size() == 1);
  f.receive(Peer::head(), StopActor{kActor, 1, false});
  f.pass(3s);
  CHECK(f.sent<ActorEnded>().empty());
  // A late start of that incarnation does nothing; the next one starts.
  f.receive(Peer::head(), StartActor{spec(), 1});
  CHECK(f.actions.empty());
  f.receive(Peer::head(), StartActor{spec(), 2});
  CHECK(f.did<Spawn>().size() == 1);
}

TEST_CASE("a constructor that throws is reported at once and its process ended") {
  ActorFixture f;
  const ProcessId worker = f.start();
  f.receive(Peer::of(worker, f.self()),
            ActorEnded{kActor, 1, ActorEnd::kConstructorFailed, make_error(ErrorKind::kTaskFailed, "no file")});
  REQUIRE(f.sent<ActorEnded>().size() == 1);
  CHECK(f.did<KillProcess>().size() == 1);
  f.step({WorkerExited{worker, {}}});
  CHECK(f.sent<ActorEnded>().empty());
  CHECK(f.free_cpus() == Quantity::whole(2));
}

TEST_CASE("an end on purpose is reported when the process is gone") {
  ActorFixture f;
  const ProcessId worker = f.start();
  f.alive(worker);
  f.receive(Peer::of(worker, f.self()), ActorEnded{kActor, 1, ActorEnd::kExited, {}});
  CHECK(f.sent<ActorEnded>().empty());
  f.pass(3s);
  CHECK(f.did<KillProcess>().size() == 1);  // it took too long
  f.step({WorkerExited{worker, {}}});
  REQUIRE(f.sent<ActorEnded>().size() == 1);
  CHECK(f.sent<ActorEnded>()[0].second.end == ActorEnd::kExited);
}

TEST_CASE("stop: kills, in every phase, and wins over a late start") {
  SUBCASE("waiting for a worker") {
    ActorFixture f;
    f.receive(Peer::head(), StartActor{spec(), 1});
    f.receive(Peer::head(), StopActor{kActor, 1, false});
    REQUIRE(f.sent<ActorEnded>().size() == 1);
    CHECK(f.sent<ActorEnded>()[0].second.end == ActorEnd::kKilled);
    CHECK(f.free_cpus() == Quantity::whole(2));
  }
  SUBCASE("starting and alive") {
    ActorFixture f;
    const ProcessId worker = f.start();
    f.receive(Peer::head(), StopActor{kActor, 1, false});
    CHECK(f.did<KillProcess>().size() == 1);
    f.receive(Peer::head(), StopActor{kActor, 1, false});
    CHECK(f.did<KillProcess>().empty());
    f.step({WorkerExited{worker, {}}});
    CHECK(f.sent<ActorEnded>().at(0).second.end == ActorEnd::kKilled);
  }
  SUBCASE("before its start") {
    ActorFixture f;
    f.receive(Peer::head(), StopActor{kActor, 3, false});
    f.receive(Peer::head(), StartActor{spec(), 3});
    CHECK(f.did<Spawn>().empty());
    f.receive(Peer::head(), StartActor{spec(), 4});
    CHECK(f.did<Spawn>().size() == 1);
  }
  SUBCASE("gracefully: asks first, kills later") {
    ActorFixture f;
    const ProcessId worker = f.start();
    f.alive(worker);
    f.receive(Peer::head(), StopActor{kActor, 1, true});
    CHECK(f.sent<ExitActor>().size() == 1);
    CHECK(f.did<KillProcess>().empty());
    f.pass(31s);
    CHECK(f.did<KillProcess>().size() >= 1);
  }
}

TEST_CASE("a newer incarnation replaces the old one silently") {
  ActorFixture f;
  const ProcessId old = f.start();
  f.alive(old);
  f.receive(Peer::head(), StartActor{spec(), 2});
  CHECK(f.did<KillProcess>().at(0).process == old);
  const ProcessId fresh = f.did<Spawn>().at(0).worker;
  f.joins(fresh);
  f.step({WorkerExited{old, {}}});
  CHECK(f.sent<ActorEnded>().empty());
  f.alive(fresh, 2);
  // And the past is not let in.
  f.receive(Peer::head(), StartActor{spec(), 1});
  f.receive(Peer::head(), StopActor{kActor, 1, false});
  CHECK(f.node.stats().actors == 1);
  CHECK(f.did<KillProcess>().empty());
}

TEST_CASE("a reconnect says what is held: ends first, then the living") {
  ActorFixture f;
  const ProcessId worker = f.start();
  f.alive(worker);
  f.step({PeerLost{Peer::head(), {}}});
  f.step({PeerJoined{Peer::head(), {}}});
  const auto registered = f.sent<RegisterNode>();
  REQUIRE(registered.size() == 1);
  REQUIRE(registered[0].second.actors.size() == 1);
  CHECK(registered[0].second.actors[0].phase == ActorPhase::kAlive);
  f.step({PeerLost{Peer::head(), {}}});
  f.step({WorkerExited{worker, {}}});
  f.step({PeerJoined{Peer::head(), {}}});
  REQUIRE(f.actions.size() >= 2);
  CHECK(std::holds_alternative<ActorEnded>(std::get<Send>(f.actions[0]).message));
  CHECK(f.sent<RegisterNode>().at(0).second.actors.empty());
  f.pass(1100ms);
  CHECK(f.sent<RegisterNode>().size() == 1);  // repeated until registered
}

TEST_CASE("the end of a job spares detached actors and what they keep") {
  ActorFixture f;
  ActorSpec detached = spec();
  detached.detached = true;
  const ProcessId worker = f.start(1, detached);
  f.alive(worker);
  f.receive(Peer::head(), EndJob{JobId{5}});
  CHECK(f.did<KillProcess>().empty());
  CHECK(f.did<FreeJob>().at(0).keep == std::vector<ProcessId>{worker});
  // It can still use the cluster.
  CHECK(f.lease({worker, f.self(), JobId{5}}, 1) != ProcessId{});
}

TEST_CASE("submitted drivers: started, reported, acknowledged, stopped") {
  ActorFixture f;
  SubmitJob job;
  job.submission = "job-1";
  job.argv = {"train"};
  job.resources = cpus(1);
  f.receive(Peer::head(), StartDriver{job});
  CHECK(f.did<StartDriverProcess>().size() == 1);
  f.receive(Peer::head(), StartDriver{job});
  CHECK(f.did<StartDriverProcess>().empty());
  f.step({DriverStarted{"job-1", 55}});
  CHECK(f.sent<DriverStatus>().at(0).second.phase == SubmissionPhase::kRunning);
  CHECK(f.free_cpus() == Quantity::whole(1));
  f.driver(55, 6);
  CHECK(f.sent<RegisterJob>().at(0).second.job.submission == "job-1");
  f.receive(Peer::head(), StopDriver{"job-1"});
  CHECK(f.did<StopDriverProcess>().size() == 1);
  f.step({DriverExited{"job-1", 143, "ended by TERM"}});
  CHECK(f.sent<DriverStatus>().at(0).second.phase == SubmissionPhase::kFailed);
  CHECK(f.free_cpus() == Quantity::whole(2));
  f.pass(1100ms);
  CHECK(f.sent<DriverStatus>().size() == 1);
  f.receive(Peer::head(), StopDriver{"job-1"});
  f.pass(3s);
  CHECK(f.sent<DriverStatus>().empty());
  job.submission = "job-2";
  job.resources = cpus(3);
  f.receive(Peer::head(), StartDriver{job});
  CHECK(f.sent<DriverStatus>().at(0).second.phase == SubmissionPhase::kPending);
}

TEST_CASE("questions: workers at once, tasks from the processes with a deadline, why a lease waits") {
  ActorFixture f;
  const auto caller = f.driver(100, 5);
  f.lease(caller, 1);
  Query query;
  query.request = {1, 1};
  query.kind = QueryKind::kWorkers;
  f.receive(Peer::head(), query);
  REQUIRE(f.sent<QueryReply>().size() == 1);
  CHECK(f.sent<QueryReply>()[0].second.rows.size() == 1);
  query.kind = QueryKind::kTasks;
  query.request = {1, 2};
  f.receive(Peer::head(), query);
  CHECK(f.sent<Query>().size() == 2);  // driver and worker
  QueryReply answer;
  answer.request = query.request;
  answer.columns = {"task"};
  answer.rows = {{"t1"}};
  f.receive(caller.peer(), answer);
  f.receive(caller.peer(), answer);  // twice counts once
  f.pass(1600ms);
  REQUIRE(f.sent<QueryReply>().size() == 1);
  CHECK(f.sent<QueryReply>()[0].second.rows.size() == 1);
  CHECK(f.sent<QueryReply>()[0].second.notes.size() == 1);
  f.ask(caller, 2, cpus(4));
  query.kind = QueryKind::kExplain;
  query.request = {1, 3};
  query.target = to_string(TaskId{100, 7});
  f.receive(Peer::head(), query);
  f.receive(caller.peer(), QueryReply{query.request, {}, {}, {}, {}});
  const auto replies = f.sent<QueryReply>();
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].second.rows.at(0).at(2) == "needs 4 CPU (1 free)");
}

}  // namespace mobula::scheduler::test
