// Tasks and leases of the submitter.
#include <doctest/doctest.h>

#include "tests/scheduler/submitter_fixture.h"

namespace mobula::scheduler::test {
namespace {

using Settled = std::vector<std::pair<std::uint64_t, std::string>>;
using Tasks = std::vector<std::uint64_t>;

TEST_CASE_FIXTURE(SubmitterFixture,
                  "a task: lease, definition, call, answer; the next one reuses the lease; then it goes back") {
  step({submit(1)});
  REQUIRE(sent<RequestLease>(kNode).size() == 1);
  CHECK(sent<RequestLease>(kNode)[0].lease == lease(1));
  CHECK(sent<RequestLease>(kNode)[0].caller == kSelf);
  CHECK(sent<RequestLease>(kNode)[0].name == "work");
  grant(1, 20);
  CHECK(sent<DefineSpec>(worker(20).peer()).at(0).number == 1);
  CHECK(pushed(20) == Tasks{1});
  CHECK(sent<PushCalls>(worker(20).peer()).at(0).lease == lease(1));
  done(20, {result(1)});
  CHECK(settled() == Settled{{1, ""}});
  CHECK(outputs<CallSettled>().at(0).first_return == ObjectId{10, 101});

  pass(30ms);
  step({submit(2)});
  CHECK(sent<DefineSpec>(worker(20).peer()).empty());
  CHECK(sent<RequestLease>(kNode).empty());
  CHECK(pushed(20) == Tasks{2});
  done(20, {result(2)});
  pass(40ms);
  CHECK(actions.sends.empty());
  pass(20ms);
  CHECK(sent<ReturnLease>(kNode).at(0) == ReturnLease{lease(1), false});
  CHECK(submitter.idle());
}

TEST_CASE_FIXTURE(SubmitterFixture, "one task at a time until measured, then a millisecond of work, in one message") {
  step(tasks(1, 40));
  grant(1, 20);
  CHECK(pushed(20) == Tasks{1});
  done(20, {result(1, 0, 100'000)});
  CHECK(pushed(20).size() == 10);
  CHECK(sent<PushCalls>(worker(20).peer()).size() == 1);
  done(20, {result(2, 0, 100'000), result(3, 0, 100'000)});
  CHECK(pushed(20).size() == 2);
}

TEST_CASE_FIXTURE(SubmitterFixture, "a pipeline is bounded in calls too") {
  step(tasks(1, 600));
  grant(1, 20);
  done(20, {result(1, 0, 10)});
  CHECK(pushed(20).size() == 256);
}

TEST_CASE_FIXTURE(SubmitterFixture, "a second lease gets its share") {
  step(tasks(1, 7));
  step({Received{kNode, LeaseGranted{lease(1), worker(20), {}}},
        Received{kNode, LeaseGranted{lease(2), worker(21), {}}}});
  CHECK(pushed(20) == Tasks{1});
  CHECK(pushed(21) == Tasks{2});
  step({Received{worker(20).peer(), CallsDone{{result(1)}}}, Received{worker(21).peer(), CallsDone{{result(2)}}}});
  CHECK(pushed(20) == Tasks{3, 5, 7});
  CHECK(pushed(21) == Tasks{4, 6});
}

TEST_CASE_FIXTURE(SubmitterFixture, "requests for leases are bounded, repeated, and dropped when nothing waits") {
  step(tasks(1, 100));
  CHECK(sent<RequestLease>(kNode).size() == 16);
  pass(2s);
  CHECK(sent<RequestLease>(kNode).size() == 16);
  CHECK(sent<RequestLease>(kNode)[0].lease == lease(1));
  std::vector<SubmitterEvent> cancels;
  for (std::uint64_t i = 1; i <= 100; ++i) cancels.emplace_back(Cancel{task(i), {}, false, true});
  step(cancels);
  CHECK(settled().size() == 100);
  pass(150ms);
  CHECK(sent<ReturnLease>(kNode).size() == 16);
  grant(3, 20);  // crossed the return
  CHECK(sent<ReturnLease>(kNode).at(0).lease == lease(3));
  CHECK(submitter.idle());
}

TEST_CASE_FIXTURE(SubmitterFixture, "a task given back runs again at the front, and costs no attempt") {
  step(tasks(1, 5));
  grant(1, 20);
  done(20, {result(1)});
  CHECK(pushed(20) == Tasks{2, 3, 4, 5});
  receive(worker(20).peer(), GiveBack{{task(3), task(4), task(5)}});
  CHECK(pushed(20).empty());  // it is about to block
  grant(2, 21);
  CHECK(pushed(21) == Tasks{3, 4, 5});
  CHECK(last_call(21).attempt == 0);
  step(tasks(6, 6));
  CHECK(pushed(20).empty());
  CHECK(pushed(21) == Tasks{6});
  done(20, {result(2)});
  step(tasks(7, 7));
  CHECK(pushed(20) == Tasks{7});
}

TEST_CASE_FIXTURE(SubmitterFixture, "a reclaimed lease gives back what has not started and ends with what runs") {
  step(tasks(1, 3));
  grant(1, 20);
  done(20, {result(1)});
  receive(kNode, ReclaimLease{lease(1)});
  CHECK(sent<StealBack>(worker(20).peer()).at(0).lease == lease(1));
  receive(worker(20).peer(), GiveBack{{task(3)}});
  done(20, {result(2)});
  CHECK(sent<ReturnLease>(kNode).at(0) == ReturnLease{lease(1), false});
  receive(kNode, ReclaimLease{lease(1)});
  CHECK(sent<ReturnLease>(kNode).at(0) == ReturnLease{lease(1), false});
  grant(2, 21);
  CHECK(pushed(21) == Tasks{3});
}

TEST_CASE_FIXTURE(SubmitterFixture, "others behind a call that takes long are taken back from it") {
  step(tasks(1, 3));
  grant(1, 20);
  done(20, {result(1)});
  CHECK(pushed(20) == Tasks{2, 3});
  pass(9ms);
  CHECK(actions.sends.empty());
  pass(2ms);
  CHECK(sent<StealBack>(worker(20).peer()).size() == 1);
}

TEST_CASE_FIXTURE(SubmitterFixture, "a worker that dies: the running task is charged, those behind it are not") {
  step(tasks(1, 4, 1));
  grant(1, 20);
  done(20, {result(1)});
  CHECK(pushed(20) == Tasks{2, 3, 4});
  receive(kNode, LeaseLost{lease(1), died()});
  CHECK(settled().empty());
  grant(2, 21);
  CHECK(pushed(21) == Tasks{2, 3, 4});
  CHECK(last_call(21).attempt == 1);
  receive(kNode, LeaseLost{lease(2), died()});
  CHECK(settled() == Settled{{2, "WorkerDied"}});
  CHECK(outputs<CallSettled>().at(0).left_on.size() == 2);
  grant(3, 22);
  CHECK(pushed(22) == Tasks{3, 4});
  CHECK(submitter.stats().retries == 5);
}

TEST_CASE_FIXTURE(SubmitterFixture, "what may not run twice fails with its worker") {
  step(tasks(1, 3));
  grant(1, 20);
  done(20, {result(1)});
  step({Cancel{task(3), {}, true, true}});
  CHECK(sent<CancelCall>(worker(20).peer()).at(0) == CancelCall{task(3), true, true});
  receive(kNode, LeaseLost{lease(1), died()});
  CHECK(settled() == Settled{{2, "WorkerDied"}, {3, "Cancelled"}});
}

TEST_CASE_FIXTURE(SubmitterFixture, "what can never be placed fails with the reason") {
  step(tasks(1, 3));
  receive(kNode, LeaseFailed{lease(2), make_error(ErrorKind::kUnschedulable, "no node has 9 CPUs")});
  CHECK(settled() == Settled{{1, "Unschedulable"}, {2, "Unschedulable"}, {3, "Unschedulable"}});
}

TEST_CASE_FIXTURE(SubmitterFixture, "a lease that moved goes back to the node that has it") {
  step({submit(1)});
  receive(kNode, LeaseMoved{lease(1), kThere});
  CHECK(sent<ResolveNode>(kNode).at(0).node == kThere);
  step({Cancel{task(1), {}, false, true}});
  pass(150ms);
  CHECK(sent<ReturnLease>(Peer::of(kThere)).at(0) == ReturnLease{lease(1), false});
}

TEST_CASE_FIXTURE(SubmitterFixture, "a node that is gone takes its leases with it") {
  step(tasks(1, 1, 3));
  grant(1, 20, kThere);
  step({NodeGone{kThere}});
  CHECK(sent<RequestLease>(kNode).size() == 1);
  grant(2, 21);
  CHECK(last_call(21).attempt == 1);
}

TEST_CASE_FIXTURE(SubmitterFixture, "a broken link: nothing is pushed into it, and all is said again over the next") {
  step(tasks(1, 4));
  grant(1, 20);
  done(20, {result(1)});
  step({PeerTroubled{worker(20).peer(), PeerTrouble::kBroken, {}}});
  step(tasks(5, 5));
  CHECK(pushed(20).empty());
  step({Cancel{task(3), {}, false, true}, PeerUsable{worker(20).peer()}});
  CHECK(sent<DefineSpec>(worker(20).peer()).size() == 1);
  CHECK(pushed(20) == Tasks{2, 3, 4, 5});
  CHECK(!sent<CancelCall>(worker(20).peer()).empty());
  done(20, {result(2)});
  CHECK(settled() == Settled{{2, ""}});
}

TEST_CASE_FIXTURE(SubmitterFixture, "a worker nobody can say lives is given up, and not used again") {
  step({submit(1)});
  grant(1, 20);
  step({PeerTroubled{worker(20).peer(), PeerTrouble::kBroken, died()}});
  CHECK(settled().empty());
  step({PeerTroubled{worker(20).peer(), PeerTrouble::kSilent, died()}});
  CHECK(settled() == Settled{{1, "WorkerDied"}});
  CHECK(sent<ReturnLease>(kNode).at(0) == ReturnLease{lease(1), true});
}

TEST_CASE_FIXTURE(SubmitterFixture, "arguments must be ready before a task is pushed") {
  const ObjectLocator object{ObjectId{30, 1}, kThere, kJob};
  SubmitTask event = submit(1);
  event.arguments = {object, InlineValue{Bytes::copy_of("a"), {}}, object};
  step({event});
  CHECK(outputs<NeedObject>().size() == 1);
  CHECK(actions.sends.empty());
  SUBCASE("small: it travels with the call") {
    step({ObjectKnown{object.id, InlineValue{Bytes::copy_of("b"), {}}}});
    grant(1, 20);
    CHECK(std::get<InlineValue>(last_call(20).arguments.at(2)).bytes.text() == "b");
  }
  SUBCASE("large: its place travels, and the lease is asked for near it") {
    step({ObjectKnown{object.id, StoredValue{object, 5000, {kThere}, {}}}});
    CHECK(sent<RequestLease>(kNode).at(0).locality.at(0).first == kThere);
    grant(1, 20);
    CHECK(std::get<StoredValue>(last_call(20).arguments.at(0)).size == 5000);
  }
  SUBCASE("failed: so does the task") {
    step({ObjectKnown{object.id, make_error(ErrorKind::kOwnerDied, "gone")}});
    CHECK(settled() == Settled{{1, "OwnerDied"}});
  }
  SUBCASE("cancelled meanwhile") {
    step({Cancel{task(1), {}, false, true}});
    CHECK(settled() == Settled{{1, "Cancelled"}});
    CHECK(submitter.idle());
  }
}

TEST_CASE_FIXTURE(SubmitterFixture, "answers that nobody waits for are let go of") {
  step({submit(1)});
  grant(1, 20);
  done(20, {result(1), result(1)});
  CHECK(settled().size() == 1);
  CHECK(outputs<StaleAnswer>().at(0).task == task(1));
  done(20, {result(9)});
  CHECK(outputs<StaleAnswer>().size() == 1);
}

TEST_CASE_FIXTURE(SubmitterFixture, "exceptions of user code are retried when asked for") {
  CallSpec made;
  made.max_retries = 1;
  made.retry_exceptions = true;
  SubmitTask event = submit(1);
  event.spec = SpecRef{3, std::make_shared<const CallSpec>(made)};
  step({event});
  grant(1, 20);
  CallResult failed = result(1);
  failed.returns.clear();
  failed.error = make_error(ErrorKind::kTaskFailed, "boom");
  done(20, {failed});
  CHECK(pushed(20) == Tasks{1});
  CHECK(last_call(20).attempt == 1);
  failed.attempt = 1;
  done(20, {failed});
  CHECK(settled() == Settled{{1, "TaskFailed"}});
}

TEST_CASE_FIXTURE(SubmitterFixture, "workers hear what is settled, so that they forget its answer") {
  step(tasks(1, 100));
  grant(1, 20);
  done(20, {result(1, 0, 10)});
  std::vector<CallResult> results;
  for (std::uint64_t i = 2; i <= 100; ++i) results.push_back(result(i, 0, 10));
  done(20, results);
  step(tasks(101, 101));
  const std::uint64_t acknowledged = sent<PushCalls>(worker(20).peer()).at(0).acknowledged;
  CHECK(acknowledged == 101 - Watermark::kDisorderMax);
}

TEST_CASE("a sequence that never comes holds the watermark for 64 others only") {
  Watermark mark;
  mark.submitted(1);
  mark.submitted(3);  // 2 was refused by the runtime
  mark.settled(1);
  mark.settled(3);
  CHECK(mark.value() == 1);
  for (std::uint64_t i = 4; i <= 200; ++i) {
    mark.submitted(i);
    if (i != 150) mark.settled(i);
  }
  CHECK(mark.value() == 137);
  mark.submitted(300);
  mark.settled(300);
  CHECK(mark.value() == 150);
}

TEST_CASE_FIXTURE(SubmitterFixture, "children are cancelled with their parent") {
  SubmitTask child = submit(1);
  child.parent = TaskId{99, 1};
  step({child, submit(2)});
  step({CancelChildren{TaskId{99, 1}, false}});
  CHECK(settled() == Settled{{1, "Cancelled"}});
}

TEST_CASE_FIXTURE(SubmitterFixture, "the queue's bytes are reported, and fall again") {
  SubmitTask event = submit(1);
  event.arguments = {InlineValue{Bytes::copy_of(std::string(1000, 'x')), {}}};
  step({event});
  CHECK(outputs<QueueChanged>().at(0).bytes >= 1000);
  step({Cancel{task(1), {}, false, true}});
  CHECK(outputs<QueueChanged>().at(0).bytes == 0);
}

TEST_CASE_FIXTURE(SubmitterFixture, "when the runtime ends, everything that waits is told and every lease goes back") {
  step(tasks(1, 3));
  grant(1, 20);
  step({JobEnding{}});
  CHECK(settled().size() == 3);
  CHECK(settled()[0].second == "RuntimeStopped");
  CHECK(sent<CancelCall>(worker(20).peer()).at(0).task == task(1));
  CHECK(sent<ReturnLease>(kNode).size() == 3);
  step({submit(4)});
  CHECK(settled() == Settled{{4, "RuntimeStopped"}});
  CHECK(submitter.idle());
}

}  // namespace
}  // namespace mobula::scheduler::test
