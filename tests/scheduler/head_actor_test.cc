#include <doctest/doctest.h>

#include "runtime/base/result.h"
#include "tests/scheduler/head_fixture.h"

namespace mobula::scheduler::test {

namespace {

ActorEnded ended(ActorId actor, std::uint64_t incarnation, ActorEnd end) {
  return {actor, incarnation, end, make_error(ErrorKind::kWorkerDied, "it crashed")};
}

ActorInfo info_of(ActorId actor, NodeId node, std::uint64_t incarnation = 1) {
  ActorInfo info;
  info.actor = actor;
  info.job = JobId{5};
  info.phase = ActorPhase::kAlive;
  info.incarnation = incarnation;
  info.address = {{ProcessId{actor.sequence + 1000}, node, JobId{5}}, 0};
  return info;
}

}  // namespace

TEST_CASE("created: written before anyone hears of it, answered, placed, alive") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  f.create(HeadFixture::spec(1));
  const auto batches = f.did<Persist>();
  REQUIRE(batches.size() == 1);
  CHECK_FALSE(batches[0].synced);
  for (const auto& action : f.actions) {
    if (const auto* send = std::get_if<Send>(&action)) CHECK(send->after == batches[0].seq);
  }
  CHECK(f.sent<ActorCreated>().at(0).second.info.phase == ActorPhase::kPending);
  CHECK(f.placed_at() == one);
  f.receive(Peer::of(ProcessId{200}, one), WatchActor{{100, 1}});
  CHECK(f.sent<ActorUpdate>().at(0).second.info.phase == ActorPhase::kPending);
  f.started(one, {100, 1});
  const auto updates = f.sent<ActorUpdate>();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].second.info.phase == ActorPhase::kAlive);
  CHECK(updates[0].second.info.address.host.node == one);
  f.started(one, {100, 1});  // again
  CHECK(f.actions.empty());
  f.create(HeadFixture::spec(1));  // a repeat
  CHECK(f.sent<ActorCreated>().at(0).second.info.phase == ActorPhase::kAlive);
  CHECK(f.sent<StartActor>().empty());
}

TEST_CASE("named and detached actors are synced") {
  HeadFixture f;
  f.add_node(1, 4);
  auto spec = HeadFixture::spec(1);
  spec.name = "counter";
  f.create(spec);
  CHECK(f.did<Persist>().at(0).synced);
}

TEST_CASE("names: taken, shared by get_if_exists, free again after death") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  auto spec = HeadFixture::spec(1);
  spec.name = "counter";
  f.create(spec);
  spec.actor.sequence = 2;
  f.create(spec);
  CHECK(f.sent<ActorCreated>().at(0).second.error->kind == ErrorKind::kInvalid);
  spec.actor.sequence = 3;
  spec.get_if_exists = true;
  f.create(spec);
  CHECK(f.sent<ActorCreated>().at(0).second.info.actor == ActorId{100, 1});
  spec.name_space = "other";
  f.create(spec);
  CHECK(f.sent<ActorCreated>().at(0).second.info.actor == ActorId{100, 3});
  f.receive(Peer::of(ProcessId{7}, one), FindActor{{7, 1}, "counter", ""});
  CHECK(f.sent<ActorFound>().at(0).second.info.actor == ActorId{100, 1});
  f.receive(Peer::of(ProcessId{7}, one), KillActor{{100, 1}, true, false});
  f.receive(Peer::of(ProcessId{7}, one), FindActor{{7, 2}, "counter", ""});
  CHECK(f.sent<ActorFound>().at(0).second.error);
  spec.actor.sequence = 4;
  spec.name_space = "";
  f.create(spec);
  CHECK(f.sent<ActorCreated>().at(0).second.info.actor == ActorId{100, 4});
}

TEST_CASE("no node at all: waits; no node that could: Unschedulable with reasons, also to a repeat") {
  HeadFixture f;
  f.create(HeadFixture::spec(1));
  CHECK_FALSE(f.sent<ActorCreated>().at(0).second.error);
  f.pass(10s);
  const NodeId one = f.add_node(1, 4);
  CHECK(f.placed_at() == one);
  f.settle({one});
  f.create(HeadFixture::spec(2, 1, 8));
  const auto created = f.sent<ActorCreated>();
  REQUIRE(created.at(0).second.error);
  CHECK(created[0].second.error->kind == ErrorKind::kUnschedulable);
  CHECK(created[0].second.error->message.find("needs 8 CPU (4 in all)") != std::string::npos);
  CHECK(created[0].second.info.phase == ActorPhase::kDead);
  f.create(HeadFixture::spec(2, 1, 8));
  CHECK(f.sent<ActorCreated>().at(0).second.error->kind == ErrorKind::kUnschedulable);
}

TEST_CASE("while nodes still join, what cannot fit is decided a little later") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  f.create(HeadFixture::spec(1, 1, 8));
  f.create(HeadFixture::spec(2, 1, 16));
  f.receive(Peer::of(ProcessId{200}, one), WatchActor{{100, 2}});
  const NodeId big = f.add_node(2, 8);
  CHECK(f.placed_at() == big);
  f.settle({one, big});
  REQUIRE(f.sent<ActorUpdate>().size() == 1);
  CHECK(f.sent<ActorUpdate>()[0].second.info.error->kind == ErrorKind::kUnschedulable);
}

TEST_CASE("no room after all: elsewhere, or when something becomes free; no restart is charged") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 1);
  const NodeId two = f.add_node(2, 1);
  f.create(HeadFixture::spec(1));
  const NodeId first = f.placed_at();
  f.receive(Peer::of(first), ended({100, 1}, 1, ActorEnd::kNoRoom));
  CHECK(f.sent<StopActor>().size() == 1);
  const NodeId second = f.placed_at();
  CHECK(second == (first == one ? two : one));
  f.receive(Peer::of(second), ended({100, 1}, 1, ActorEnd::kNoRoom));
  CHECK_FALSE(f.placed_at());
  f.receive(Peer::of(one), f.beats(one));
  CHECK(f.placed_at() == one);
  f.started(one, {100, 1});
  CHECK(f.head.stats().actors_restarted == 0);
}

TEST_CASE("restarts: a new incarnation, as often as allowed, then dead") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  auto spec = HeadFixture::spec(1);
  spec.max_restarts = 1;
  f.create(spec);
  f.started(one, {100, 1});
  f.receive(Peer::of(ProcessId{200}, one), WatchActor{{100, 1}});
  f.receive(Peer::of(one), ended({100, 1}, 1, ActorEnd::kProcessDied));
  CHECK(f.sent<ActorUpdate>().at(0).second.info.phase == ActorPhase::kRestarting);
  REQUIRE(f.sent<StartActor>().size() == 1);
  CHECK(f.sent<StartActor>()[0].second.incarnation == 2);
  // The end of the first is reported again: acknowledged again, nothing else.
  f.receive(Peer::of(one), ended({100, 1}, 1, ActorEnd::kProcessDied));
  CHECK(f.actions.size() == 1);
  f.started(one, {100, 1}, 2);
  f.receive(Peer::of(one), ended({100, 1}, 2, ActorEnd::kProcessDied));
  const auto updates = f.sent<ActorUpdate>();
  REQUIRE(updates.size() == 1);
  CHECK(updates[0].second.info.phase == ActorPhase::kDead);
  CHECK(updates[0].second.info.error->kind == ErrorKind::kActorDied);
  CHECK(f.head.stats().watchers == 0);
}

TEST_CASE("a constructor that throws and an end on purpose are final") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  for (const ActorEnd end : {ActorEnd::kConstructorFailed, ActorEnd::kExited}) {
    auto spec = HeadFixture::spec(static_cast<std::uint64_t>(end) + 1);
    spec.max_restarts = -1;
    f.create(spec);
    f.receive(Peer::of(one), ended(spec.actor, 1, end));
    CHECK(f.sent<StartActor>().empty());
  }
  CHECK(f.head.stats().actors == 0);
}

TEST_CASE("kill: at once, gently, or with a restart; before the creation it wins, too") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const Peer caller = Peer::of(ProcessId{200}, one);
  auto spec = HeadFixture::spec(1);
  spec.max_restarts = -1;
  f.create(spec);
  f.started(one, {100, 1});
  f.receive(caller, KillActor{{100, 1}, false, false});
  CHECK(f.sent<StopActor>().at(0).second.incarnation == 1);
  CHECK(f.sent<StartActor>().at(0).second.incarnation == 2);
  f.receive(Peer::of(one), ended({100, 1}, 1, ActorEnd::kKilled));
  f.started(one, {100, 1}, 2);
  f.receive(caller, KillActor{{100, 1}, true, true});
  CHECK(f.sent<StopActor>().at(0).second.graceful);
  CHECK(f.head.stats().actors_alive == 1);
  f.receive(Peer::of(one), ended({100, 1}, 2, ActorEnd::kExited));
  CHECK(f.head.stats().actors_alive == 0);
  f.create(HeadFixture::spec(2));
  f.started(one, {100, 2});
  f.receive(caller, KillActor{{100, 2}, true, false});
  CHECK(f.head.stats().actors == 0);
  f.pass(2250ms, {one});
  CHECK(f.sent<StopActor>().size() == 1);  // again, until its node says it has ended
  f.receive(Peer::of(one), ended({100, 2}, 1, ActorEnd::kKilled));
  f.pass(3s, {one});
  CHECK(f.sent<StopActor>().empty());
  f.receive(caller, KillActor{{100, 3}, true, false});
  f.create(HeadFixture::spec(3));
  CHECK(f.sent<ActorCreated>().at(0).second.error->kind == ErrorKind::kActorDied);
}

TEST_CASE("an actor ends with its creator, unless detached") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  auto spec = HeadFixture::spec(1);
  f.create(spec);
  f.started(one, {100, 1});
  spec = HeadFixture::spec(2);
  spec.detached = true;
  f.create(spec);
  f.started(one, {100, 2});
  f.receive(Peer::of(one), ProcessGone{ProcessId{100}});
  REQUIRE(f.sent<StopActor>().size() == 1);
  CHECK(f.sent<StopActor>()[0].second.actor == ActorId{100, 1});
  CHECK(f.head.stats().actors == 1);
}

TEST_CASE("a node that dies: its actors restart elsewhere, those of its processes end") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  auto spec = HeadFixture::spec(1, 2);  // made by a process of node 2
  spec.max_restarts = 1;
  f.create(spec);
  REQUIRE(f.placed_at() == one);
  f.started(one, spec.actor);
  const NodeId two = f.add_node(2, 4);
  const NodeId three = f.add_node(3, 4);
  f.receive(Peer::of(ProcessId{200}, two), WatchActor{spec.actor});
  f.pass(4s, {two, three});  // the host dies
  REQUIRE(f.sent<StartActor>().size() == 1);
  CHECK(f.sent<StartActor>()[0].second.incarnation == 2);
  CHECK(f.sent<ActorUpdate>().at(0).second.info.error->node == one);
  const NodeId host = f.placed_at();
  f.started(host, spec.actor, 2);
  const NodeId creator = two;
  f.pass(4s, {three});  // and now its creator's node
  CHECK(f.head.find_node(creator) == nullptr);
  CHECK(f.head.stats().actors == 0);
  CHECK(f.head.stats().watchers == 0);
}

TEST_CASE("watches of unknown actors wait for the creation, and are answered in the end") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const Peer caller = Peer::of(ProcessId{200}, one);
  f.receive(caller, WatchActor{{100, 1}});
  f.receive(caller, WatchActor{{100, 2}});
  CHECK(f.actions.empty());
  f.create(HeadFixture::spec(1));
  f.started(one, {100, 1});
  CHECK(f.sent<ActorUpdate>().size() == 1);
  f.pass(6s, {one});
  REQUIRE(f.sent<ActorUpdate>().size() == 1);
  CHECK(f.sent<ActorUpdate>()[0].second.info.phase == ActorPhase::kDead);
  f.receive(Peer::of(one), ProcessGone{ProcessId{200}});
  CHECK(f.head.stats().watchers == 0);
}

TEST_CASE("a start without an answer is repeated; a start from the past is stopped") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const NodeId two = f.add_node(2, 4);
  f.create(HeadFixture::spec(1));
  const NodeId host = f.placed_at();
  f.pass(2250ms, {one, two});
  CHECK(f.placed_at() == host);
  const NodeId wrong = host == one ? two : one;
  f.started(wrong, {100, 1});
  REQUIRE(f.sent<StopActor>().size() == 1);
  CHECK(f.sent<StopActor>()[0].first == Peer::of(wrong));
  f.started(host, {100, 1});
  CHECK(f.head.stats().actors_alive == 1);
}

TEST_CASE("after a restart the head adopts what nodes report and restarts what is missing") {
  HeadFixture before;
  const NodeId one = before.add_node(1, 4);
  const NodeId two = before.add_node(2, 4);
  JobDescription job;
  job.job = JobId{5};
  job.driver = {ProcessId{100}, one, JobId{5}};
  before.receive(Peer::of(one), RegisterJob{job});
  std::map<std::uint64_t, NodeId> hosts;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    auto spec = HeadFixture::spec(i);
    spec.max_restarts = 1;
    before.create(spec);
    hosts[i] = before.placed_at();
    if (i <= 3) before.started(hosts[i], spec.actor);
  }
  before.receive(Peer::of(ProcessId{9}, one), KillActor{{100, 3}, true, false});

  HeadFixture f({}, before.snapshot());
  CHECK(f.head.epoch() == 2);
  f.pass(1s);
  CHECK(f.sent<StartActor>().empty());  // nothing is started before the nodes had their say
  // Node of actor 1 reports it, the dead actor 3, and one the head has no record of.
  std::vector<ActorInfo> held{info_of({100, 1}, hosts[1]), info_of({100, 3}, hosts[1]), info_of({100, 77}, hosts[1])};
  f.add_node(hosts[1].value, 4, held);
  const auto stops = f.sent<StopActor>();
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].second.actor == ActorId{100, 3});
  CHECK(f.head.stats().actors_alive >= 2);
  const NodeId other = hosts[1] == one ? two : one;
  if (hosts[2] == other) {
    f.add_node(other.value, 4);  // it came back without actor 2
    bool again = false;
    for (const auto& [to, start] : f.sent<StartActor>()) again = again || start.spec.actor == ActorId{100, 2};
    CHECK(again);
  }
}

TEST_CASE("nodes of the store that do not come back are dead after a while") {
  HeadFixture before;
  const NodeId one = before.add_node(1, 4);
  auto spec = HeadFixture::spec(1);
  spec.detached = true;
  spec.max_restarts = 1;
  before.create(spec);
  before.started(one, {100, 1});
  HeadFixture f({}, before.snapshot());
  const NodeId two = f.add_node(2, 4);
  f.pass(7s, {two});
  CHECK(f.sent<StartActor>().empty());
  f.pass(2s, {two});
  REQUIRE(f.sent<StartActor>().size() == 1);
  CHECK(f.sent<StartActor>()[0].second.incarnation == 2);
  f.add_node(1, 4, {info_of({100, 1}, one)});
  CHECK(f.sent<NodeRegistered>().at(0).second.error);
}

TEST_CASE("the end of a job ends its actors") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  JobDescription job;
  job.job = JobId{5};
  job.driver = {ProcessId{100}, one, JobId{5}};
  f.receive(Peer::of(one), RegisterJob{job});
  f.create(HeadFixture::spec(1));
  f.started(one, {100, 1});
  auto detached = HeadFixture::spec(2);
  detached.detached = true;
  f.create(detached);
  f.started(one, {100, 2});
  f.receive(Peer::of(one), JobFinished{JobId{5}});
  CHECK(f.sent<StopActor>().size() == 1);
  CHECK(f.head.stats().actors == 1);
}

TEST_CASE("dead actors are remembered, but not for ever") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const std::size_t count = kMaxDeadActors + 10;
  for (std::uint64_t i = 1; i <= count; ++i) {
    const CreateActor create{{100, i}, HeadFixture::spec(i)};
    std::vector<HeadEvent> events{Received{Peer::of(ProcessId{100}, one), create},
                                  Received{Peer::of(ProcessId{100}, one), KillActor{{100, i}, true, false}}};
    f.actions.clear();
    f.head.step(f.now, events, f.actions);
    for (const auto& batch : f.did<Persist>()) {
      for (const auto& write : batch.writes) f.keep(write);
    }
  }
  f.head.check();
  CHECK(f.store.size() <= kMaxDeadActors + 3);
}

}  // namespace mobula::scheduler::test
