// The engine: what only shows when submitter, executor and owner work as one process.
#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/core/engine/engine.h"
#include "tests/actions.h"

namespace mobula::core {
namespace {

using namespace std::chrono_literals;

constexpr NodeId kNode{1};
constexpr JobId kJob{7};
const ProcessAddress kDriver{ProcessId{10}, kNode, kJob};
const ProcessAddress kWorker{ProcessId{20}, kNode, kJob};
const ProcessAddress kThird{ProcessId{30}, kNode, kJob};
const Peer kDaemon = Peer::of(kNode);
constexpr LeaseId kLease{10, 1};

ObjectLocator object(const ProcessAddress& owner, std::uint64_t sequence) {
  return {ObjectId{owner.process.value, sequence}, kNode, kJob};
}
InlineValue text(const char* bytes, std::vector<ObjectLocator> refs = {}) {
  return InlineValue{Bytes::copy_of(bytes), std::move(refs)};
}
SpecRef spec() {
  CallSpec made;
  made.job = kJob;
  made.name = "work";
  return SpecRef{1, std::make_shared<const CallSpec>(made)};
}

struct Side {
  explicit Side(const ProcessAddress& self)
      : engine([&] {
          EngineConfig config;
          config.self = self;
          return config;
        }()) {}

  Actions& step(std::vector<Event> events) {
    actions.clear();
    engine.step(now, events, actions);
    engine.check();
    return actions;
  }
  Actions& receive(const Peer& from, Message message) { return step({Received{from, std::move(message)}}); }
  Actions& pass(Duration duration) {
    now = now + duration;
    return step({Tick{}});
  }
  template <class M>
  std::vector<M> sent(const Peer& to) const {
    return testing::sent_to<M>(actions.sends, to);
  }
  template <class O>
  std::vector<O> orders() const {
    return testing::those<O>(actions.orders);
  }
  // What the last step sent to the other side, as it arrives there.
  std::vector<Event> for_other(const ProcessAddress& self, const ProcessAddress& other) const {
    std::vector<Event> events;
    for (const Send& send : actions.sends) {
      if (send.to == other.peer()) events.emplace_back(Received{self.peer(), send.message});
    }
    return events;
  }

  Engine engine;
  Instant now{1'000'000'000};
  Actions actions;
};

struct Pair {
  Side driver{kDriver};
  Side worker{kWorker};

  SubmitTask submit(std::uint64_t sequence, std::vector<ArgumentIn> arguments = {}) {
    SubmitTask event;
    event.task = TaskId{10, sequence};
    event.spec = spec();
    event.arguments = std::move(arguments);
    event.first_return = ObjectId{10, 100 + sequence};
    return event;
  }
  // The worker starts what the driver submitted.
  void start(SubmitTask event) {
    driver.step({std::move(event)});
    worker.receive(kDaemon, AssignWorker{kLease, kJob, kDriver, {}});
    driver.receive(kDaemon, LeaseGranted{kLease, kWorker, {}});
    worker.step(driver.for_other(kDriver, kWorker));
    REQUIRE(worker.actions.execute.size() == 1);
  }
  CallFinished finished(std::uint64_t sequence, InlineValue value) {
    CallFinished event;
    event.task = TaskId{10, sequence};
    event.results.emplace_back(std::move(value));
    return event;
  }
};

TEST_CASE_FIXTURE(Pair, "a task, from one process to the other and back") {
  driver.step({PutInline{object(kDriver, 1).id, text("argument")}});
  start(submit(1, {object(kDriver, 1)}));
  CHECK(std::get<InlineValue>(worker.actions.execute[0].arguments.at(0)) == text("argument"));
  driver.step({RefDropped{object(kDriver, 1).id}});
  CHECK(driver.engine.stats().owner.objects == 2);  // pinned for the call
  worker.step({finished(1, text("result"))});
  driver.step(worker.for_other(kWorker, kDriver));
  REQUIRE(driver.actions.ready.size() == 1);
  CHECK(driver.actions.ready[0].object == ObjectId{10, 101});
  CHECK(std::get<InlineValue>(driver.actions.ready[0].outcome) == text("result"));
  CHECK(driver.engine.stats().owner.objects == 1);
  driver.step({RefDropped{ObjectId{10, 101}}});
  driver.pass(60ms);
  CHECK(driver.sent<ReturnLease>(kDaemon).size() == 1);
  CHECK(driver.engine.idle());
  CHECK(worker.engine.idle());
}

TEST_CASE_FIXTURE(Pair, "a result may arrive in the step in which its last reference goes away") {
  start(submit(1));
  worker.step({finished(1, text("result", {object(kThird, 5)}))});
  std::vector<Event> events = worker.for_other(kWorker, kDriver);
  events.insert(events.begin(), RefDropped{ObjectId{10, 101}});
  // The worker waits for its own borrow first.
  CHECK(events.size() == 1);
  const auto asked = worker.sent<BorrowObjects>(kThird.peer());
  REQUIRE(asked.size() == 1);
  worker.receive(kThird.peer(), ObjectsBorrowed{asked[0].round, asked[0].objects, {}});
  for (Event& event : worker.for_other(kWorker, kDriver)) events.push_back(std::move(event));
  driver.step(std::move(events));
  CHECK(driver.actions.ready.empty());
  CHECK(driver.sent<HandoffDone>(kWorker.peer()).size() == 1);
  CHECK(driver.sent<BorrowObjects>(kThird.peer()).empty());
}

TEST_CASE_FIXTURE(Pair, "a cancel by one of the call's returns reaches the worker, and its answer ends it") {
  start(submit(1));
  driver.step({Cancel{{}, ObjectId{10, 101}, false, true}});
  worker.step(driver.for_other(kDriver, kWorker));
  CHECK(worker.orders<CancelRunning>().at(0).task == TaskId{10, 1});
  CallFinished stopped;
  stopped.task = TaskId{10, 1};
  stopped.error = make_error(ErrorKind::kCancelled, "asked to");
  stopped.cancelled = true;
  worker.step({stopped});
  driver.step(worker.for_other(kWorker, kDriver));
  CHECK(std::get<ErrorInfo>(driver.actions.ready.at(0).outcome).kind == ErrorKind::kCancelled);
}

TEST_CASE_FIXTURE(Pair, "children of a cancelled call are cancelled with it") {
  start(submit(1));
  SubmitTask child;
  child.task = TaskId{20, 1};
  child.spec = spec();
  child.first_return = ObjectId{20, 1};
  child.parent = TaskId{10, 1};
  worker.step({child});
  worker.receive(kDriver.peer(), CancelCall{TaskId{10, 1}, false, true});
  CHECK(std::get<ErrorInfo>(worker.actions.ready.at(0).outcome).kind == ErrorKind::kCancelled);
}

TEST_CASE("an actor that calls itself needs no link") {
  Side side(kWorker);
  HostActor host;
  host.spec.actor = ActorId{10, 1};
  host.spec.owner = kDriver;
  host.spec.max_concurrency = 2;
  host.incarnation = 1;
  side.receive(kDaemon, host);
  CallFinished made;
  made.actor = ActorId{10, 1};
  side.step({made});
  SubmitActorCall call;
  call.task = TaskId{20, 1};
  call.actor = ActorId{10, 1};
  call.spec = spec();
  call.first_return = ObjectId{20, 1};
  side.step({call});
  ActorUpdate update;
  update.info.actor = ActorId{10, 1};
  update.info.phase = ActorPhase::kAlive;
  update.info.incarnation = 1;
  update.info.address.host = kWorker;
  side.receive(Peer::head(), update);
  REQUIRE(side.actions.execute.size() == 1);
  CHECK(side.actions.sends.empty());
  // The result refers to an object that nothing else holds by then.
  CallFinished finished;
  finished.task = TaskId{20, 1};
  finished.results.emplace_back(text("self", {object(kWorker, 9)}));
  side.step({PutInline{object(kWorker, 9).id, text("inner")}});
  side.step({finished, RefDropped{object(kWorker, 9).id}});
  CHECK(side.actions.ready.size() == 1);
  side.step({RefAcquired{object(kWorker, 9)}, Want{object(kWorker, 9), WantMode::kValue}});
  CHECK(std::get<InlineValue>(side.actions.ready.at(0).outcome) == text("inner"));
  side.step({RefDropped{ObjectId{20, 1}}, RefDropped{object(kWorker, 9).id}});
  CHECK(side.engine.stats().owner.objects == 0);
}

TEST_CASE("the last handle of an actor ends it when its calls are done") {
  Side side(kDriver);
  SubmitActor create;
  create.request = RequestId{10, 1};
  create.spec.actor = ActorId{10, 1};
  create.handle = ObjectId{10, 1};
  SubmitActorCall call;
  call.task = TaskId{10, 1};
  call.actor = ActorId{10, 1};
  call.spec = spec();
  call.first_return = ObjectId{10, 2};
  call.self = object(kDriver, 1);
  side.step({create, call, RefDropped{ObjectId{10, 1}}});
  CHECK(side.sent<KillActor>(Peer::head()).empty());
  ActorInfo info;
  info.actor = ActorId{10, 1};
  info.phase = ActorPhase::kAlive;
  info.incarnation = 1;
  info.address.host = kWorker;
  side.receive(Peer::head(), ActorCreated{RequestId{10, 1}, {}, info});
  CHECK(side.sent<PushCalls>(kWorker.peer()).size() == 1);
  CallResult result;
  result.task = TaskId{10, 1};
  result.returns.emplace_back(text("done"));
  side.receive(kWorker.peer(), CallsDone{{result}});
  CHECK(side.sent<KillActor>(Peer::head()).at(0).graceful);
}

TEST_CASE_FIXTURE(Pair, "a lost worker is asked after; its node's word decides") {
  start(submit(1));
  driver.step({PeerLost{kWorker.peer(), make_error(ErrorKind::kUnreachable, "reset")}});
  CHECK(driver.sent<ProbeProcess>(kDaemon).at(0).process == kWorker.process);
  SUBCASE("it lives: the call is pushed again and not run again") {
    driver.receive(kDaemon, ProcessStatus{kWorker.process, true, {}});
    CHECK(driver.sent<PushCalls>(kWorker.peer()).size() == 1);
    worker.step(driver.for_other(kDriver, kWorker));
    CHECK(worker.actions.execute.empty());
  }
  SUBCASE("it is dead") {
    ErrorInfo why = make_error(ErrorKind::kWorkerDied, "killed");
    why.signal = 9;
    driver.receive(kDaemon, ProcessStatus{kWorker.process, false, why});
    const auto& error = std::get<ErrorInfo>(driver.actions.ready.at(0).outcome);
    CHECK(error.kind == ErrorKind::kWorkerDied);
    CHECK(error.signal == 9);
  }
  SUBCASE("nobody knows") {
    for (int i = 0; i < 5; ++i) driver.pass(500ms);
    CHECK(driver.engine.stats().submitter.calls == 0);
  }
}

TEST_CASE_FIXTURE(Pair, "a process that is cut off from its node tells everyone and ends") {
  start(submit(1));
  driver.step({PeerLost{kDaemon, make_error(ErrorKind::kUnreachable, "end of file")}});
  CHECK(std::get<ErrorInfo>(driver.actions.ready.at(0).outcome).kind == ErrorKind::kUnreachable);
  CHECK(driver.orders<ExitProcess>().size() == 1);
}

TEST_CASE("a worker does not end before the references in its results are taken over") {
  Side side(kWorker);
  HostActor host;
  host.spec.actor = ActorId{10, 1};
  host.spec.owner = kDriver;
  host.incarnation = 1;
  side.receive(kDaemon, host);
  CallFinished made;
  made.actor = ActorId{10, 1};
  side.step({made, PutInline{object(kWorker, 1).id, text("kept by the result only")}});
  CallSpec method;
  Call call;
  call.task = TaskId{10, 1};
  call.spec = 1;
  call.first_return = ObjectId{10, 1};
  call.actor = ActorId{10, 1};
  call.incarnation = 1;
  call.sequence = 1;
  side.step({Received{kDriver.peer(), DefineSpec{1, method}}, Received{kDriver.peer(), PushCalls{{}, 0, {call}}}});
  CallFinished finished;
  finished.task = call.task;
  finished.results.emplace_back(text("r", {object(kWorker, 1)}));
  side.step({finished, RefDropped{object(kWorker, 1).id}, Received{kDaemon, ExitActor{ActorId{10, 1}}}});
  CHECK(side.sent<CallsDone>(kDriver.peer()).size() == 1);
  CHECK(side.orders<ExitProcess>().empty());
  SUBCASE("taken over") {
    side.receive(kDriver.peer(), BorrowObjects{1, {object(kWorker, 1).id}});
    side.receive(kDriver.peer(), HandoffDone{{call.task}});
    CHECK(side.orders<ExitProcess>().size() == 1);
  }
  SUBCASE("never: not for ever") {
    side.pass(6s);
    CHECK(side.orders<ExitProcess>().size() == 1);
  }
}

}  // namespace
}  // namespace mobula::core
