#include <doctest/doctest.h>

#include "runtime/base/result.h"
#include "tests/scheduler/node_fixture.h"

namespace mobula::scheduler::test {

namespace {

const NodeId kOther{2};

// A node without CPUs, whose driver's leases all go elsewhere.
struct AwayFixture : NodeFixture {
  AwayFixture() : NodeFixture(0) { head_joins({describe(2, 4), describe(3, 4)}); }
  void move(ProcessAddress caller, std::uint64_t sequence) {
    ask(caller, sequence);
    REQUIRE(sent<FindNode>().size() == 1);
    receive(Peer::head(), NodeFound{{caller.process.value, sequence}, kOther, false, {}});
  }
};

}  // namespace

TEST_CASE("what does not fit is asked of the head and passed on") {
  AwayFixture f;
  const auto caller = f.driver(100, 5);
  f.ask(caller, 1);
  REQUIRE(f.sent<FindNode>().size() == 1);
  CHECK(f.sent<FindNode>()[0].first == Peer::head());
  f.receive(Peer::head(), NodeFound{{100, 1}, kOther, false, {}});
  const auto passed = f.sent<RequestLease>();
  REQUIRE(passed.size() == 1);
  CHECK(passed[0].first == Peer::of(kOther));
  CHECK(passed[0].second.hops == 1);
  const auto moved = f.sent<LeaseMoved>();
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].first == caller.peer());
  CHECK(moved[0].second.node == kOther);
  // A repeat hears it again, and the other node, too.
  f.ask(caller, 1);
  CHECK(f.sent<LeaseMoved>().size() == 1);
  CHECK(f.sent<RequestLease>().size() == 1);
  // The return is forwarded.
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  const auto returned = f.sent<ReturnLease>();
  REQUIRE(returned.size() == 1);
  CHECK(returned[0].first == Peer::of(kOther));
  CHECK(f.node.stats().leases_away == 0);
}

TEST_CASE("a passed-on lease is granted to its caller, or refused to its sender, at once") {
  NodeFixture f(1);
  f.head_joins({describe(2, 4)});
  const ProcessAddress far{ProcessId{900}, kOther, JobId{5}};
  auto request = NodeFixture::request(far, 1);
  request.hops = 1;
  f.receive(Peer::of(kOther), request);
  f.joins(f.did<Spawn>().at(0).worker);
  CHECK(f.sent<LeaseGranted>().at(0).first == far.peer());
  request.lease.sequence = 2;
  f.receive(Peer::of(kOther), request);
  REQUIRE(f.sent<LeaseRefused>().size() == 1);
  CHECK(f.sent<LeaseRefused>()[0].first == Peer::of(kOther));
  CHECK(f.node.stats().leases_queued == 0);
  f.receive(Peer::of(kOther), ReturnLease{{900, 1}, false});
  CHECK(f.free_cpus() == Quantity::whole(1));
}

TEST_CASE("the end of a passed-on lease is told to the caller's node as well") {
  NodeFixture f(1);
  f.head_joins({describe(2, 4)});
  const ProcessAddress far{ProcessId{900}, kOther, JobId{5}};
  f.receive(Peer::of(kOther), NodeFixture::request(far, 1));
  const ProcessId worker = f.did<Spawn>().at(0).worker;
  f.joins(worker);
  f.step({WorkerExited{worker, {}}});
  const auto lost = f.sent<LeaseLost>();
  REQUIRE(lost.size() == 2);
  CHECK(lost[0].first == far.peer());
  CHECK(lost[1].first == Peer::of(kOther));
}

TEST_CASE("refused: asked again without that node, and after some refusals later") {
  AwayFixture f;
  const auto caller = f.driver(100, 5);
  f.move(caller, 1);
  f.receive(Peer::of(kOther), LeaseRefused{{100, 1}, 1});
  auto finds = f.sent<FindNode>();
  REQUIRE(finds.size() == 1);
  CHECK(finds[0].second.refused == std::vector<NodeId>{kOther});
  CHECK(f.sent<LeaseMoved>().at(0).second.node == f.self());
  f.receive(Peer::head(), NodeFound{{100, 1}, NodeId{3}, false, {}});
  f.receive(Peer::of(NodeId{3}), LeaseRefused{{100, 1}, 2});
  f.receive(Peer::head(), NodeFound{{100, 1}, kOther, false, {}});
  f.receive(Peer::of(kOther), LeaseRefused{{100, 1}, 1});  // the first one again
  CHECK(f.actions.empty());
  f.receive(Peer::of(kOther), LeaseRefused{{100, 1}, 3});
  CHECK(f.sent<FindNode>().empty());
  f.pass(100ms);
  REQUIRE(f.sent<FindNode>().size() == 1);
  CHECK(f.sent<FindNode>()[0].second.refused.empty());
  // A late refusal of an earlier offer changes nothing.
  f.receive(Peer::of(NodeId{3}), LeaseRefused{{100, 1}, 2});
  CHECK(f.actions.empty());
}

TEST_CASE("nowhere now: asked again, ever more rarely; never: fails with reasons") {
  AwayFixture f;
  const auto caller = f.driver(100, 5);
  f.ask(caller, 1);
  f.receive(Peer::head(), NodeFound{{100, 1}, {}, false, {}});
  CHECK(f.sent<FindNode>().empty());
  f.pass(60ms);
  CHECK(f.sent<FindNode>().size() == 1);
  f.receive(Peer::head(), NodeFound{{100, 1}, {}, false, {}});
  f.pass(60ms);
  CHECK(f.sent<FindNode>().empty());
  f.pass(60ms);
  CHECK(f.sent<FindNode>().size() == 1);
  f.receive(Peer::head(), NodeFound{{100, 1}, {}, true, {{kOther, "needs 1 CPU (0 in all)"}}});
  const auto failed = f.sent<LeaseFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].second.error.kind == ErrorKind::kUnschedulable);
  CHECK(failed[0].second.error.message.find("needs 1 CPU (0 in all)") != std::string::npos);
}

TEST_CASE("without a head what does not fit waits, and is asked when the head is back") {
  NodeFixture f(1);
  const auto caller = f.driver(100, 5);
  f.lease(caller, 1);
  f.ask(caller, 2);
  f.pass(10s);
  CHECK(f.sent<LeaseFailed>().empty());
  f.head_joins({describe(2, 4)});
  CHECK(f.sent<FindNode>().size() == 1);
  f.step({PeerLost{Peer::head(), {}}});
  f.step({PeerJoined{Peer::head(), {}}});
  f.receive(Peer::head(), NodeRegistered{2, {}, {describe(2, 4)}});
  CHECK(f.sent<FindNode>().size() == 1);  // the answer was lost with the link
}

TEST_CASE("room at home in the meantime wins over a late answer") {
  NodeFixture f(1);
  f.head_joins({describe(2, 4)});
  const auto caller = f.driver(100, 5);
  f.lease(caller, 1);
  f.ask(caller, 2);
  CHECK(f.sent<FindNode>().size() == 1);
  f.receive(caller.peer(), ReturnLease{{100, 1}, false});
  CHECK(f.sent<LeaseGranted>().size() == 1);
  f.receive(Peer::head(), NodeFound{{100, 2}, kOther, false, {}});
  CHECK(f.actions.empty());
}

TEST_CASE("a node that dies: leases there are lost, and who asked where it is hears it") {
  AwayFixture f;
  const auto caller = f.driver(100, 5);
  f.move(caller, 1);
  f.receive(caller.peer(), ResolveNode{kOther});
  REQUIRE(f.sent<NodeResolved>().size() == 1);
  CHECK(f.sent<NodeResolved>()[0].second.alive);
  f.receive(Peer::head(), NodesChanged{{}, {kOther}});
  const auto lost = f.sent<LeaseLost>();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].second.error.kind == ErrorKind::kWorkerDied);
  REQUIRE(f.sent<NodeResolved>().size() == 1);
  CHECK_FALSE(f.sent<NodeResolved>()[0].second.alive);
  // News from the past do not bring it back.
  f.receive(Peer::head(), NodesChanged{{describe(2, 4)}, {}});
  CHECK(f.node.find_node(kOther) == nullptr);
}

TEST_CASE("an unknown node is not dead before the directory had time to say so") {
  NodeFixture f;
  f.head_joins();
  const auto caller = f.driver(100, 5);
  f.receive(caller.peer(), ResolveNode{NodeId{9}});
  CHECK(f.actions.empty());
  f.receive(Peer::head(), NodesChanged{{describe(9, 1)}, {}});
  REQUIRE(f.sent<NodeResolved>().size() == 1);
  CHECK(f.sent<NodeResolved>()[0].second.alive);
  f.receive(caller.peer(), ResolveNode{NodeId{8}});
  f.pass(3s);
  REQUIRE(f.sent<NodeResolved>().size() == 1);
  CHECK_FALSE(f.sent<NodeResolved>()[0].second.alive);
}

TEST_CASE("a caller that goes is forgotten wherever it holds leases") {
  AwayFixture f;
  const auto caller = f.driver(100, 5);
  f.move(caller, 1);
  f.step({PeerLost{caller.peer(), {}}});
  const auto gone = f.sent<ProcessGone>();
  REQUIRE(gone.size() == 2);
  CHECK(gone[0].first == Peer::of(kOther));
  CHECK(gone[1].first == Peer::head());
  // On the other side.
  NodeFixture other(2);
  const ProcessAddress far{ProcessId{100}, NodeId{1}, JobId{5}};
  other.receive(Peer::of(NodeId{7}), NodeFixture::request(far, 1));
  other.joins(other.did<Spawn>().at(0).worker);
  other.receive(Peer::of(NodeId{7}), ProcessGone{far.process});
  CHECK(other.did<KillProcess>().size() == 1);
  // A request that comes late from a dead caller starts nothing.
  other.receive(Peer::of(NodeId{7}), NodeFixture::request(far, 2));
  CHECK(other.did<Spawn>().empty());
}

TEST_CASE("big arguments elsewhere: the head is asked first, and home is the fallback") {
  NodeFixture f(2);
  f.head_joins({describe(2, 4)});
  const auto caller = f.driver(100, 5);
  auto request = NodeFixture::request(caller, 1);
  request.locality = {{kOther, 100 << 20}};
  f.receive(caller.peer(), request);
  CHECK(f.sent<FindNode>().size() == 1);
  CHECK(f.did<Spawn>().empty());
  f.receive(Peer::head(), NodeFound{{100, 1}, kOther, false, {}});
  CHECK(f.sent<LeaseMoved>().size() == 1);
  request.lease.sequence = 2;
  f.receive(caller.peer(), request);
  f.pass(150ms);
  CHECK(f.did<Spawn>().size() == 1);  // the head said nothing in time
  request.lease.sequence = 3;
  f.receive(caller.peer(), request);
  f.receive(Peer::head(), NodeFound{{100, 3}, {}, false, {}});
  CHECK(f.did<Spawn>().size() == 1);
}

TEST_CASE("heartbeats: steady, prompt after a change, and a cut-off node ends its workers in the end") {
  NodeFixture f;
  f.head_joins();
  f.pass(1600ms);
  CHECK(f.sent<Heartbeat>().size() == 3);
  const auto caller = f.driver(100, 5);
  f.pass(30ms);
  f.ask(caller, 1);
  REQUIRE(f.sent<Heartbeat>().size() == 1);
  CHECK(f.sent<Heartbeat>()[0].second.free.cpus == Quantity::whole(1));
  f.ask(caller, 2);
  CHECK(f.sent<Heartbeat>().empty());  // not twice within 20 ms
  f.pass(25ms);
  CHECK(f.sent<Heartbeat>().size() == 1);
  f.pass(50s);
  CHECK(f.did<StopNode>().empty());
  f.pass(15s);
  CHECK(f.did<KillProcess>().size() >= 2);
}

TEST_CASE("declared dead: everything ends and the daemon starts anew") {
  NodeFixture f;
  f.head_joins();
  const auto caller = f.driver(100, 5);
  f.lease(caller, 1);
  f.receive(Peer::head(), NodeRegistered{2, make_error(ErrorKind::kUnreachable, "dead"), {}});
  CHECK(f.did<KillProcess>().size() == 1);
  REQUIRE(f.did<StopNode>().size() == 1);
  CHECK(f.did<StopNode>()[0].restart);
}

TEST_CASE("what a broken link between nodes lost is settled") {
  AwayFixture f;
  const auto caller = f.driver(100, 5);
  f.move(caller, 1);
  f.step({PeerLost{Peer::of(kOther), {}}});
  f.pass(1100ms);
  REQUIRE(f.sent<RequestLease>().size() == 1);
  CHECK(f.sent<RequestLease>()[0].second.hops == 1);
  f.receive(Peer::of(kOther), ReclaimLease{{100, 1}});  // known, and there
  CHECK(f.actions.empty());
  f.receive(Peer::of(kOther), ReclaimLease{{100, 9}});
  CHECK(f.sent<ReturnLease>().size() == 1);
  // The other side asks after what it holds for us.
  NodeFixture other(2);
  other.head_joins({describe(2, 0), describe(3, 0)});
  const ProcessAddress far{ProcessId{900}, kOther, JobId{5}};
  auto request = NodeFixture::request(far, 1);
  request.hops = 1;
  other.receive(Peer::of(kOther), request);
  other.step({PeerLost{Peer::of(kOther), {}}});
  other.pass(1100ms);
  CHECK(other.sent<ReclaimLease>().size() == 1);
}

}  // namespace mobula::scheduler::test
