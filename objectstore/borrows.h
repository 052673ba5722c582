// The borrower's side of ownership: what this process has told the owners of foreign objects, and what it waits for.
//
// Counting between processes is by sets of ids (Mobula's design rule), so a borrow is stated once and released once,
// each with a round; +1/-1 messages would turn every lost or repeated one into a leak or a use after free. The
// acknowledgement matters more than the message: whoever kept the object alive until now (a caller's pin, a container,
// the sender of a result) may let go only after the owner has confirmed, because messages on different links overtake
// each other.
//
// Releases and reports of new copies have no answer of their own. So that one lost with its link is repeated, an empty
// BorrowObjects follows them as a barrier: its answer confirms all before it.
#pragma once

#include <cstdint>
#include <vector>

#include "objectstore/owner_io.h"
#include "runtime/base/id_map.h"
#include "runtime/base/outbox.h"

namespace mobula::objectstore {

class Borrows {
 public:
  explicit Borrows(ProcessId self) : self_(self) {}

  // This process holds `object` (of another owner) from now on. `lazy`: somebody's pin covers it for now.
  void hold(const ObjectLocator& object, bool lazy, Outbox& outbox);
  // It holds it no longer; `inside` are the references in its value, if that was read.
  void drop(ObjectId object, const std::vector<ObjectLocator>& inside, Outbox& outbox, OwnerActions& actions);

  // The call may answer once everything told so far is confirmed: borrows what is still covered only by its caller.
  void end_call(TaskId call, Outbox& outbox, OwnerActions& actions);
  // Results arrived with references to `objects`, all held: tells `executor` once they are confirmed.
  void take_over(TaskId task, const Peer& executor, const std::vector<ObjectLocator>& objects, Outbox& outbox);

  bool taking_over(TaskId task, const Peer& executor) const {
    const Handoff* handoff = handoffs_.find(task);
    return handoff != nullptr && handoff->executor == executor;
  }

  // This node has a copy now: its owner frees it there too.
  void report_copy(ObjectId object, NodeId owner_node, NodeId here, Outbox& outbox);

  // Returns the objects that the owner had freed before.
  std::vector<ObjectId> on_borrowed(const Peer& owner, const ObjectsBorrowed& message, Outbox& outbox,
                                    OwnerActions& actions);
  // Nothing is confirmed or released any more; what it owned stays known here for as long as it is held.
  void owner_gone(ProcessId owner, Outbox& outbox, OwnerActions& actions);
  bool borrows_from(ProcessId owner) const { return counts_.contains(owner); }
  // What was sent to it may be lost. Until repeat() nothing that is sent confirms what was sent before.
  void link_broken(ProcessId owner);
  // Everything that may be lost on the way to `owner`, again.
  void repeat(const Peer& owner, Outbox& outbox);

  // Before the outbox is flushed: barriers.
  void finish_step(Outbox& outbox);

  bool idle() const;
  bool all_confirmed() const { return owners_.empty(); }
  std::size_t size() const { return borrows_.size(); }
  std::size_t unconfirmed() const;
  bool known(ObjectId object) const { return borrows_.contains(object); }
  void check() const;

 private:
  enum class State : std::uint8_t { kLazy, kAsked, kHeld, kOwnerGone };
  enum class Waits : std::uint8_t { kRelease, kCall, kHandoff };
  struct Waiter {
    Waits kind = Waits::kCall;
    std::uint64_t maker = 0;
    std::uint64_t sequence = 0;
  };
  struct Borrow {
    NodeId node;
    State state = State::kLazy;
    bool releasing = false;  // no longer held; goes when `release_waits` is 0
    std::uint64_t round = 0;
    std::uint32_t release_waits = 0;  // objects inside it whose borrows are not confirmed yet
    std::vector<Waiter> waiters;      // for the confirmation
  };
  struct Said {
    ObjectId object;
    std::uint64_t round = 0;
    NodeId copy_on;  // zero: a release
  };
  struct OwnerLink {
    Peer peer;
    std::vector<Said> unconfirmed;
    std::uint64_t barrier = 0;  // round of the barrier on its way; 0: none
    bool wants_barrier = false;
    bool broken = false;
  };
  struct Handoff {
    Peer executor;
    std::uint32_t waits = 0;
  };

  Peer owner_peer(ObjectId object, NodeId node) const { return Peer::of(owner_of(object), node); }
  // Stale ids kept in `asked_` before it is swept.
  static constexpr std::size_t kAskedSlack = 64;
  void no_longer_asked();
  void erase(ObjectId object);
  void confirm_later(const Peer& owner, Said said);
  void ask(ObjectId object, Borrow& borrow, Outbox& outbox);
  void release(ObjectId object, Outbox& outbox, OwnerActions& actions);
  void fire(std::vector<Waiter> waiters, Outbox& outbox, OwnerActions& actions);
  void confirmed(Borrow& borrow, Outbox& outbox, OwnerActions& actions);

  ProcessId self_;
  std::uint64_t round_ = 0;
  IdMap<ObjectId, Borrow> borrows_;
  std::vector<ObjectId> lazy_;   // may hold ids that are no longer lazy
  std::vector<ObjectId> asked_;  // not confirmed yet; may hold ids that are
  std::size_t asked_count_ = 0;
  IdMap<TaskId, std::uint32_t> calls_;  // answers held back, by what they wait for
  IdMap<TaskId, Handoff> handoffs_;
  IdMap<ProcessId, OwnerLink> owners_;
  IdMap<ProcessId, std::uint32_t> counts_;  // of entries in borrows_, by owner
  std::vector<ProcessId> barriers_due_;
};

}  // namespace mobula::objectstore
