#include "objectstore/borrows.h"

#include <algorithm>
#include <utility>

namespace mobula::objectstore {

void Borrows::hold(const ObjectLocator& object, bool lazy, Outbox& outbox) {
  const auto [borrow, is_new] = borrows_.emplace(object.id);
  if (is_new) {
    borrow.node = object.owner_node;
    ++counts_[owner_of(object.id)];
    if (lazy) {
      lazy_.push_back(object.id);
    } else {
      ask(object.id, borrow, outbox);
    }
    return;
  }
  borrow.releasing = false;
  if (borrow.state == State::kLazy && !lazy) ask(object.id, borrow, outbox);
}

void Borrows::ask(ObjectId object, Borrow& borrow, Outbox& outbox) {
  const Peer owner = owner_peer(object, borrow.node);
  auto& message = outbox.last<BorrowObjects>(owner);
  if (message.round == 0 || message.objects.empty()) message.round = ++round_;
  message.objects.push_back(object);
  borrow.state = State::kAsked;
  borrow.round = message.round;
  asked_.push_back(object);
  ++asked_count_;
}

void Borrows::erase(ObjectId object) {
  borrows_.erase(object);
  std::uint32_t& count = counts_.at(owner_of(object));
  if (--count == 0) counts_.erase(owner_of(object));
}

void Borrows::no_longer_asked() {
  --asked_count_;
  if (asked_.size() <= 2 * asked_count_ + kAskedSlack) return;
  std::erase_if(asked_, [this](ObjectId object) {
    const Borrow* borrow = borrows_.find(object);
    return borrow == nullptr || borrow->state != State::kAsked;
  });
}

void Borrows::drop(ObjectId object, const std::vector<ObjectLocator>& inside, Outbox& outbox, OwnerActions& actions) {
  Borrow* borrow = borrows_.find(object);
  if (borrow == nullptr || borrow->releasing) return;
  if (borrow->state == State::kLazy || borrow->state == State::kOwnerGone) {
    auto waiters = std::move(borrow->waiters);
    erase(object);
    fire(std::move(waiters), outbox, actions);
    return;
  }
  // Its value kept what is inside alive for us: first our own borrows of that must stand.
  for (const ObjectLocator& ref : inside) {
    Borrow* inner = ref.id == object ? nullptr : borrows_.find(ref.id);
    if (inner == nullptr) continue;
    if (inner->state == State::kLazy) ask(ref.id, *inner, outbox);
    if (inner->state != State::kAsked) continue;
    inner->waiters.push_back({Waits::kRelease, object.maker, object.sequence});
    ++borrow->release_waits;
  }
  borrow->releasing = true;
  if (borrow->release_waits == 0) release(object, outbox, actions);
}

void Borrows::confirm_later(const Peer& owner, Said said) {
  OwnerLink& link = owners_[owner.process()];
  link.peer = owner;
  link.unconfirmed.push_back(said);
  if (std::exchange(link.wants_barrier, true)) return;
  barriers_due_.push_back(owner.process());
}

void Borrows::report_copy(ObjectId object, NodeId owner_node, NodeId here, Outbox& outbox) {
  const Peer owner = owner_peer(object, owner_node);
  outbox.add(owner, ObjectLocation{object, here, true});
  confirm_later(owner, {object, round_, here});
}

void Borrows::release(ObjectId object, Outbox& outbox, OwnerActions& actions) {
  Borrow& borrow = borrows_.at(object);
  const Peer owner = owner_peer(object, borrow.node);
  auto& message = outbox.last<ReleaseObjects>(owner);
  message.round = round_;
  message.objects.push_back(object);
  confirm_later(owner, {object, round_, {}});
  const bool was_asked = borrow.state == State::kAsked;
  auto waiters = std::move(borrow.waiters);
  erase(object);
  if (was_asked) no_longer_asked();
  fire(std::move(waiters), outbox, actions);
}

void Borrows::fire(std::vector<Waiter> waiters, Outbox& outbox, OwnerActions& actions) {
  for (const Waiter& waiter : waiters) {
    const TaskId task{waiter.maker, waiter.sequence};
    switch (waiter.kind) {
      case Waits::kRelease: {
        const ObjectId container{waiter.maker, waiter.sequence};
        Borrow* borrow = borrows_.find(container);
        if (borrow == nullptr || borrow->release_waits == 0) break;
        if (--borrow->release_waits == 0 && borrow->releasing) release(container, outbox, actions);
        break;
      }
      case Waits::kCall: {
        std::uint32_t* waits = calls_.find(task);
        if (waits == nullptr || --*waits != 0) break;
        calls_.erase(task);
        actions.cleared.push_back({task});
        break;
      }
      case Waits::kHandoff: {
        Handoff* handoff = handoffs_.find(task);
        if (handoff == nullptr || --handoff->waits != 0) break;
        outbox.last<HandoffDone>(handoff->executor).tasks.push_back(task);
        handoffs_.erase(task);
        break;
      }
    }
  }
}

void Borrows::end_call(TaskId call, Outbox& outbox, OwnerActions& actions) {
  for (const ObjectId object : lazy_) {
    Borrow* borrow = borrows_.find(object);
    if (borrow != nullptr && borrow->state == State::kLazy) ask(object, *borrow, outbox);
  }
  lazy_.clear();
  std::uint32_t waits = 0;
  std::size_t kept = 0;
  for (const ObjectId object : asked_) {
    Borrow* borrow = borrows_.find(object);
    if (borrow == nullptr || borrow->state != State::kAsked) continue;
    asked_[kept++] = object;
    borrow->waiters.push_back({Waits::kCall, call.maker, call.sequence});
    ++waits;
  }
  asked_.resize(kept);
  if (waits == 0) {
    actions.cleared.push_back({call});
  } else {
    calls_[call] = waits;
  }
}

void Borrows::take_over(TaskId task, const Peer& executor, const std::vector<ObjectLocator>& objects, Outbox& outbox) {
  std::uint32_t waits = 0;
  for (const ObjectLocator& object : objects) {
    Borrow* borrow = borrows_.find(object.id);
    if (borrow == nullptr) continue;
    if (borrow->state == State::kLazy) ask(object.id, *borrow, outbox);
    if (borrow->state != State::kAsked) continue;
    borrow->waiters.push_back({Waits::kHandoff, task.maker, task.sequence});
    ++waits;
  }
  if (waits == 0) {
    outbox.last<HandoffDone>(executor).tasks.push_back(task);
  } else {
    handoffs_[task] = Handoff{executor, waits};
  }
}

void Borrows::confirmed(Borrow& borrow, Outbox& outbox, OwnerActions& actions) {
  if (borrow.state == State::kAsked) {
    borrow.state = State::kHeld;
    no_longer_asked();
  }
  fire(std::exchange(borrow.waiters, {}), outbox, actions);
}

std::vector<ObjectId> Borrows::on_borrowed(const Peer& owner, const ObjectsBorrowed& message, Outbox& outbox,
                                           OwnerActions& actions) {
  std::vector<ObjectId> gone;
  const auto apply = [&](ObjectId object, bool freed) {
    Borrow* borrow = borrows_.find(object);
    if (borrow == nullptr || borrow->state != State::kAsked || message.round < borrow->round) return;
    confirmed(*borrow, outbox, actions);
    if (freed) gone.push_back(object);
  };
  for (const ObjectId object : message.objects) apply(object, false);
  for (const ObjectId object : message.gone) apply(object, true);

  OwnerLink* link = owners_.find(owner.process());
  if (link == nullptr || link->barrier == 0 || message.round < link->barrier) return gone;
  const std::uint64_t barrier = std::exchange(link->barrier, 0);
  std::erase_if(link->unconfirmed, [barrier](const Said& said) { return said.round < barrier; });
  if (link->unconfirmed.empty()) {
    owners_.erase(owner.process());
  } else if (!link->wants_barrier) {
    link->wants_barrier = true;
    barriers_due_.push_back(owner.process());
  }
  return gone;
}

void Borrows::owner_gone(ProcessId owner, Outbox& outbox, OwnerActions& actions) {
  owners_.erase(owner);
  std::erase(barriers_due_, owner);
  if (!counts_.contains(owner)) return;
  std::vector<Waiter> waiters;
  for (const ObjectId object : borrows_.sorted_keys()) {
    if (owner_of(object) != owner) continue;
    Borrow& borrow = borrows_.at(object);
    waiters.insert(waiters.end(), borrow.waiters.begin(), borrow.waiters.end());
    borrow.waiters.clear();
    const bool was_asked = borrow.state == State::kAsked;
    borrow.state = State::kOwnerGone;
    if (borrow.releasing) erase(object);
    if (was_asked) no_longer_asked();
  }
  fire(std::move(waiters), outbox, actions);
}

void Borrows::link_broken(ProcessId owner) {
  if (OwnerLink* link = owners_.find(owner)) {
    link->broken = true;
    link->barrier = 0;
  }
}

void Borrows::repeat(const Peer& owner, Outbox& outbox) {
  // First the old releases with their old rounds, then what is held, with a round newer than all of them.
  if (OwnerLink* link = owners_.find(owner.process())) {
    link->barrier = 0;
    link->broken = false;
    for (const Said& said : link->unconfirmed) {
      if (said.copy_on) {
        outbox.add(owner, ObjectLocation{said.object, said.copy_on, true});
      } else {
        outbox.add(owner, ReleaseObjects{said.round, {said.object}});
      }
    }
    if (!link->unconfirmed.empty() && !link->wants_barrier) {
      link->wants_barrier = true;
      barriers_due_.push_back(owner.process());
    }
  }
  for (const ObjectId object : borrows_.sorted_keys()) {
    Borrow& borrow = borrows_.at(object);
    if (owner_of(object) != owner.process() || borrow.state != State::kAsked) continue;
    auto& message = outbox.last<BorrowObjects>(owner);
    if (message.round == 0 || message.objects.empty()) message.round = ++round_;
    message.objects.push_back(object);
    borrow.round = message.round;
  }
}

void Borrows::finish_step(Outbox& outbox) {
  for (const ProcessId owner : std::exchange(barriers_due_, {})) {
    OwnerLink* link = owners_.find(owner);
    if (link == nullptr) continue;
    link->wants_barrier = false;
    if (link->broken || link->barrier != 0 || link->unconfirmed.empty()) continue;
    link->barrier = ++round_;
    outbox.add(link->peer, BorrowObjects{link->barrier, {}});
  }
}

bool Borrows::idle() const {
  return borrows_.empty() && calls_.empty() && handoffs_.empty();
}

std::size_t Borrows::unconfirmed() const {
  std::size_t count = 0;
  for (const ProcessId owner : owners_.sorted_keys()) count += owners_.at(owner).unconfirmed.size();
  return count;
}

void Borrows::check() const {
  for (const ObjectId object : borrows_.sorted_keys()) {
    const Borrow& borrow = borrows_.at(object);
    MOBULA_CHECK(owner_of(object) != self_, "own objects are not borrowed");
    MOBULA_CHECK(borrow.state == State::kAsked || borrow.waiters.empty(), "only unconfirmed borrows are waited for");
    MOBULA_CHECK(!borrow.releasing || borrow.release_waits > 0, "a release without a cause to wait");
    const bool listed = std::find(asked_.begin(), asked_.end(), object) != asked_.end();
    MOBULA_CHECK(borrow.state != State::kAsked || listed, "an unconfirmed borrow that no call would wait for");
  }
}

}  // namespace mobula::objectstore
