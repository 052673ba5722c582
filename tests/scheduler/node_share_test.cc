#include <doctest/doctest.h>

#include "runtime/base/result.h"
#include "tests/scheduler/node_fixture.h"

namespace mobula::scheduler::test {

TEST_CASE("another job that has waited 100 ms gets its fair share, no more") {
  NodeFixture f(4);
  const auto greedy = f.driver(100, 5);
  const auto late = f.driver(200, 6);
  for (std::uint64_t i = 1; i <= 4; ++i) f.lease(greedy, i);
  f.ask(greedy, 5);
  for (std::uint64_t i = 1; i <= 4; ++i) f.ask(late, i);
  f.pass(90ms);
  CHECK(f.sent<ReclaimLease>().empty());
  f.pass(20ms);
  auto reclaims = f.sent<ReclaimLease>();
  REQUIRE(reclaims.size() == 2);
  CHECK(reclaims[0].first == greedy.peer());
  CHECK(reclaims[0].second.lease == LeaseId{100, 4});  // the newest first
  CHECK(reclaims[1].second.lease == LeaseId{100, 3});
  f.pass(200ms);
  CHECK(f.sent<ReclaimLease>().size() == 2);  // repeated until given back
  f.receive(greedy.peer(), ReturnLease{{100, 4}, false});
  REQUIRE(f.did<Spawn>().size() == 1);
  CHECK(f.did<Spawn>()[0].job == JobId{6});  // not the greedy job's next in line
  f.joins(f.did<Spawn>()[0].worker);
  CHECK(f.sent<LeaseGranted>().at(0).first == late.peer());
  f.receive(greedy.peer(), ReturnLease{{100, 3}, false});
  f.joins(f.did<Spawn>().at(0).worker);
  f.pass(1s);
  CHECK(f.sent<ReclaimLease>().empty());  // two each: fair
}

TEST_CASE("one CPU is shared in time") {
  NodeFixture f(1);
  const auto one = f.driver(100, 5);
  const auto two = f.driver(200, 6);
  f.lease(one, 1);
  f.ask(two, 1);
  f.pass(150ms);
  CHECK(f.sent<ReclaimLease>().size() == 1);
}

TEST_CASE("nobody is called back for a wish this node can never serve, or by the same job") {
  NodeFixture f(2);
  const auto one = f.driver(100, 5);
  const auto two = f.driver(200, 6);
  f.lease(one, 1);
  f.lease(one, 2);
  f.ask(two, 1, cpus(3));
  f.ask(one, 3);
  f.pass(1s);
  CHECK(f.sent<ReclaimLease>().empty());
}

TEST_CASE("uneven shares that a move would only swap are left alone") {
  NodeFixture f(3);
  const auto one = f.driver(100, 5);
  const auto two = f.driver(200, 6);
  f.lease(one, 1);
  f.lease(one, 2);
  f.lease(two, 1);
  f.ask(two, 2);
  f.pass(1s);
  CHECK(f.sent<ReclaimLease>().empty());
}

TEST_CASE("blocked workers are not called back: they lend already") {
  NodeFixture f(1);
  const auto one = f.driver(100, 5);
  const auto two = f.driver(200, 6);
  const ProcessId worker = f.lease(one, 1);
  f.receive(Peer::of(worker, f.self()), WorkerBlocked{{100, 1}});
  const ProcessId other = f.lease(two, 1);
  CHECK(other != worker);
  f.receive(Peer::of(worker, f.self()), WorkerUnblocked{{100, 1}});
  f.ask(two, 2);
  f.pass(1s);
  CHECK(f.node.stats().leases_queued == 1);
}

TEST_CASE("the bound on workers is soft: recursion and waits go on, slowly") {
  NodeConfig config;
  config.workers_soft_max = 2;
  NodeFixture f(8, config);
  const auto one = f.driver(100, 5);
  const auto two = f.driver(200, 6);
  f.lease(one, 1);
  f.lease(one, 2);
  f.receive(one.peer(), ReturnLease{{100, 2}, false});
  f.ask(two, 1);  // an idle worker of another program makes room
  CHECK(f.did<KillProcess>().size() == 1);
  CHECK(f.did<Spawn>().size() == 1);
  f.joins(f.did<Spawn>()[0].worker);
  f.ask(two, 2);
  CHECK(f.did<Spawn>().size() == 1);  // above the bound: one
  f.ask(two, 3);
  CHECK(f.did<Spawn>().empty());  // and no more for a while
  f.pass(150ms);
  CHECK(f.did<Spawn>().size() == 1);
}

TEST_CASE("a job of another node gets its share here, too, once the head shows that it waits") {
  NodeFixture f(2);
  f.head_joins({describe(2, 0), describe(3, 0)});
  const ProcessAddress greedy{ProcessId{900}, NodeId{2}, JobId{5}};
  const ProcessAddress poor{ProcessId{901}, NodeId{3}, JobId{6}};
  for (std::uint64_t i = 1; i <= 2; ++i) {
    f.receive(Peer::of(greedy.node), NodeFixture::request(greedy, i));
    f.joins(f.did<Spawn>().at(0).worker);
  }
  f.receive(Peer::head(), FindNode{{901, 1}, JobId{6}, cpus(1), {}, {}});
  f.pass(20ms);
  REQUIRE(f.sent<ReclaimLease>().size() == 1);
  CHECK(f.sent<ReclaimLease>()[0].first == greedy.peer());
  f.receive(Peer::of(greedy.node), ReturnLease{{900, 2}, false});
  // What came back is kept for the job it was called back for.
  f.receive(Peer::of(greedy.node), NodeFixture::request(greedy, 3));
  CHECK(f.sent<LeaseRefused>().size() == 1);
  f.receive(Peer::of(poor.node), NodeFixture::request(poor, 1));
  CHECK(f.did<Spawn>().size() == 1);
  f.joins(f.did<Spawn>()[0].worker);
  CHECK(f.sent<LeaseGranted>().at(0).first == poor.peer());
  // But not for ever.
  f.receive(Peer::head(), FindNode{{901, 2}, JobId{6}, cpus(1), {}, {}});
  f.receive(Peer::of(poor.node), ReturnLease{{901, 1}, false});
  f.pass(2s);
  f.receive(Peer::of(greedy.node), NodeFixture::request(greedy, 4));
  CHECK(f.sent<LeaseRefused>().empty());
}

}  // namespace mobula::scheduler::test
