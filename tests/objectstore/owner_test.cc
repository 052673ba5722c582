// The owner: events in, exact messages and answers out.
#include <doctest/doctest.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "objectstore/owner.h"
#include "runtime/base/result.h"

namespace mobula::objectstore {
namespace {

constexpr NodeId kNode{1};
constexpr NodeId kFar{2};
constexpr JobId kJob{7};
const ProcessAddress kSelf{ProcessId{10}, kNode, kJob};
const Peer kOther = Peer::of(ProcessId{20}, kFar);
const Peer kThird = Peer::of(ProcessId{30}, kFar);
const Peer kStore = Peer::of(kNode);

ObjectLocator mine(std::uint64_t sequence) {
  return {ObjectId{10, sequence}, kNode, kJob};
}
ObjectLocator theirs(std::uint64_t sequence) {
  return {ObjectId{20, sequence}, kFar, kJob};
}
InlineValue text(const char* bytes, std::vector<ObjectLocator> refs = {}) {
  return InlineValue{Bytes::copy_of(bytes), std::move(refs)};
}
TaskId task(std::uint64_t sequence) {
  return {10, sequence};
}

struct Fixture {
  Owner owner{kSelf};
  OwnerActions actions;

  OwnerActions& step(std::vector<OwnerEvent> events) {
    actions = {};
    owner.step(Instant{1}, events, actions);
    owner.flush(actions);
    owner.check();
    return actions;
  }
  OwnerActions& receive(const Peer& from, Message message) { return step({Received{from, std::move(message)}}); }
  // The only message of type M that the last step sent to `to`.
  template <class M>
  M sent(const Peer& to) const {
    const M* found = nullptr;
    int count = 0;
    for (const Send& send : actions.sends) {
      if (send.to != to || !std::holds_alternative<M>(send.message)) continue;
      found = &std::get<M>(send.message);
      ++count;
    }
    REQUIRE_MESSAGE(count == 1, "messages of this type: ", count);
    return *found;
  }
  std::uint64_t borrow(const ObjectLocator& object) {
    step({RefAcquired{object}});
    const auto round = sent<BorrowObjects>(kOther).round;
    receive(kOther, ObjectsBorrowed{round, {object.id}, {}});
    return round;
  }
};

TEST_CASE_FIXTURE(Fixture, "a value is announced, read, and freed with its last reference") {
  step({PutInline{mine(1).id, text("hello")}});
  REQUIRE(actions.ready.size() == 1);
  CHECK(std::get<InlineValue>(actions.ready[0].outcome).bytes.text() == "hello");
  step({Want{mine(1), WantMode::kReady}});
  CHECK(actions.ready.size() == 1);
  step({RefDropped{mine(1).id}});
  CHECK(actions.sends.empty());
  CHECK(owner.idle());
  step({Want{mine(1), WantMode::kValue}});
  REQUIRE(actions.ready.size() == 1);
  CHECK(std::get<ErrorInfo>(actions.ready[0].outcome).kind == ErrorKind::kObjectLost);
}

TEST_CASE_FIXTURE(Fixture, "a stored value is pinned once for all its readers, and freed on every node that has it") {
  step({PutStored{mine(1).id, 100, {}}});
  CHECK(std::get<ReadyOnly>(actions.ready.at(0).outcome).here);
  step({Want{mine(1), WantMode::kValue}, Want{mine(1), WantMode::kValue}});
  CHECK(sent<PinObject>(kStore) == PinObject{mine(1).id, 100, {kNode}, true});
  CHECK(actions.ready.empty());
  receive(kStore, ObjectPinned{mine(1).id, 3, 4096, 64, 100, false, true, {}});
  REQUIRE(actions.ready.size() == 1);
  CHECK(std::get<PinnedLocation>(actions.ready[0].outcome) == PinnedLocation{mine(1).id, 3, 4096, 64, 100, {}});
  step({Want{mine(1), WantMode::kValue}});
  CHECK(actions.sends.empty());  // it is there already
  CHECK(actions.ready.size() == 1);

  receive(kOther, ObjectLocation{mine(1).id, kFar, true});
  step({RefDropped{mine(1).id}});
  CHECK(sent<FreeObjects>(kStore).objects == std::vector{mine(1).id});
  CHECK(sent<FreeObjects>(Peer::of(kFar)).objects == std::vector{mine(1).id});
  step({ViewReleased{mine(1).id}});
  CHECK(actions.sends.empty());
  step({ViewReleased{mine(1).id}});
  CHECK(sent<UnpinObjects>(kStore).objects == std::vector{mine(1).id});
  CHECK(owner.idle());
}

TEST_CASE_FIXTURE(Fixture, "a result that nobody refers to any more is dropped on arrival") {
  step({Declare{mine(1).id, 2, task(1)}, RefDropped{mine(1).id}});
  CHECK(owner.maker_of(mine(2).id) == task(1));
  StoreResults results;
  results.task = task(1);
  results.first = mine(1).id;
  results.count = 2;
  results.executor = kOther;
  results.values = {StoredValue{mine(1), 10, {kFar}, {}}, text("two", {theirs(5)})};
  step({results});
  CHECK(sent<FreeObjects>(Peer::of(kFar)).objects == std::vector{mine(1).id});
  CHECK(sent<BorrowObjects>(kOther).objects == std::vector{theirs(5).id});
  CHECK(actions.ready.size() == 1);
  step({RefDropped{mine(2).id}});
  // It is let go before the borrow was confirmed: the sender need not hold it either.
  CHECK(sent<ReleaseObjects>(kOther).objects == std::vector{theirs(5).id});
  CHECK(sent<HandoffDone>(kOther).tasks == std::vector{task(1)});
  CHECK(owner.idle());
}

TEST_CASE_FIXTURE(Fixture, "the sender of a result is told once all references in it are borrowed") {
  step({Declare{mine(1).id, 1, task(1)}});
  StoreResults results{task(1), mine(1).id, 1, {text("x", {theirs(5), mine(9)})}, {}, kThird, {}};
  step({results});
  const auto borrow = sent<BorrowObjects>(kOther);
  for (const Send& send : actions.sends) CHECK_FALSE(std::holds_alternative<HandoffDone>(send.message));
  // A repeat while it waits must not confirm early.
  step({DiscardResults{task(1), {text("x", {theirs(5)})}, kThird}});
  CHECK(actions.sends.empty());
  receive(kOther, ObjectsBorrowed{borrow.round, {theirs(5).id}, {}});
  CHECK(sent<HandoffDone>(kThird).tasks == std::vector{task(1)});
}

TEST_CASE_FIXTURE(Fixture, "borrowers are a set with rounds: a late release takes nothing away") {
  step({PutInline{mine(1).id, text("x")}});
  receive(kOther, BorrowObjects{3, {mine(1).id, mine(8).id}});
  CHECK(sent<ObjectsBorrowed>(kOther) == ObjectsBorrowed{3, {mine(1).id}, {mine(8).id}});
  step({RefDropped{mine(1).id}});
  CHECK(owner.stats().lent == 1);
  receive(kOther, BorrowObjects{5, {mine(1).id}});
  receive(kOther, ReleaseObjects{4, {mine(1).id}});
  CHECK(owner.stats().lent == 1);
  receive(kOther, ReleaseObjects{5, {mine(1).id}});
  CHECK(owner.idle());
  receive(kOther, ReleaseObjects{5, {mine(1).id}});  // again
  CHECK(owner.idle());
}

TEST_CASE_FIXTURE(Fixture, "a borrower that is gone holds nothing") {
  step({PutInline{mine(1).id, text("x")}});
  receive(kOther, BorrowObjects{1, {mine(1).id}});
  step({RefDropped{mine(1).id}});
  step({PeerTroubled{kOther, PeerTrouble::kBroken, {}}, PeerTroubled{kOther, PeerTrouble::kUnreachable, {}}});
  CHECK(owner.stats().lent == 1);
  step({PeerTroubled{kOther, PeerTrouble::kGone, {}}});
  CHECK(owner.idle());
}

TEST_CASE_FIXTURE(Fixture, "outside calls a reference is borrowed at once; inside, only what is left at the end") {
  step({RefAcquired{theirs(1)}});
  CHECK(sent<BorrowObjects>(kOther).objects == std::vector{theirs(1).id});

  step({CallBegan{}, RefAcquired{theirs(2)}, RefAcquired{theirs(3)}});
  CHECK(actions.sends.empty());
  step({RefDropped{theirs(2).id}});
  CHECK(actions.sends.empty());  // its owner never heard of it
  step({CallEnding{task(4), kThird, {}}});
  const auto asked = sent<BorrowObjects>(kOther);
  CHECK(asked.objects == std::vector{theirs(3).id});
  CHECK(actions.cleared.empty());
  receive(kOther, ObjectsBorrowed{asked.round, {theirs(3).id}, {}});
  CHECK(actions.cleared.empty());  // the first one is not confirmed either, and the call may have relied on it
  step({RefDropped{theirs(1).id}});
  REQUIRE(actions.cleared.size() == 1);
  CHECK(actions.cleared[0].call == task(4));
}

TEST_CASE_FIXTURE(Fixture, "an owner that dies ends the wait of an answer") {
  step({CallBegan{}, RefAcquired{theirs(3)}, CallEnding{task(4), kThird, {}}});
  CHECK(actions.cleared.empty());
  step({PeerTroubled{kOther, PeerTrouble::kGone, make_error(ErrorKind::kWorkerDied, "killed")}});
  CHECK(actions.cleared.size() == 1);
  step({Want{theirs(3), WantMode::kValue}});
  CHECK(std::get<ErrorInfo>(actions.ready.at(0).outcome).kind == ErrorKind::kOwnerDied);
}

TEST_CASE_FIXTURE(Fixture, "references in a result are held for its receiver until it confirms") {
  step({CallBegan{}, PutInline{mine(1).id, text("x")}});
  step({CallEnding{TaskId{20, 5}, kOther, {mine(1)}}, RefDropped{mine(1).id}});
  CHECK(actions.cleared.size() == 1);
  CHECK(owner.unfinished());
  SUBCASE("it confirms") {
    receive(kOther, HandoffDone{{TaskId{20, 5}}});
  }
  SUBCASE("it dies") {
    step({PeerTroubled{kOther, PeerTrouble::kGone, {}}});
  }
  SUBCASE("its link breaks: it is asked again") {
    step({PeerTroubled{kOther, PeerTrouble::kBroken, {}}, PeerUsable{kOther}});
    REQUIRE(actions.unconfirmed.size() == 1);
    CHECK(actions.unconfirmed[0].call == TaskId{20, 5});
    receive(kOther, HandoffDone{{TaskId{20, 5}}});
  }
  CHECK(owner.idle());
}

TEST_CASE_FIXTURE(Fixture, "what the receiver owns is held only until the answer is out") {
  step({CallBegan{}, RefAcquired{theirs(1)}});
  step({CallEnding{TaskId{20, 5}, kOther, {theirs(1)}}, RefDropped{theirs(1).id}});
  const auto asked = sent<BorrowObjects>(kOther);
  receive(kOther, ObjectsBorrowed{asked.round, {theirs(1).id}, {}});
  CHECK(actions.cleared.size() == 1);
  CHECK(sent<ReleaseObjects>(kOther).objects == std::vector{theirs(1).id});
}

TEST_CASE_FIXTURE(Fixture, "a container is released after what was read out of it is borrowed") {
  borrow(theirs(1));
  step({Want{theirs(1), WantMode::kValue}});
  const ObjectLocator inner{ObjectId{30, 1}, kFar, kJob};
  receive(kOther, ObjectsResolved{{{theirs(1).id, text("box", {inner})}}});
  step({RefAcquired{inner}});
  const auto asked = sent<BorrowObjects>(kThird);
  step({RefDropped{theirs(1).id}});
  CHECK(actions.sends.empty());
  receive(kThird, ObjectsBorrowed{asked.round, {inner.id}, {}});
  CHECK(sent<ReleaseObjects>(kOther).objects == std::vector{theirs(1).id});
}

TEST_CASE_FIXTURE(Fixture, "a value holds what is inside it") {
  step({PutInline{mine(1).id, text("inner")}, PutInline{mine(2).id, text("outer", {mine(1), theirs(4)})}});
  CHECK(sent<BorrowObjects>(kOther).objects == std::vector{theirs(4).id});
  step({RefDropped{mine(1).id}});
  CHECK(owner.stats().objects == 3);
  step({RefDropped{mine(2).id}});
  CHECK(sent<ReleaseObjects>(kOther).objects == std::vector{theirs(4).id});
  CHECK(owner.stats().objects == 0);
}

TEST_CASE_FIXTURE(Fixture, "pins of calls keep arguments until they are settled") {
  step({PutInline{mine(1).id, text("x")}});
  step({Pin{PinKind::kCall, task(1), {mine(1), mine(1)}}, RefDropped{mine(1).id}});
  CHECK(owner.stats().objects == 1);
  step({Unpin{PinKind::kCall, task(1)}, Unpin{PinKind::kCall, task(1)}});
  CHECK(owner.idle());
}

TEST_CASE_FIXTURE(Fixture, "a borrowed value is asked of its owner, brought here, and the new copy reported") {
  borrow(theirs(1));
  step({Want{theirs(1), WantMode::kValue}, Resolve{theirs(1)}});
  CHECK(sent<ResolveObjects>(kOther).objects == std::vector{theirs(1).id});
  receive(kOther, ObjectsResolved{{{theirs(1).id, StoredValue{theirs(1), 50, {kFar}, {}}}}});
  CHECK(actions.resolved.size() == 1);
  CHECK(sent<PinObject>(kStore) == PinObject{theirs(1).id, 50, {kFar}, true});
  receive(kStore, ObjectPinned{theirs(1).id, 1, 4096, 0, 50, true, true, {}});
  CHECK(std::holds_alternative<PinnedLocation>(actions.ready.at(0).outcome));
  CHECK(sent<ObjectLocation>(kOther) == ObjectLocation{theirs(1).id, kNode, true});
}

TEST_CASE_FIXTURE(Fixture, "copies that are not where they were said to be: the owner is asked once more") {
  borrow(theirs(1));
  step({Want{theirs(1), WantMode::kValue}});
  receive(kOther, ObjectsResolved{{{theirs(1).id, StoredValue{theirs(1), 50, {kFar}, {}}}}});
  const ErrorInfo lost = make_error(ErrorKind::kObjectLost, "no copy");
  receive(kStore, ObjectPinned{theirs(1).id, 0, 0, 0, 50, false, true, lost});
  CHECK(actions.ready.empty());
  CHECK(sent<ResolveObjects>(kOther).objects == std::vector{theirs(1).id});
  receive(kOther, ObjectsResolved{{{theirs(1).id, StoredValue{theirs(1), 50, {NodeId{3}}, {}}}}});
  CHECK(sent<PinObject>(kStore).nodes == std::vector{NodeId{3}});
  receive(kStore, ObjectPinned{theirs(1).id, 0, 0, 0, 50, false, true, lost});
  CHECK(std::get<ErrorInfo>(actions.ready.at(0).outcome).kind == ErrorKind::kObjectLost);
}

TEST_CASE_FIXTURE(Fixture, "whoever asks for a pending object is answered when it is there, or when it is freed") {
  step({Declare{mine(1).id, 1, task(1)}});
  receive(kOther, ResolveObjects{{mine(1).id, mine(9).id}, true});
  CHECK(sent<ObjectsResolved>(kOther).objects.at(0).object == mine(9).id);
  SUBCASE("there") {
    step({StoreResults{task(1), mine(1).id, 1, {text("x")}, {}, kThird, {}}});
    CHECK(std::get<InlineValue>(sent<ObjectsResolved>(kOther).objects.at(0).outcome) == text("x"));
  }
  SUBCASE("freed") {
    step({RefDropped{mine(1).id}});
    CHECK(std::holds_alternative<ErrorInfo>(sent<ObjectsResolved>(kOther).objects.at(0).outcome));
  }
}

TEST_CASE_FIXTURE(Fixture, "stored arguments are pinned together, or given up together") {
  PinArguments arguments{task(1), {StoredValue{theirs(1), 10, {kFar}, {}}, StoredValue{theirs(2), 10, {kFar}, {}}}};
  step({arguments});
  receive(kStore, ObjectPinned{theirs(1).id, 1, 4096, 0, 10, false, true, {}});
  CHECK(actions.pinned.empty());
  SUBCASE("both") {
    receive(kStore, ObjectPinned{theirs(2).id, 1, 4096, 10, 10, false, true, {}});
    REQUIRE(actions.pinned.size() == 1);
    CHECK(actions.pinned[0].locations.at(1).offset == 10);
    step({ViewReleased{theirs(1).id}, ViewReleased{theirs(2).id}});
    CHECK(sent<UnpinObjects>(kStore).objects == std::vector{theirs(1).id, theirs(2).id});
  }
  SUBCASE("one fails") {
    receive(kStore, ObjectPinned{theirs(2).id, 0, 0, 0, 0, false, true, make_error(ErrorKind::kStoreFull, "full")});
    REQUIRE(actions.pinned.size() == 1);
    CHECK(actions.pinned[0].error->kind == ErrorKind::kStoreFull);
    CHECK(sent<UnpinObjects>(kStore).objects == std::vector{theirs(1).id});
  }
  SUBCASE("dropped") {
    step({DropArguments{task(1)}});
    CHECK(sent<UnpinObjects>(kStore).objects == std::vector{theirs(1).id});
    receive(kStore, ObjectPinned{theirs(2).id, 1, 4096, 10, 10, false, true, {}});
    CHECK(sent<UnpinObjects>(kStore).objects == std::vector{theirs(2).id});
  }
  CHECK(owner.idle());
}

TEST_CASE_FIXTURE(Fixture, "a release that was lost with its link is repeated; one that was confirmed is not") {
  borrow(theirs(1));
  borrow(theirs(2));
  step({RefDropped{theirs(1).id}});
  const auto barrier = sent<BorrowObjects>(kOther);
  CHECK(barrier.objects.empty());
  receive(kOther, ObjectsBorrowed{barrier.round, {}, {}});
  step({RefDropped{theirs(2).id}});
  step({PeerTroubled{kOther, PeerTrouble::kBroken, {}}});
  step({RefAcquired{theirs(3)}});  // over the next link: confirms nothing of the last
  receive(kOther, ObjectsBorrowed{sent<BorrowObjects>(kOther).round, {theirs(3).id}, {}});
  step({PeerUsable{kOther}});
  CHECK(sent<ReleaseObjects>(kOther).objects == std::vector{theirs(2).id});
}

TEST_CASE_FIXTURE(Fixture, "a node that is gone takes its copies, its borrowers and its owners with it") {
  step({Declare{mine(1).id, 1, task(1)}, PutInline{mine(2).id, text("x")}});
  step({StoreResults{task(1), mine(1).id, 1, {StoredValue{mine(1), 10, {kFar}, {}}}, {}, kThird, {}}});
  receive(kOther, BorrowObjects{1, {mine(2).id}});
  step({RefDropped{mine(2).id}});
  borrow(theirs(1));
  step({Want{theirs(1), WantMode::kReady}});
  step({NodeGone{kFar}});
  CHECK(std::get<ErrorInfo>(actions.ready.at(0).outcome).kind == ErrorKind::kOwnerDied);
  step({Want{mine(1), WantMode::kValue}});
  CHECK(std::get<ErrorInfo>(actions.ready.at(0).outcome).kind == ErrorKind::kObjectLost);
  CHECK(owner.stats().lent == 0);
}

TEST_CASE_FIXTURE(Fixture, "leftovers of attempts that died are freed where they may lie") {
  step({Declare{mine(1).id, 1, task(1)}});
  step({StoreResults{task(1), mine(1).id, 1, {text("x")}, {}, kThird, {kFar}}});
  CHECK(sent<FreeObjects>(Peer::of(kFar)).objects == std::vector{mine(1).id});
}

TEST_CASE_FIXTURE(Fixture, "the end of a handle is reported, once nobody has it") {
  step({DeclareHandle{mine(1).id}});
  CHECK(actions.ready.empty());
  receive(kOther, BorrowObjects{1, {mine(1).id}});
  step({RefDropped{mine(1).id}});
  CHECK(actions.handles.empty());
  receive(kOther, ReleaseObjects{1, {mine(1).id}});
  REQUIRE(actions.handles.size() == 1);
  CHECK(actions.handles[0].object == mine(1).id);
}

TEST_CASE_FIXTURE(Fixture, "a process that is cut off tells everyone who waits") {
  step({Declare{mine(1).id, 1, task(1)}, Want{mine(1), WantMode::kValue}});
  step({CutOff{make_error(ErrorKind::kUnreachable, "the daemon is gone")}});
  CHECK(std::get<ErrorInfo>(actions.ready.at(0).outcome).kind == ErrorKind::kUnreachable);
}

}  // namespace
}  // namespace mobula::objectstore
