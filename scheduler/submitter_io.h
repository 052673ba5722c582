// What goes into the submitter machine and what comes out.
#pragma once

#include <cstdint>
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

struct SubmitTask {
  TaskId task;
  SpecRef spec;
  std::vector<ArgumentIn> arguments;
  std::uint32_t returns = 1;
  ObjectId first_return;  // owned by this process
  TaskId parent;          // the call whose code submits it; zero in a driver. For recursive cancels
};

// The actor need not be known: the first call asks the head for it.
struct SubmitActorCall {
  TaskId task;
  ActorId actor;
  SpecRef spec;
  std::vector<ArgumentIn> arguments;
  std::uint32_t returns = 1;
  ObjectId first_return;
  ObjectLocator self;                  // of the handle; zero for looked-up actors. Held while calls are unanswered
  std::int32_t max_task_retries = -2;  // -1: no bound; -2: as the actor's spec says
  TaskId parent;
};

// Answered by ActorAnswer. `spec.arguments` is filled from `arguments` once they are ready.
struct SubmitActor {
  RequestId request;
  ActorSpec spec;
  std::vector<ArgumentIn> arguments;
  ObjectId handle;  // owned by this process: when nobody refers to it any more the actor is ended
                    // (never if named or detached); zero: none
};
// Answered by ActorAnswer.
struct LookUpActor {
  RequestId request;
  std::string name;
  std::string name_space;
};
// A handle that arrived in a value: only tells what is known already. Optional.
struct AdoptActor {
  ActorInfo info;
};
struct EndActor {
  ActorId actor;
  bool no_restart = true;
};
// `object`: a return of the task or call, when `task` is zero. Only calls that this process submitted.
struct Cancel {
  TaskId task;
  ObjectId object;
  bool force = false;
  bool recursive = true;
};
// The runtime ends: unfinished calls fail with RuntimeStopped, leases go back.
struct JobEnding {};

// ---- events from the other machines of the process ----

// Answers NeedObject.
struct ObjectKnown {
  ObjectId object;
  Outcome outcome;
};
// Nobody refers to the handle of this actor any more.
struct HandleGone {
  ActorId actor;
};
// A call that is executed here was cancelled with its children.
struct CancelChildren {
  TaskId parent;
  bool force = false;
};
// The process is cut off from its node.
struct NodeLost {
  ErrorInfo why;
};

using SubmitterEvent =
    std::variant<SubmitTask, SubmitActorCall, SubmitActor, LookUpActor, AdoptActor, EndActor, Cancel, JobEnding,
                 ObjectKnown, HandleGone, CancelChildren, NodeLost, PeerTroubled, PeerUsable, NodeGone, Received, Tick>;

// ---- actions ----

struct ActorAnswer {
  RequestId request;
  std::variant<ActorInfo, ErrorInfo> outcome;
};
// How many bytes of arguments wait in the queues of this process: the runtime blocks submitters at its bound.
struct QueueChanged {
  std::uint64_t bytes = 0;
};
// A call waits for this argument.
struct NeedObject {
  ObjectLocator object;
};
// A call is settled; the pins of its arguments can go.
struct CallSettled {
  TaskId task;
  ObjectId first_return;
  std::uint32_t returns = 1;
  std::vector<CallValue> values;
  std::optional<ErrorInfo> error;
  Peer executor;
  bool pinned = false;          // its arguments hold references
  std::vector<NodeId> left_on;  // earlier attempts died there and may have left results in the store
};
// An answer that nobody waits for.
struct StaleAnswer {
  TaskId task;
  std::vector<CallValue> values;
  Peer executor;
};
// The first, the last unanswered call of an actor: its handle is held meanwhile.
struct ActorBusy {
  ActorId actor;
  ObjectLocator self;
  bool busy = false;
};
// The actor will not start (again): its constructor's arguments can go.
struct ActorSettled {
  ActorId actor;
};

using SubmitterOutput =
    std::variant<NeedObject, CallSettled, StaleAnswer, ActorBusy, ActorSettled, ActorAnswer, QueueChanged>;

struct SubmitterActions {
  std::vector<Send> sends;               // filled by flush()
  std::vector<SubmitterOutput> outputs;  // in order
};

struct SubmitterConfig {
  ProcessAddress self;
  std::uint32_t lease_requests_max = 16;                  // asked for and not granted yet, per shape
  Duration lease_linger = std::chrono::milliseconds(50);  // an idle lease is kept that long
  Duration pipeline = std::chrono::milliseconds(1);       // of measured work that a lease holds
  std::uint32_t pipeline_max = 256;                       // calls
  Duration steal_after = std::chrono::milliseconds(10);   // a call runs that long with others behind it
  Duration repeat = std::chrono::seconds(2);              // of requests that are not answered
  Duration actor_repeat = std::chrono::seconds(1);
  std::uint32_t actor_window = 4096;        // calls pushed to an actor and not answered
  std::size_t message_bytes_max = 1 << 20;  // arguments in one PushCalls
};

}  // namespace mobula::scheduler
