// The executor: events in, exact messages and orders out.
#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "scheduler/executor.h"
#include "tests/actions.h"

namespace mobula::scheduler {
namespace {

using namespace std::chrono_literals;

constexpr JobId kJob{7};
const ProcessAddress kSelf{ProcessId{10}, NodeId{1}, kJob};
const ProcessAddress kCallerAddress{ProcessId{20}, NodeId{2}, kJob};
const Peer kCaller = kCallerAddress.peer();
const Peer kOther = Peer::of(ProcessId{30}, NodeId{2});
const Peer kNode = Peer::of(NodeId{1});
constexpr LeaseId kLease{20, 1};
constexpr ActorId kActor{20, 1};

TaskId task(std::uint64_t sequence, const Peer& caller = kCaller) {
  return {caller.id, sequence};
}

struct ExecutorFixture {
  Executor executor{[] {
    ExecutorConfig config;
    config.self = kSelf;
    config.methods_ahead = 1;
    return config;
  }()};
  Instant now{1'000'000'000};
  ExecutorActions actions;

  // Answers are cleared at once, as they are when no references are involved.
  ExecutorActions& step(std::vector<ExecutorEvent> events) {
    actions = {};
    for (ExecutorEvent& event : events) {
      const std::size_t before = actions.outputs.size();
      executor.step(now, {&event, 1}, actions);
      for (std::size_t i = before; i < actions.outputs.size(); ++i) {
        const auto* ran = std::get_if<CallRan>(&actions.outputs[i]);
        if (ran == nullptr || !clears) continue;
        ExecutorEvent cleared = AnswerCleared{ran->call};
        executor.step(now, {&cleared, 1}, actions);
      }
    }
    executor.flush(now, actions);
    executor.check();
    return actions;
  }
  ExecutorActions& receive(const Peer& from, Message message) { return step({Received{from, std::move(message)}}); }
  ExecutorActions& pass(Duration duration) {
    now = now + duration;
    return step({Tick{}});
  }
  template <class M>
  std::vector<M> sent(const Peer& to) const {
    return testing::sent_to<M>(actions.sends, to);
  }
  template <class O>
  std::vector<O> outputs() const {
    return testing::those<O>(actions.outputs);
  }
  std::vector<CallResult> answers(const Peer& to = kCaller) const {
    std::vector<CallResult> results;
    for (const CallsDone& done : sent<CallsDone>(to)) {
      results.insert(results.end(), done.results.begin(), done.results.end());
    }
    return results;
  }
  std::vector<TaskId> given_back(const Peer& to = kCaller) const {
    std::vector<TaskId> tasks;
    for (const GiveBack& back : sent<GiveBack>(to)) tasks.insert(tasks.end(), back.tasks.begin(), back.tasks.end());
    return tasks;
  }
  std::vector<TaskId> started() const {
    std::vector<TaskId> tasks;
    for (const Execute& execute : actions.execute) tasks.push_back(execute.task);
    return tasks;
  }

  void define(const Peer& caller = kCaller) {
    CallSpec spec;
    spec.job = kJob;
    spec.name = "work";
    receive(caller, DefineSpec{1, spec});
  }
  void assign(LeaseId lease = kLease) { receive(kNode, AssignWorker{lease, kJob, kCallerAddress, {}}); }
  static Call call(std::uint64_t sequence) {
    Call call;
    call.task = task(sequence);
    call.spec = 1;
    call.first_return = ObjectId{20, 100 + sequence};
    return call;
  }
  static Call method(std::uint64_t sequence, std::uint64_t order, const Peer& caller = kCaller) {
    Call call;
    call.task = task(sequence, caller);
    call.spec = 1;
    call.first_return = ObjectId{caller.id, 100 + sequence};
    call.actor = kActor;
    call.incarnation = 1;
    call.sequence = order;
    return call;
  }
  void push(std::vector<Call> calls, LeaseId lease = kLease, std::uint64_t acknowledged = 0) {
    const Peer caller = Peer::of(ProcessId{calls.at(0).task.maker}, NodeId{2});
    receive(caller, PushCalls{lease, acknowledged, std::move(calls)});
  }
  void push_methods(std::vector<Call> calls) { push(std::move(calls), LeaseId{}); }
  static CallFinished finished(TaskId task, const char* value = "v") {
    CallFinished event;
    event.task = task;
    event.results.emplace_back(InlineValue{Bytes::copy_of(value), {}});
    event.run_ns = 5;
    return event;
  }
  void host(std::uint32_t max_concurrency = 1) {
    HostActor message;
    message.spec.actor = kActor;
    message.spec.owner = kCallerAddress;
    message.spec.constructor.name = "Counter";
    message.spec.max_concurrency = max_concurrency;
    message.incarnation = 1;
    message.slot = 3;
    receive(kNode, message);
    REQUIRE(actions.execute.size() == 1);
    CHECK(actions.execute[0].constructor);
    CallFinished made;
    made.actor = kActor;
    step({made});
  }

  bool clears = true;
};

TEST_CASE_FIXTURE(ExecutorFixture, "tasks run one at a time, in order, and their answers travel together") {
  define();
  assign();
  push({call(1), call(2), call(3)});
  CHECK(started() == std::vector{task(1)});
  CHECK(actions.execute[0].caller == kCallerAddress);
  CHECK(actions.execute[0].lease == kLease);
  step({finished(task(1))});
  CHECK(started() == std::vector{task(2)});
  REQUIRE(answers().size() == 1);
  CHECK(answers()[0].run_ns == 5);
  CHECK(std::get<InlineValue>(answers()[0].returns.at(0)).bytes.text() == "v");
}

TEST_CASE_FIXTURE(ExecutorFixture, "a repeat gets the first answer in every phase") {
  define();
  assign();
  push({call(1), call(2)});
  push({call(1), call(2)});
  CHECK(actions.execute.empty());
  step({finished(task(1))});
  push({call(1)});
  CHECK(actions.execute.empty());
  CHECK(answers().at(0).task == task(1));
  // Acknowledged: forgotten, and a late repeat is not run again.
  push({call(3)}, kLease, 2);
  CHECK(executor.stats().answers == 0);
  push({call(1)}, kLease, 2);
  CHECK(answers().empty());
  step({finished(task(2))});
  CHECK(started() == std::vector{task(3)});
}

TEST_CASE_FIXTURE(ExecutorFixture,
                  "a newer attempt of an answered task runs again; of a running one it takes over the answer") {
  define();
  assign();
  push({call(1)});
  Call again = call(1);
  again.attempt = 1;
  push({again});
  CHECK(actions.execute.empty());
  step({finished(task(1))});
  CHECK(answers().at(0).attempt == 1);
  again.attempt = 2;
  push({again});
  CHECK(started() == std::vector{task(1)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "a cancelled task answers so: in the queue, running, and before it was seen") {
  define();
  assign();
  push({call(1), call(2)});
  receive(kCaller, CancelCall{task(2), false, true});
  CHECK(answers().at(0).cancelled);
  CHECK(answers().at(0).error->kind == ErrorKind::kCancelled);

  receive(kCaller, CancelCall{task(1), true, true});
  CHECK(outputs<CancelRunning>().at(0).force);
  CHECK(outputs<StopChildren>().at(0).parent == task(1));
  CallFinished stopped;
  stopped.task = task(1);
  stopped.error = make_error(ErrorKind::kCancelled, "stopped");
  step({stopped});
  CHECK(answers().at(0).cancelled);

  receive(kCaller, CancelCall{task(3), false, true});
  CHECK(actions.sends.empty());
  push({call(3)});
  CHECK(actions.execute.empty());
  CHECK(answers().at(0).cancelled);
}

TEST_CASE_FIXTURE(ExecutorFixture, "a worker that blocks gives its unstarted tasks back and lends its CPUs once") {
  define();
  assign();
  push({call(1), call(2), call(3)});
  step({ThreadBlocked{}});
  CHECK(given_back() == std::vector{task(2), task(3)});
  CHECK(sent<WorkerBlocked>(kNode).size() == 1);
  step({ThreadBlocked{}, ThreadUnblocked{}});
  CHECK(actions.sends.empty());
  push({call(4)});
  CHECK(given_back() == std::vector{task(4)});
  step({ThreadUnblocked{}});
  CHECK(sent<WorkerUnblocked>(kNode).size() == 1);
  push({call(2)});  // the same attempt again
  CHECK(given_back().empty());
  step({finished(task(1))});
  CHECK(started() == std::vector{task(2)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "calls of a lease the node has not told of wait for its word, but not for ever") {
  define();
  push({call(1)});
  CHECK(actions.execute.empty());
  SUBCASE("it comes") {
    assign();
    CHECK(started() == std::vector{task(1)});
  }
  SUBCASE("it does not") {
    pass(2s);
    CHECK(given_back() == std::vector{task(1)});
  }
  SUBCASE("the lease is another one") {
    assign(LeaseId{20, 9});
    CHECK(actions.execute.empty());
    pass(2s);
    CHECK(given_back() == std::vector{task(1)});
  }
}

TEST_CASE_FIXTURE(ExecutorFixture, "the next lease finds no tasks of the last") {
  define();
  assign();
  push({call(1), call(2)});
  assign(LeaseId{30, 1});
  CHECK(given_back() == std::vector{task(2)});
  push({call(3)});
  CHECK(given_back() == std::vector{task(3)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "asked to, it hands back what has not started") {
  define();
  assign();
  push({call(1), call(2)});
  receive(kOther, StealBack{kLease});
  CHECK(actions.sends.empty());
  receive(kCaller, StealBack{kLease});
  CHECK(given_back() == std::vector{task(2)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "a task starts when its stored arguments are here, and fails with their error") {
  define();
  assign();
  Call needs = call(1);
  const StoredValue big{ObjectLocator{ObjectId{20, 5}, NodeId{2}, kJob}, 100, {NodeId{2}}, {}};
  needs.arguments = {InlineValue{Bytes::copy_of("a"), {}}, big};
  push({needs, call(2)});
  CHECK(actions.execute.empty());
  CHECK(outputs<NeedArguments>().at(0).values == std::vector{big});
  SUBCASE("there") {
    step({ArgumentsReady{task(1), {PinnedLocation{big.object.id, 1, 4096, 0, 100, {}}}, {}}});
    REQUIRE(started() == std::vector{task(1)});
    CHECK(std::get<PinnedLocation>(actions.execute[0].arguments.at(1)).size == 100);
  }
  SUBCASE("lost") {
    step({ArgumentsReady{task(1), {}, make_error(ErrorKind::kObjectLost, "gone")}});
    CHECK(answers().at(0).error->kind == ErrorKind::kObjectLost);
    CHECK(started() == std::vector{task(2)});
  }
  SUBCASE("given back on the way") {
    step({ThreadBlocked{}});
    CHECK(outputs<AbandonArguments>().at(0).call == task(1));
  }
}

TEST_CASE_FIXTURE(ExecutorFixture,
                  "an answer waits until the references it leaves behind are in order; the next task does not") {
  clears = false;
  define();
  assign();
  push({call(1), call(2)});
  CallFinished with_refs = finished(task(1));
  const ObjectLocator ref{ObjectId{40, 1}, NodeId{2}, kJob};
  with_refs.results = {InlineValue{Bytes::copy_of("x"), {ref}}, StoredResult{1000, {}}};
  step({with_refs});
  CHECK(outputs<CallRan>().at(0).refs == std::vector{ref});
  CHECK(answers().empty());
  CHECK(started() == std::vector{task(2)});
  step({AnswerCleared{task(1)}});
  const StoredValue expected{ObjectLocator{ObjectId{20, 102}, NodeId{2}, kJob}, 1000, {NodeId{1}}, {}};
  CHECK(std::get<StoredValue>(answers().at(0).returns.at(1)) == expected);
}

TEST_CASE_FIXTURE(ExecutorFixture, "an actor is started once and says so again when asked again") {
  host();
  const ActorStarted started_message{kActor, 1, ActorAddress{kSelf, 3}};
  CHECK(sent<ActorStarted>(kNode) == std::vector{started_message});
  HostActor again;
  again.spec.actor = kActor;
  again.incarnation = 1;
  receive(kNode, again);
  CHECK(actions.execute.empty());
  CHECK(sent<ActorStarted>(kNode) == std::vector{started_message});
}

TEST_CASE_FIXTURE(ExecutorFixture, "a constructor that fails ends the process and says why") {
  HostActor message;
  message.spec.actor = kActor;
  message.incarnation = 2;
  receive(kNode, message);
  CallFinished failed;
  failed.actor = kActor;
  failed.error = make_error(ErrorKind::kTaskFailed, "no");
  step({failed});
  const auto ended = sent<ActorEnded>(kNode).at(0);
  CHECK(ended.end == ActorEnd::kConstructorFailed);
  CHECK(ended.incarnation == 2);
  CHECK(ended.error.message == "no");
  CHECK(outputs<ExitProcess>().size() == 1);
}

TEST_CASE_FIXTURE(ExecutorFixture, "methods run in the order their caller numbered them") {
  define();
  host();
  push_methods({method(3, 3), method(2, 2)});
  CHECK(actions.execute.empty());
  push_methods({method(1, 1)});
  CHECK(started() == std::vector{task(1)});
  step({finished(task(1))});
  CHECK(started() == std::vector{task(2)});
  step({finished(task(2))});
  CHECK(started() == std::vector{task(3)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "methods of an actor of one thread are handed out ahead, in order, so far as told") {
  ExecutorConfig config;
  config.self = kSelf;
  config.methods_ahead = 2;
  executor = Executor(config);
  define();
  host();
  push_methods({method(1, 1), method(2, 2), method(3, 3)});
  CHECK(started() == std::vector{task(1), task(2)});
  receive(kCaller, CancelCall{task(2), false, false});  // it may have begun
  CHECK(std::count_if(actions.outputs.begin(), actions.outputs.end(),
                      [](const ExecutorOutput& output) { return std::holds_alternative<CancelRunning>(output); }) == 1);
  step({finished(task(1))});
  CHECK(started() == std::vector{task(3)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "a number that never comes is passed over, and refused when it does") {
  define();
  host();
  push_methods({method(2, 2)});
  pass(500ms);
  CHECK(actions.execute.empty());
  pass(500ms);
  CHECK(started() == std::vector{task(2)});
  push_methods({method(1, 1)});
  CHECK(answers().at(0).error->kind == ErrorKind::kActorUnavailable);
}

TEST_CASE_FIXTURE(ExecutorFixture,
                  "concurrent methods: no more than allowed, and one caller's missing argument holds nobody else") {
  define();
  define(kOther);
  host(2);
  Call needs = method(1, 1);
  needs.arguments = {StoredValue{ObjectLocator{ObjectId{20, 5}, NodeId{2}, kJob}, 100, {NodeId{2}}, {}}};
  push_methods({needs, method(2, 2)});
  CHECK(actions.execute.empty());
  push_methods({method(1, 1, kOther), method(2, 2, kOther), method(3, 3, kOther)});
  CHECK(started() == std::vector{task(1, kOther), task(2, kOther)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "calls for another incarnation go back") {
  define();
  host();
  Call old = method(1, 1);
  old.incarnation = 7;
  push_methods({old});
  CHECK(given_back() == std::vector{task(1)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "a cancelled method leaves no gap in the order") {
  define();
  host();
  receive(kCaller, CancelCall{task(1), false, true});
  push_methods({method(1, 1), method(2, 2)});
  CHECK(answers().at(0).cancelled);
  CHECK(started() == std::vector{task(2)});
}

TEST_CASE_FIXTURE(ExecutorFixture, "a graceful end drains what is queued") {
  define();
  host();
  push_methods({method(1, 1), method(2, 2)});
  receive(kNode, ExitActor{kActor});
  CHECK(outputs<ExitProcess>().empty());
  push_methods({method(3, 3)});
  CHECK(given_back() == std::vector{task(3)});
  step({finished(task(1))});
  step({finished(task(2))});
  CHECK(answers().size() == 1);
  CHECK(sent<ActorEnded>(kNode).at(0).end == ActorEnd::kExited);
  CHECK(outputs<DropInstance>().at(0).actor == kActor);
  CHECK(outputs<ExitProcess>().size() == 1);
}

TEST_CASE_FIXTURE(ExecutorFixture, "a caller that is gone: its queue is dropped, its running task asked to stop") {
  define();
  assign();
  push({call(1), call(2)});
  step({PeerTroubled{kCaller, PeerTrouble::kBroken, {}}});
  CHECK(actions.outputs.empty());
  step({PeerTroubled{kCaller, PeerTrouble::kGone, {}}});
  CHECK(outputs<CancelRunning>().at(0).task == task(1));
  step({finished(task(1))});
  CHECK(actions.sends.empty());
  CHECK(actions.execute.empty());
  CHECK(executor.idle());
}

TEST_CASE("answers kept for repeats are bounded; of older ones only that they ran is known") {
  ExecutorConfig config;
  config.self = kSelf;
  config.answers_max = 2;
  ExecutorFixture fixture;
  fixture.executor = Executor(config);
  fixture.define();
  fixture.assign();
  for (std::uint64_t i = 1; i <= 4; ++i) {
    fixture.push({ExecutorFixture::call(i)});
    fixture.step({ExecutorFixture::finished(task(i))});
  }
  fixture.push({ExecutorFixture::call(1), ExecutorFixture::call(4)});
  CHECK(fixture.actions.execute.empty());
  const auto answers = fixture.answers();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].error->kind == ErrorKind::kWorkerDied);
  CHECK_FALSE(answers[1].error);
}

TEST_CASE_FIXTURE(ExecutorFixture, "results whose receiver did not confirm are said again") {
  define();
  assign();
  push({call(1)});
  step({finished(task(1))});
  step({RepeatAnswer{task(1), kCaller, {}}});
  CHECK(answers().at(0).attempt == 0);
  push({call(2)}, kLease, 2);  // acknowledges the first
  const ObjectLocator ref{ObjectId{40, 1}, NodeId{2}, kJob};
  step({RepeatAnswer{task(1), kCaller, {ref}}});
  CHECK(answers().at(0).attempt == ~std::uint32_t{0});  // no attempt that the caller ever made
  CHECK(std::get<InlineValue>(answers().at(0).returns.at(0)).refs == std::vector{ref});
}

TEST_CASE_FIXTURE(ExecutorFixture, "a call that was not defined is refused") {
  assign();
  push({call(1)});
  CHECK(answers().at(0).error->kind == ErrorKind::kInvalid);
}

}  // namespace
}  // namespace mobula::scheduler
