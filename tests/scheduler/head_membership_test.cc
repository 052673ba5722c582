#include <doctest/doctest.h>

#include "runtime/base/result.h"
#include "tests/scheduler/head_fixture.h"

namespace mobula::scheduler::test {

TEST_CASE("the first thing a head does is to write its epoch") {
  HeadFixture f;
  REQUIRE(f.actions.size() == 1);
  const auto& batch = std::get<Persist>(f.actions[0]);
  CHECK(batch.synced);
  CHECK(std::get<ClusterRecord>(std::get<Record>(batch.writes.at(0))).epoch == 1);
  HeadFixture second({}, f.snapshot());
  CHECK(second.head.epoch() == 2);
}

TEST_CASE("nodes join: each learns of all others, once") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  CHECK(f.sent<NodeRegistered>().at(0).second.nodes.empty());
  CHECK(f.sent<NodeRegistered>()[0].second.epoch == 1);
  f.add_node(2, 4);
  CHECK(f.sent<NodeRegistered>().at(0).second.nodes.size() == 1);
  const auto news = f.sent<NodesChanged>();
  REQUIRE(news.size() == 1);
  CHECK(news[0].first == Peer::of(one));
  CHECK(news[0].second.added.at(0).node == NodeId{2});
  f.add_node(2, 4);  // a reconnect
  CHECK(f.sent<NodesChanged>().empty());
  CHECK(f.sent<NodeRegistered>().at(0).second.nodes.size() == 1);
}

TEST_CASE("heartbeats are acknowledged without waiting for writes, silence is death") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const NodeId two = f.add_node(2, 4);
  f.receive(Peer::of(one), f.beats(one));
  REQUIRE(f.sent<HeartbeatAck>().size() == 1);
  CHECK(std::get<Send>(f.actions[0]).after == 1);
  f.pass(2500ms, {one});
  CHECK(f.sent<NodesChanged>().empty());
  f.pass(1000ms, {one});
  const auto news = f.sent<NodesChanged>();
  REQUIRE(news.size() == 1);
  CHECK(news[0].second.removed.at(0) == two);
  // A zombie learns that it is dead, whatever it says.
  f.receive(Peer::of(two), f.beats(two));
  CHECK(f.sent<NodeRegistered>().at(0).second.error);
  f.add_node(2, 4);
  CHECK(f.sent<NodeRegistered>().at(0).second.error);
  CHECK(f.head.stats().nodes == 1);
}

TEST_CASE("a broken link is a suspicion; a link that comes back clears it") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  f.step({PeerLost{Peer::of(one), {}}});
  f.pass(1s);
  f.add_node(1, 4);
  f.pass(2s);
  CHECK(f.head.stats().nodes == 1);
  f.step({PeerLost{Peer::of(one), {}}});
  f.pass(2250ms);
  CHECK(f.head.stats().nodes == 0);
}

TEST_CASE("a head that was frozen itself declares nobody dead") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  f.now = f.now + 60s;
  f.step({Tick{}});
  CHECK(f.head.stats().nodes == 1);
  f.pass(2s, {one});
  CHECK(f.head.stats().nodes == 1);
  f.pass(4s);
  CHECK(f.head.stats().nodes == 0);
}

TEST_CASE("leaving is not dying but gone at once") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const NodeId two = f.add_node(2, 4);
  f.receive(Peer::of(two), NodeLeaves{});
  CHECK(f.sent<NodesChanged>().at(0).first == Peer::of(one));
  CHECK(f.head.stats().nodes == 1);
}

TEST_CASE("a node for a lease: with room, not the asker, not who refused, spread over a burst") {
  HeadFixture f;
  const NodeId asker = f.add_node(1, 4);
  f.add_node(2, 2);
  f.add_node(3, 2);
  FindNode find{{9, 1}, JobId{5}, cpus(2), {}, {}};
  f.receive(Peer::of(asker), find);
  const NodeId first = f.sent<NodeFound>().at(0).second.node;
  find.lease.sequence = 2;
  f.receive(Peer::of(asker), find);
  const NodeId second = f.sent<NodeFound>().at(0).second.node;
  CHECK(first != second);
  CHECK((first != asker && second != asker));
  find.lease.sequence = 3;
  f.receive(Peer::of(asker), find);
  CHECK_FALSE(f.sent<NodeFound>().at(0).second.node);
  CHECK_FALSE(f.sent<NodeFound>()[0].second.never);
}

TEST_CASE("never is said with reasons, and not before membership has settled") {
  HeadFixture f;
  const NodeId asker = f.add_node(1, 4);
  const FindNode find{{9, 1}, JobId{5}, cpus(8), {}, {}};
  f.receive(Peer::of(asker), find);
  CHECK_FALSE(f.sent<NodeFound>().at(0).second.never);
  f.settle({asker});
  f.receive(Peer::of(asker), find);
  const auto found = f.sent<NodeFound>().at(0).second;
  CHECK(found.never);
  CHECK(found.reasons.at(0).second == "needs 8 CPU (4 in all)");
}

TEST_CASE("jobs: registered, ended everywhere, once") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  f.add_node(2, 4);
  JobDescription job;
  job.job = JobId{5};
  job.driver = {ProcessId{100}, one, JobId{5}};
  f.receive(Peer::of(one), RegisterJob{job});
  CHECK(f.did<Persist>().at(0).synced);
  f.receive(Peer::of(one), RegisterJob{job});
  CHECK(f.actions.empty());
  f.receive(Peer::of(one), JobFinished{JobId{5}});
  CHECK(f.sent<EndJob>().size() == 2);
  f.receive(Peer::of(one), JobFinished{JobId{5}});
  REQUIRE(f.sent<EndJob>().size() == 1);
  CHECK(f.sent<EndJob>()[0].first == Peer::of(one));
  f.receive(Peer::of(one), RegisterJob{job});  // late
  CHECK(f.sent<EndJob>().size() == 1);
}

TEST_CASE("the job of a driver ends with the driver's node") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const NodeId two = f.add_node(2, 4);
  JobDescription job;
  job.job = JobId{5};
  job.driver = {ProcessId{100}, one, JobId{5}};
  f.receive(Peer::of(one), RegisterJob{job});
  f.pass(4s, {two});
  CHECK(f.sent<EndJob>().size() == 1);
  CHECK(f.head.stats().jobs == 0);
}

TEST_CASE("submissions: written, started, watched to the end, stopped") {
  HeadFixture f;
  const Peer client = Peer::client(1);
  SubmitJob submit;
  submit.request = {7, 1};
  submit.submission = "job-1";
  submit.argv = {"train"};
  submit.resources = cpus(1);
  f.receive(client, submit);
  CHECK(f.sent<SubmissionReply>().at(0).second.info.phase == SubmissionPhase::kPending);
  const NodeId one = f.add_node(1, 4);
  f.pass(500ms, {one});
  REQUIRE(f.sent<StartDriver>().size() == 1);
  f.receive(client, submit);  // a repeat
  CHECK(f.sent<StartDriver>().empty());
  CHECK(f.sent<SubmissionReply>().size() == 1);
  f.receive(client, GetSubmission{{7, 2}, "job-1", true});
  CHECK(f.actions.empty());
  f.receive(Peer::of(one), DriverStatus{"job-1", SubmissionPhase::kRunning, 0, {}});
  JobDescription job;
  job.job = JobId{5};
  job.submission = "job-1";
  f.receive(Peer::of(one), RegisterJob{job});
  f.receive(client, StopSubmission{{7, 3}, "job-1"});
  CHECK(f.sent<StopDriver>().size() == 1);
  CHECK(f.sent<SubmissionReply>().empty());
  f.receive(Peer::of(one), DriverStatus{"job-1", SubmissionPhase::kFailed, 143, "ended"});
  const auto replies = f.sent<SubmissionReply>();
  REQUIRE(replies.size() == 2);  // who waited, and who stopped it
  CHECK(replies[0].second.info.phase == SubmissionPhase::kStopped);
  CHECK(replies[0].second.info.job == JobId{5});
  CHECK(f.sent<StopDriver>().size() == 1);  // acknowledged
  f.receive(client, GetSubmission{{7, 4}, "job-9", false});
  CHECK(f.sent<SubmissionReply>().at(0).second.error);
  HeadFixture again({}, f.snapshot());
  again.receive(client, GetSubmission{{7, 5}, "job-1", true});
  CHECK(again.sent<SubmissionReply>().at(0).second.info.exit_code == 143);
}

TEST_CASE("a driver that no node has room for is tried again; a dead node fails it") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  SubmitJob submit;
  submit.submission = "job-1";
  submit.argv = {"train"};
  f.receive(Peer::client(1), submit);
  CHECK(f.sent<StartDriver>().size() == 1);
  f.receive(Peer::of(one), DriverStatus{"job-1", SubmissionPhase::kPending, 0, "no room"});
  f.pass(300ms, {one});
  CHECK(f.sent<StartDriver>().size() == 1);
  f.pass(2500ms, {one});
  CHECK(f.sent<StartDriver>().size() == 1);  // no answer: again
  f.pass(4s);
  f.receive(Peer::client(1), GetSubmission{{7, 1}, "job-1", true});
  CHECK(f.sent<SubmissionReply>().at(0).second.info.phase == SubmissionPhase::kFailed);
}

TEST_CASE("questions are joined over nodes, with a deadline") {
  HeadFixture f;
  const NodeId one = f.add_node(1, 4);
  const NodeId two = f.add_node(2, 4);
  const Peer client = Peer::client(1);
  Query query;
  query.request = {7, 1};
  query.kind = QueryKind::kNodes;
  f.receive(client, query);
  CHECK(f.sent<QueryReply>().at(0).second.rows.size() == 2);
  query.kind = QueryKind::kStatus;
  f.receive(client, query);
  CHECK_FALSE(f.sent<QueryReply>().at(0).second.rows.empty());
  query.kind = QueryKind::kWorkers;
  f.receive(client, query);
  const auto passed = f.sent<Query>();
  REQUIRE(passed.size() == 2);
  f.receive(client, query);
  CHECK(f.actions.empty());
  QueryReply rows;
  rows.request = passed[0].second.request;
  rows.columns = {"worker"};
  rows.rows = {{"w1"}};
  f.receive(Peer::of(one), rows);
  CHECK(f.sent<QueryReply>().empty());
  f.receive(Peer::of(one), rows);
  f.pass(2500ms, {one, two});
  const auto replies = f.sent<QueryReply>();
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].second.request == query.request);
  CHECK(replies[0].second.rows.size() == 1);
  CHECK(replies[0].second.notes.size() == 1);
  query.kind = QueryKind::kStop;
  query.target = "all";
  f.receive(client, query);
  CHECK(f.sent<Query>().size() == 2);
  CHECK(f.did<StopHead>().size() == 1);
}

TEST_CASE("a lease that finds no node hears by itself of the first that has room, and is shown to busy ones") {
  HeadFixture f;
  const NodeId asker = f.add_node(1, 0);
  const NodeId busy = f.add_node(2, 2);
  f.settle({asker, busy});
  f.free[busy].cpus = Quantity::whole(0);
  f.receive(Peer::of(busy), f.beats(busy));
  const FindNode find{{9, 1}, JobId{5}, cpus(1), {}, {}};
  f.receive(Peer::of(asker), find);
  CHECK_FALSE(f.sent<NodeFound>().at(0).second.node);
  CHECK(f.sent<FindNode>().empty());
  f.now = f.now + 150ms;
  f.receive(Peer::of(asker), find);
  REQUIRE(f.sent<FindNode>().size() == 1);
  CHECK(f.sent<FindNode>()[0].first == Peer::of(busy));
  f.free[busy].cpus = Quantity::whole(1);
  f.receive(Peer::of(busy), f.beats(busy));
  REQUIRE(f.sent<NodeFound>().size() == 1);
  CHECK(f.sent<NodeFound>()[0].first == Peer::of(asker));
  CHECK(f.sent<NodeFound>()[0].second.node == busy);
  f.free[busy].cpus = Quantity::whole(2);
  f.receive(Peer::of(busy), f.beats(busy));
  CHECK(f.sent<NodeFound>().empty());
}

TEST_CASE("why a lease waits, per node") {
  HeadFixture f;
  const NodeId asker = f.add_node(1, 0);
  const NodeId busy = f.add_node(2, 2);
  f.free[busy].cpus = Quantity::whole(0);
  f.receive(Peer::of(busy), f.beats(busy));
  f.receive(Peer::of(asker), FindNode{{9, 1}, JobId{5}, cpus(1), {}, {}});
  Query query;
  query.request = {7, 1};
  query.kind = QueryKind::kExplain;
  query.target = to_string(TaskId{9, 4});
  f.receive(Peer::client(1), query);
  const auto passed = f.sent<Query>();
  REQUIRE(passed.size() == 2);
  for (const auto& [to, message] : passed) f.receive(to, QueryReply{message.request, {}, {}, {}, {}});
  const auto replies = f.sent<QueryReply>();
  REQUIRE(replies.size() == 1);
  REQUIRE(replies[0].second.rows.size() == 2);
  CHECK(replies[0].second.rows[0][2] == "never: needs 1 CPU (0 in all)");
  CHECK(replies[0].second.rows[1][2] == "needs 1 CPU (0 free)");
}

namespace {

constexpr const char* kSubmission = "job-0123456789abcdef";

SubmitJob job_with_files() {
  SubmitJob job;
  job.request = {9, 1};
  job.submission = kSubmission;
  job.argv = {"./train"};
  job.working_dir = std::string(64, 'a');
  job.resources.cpus = Quantity::whole(1);
  return job;
}

}  // namespace

TEST_CASE("logs of submissions and of the jobs they became lie on their node") {
  HeadFixture f;
  CHECK(f.head.log_place(kSubmission).error->message.find("mobula list jobs") != std::string::npos);
  f.receive(Peer::client(1), job_with_files());
  CHECK(f.head.log_place(kSubmission).error->message.find("mobula explain") != std::string::npos);
  const NodeId node = f.add_node(1, 4);
  f.pass(1s, {node});
  CHECK(f.head.log_place(kSubmission).node == node);
  CHECK(f.head.log_place(kSubmission).name == kSubmission);

  JobDescription job;
  job.job = JobId{77};
  job.driver = {ProcessId{5}, node, job.job};
  job.submission = kSubmission;
  f.receive(Peer::of(node), RegisterJob{job});
  CHECK(f.head.log_place(to_string(JobId{77})).name == kSubmission);
  job.job = JobId{78};
  job.submission.clear();
  f.receive(Peer::of(node), RegisterJob{job});
  CHECK(f.head.log_place(to_string(JobId{78})).error->message.find("was not submitted") != std::string::npos);
}

TEST_CASE("logs of actors are those of their worker; unknown workers may be anywhere") {
  HeadFixture f;
  const NodeId node = f.add_node(1, 4);
  CHECK(f.head.live_nodes() == std::vector<NodeId>{node});
  f.create(HeadFixture::spec(1));
  const std::string actor = to_string(ActorId{100, 1});
  CHECK(f.head.log_place(actor).error);  // it has no worker yet
  f.started(node, {100, 1});
  CHECK(f.head.log_place(actor).node == node);
  CHECK(f.head.log_place(actor).name == to_string(ProcessId{1001}));
  CHECK(f.head.log_place(to_string(ProcessId{1001})).node == node);
  CHECK(f.head.log_place(to_string(node)).node == node);
  CHECK_FALSE(f.head.log_place(to_string(ProcessId{4242})).error);
  CHECK_FALSE(f.head.log_place(to_string(ProcessId{4242})).node);
  CHECK(f.head.log_place("../../etc/passwd").error);
  CHECK(f.head.log_place("").error);
}

TEST_CASE("files are needed as long as a submission that has not ended names them") {
  HeadFixture f;
  const SubmitJob job = job_with_files();
  CHECK_FALSE(f.head.needs_content(job.working_dir));
  f.receive(Peer::client(1), job);
  CHECK(f.head.needs_content(job.working_dir));
  CHECK_FALSE(f.head.needs_content(std::string(64, 'b')));
  const NodeId node = f.add_node(1, 4);
  f.pass(1s, {node});
  f.receive(Peer::of(node), DriverStatus{kSubmission, SubmissionPhase::kRunning, 0, {}});
  // A restarted head still needs them.
  CHECK(HeadFixture({}, f.snapshot()).head.needs_content(job.working_dir));
  f.receive(Peer::of(node), DriverStatus{kSubmission, SubmissionPhase::kSucceeded, 0, {}});
  CHECK_FALSE(f.head.needs_content(job.working_dir));
}

}  // namespace mobula::scheduler::test
