// Actors of the submitter: creation, ordered calls, restarts.
#include <doctest/doctest.h>

#include "tests/scheduler/submitter_fixture.h"

namespace mobula::scheduler::test {
namespace {

using Settled = std::vector<std::pair<std::uint64_t, std::string>>;
using Tasks = std::vector<std::uint64_t>;

constexpr ActorId kMade{10, 1};
const ObjectLocator kHandle{ObjectId{10, 1}, kHere, kJob};
const Peer kHead = Peer::head();

struct ActorCaller : SubmitterFixture {
  SubmitActorCall call(std::uint64_t sequence, std::int32_t max_task_retries = 0) {
    SubmitActorCall event;
    event.task = task(sequence);
    event.actor = kMade;
    event.spec = spec(1);
    event.first_return = ObjectId{10, 100 + sequence};
    event.self = kHandle;
    event.max_task_retries = max_task_retries;
    return event;
  }
  static ActorInfo info(ActorPhase phase, std::uint64_t incarnation = 1, std::uint64_t host = 20) {
    ActorInfo info;
    info.actor = kMade;
    info.phase = phase;
    info.incarnation = incarnation;
    if (phase == ActorPhase::kAlive) info.address.host = worker(host);
    return info;
  }
  SubmitterActions& update(ActorPhase phase, std::uint64_t incarnation = 1, std::uint64_t host = 20) {
    return receive(kHead, ActorUpdate{info(phase, incarnation, host)});
  }
  SubmitActor create(const char* name = "") {
    SubmitActor event;
    event.request = RequestId{10, 1};
    event.spec.actor = kMade;
    event.spec.name = name;
    event.spec.max_task_retries = 2;
    event.handle = kHandle.id;
    return event;
  }
  void created(const char* name = "") {
    step({create(name)});
    receive(kHead, ActorCreated{RequestId{10, 1}, {}, info(ActorPhase::kPending)});
  }
};

TEST_CASE_FIXTURE(ActorCaller, "calls wait for the actor, then go to its process in order") {
  step({call(1), call(2)});
  CHECK(sent<WatchActor>(kHead).at(0).actor == kMade);
  CHECK(outputs<ActorBusy>().at(0).busy);
  pass(1s);
  CHECK(sent<WatchActor>(kHead).size() == 1);  // asks again
  update(ActorPhase::kAlive);
  CHECK(pushed(20) == Tasks{1, 2});
  CHECK(last_call(20).sequence == 2);
  CHECK(last_call(20).incarnation == 1);
  CHECK(!sent<PushCalls>(worker(20).peer()).at(0).lease);
  done(20, {result(2), result(1)});
  CHECK(settled() == Settled{{2, ""}, {1, ""}});
  CHECK_FALSE(outputs<ActorBusy>().at(0).busy);
  step({call(3)});
  CHECK(last_call(20).sequence == 3);
  CHECK(sent<WatchActor>(kHead).empty());
}

TEST_CASE_FIXTURE(ActorCaller, "a call whose arguments are not ready holds the later ones back") {
  step({call(1)});
  update(ActorPhase::kAlive);
  const ObjectLocator object{ObjectId{30, 1}, kThere, kJob};
  SubmitActorCall waits = call(2);
  waits.arguments = {object};
  step({waits, call(3)});
  CHECK(pushed(20).empty());
  step({ObjectKnown{object.id, InlineValue{}}});
  CHECK(pushed(20) == Tasks{2, 3});
}

TEST_CASE_FIXTURE(ActorCaller, "a bounded number of calls is on the way") {
  step({call(1)});
  update(ActorPhase::kAlive);
  std::vector<SubmitterEvent> many;
  for (std::uint64_t i = 2; i <= 5000; ++i) many.emplace_back(call(i));
  step(many);
  CHECK(pushed(20).size() == 4095);
  done(20, {result(1), result(2)});
  CHECK(pushed(20) == Tasks{4097, 4098});
}

TEST_CASE_FIXTURE(ActorCaller, "a restart: calls that may run twice are repeated under new numbers, the others fail") {
  step({call(1), call(2, 1), call(3, -1)});
  update(ActorPhase::kAlive);
  update(ActorPhase::kRestarting);
  CHECK(settled() == Settled{{1, "ActorUnavailable"}});
  step({call(4)});
  update(ActorPhase::kAlive, 2, 21);
  CHECK(pushed(21) == Tasks{2, 3, 4});
  CHECK(last_call(21).sequence == 3);
  CHECK(last_call(21).incarnation == 2);
  CHECK(sent<PushCalls>(worker(21).peer()).at(0).calls.at(0).attempt == 1);
  // A late answer of the old process changes nothing.
  done(20, {result(2)});
  CHECK(settled().empty());
  update(ActorPhase::kAlive, 3, 22);  // the restart between was missed
  CHECK(settled() == Settled{{2, "ActorUnavailable"}, {4, "ActorUnavailable"}});
  CHECK(pushed(22) == Tasks{3});
}

TEST_CASE_FIXTURE(ActorCaller, "the actor's own max_task_retries counts when the call has none") {
  created();
  step({call(1, -2)});
  update(ActorPhase::kAlive);
  ActorInfo again = info(ActorPhase::kAlive, 2, 21);
  again.max_task_retries = 2;
  ActorInfo first = info(ActorPhase::kAlive, 1, 20);
  first.max_task_retries = 2;
  receive(kHead, ActorUpdate{again});
  CHECK(settled() == Settled{{1, "ActorUnavailable"}});  // the head's word was 0
}

TEST_CASE_FIXTURE(ActorCaller, "a dead actor fails its calls, now and later") {
  step({call(1)});
  update(ActorPhase::kAlive);
  ActorInfo dead = info(ActorPhase::kDead);
  dead.error = make_error(ErrorKind::kActorDied, "killed");
  receive(kHead, ActorUpdate{dead});
  CHECK(settled() == Settled{{1, "ActorDied"}});
  step({call(2)});
  CHECK(settled() == Settled{{2, "ActorDied"}});
}

TEST_CASE_FIXTURE(ActorCaller, "after a broken link unanswered calls are said again with the same numbers") {
  step({call(1), call(2), call(3)});
  update(ActorPhase::kAlive);
  done(20, {result(1)});
  step({PeerTroubled{worker(20).peer(), PeerTrouble::kBroken, {}}, call(4)});
  CHECK(pushed(20).empty());
  step({PeerUsable{worker(20).peer()}});
  CHECK(sent<DefineSpec>(worker(20).peer()).size() == 1);
  CHECK(pushed(20) == Tasks{2, 3, 4});
  CHECK(sent<PushCalls>(worker(20).peer()).at(0).calls.at(0).sequence == 2);
}

TEST_CASE_FIXTURE(ActorCaller, "a process that lives and is not reached is an error, not a wait") {
  step({call(1), call(2)});
  update(ActorPhase::kAlive);
  step({PeerTroubled{worker(20).peer(), PeerTrouble::kBroken, {}}});
  step({PeerTroubled{worker(20).peer(), PeerTrouble::kUnreachable, make_error(ErrorKind::kUnreachable, "timed out")}});
  CHECK(settled() == Settled{{1, "ActorUnavailable"}, {2, "ActorUnavailable"}});
}

TEST_CASE_FIXTURE(ActorCaller, "calls given back were not started: they wait for the head's next word") {
  step({call(1), call(2)});
  update(ActorPhase::kAlive);
  receive(worker(20).peer(), GiveBack{{task(1), task(2)}});
  CHECK(settled().empty());
  CHECK(pushed(20).empty());
  pass(1s);
  CHECK(sent<WatchActor>(kHead).size() == 1);
  update(ActorPhase::kAlive, 2, 21);
  CHECK(pushed(21) == Tasks{1, 2});
  CHECK(last_call(21).attempt == 0);
}

TEST_CASE_FIXTURE(ActorCaller, "creation is repeated until it is answered, and calls may be made at once") {
  step({create(), call(1)});
  CHECK(sent<CreateActor>(kHead).at(0).spec.owner == kSelf);
  CHECK(sent<WatchActor>(kHead).empty());
  pass(2s);
  CHECK(sent<CreateActor>(kHead).size() == 1);
  receive(kHead, ActorCreated{RequestId{10, 1}, {}, info(ActorPhase::kPending)});
  CHECK(std::holds_alternative<ActorInfo>(outputs<ActorAnswer>().at(0).outcome));
  CHECK(sent<WatchActor>(kHead).size() == 1);
  update(ActorPhase::kAlive);
  CHECK(pushed(20) == Tasks{1});
}

TEST_CASE_FIXTURE(ActorCaller, "an actor that cannot be created fails its calls with the reason") {
  step({create(), call(1)});
  receive(kHead, ActorCreated{RequestId{10, 1}, make_error(ErrorKind::kUnschedulable, "no GPU anywhere"), {}});
  CHECK(std::get<ErrorInfo>(outputs<ActorAnswer>().at(0).outcome).kind == ErrorKind::kUnschedulable);
  CHECK(settled() == Settled{{1, "Unschedulable"}});
  CHECK(outputs<ActorSettled>().size() == 1);
  CHECK(submitter.idle());
}

TEST_CASE_FIXTURE(ActorCaller, "a constructor's arguments are ready before the head hears of the actor") {
  const ObjectLocator object{ObjectId{30, 1}, kThere, kJob};
  SubmitActor event = create();
  event.arguments = {object};
  step({event});
  CHECK(actions.sends.empty());
  SUBCASE("ready") {
    step({ObjectKnown{object.id, InlineValue{Bytes::copy_of("x"), {}}}});
    CHECK(std::get<InlineValue>(sent<CreateActor>(kHead).at(0).spec.arguments.at(0)).bytes.text() == "x");
  }
  SUBCASE("lost") {
    step({ObjectKnown{object.id, make_error(ErrorKind::kObjectLost, "gone")}});
    CHECK(std::get<ErrorInfo>(outputs<ActorAnswer>().at(0).outcome).kind == ErrorKind::kObjectLost);
  }
  SUBCASE("its handle goes first") {
    step({HandleGone{kMade}});
    CHECK(actions.sends.empty());
    CHECK(outputs<ActorSettled>().size() == 1);
    CHECK(submitter.idle());
  }
}

TEST_CASE_FIXTURE(ActorCaller,
                  "the last handle ends the actor, gracefully and until the head says so; a name keeps it") {
  SUBCASE("anonymous") {
    created();
    step({HandleGone{kMade}});
    CHECK(sent<KillActor>(kHead).at(0) == KillActor{kMade, true, true});
    pass(1100ms);
    CHECK(!sent<KillActor>(kHead).empty());
    update(ActorPhase::kDead);
    CHECK(outputs<ActorSettled>().at(0).actor == kMade);
    pass(3s);
    CHECK(sent<KillActor>(kHead).empty());
  }
  SUBCASE("named") {
    created("counter");
    step({HandleGone{kMade}});
    CHECK(actions.sends.empty());
  }
}

TEST_CASE_FIXTURE(ActorCaller, "looking up asks until it is answered, and an actor that is not used is forgotten") {
  step({LookUpActor{RequestId{10, 4}, "counter", ""}});
  CHECK(sent<FindActor>(kHead).at(0).name == "counter");
  pass(2s);
  CHECK(sent<FindActor>(kHead).size() == 1);
  receive(kHead, ActorFound{RequestId{10, 4}, {}, info(ActorPhase::kAlive)});
  CHECK(outputs<ActorAnswer>().size() == 1);
  step({call(1)});
  CHECK(pushed(20) == Tasks{1});
  done(20, {result(1)});
  pass(125s);
  CHECK(sent<UnwatchActor>(kHead).size() == 1);
  CHECK(submitter.stats().actors == 0);
}

TEST_CASE_FIXTURE(ActorCaller, "killing is repeated until the head says that it is dead") {
  step({call(1)});
  update(ActorPhase::kAlive);
  step({EndActor{kMade, true}});
  CHECK(sent<KillActor>(kHead).at(0) == KillActor{kMade, true, false});
  pass(1s);
  CHECK(sent<KillActor>(kHead).size() == 1);
  update(ActorPhase::kDead);
  CHECK(settled() == Settled{{1, "ActorDied"}});
}

}  // namespace
}  // namespace mobula::scheduler::test
