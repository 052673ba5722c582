// What goes into the executor machine and what comes out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/local_call.h"
#include "runtime/base/machine.h"
#include "runtime/base/peer_events.h"

namespace mobula::scheduler {

// ---- events from the program ----

// An executed call has ended. Results are in order; the references in them are held by the runtime until this event.
// References that user code dropped during the call should be reported (RefDropped) before it.
struct CallFinished {
  TaskId task;  // zero for constructors
  std::uint32_t attempt = 0;
  ActorId actor;  // constructors only
  std::optional<ErrorInfo> error;
  bool cancelled = false;         // it stopped because it was asked to
  std::vector<ResultIn> results;  // when there is no error
  std::uint64_t run_ns = 0;
};
// A thread that runs a task or method starts, stops waiting in get or wait. Nested and counted.
struct ThreadBlocked {};
struct ThreadUnblocked {};

// ---- events from the other machines of the process ----

// Answers NeedArguments.
struct ArgumentsReady {
  TaskId call;
  std::vector<PinnedLocation> locations;  // one for each stored argument, in order
  std::optional<ErrorInfo> error;
};
// Answers CallRan.
struct AnswerCleared {
  TaskId call;
};

// The receiver of these results may not have got them, or has and its confirmation is lost: say them again.
struct RepeatAnswer {
  TaskId call;
  Peer caller;
  std::vector<ObjectLocator> refs;  // in the results
};

using ExecutorEvent = std::variant<CallFinished, ThreadBlocked, ThreadUnblocked, ArgumentsReady, AnswerCleared,
                                   RepeatAnswer, PeerTroubled, NodeGone, Received, Tick>;

// ---- actions ----

// Run this on a thread of user code and report CallFinished. Constructors: `constructor` is set, `task` is zero, and
// the instance is kept for the actor's methods, of which at most `max_concurrency` run at once.
struct Execute {
  ProcessAddress caller;
  TaskId task;
  std::uint32_t attempt = 0;
  std::uint32_t returns = 1;
  ObjectId first_return;  // owned by the caller
  std::shared_ptr<const CallSpec> spec;
  std::vector<ArgumentOut> arguments;
  std::shared_ptr<const Allocation> allocation;  // null when the node has not told
  LeaseId lease;
  ActorId actor;  // zero for tasks
  std::uint64_t incarnation = 0;
  bool constructor = false;
  std::uint32_t max_concurrency = 1;  // constructors
};
// Ask the running call to stop; `force`: end the process if it does not.
struct CancelRunning {
  TaskId task;
  bool force = false;
};
struct DropInstance {
  ActorId actor;
};
// End this worker process once what was sent before is out.
struct ExitProcess {
  std::string why;
};
// Bring and pin the stored arguments of a call.
struct NeedArguments {
  TaskId call;
  std::vector<StoredValue> values;
};
// It will not run: stop bringing them.
struct AbandonArguments {
  TaskId call;
};
// It will not run: give back what was pinned for it.
struct AbandonViews {
  std::vector<ObjectId> objects;
};
// User code is done; the answer goes out when the references it left behind are in order.
struct CallRan {
  TaskId call;
  Peer caller;
  std::vector<ObjectLocator> refs;  // in the results
};
struct StopChildren {
  TaskId parent;
  bool force = false;
};

using ExecutorOutput = std::variant<CancelRunning, DropInstance, ExitProcess, NeedArguments, AbandonArguments,
                                    AbandonViews, CallRan, StopChildren>;

struct ExecutorActions {
  std::vector<Send> sends;  // filled by flush()
  std::vector<Execute> execute;
  std::vector<ExecutorOutput> outputs;
};

struct ExecutorConfig {
  ProcessAddress self;
  std::size_t early_max = 4096;       // calls that came before what must precede them
  std::size_t tombstones_max = 4096;  // cancels that came before their call
  std::size_t answers_max = 4096;     // kept for a repeat, per caller
  std::size_t answer_bytes_max = 16 << 20;
  std::size_t message_bytes_max = 1 << 20;  // results in one CallsDone
  // Methods of an actor of one thread that are handed out before their turn, in order, so that each does not cost a
  // step of its own. One that is cancelled before its turn is answered without being run (CancelRunning).
  std::uint32_t methods_ahead = 16;
  Duration lease_wait = std::chrono::seconds(2);  // for the node's word on an unknown lease
  Duration order_wait = std::chrono::seconds(1);  // for a missing earlier call of the same caller
};

// Constructors have no task; between the machines they go by the actor's id in another range.
inline TaskId constructor_key(ActorId actor) {
  return TaskId{actor.maker, actor.sequence | (1ULL << 63)};
}

}  // namespace mobula::scheduler
