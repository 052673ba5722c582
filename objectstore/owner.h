// objectstore::Owner, the machine of references in one process: objects that it owns, and foreign ones that it holds.
//
// Whoever makes a reference owns the object: it knows the value or where it lies, who holds it, and frees it. An object
// is held by local references (the runtime counts copies; the owner hears of the first and the last), by pins of calls
// in flight, by values of other objects that contain it, and, when it is owned here, by borrowing processes as a set.
// When nothing holds it, it is freed everywhere: an own one in the stores of all nodes that have a copy, a foreign one
// by telling its owner. A central table of references was refused: every copy of a reference would cost the head a
// message.
//
// Sent messages are gathered and come out by flush(), so that one step of the process sends each peer few of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "objectstore/borrows.h"
#include "objectstore/node_pins.h"
#include "objectstore/owner_io.h"
#include "runtime/base/id_map.h"
#include "runtime/base/outbox.h"

namespace mobula::objectstore {

struct OwnerStats {
  std::size_t objects = 0;   // known here, own and foreign
  std::size_t borrowed = 0;  // foreign ones
  std::size_t pinned = 0;    // in the node's store
  std::size_t lent = 0;      // own ones with borrowers
  std::uint64_t freed = 0;
};

class Owner {
 public:
  explicit Owner(const ProcessAddress& self);

  void step(Instant now, std::span<OwnerEvent> events, OwnerActions& actions);
  // Moves what was gathered into `actions.sends`.
  void flush(OwnerActions& actions);
  // It has no timers of its own: trouble with peers is reported to it.
  Instant next_deadline() const { return Instant::never(); }
  OwnerStats stats() const;
  void check() const;
  bool idle() const;

  // Why the objects known here are held, one line each, at most `lines_max`. For people.
  std::string describe(std::size_t lines_max) const;
  // Ending now would lose something: references in results whose receiver has not taken them over yet, or a copy that
  // the node is making for this process and that the object's owner has not been told of.
  bool unfinished() const { return !handoffs_.empty() || node_pins_.asking() || !borrows_.all_confirmed(); }
  // The call that makes this object; zero when it is none of ours or ready.
  TaskId maker_of(ObjectId object) const;

 private:
  // Where a value lies, when in stores.
  struct Stored {
    std::uint64_t size = 0;
    std::vector<NodeId> nodes;
    std::vector<ObjectLocator> refs;
  };
  using State = std::variant<std::monostate, InlineValue, Stored, std::shared_ptr<const ErrorInfo>>;
  enum Wants : std::uint8_t { kWantsReady = 1, kWantsBring = 2, kWantsValue = 4, kWantsCall = 8 };

  struct Object {
    State state;
    std::uint32_t local = 0;
    std::uint32_t pins = 0;
    std::uint32_t contained = 0;
    std::uint8_t wants = 0;
    bool lent = false;     // has an entry in borrowers_
    bool awaited = false;  // has an entry in awaiting_
    bool handle = false;
    bool asked = false;        // foreign: ResolveObjects is out
    bool asked_again = false;  // foreign: once more, after a copy was not where it was said to be
    std::uint64_t maker = 0;   // own: sequence of the task that makes it
    NodeId owner_node;         // foreign
    JobId owner_job;
  };
  struct Borrower {
    Peer peer;
    std::uint64_t round = 0;
  };
  struct Handoff {
    ProcessId caller;
    bool until_cleared = false;  // only until the answer is out
    bool sent = false;           // the answer is out
    std::vector<ObjectId> objects;
  };
  enum class Hold : std::uint8_t { kLocal, kPin, kContained };

  void on(PutInline& event);
  void on(PutStored& event);
  void on(RefAcquired& event);
  void on(RefDropped& event);
  void on(Want& event);
  void on(Unwant& event);
  void on(ViewReleased& event);
  void on(Declare& event);
  void on(DeclareHandle& event);
  void on(StoreResults& event);
  void on(DiscardResults& event);
  void on(Pin& event);
  void on(Unpin& event);
  void on(Resolve& event);
  void on(PinArguments& event);
  void on(DropArguments& event);
  void on(CallBegan& event);
  void on(CallEnding& event);
  void on(CutOff& event);
  void on(PeerTroubled& event);
  void on(PeerUsable& event);
  void on(NodeGone& event);
  void on(Received& event);

  void receive(const Peer& from, ResolveObjects& message);
  void receive(const Peer& from, ObjectsResolved& message);
  void receive(const Peer& from, BorrowObjects& message);
  void receive(const Peer& from, ObjectsBorrowed& message);
  void receive(const Peer& from, ReleaseObjects& message);
  void receive(const Peer& from, HandoffDone& message);
  void receive(const Peer& from, ObjectLocation& message);
  void receive(const Peer& from, ObjectPinned& message);

  bool own(ObjectId object) const { return owner_of(object) == self_.process; }
  ObjectLocator locator(ObjectId object, const Object& entry) const;
  // `lazy`: a foreign object is covered by a running call's caller until the call ends.
  void hold(const ObjectLocator& object, Hold kind, bool lazy);
  void drop(ObjectId object, Hold kind);
  void maybe_free(ObjectId object, Object& entry);
  void free_own(ObjectId object);
  void free_leftovers(const StoreResults& event);
  void free_copies(ObjectId object, const std::vector<NodeId>& nodes);

  void put(ObjectId object, State state);
  // The outcome is known: whoever waits is told.
  void settle(ObjectId object, Object& entry, State state);
  void announce(ObjectId object, Object& entry);
  void answer(ObjectId object, Object& entry, std::uint8_t wants);
  void fail_wants(ObjectId object, Object& entry, const ErrorInfo& error);
  void give_ready(ObjectId object, std::variant<InlineValue, PinnedLocation, ReadyOnly, ErrorInfo> outcome);
  void ask_owner(ObjectId object, Object& entry);
  void copy_failed(ObjectId object, const ErrorInfo& error);
  Outcome outcome_of(ObjectId object, const Object& entry) const;
  StoredValue stored_value(ObjectId object, const Object& entry) const;
  bool ready(const Object& entry) const { return entry.state.index() != 0; }
  const std::vector<ObjectLocator>& inside(const Object& entry) const;
  std::vector<ObjectLocator> foreign_of(const std::vector<CallValue>& values) const;
  static State to_state(CallValue value);

  void end_handoff(TaskId task);
  void process_gone(const Peer& peer, const ErrorInfo& why);
  void remove_borrower(ObjectId object, ProcessId process);

  ProcessAddress self_;
  std::uint32_t calls_running_ = 0;
  IdMap<ObjectId, Object> objects_;
  IdMap<ObjectId, std::vector<Borrower>> borrowers_;
  IdMap<ObjectId, std::vector<Peer>> awaiting_;   // processes that asked for a pending object
  IdMap<TaskId, std::vector<ObjectId>> pins_[3];  // by PinKind
  IdMap<TaskId, Handoff> handoffs_;               // results sent, references still held for their receiver
  Borrows borrows_;
  NodePins node_pins_;
  Outbox outbox_;
  OwnerActions* actions_ = nullptr;  // during a step
  std::uint64_t freed_ = 0;
};

}  // namespace mobula::objectstore
