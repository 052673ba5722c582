// What goes into the engine and what comes out: the contract between the pure machine of a process and its runtime.
//
// The structs are those of the machine that takes or gives them, under one roof: see objectstore/owner_io.h,
// scheduler/submitter_io.h and scheduler/executor_io.h for each.
//
// All ids are drawn by the runtime: `maker` is this process, `sequence` a counter of the runtime's from 1, below 2^63.
// TaskIds of tasks and actor calls come from one counter and are submitted in (nearly: 64 places) increasing order.
// Counting: a process holds a reference to an object from the first RefAcquired to the last RefDropped. The ids that
// SubmitTask, SubmitActorCall, SubmitActor and Put* name come with their first reference: no RefAcquired for them.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "objectstore/owner_io.h"
#include "runtime/base/machine.h"
#include "scheduler/executor_io.h"
#include "scheduler/submitter_io.h"

namespace mobula::core {

// ---- events
// ----------------------------------------------------------------------------------------------------------------

using scheduler::AdoptActor;
using scheduler::Cancel;
using scheduler::EndActor;
using scheduler::JobEnding;
using scheduler::LookUpActor;
using scheduler::SubmitActor;
using scheduler::SubmitActorCall;
using scheduler::SubmitTask;

using objectstore::PutInline;
using objectstore::PutStored;
using objectstore::RefAcquired;
using objectstore::RefDropped;
using objectstore::Unwant;
using objectstore::ViewReleased;
using objectstore::Want;
using objectstore::WantMode;

using scheduler::CallFinished;
using scheduler::ThreadBlocked;
using scheduler::ThreadUnblocked;

using Event =
    std::variant<SubmitTask, SubmitActorCall, SubmitActor, LookUpActor, AdoptActor, EndActor, Cancel, PutInline,
                 PutStored, RefAcquired, RefDropped, Want, Unwant, ViewReleased, CallFinished, ThreadBlocked,
                 ThreadUnblocked, JobEnding,
                 // From links. PeerLost says that what was sent since the last PeerJoined may be lost; a Send
                 // to a process without a link opens one, and PeerLost follows when it cannot be opened. Peers of
                 // processes carry their node. PeerLost of the own node: this process is cut off for good.
                 Received, PeerJoined, PeerLost, Tick>;

// Messages the engine takes: DefineSpec, PushCalls, CallsDone, GiveBack, StealBack, CancelCall; LeaseGranted,
// LeaseFailed, LeaseMoved, LeaseLost, ReclaimLease, AssignWorker, ProcessStatus; ActorCreated, ActorFound, ActorUpdate,
// HostActor, ExitActor; ResolveObjects, ObjectsResolved, BorrowObjects, ObjectsBorrowed, ReleaseObjects, HandoffDone,
// ObjectLocation, ObjectPinned; NodeResolved. It ignores the others.

// ---- actions
// ---------------------------------------------------------------------------------------------------------------

using objectstore::Ready;
using objectstore::ReadyOnly;
using scheduler::ActorAnswer;
using scheduler::CancelRunning;
using scheduler::DropInstance;
using scheduler::Execute;
using scheduler::ExitProcess;
using scheduler::QueueChanged;

using Order = std::variant<ActorAnswer, CancelRunning, DropInstance, ExitProcess, QueueChanged>;

// One list a kind: hot kinds stay small and together. Each list is in order. Perform `execute` before `orders`, and
// ExitProcess last of all. Messages of this process to itself never appear in `sends`.
struct Actions {
  std::vector<Send> sends;
  std::vector<Ready> ready;
  std::vector<Execute> execute;
  std::vector<Order> orders;

  bool empty() const { return sends.empty() && ready.empty() && execute.empty() && orders.empty(); }
  void clear() {
    sends.clear();
    ready.clear();
    execute.clear();
    orders.clear();
  }
};

struct EngineConfig {
  ProcessAddress self;
  std::uint32_t lease_requests_max = 16;  // asked for and not granted yet, per shape
  Duration lease_linger = std::chrono::milliseconds(50);
};

}  // namespace mobula::core
