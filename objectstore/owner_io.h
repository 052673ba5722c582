// What goes into the owner machine and what comes out.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/local_call.h"
#include "runtime/base/machine.h"
#include "runtime/base/peer_events.h"

namespace mobula::objectstore {

// ---- events from the program ----

struct PutInline {
  ObjectId object;
  InlineValue value;
};
// Sealed in the store of this node.
struct PutStored {
  ObjectId object;
  std::uint64_t size = 0;
  std::vector<ObjectLocator> refs;
};

// The first reference of this process to the object; alternates with RefDropped.
struct RefAcquired {
  ObjectLocator object;
};
// The last one is gone.
struct RefDropped {
  ObjectId object;
};

enum class WantMode : std::uint8_t {
  kReady = 0,  // that it is ready (wait)
  kBring = 1,  // also that its value is on this node (wait with fetch)
  kValue = 2,  // the value, pinned
};
// Answered by one Ready once it can be, then forgotten. Several wants of one object and mode are answered together. The
// object must be referred to (RefAcquired or made here).
struct Want {
  ObjectLocator object;
  WantMode mode = WantMode::kValue;
};
// Nobody waits for it any more, in any mode. A Ready may cross it.
struct Unwant {
  ObjectId object;
};
// One for each PinnedLocation that came by Ready or Execute, when its last view is gone.
struct ViewReleased {
  ObjectId object;
};

// ---- events from the other machines of the process ----

// Returns of a call that is being submitted: pending, each with its first reference.
struct Declare {
  ObjectId first;
  std::uint32_t count = 1;
  TaskId task;
};
// The object behind an actor handle: ready at once; its end is reported by HandleFreed.
struct DeclareHandle {
  ObjectId object;
};
// An outcome for returns declared earlier. `error` is given to all of them.
struct StoreResults {
  TaskId task;
  ObjectId first;
  std::uint32_t count = 1;
  std::vector<CallValue> values;
  std::optional<ErrorInfo> error;
  Peer executor;                // that holds the references in `values` until HandoffDone
  std::vector<NodeId> left_on;  // where earlier attempts died, which may have left copies of their own
};
// Results nobody waits for (a repeat, or an attempt that was given up): let go of what they hold.
struct DiscardResults {
  TaskId task;
  std::vector<CallValue> values;
  Peer executor;
};

enum class PinKind : std::uint8_t {
  kCall = 0,    // arguments of a call in flight
  kActor = 1,   // constructor arguments while the actor may restart
  kHandle = 2,  // of an actor with unanswered calls
};
// Keeps the objects alive until Unpin of the same key.
struct Pin {
  PinKind kind = PinKind::kCall;
  TaskId key;
  std::vector<ObjectLocator> objects;
};
struct Unpin {
  PinKind kind = PinKind::kCall;
  TaskId key;
};
// A call waits for this argument. Answered by ObjectReady once the outcome is known.
struct Resolve {
  ObjectLocator object;
};

// Bring the stored arguments of a call here and pin them. Answered by ArgumentsPinned.
struct PinArguments {
  TaskId call;
  std::vector<StoredValue> values;
};
// It will not be executed after all.
struct DropArguments {
  TaskId call;
};
// User code runs from here: references it acquires are covered by the caller's pins until CallEnding.
struct CallBegan {};
// It has ended with results that refer to `refs`. Answered by CallCleared when the answer may go out.
struct CallEnding {
  TaskId call;
  Peer caller;
  std::vector<ObjectLocator> refs;
};
// This process is cut off from its node: whoever waits is told `why`.
struct CutOff {
  ErrorInfo why;
};

using OwnerEvent =
    std::variant<PutInline, PutStored, RefAcquired, RefDropped, Want, Unwant, ViewReleased, Declare, DeclareHandle,
                 StoreResults, DiscardResults, Pin, Unpin, Resolve, PinArguments, DropArguments, CallBegan, CallEnding,
                 CutOff, PeerTroubled, PeerUsable, NodeGone, Received>;

// ---- actions ----

struct ReadyOnly {
  bool here = false;  // its value is on this node (answers kBring)
  friend bool operator==(const ReadyOnly&, const ReadyOnly&) = default;
};
// Answers Want. A weak wait is answered by a strong outcome. Also comes unasked when an object that this process owns
// and refers to becomes ready: an inline value, an error, or ReadyOnly for a value in the store (want it to read it).
struct Ready {
  ObjectId object;
  std::variant<InlineValue, PinnedLocation, ReadyOnly, ErrorInfo> outcome;
};
struct ObjectReady {
  ObjectId object;
  Outcome outcome;
};
struct ArgumentsPinned {
  TaskId call;
  std::vector<PinnedLocation> locations;  // in the order of PinArguments
  std::optional<ErrorInfo> error;
};
struct CallCleared {
  TaskId call;
};
struct HandleFreed {
  ObjectId object;
};
// The receiver of this call's results has not confirmed that it took over the references in them, and the link broke
// meanwhile: its word may be lost.
struct HandoffUnconfirmed {
  TaskId call;
  Peer caller;
  std::vector<ObjectLocator> refs;
};

struct OwnerActions {
  std::vector<Send> sends;  // filled by flush()
  std::vector<Ready> ready;
  std::vector<ObjectReady> resolved;
  std::vector<ArgumentsPinned> pinned;
  std::vector<CallCleared> cleared;
  std::vector<HandleFreed> handles;
  std::vector<HandoffUnconfirmed> unconfirmed;
};

}  // namespace mobula::objectstore
