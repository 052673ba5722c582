// Every message there is, and the envelope it travels in. Numbers on the wire are those of the codec, not the order
// here.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/base/protocol/actor.h"
#include "runtime/base/protocol/call.h"
#include "runtime/base/protocol/cluster.h"
#include "runtime/base/protocol/hello.h"
#include "runtime/base/protocol/lease.h"
#include "runtime/base/protocol/object.h"
#include "runtime/base/protocol/peer.h"

namespace mobula {

using AnyMessage = std::variant<
    // hello.h
    Hello, HelloReply,
    // call.h
    DefineSpec, PushCalls, CallsDone, GiveBack, StealBack, CancelCall,
    // lease.h
    RequestLease, LeaseGranted, LeaseFailed, LeaseMoved, ReturnLease, ReclaimLease, LeaseLost, AssignWorker,
    WorkerBlocked, WorkerUnblocked, FindNode, NodeFound, LeaseRefused, ProbeProcess, ProcessStatus, ProcessGone,
    // actor.h
    CreateActor, ActorCreated, StartActor, HostActor, ActorStarted, ActorEnded, StopActor, ExitActor, KillActor,
    WatchActor, UnwatchActor, ActorUpdate, FindActor, ActorFound,
    // object.h
    ResolveObjects, ObjectsResolved, BorrowObjects, ObjectsBorrowed, ReleaseObjects, HandoffDone, ObjectLocation,
    RequestSlab, SlabGranted, SealObject, ReturnSlab, PinObject, ObjectPinned, UnpinObjects, FreeObjects, ChunkRequest,
    ChunkReply,
    // cluster.h
    RegisterNode, NodeRegistered, Heartbeat, HeartbeatAck, NodesChanged, NodeLeaves, ResolveNode, NodeResolved,
    RequestLinkKey, LinkKeyGranted, LinkAccepted, RegisterJob, JobFinished, EndJob, SubmitJob, StopSubmission,
    GetSubmission, SubmissionReply, StartDriver, StopDriver, DriverStatus, PutContent, ContentStored, GetContent,
    ContentChunk, LogLines, ReadLog, LogChunk, Query, QueryReply>;

// A variant, whose copies, moves and end are compiled once, in message.cc: instantiated in every file that touches a
// message, a variant of so many alternatives costs each of them half a minute and a hundred megabytes.
struct Message : AnyMessage {
  Message();
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();

  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Message> && !std::is_same_v<std::remove_cvref_t<T>, AnyMessage>)
      Message(T&& value)  // NOLINT(google-explicit-constructor): a message is one of its alternatives
      : AnyMessage(std::in_place_type<std::remove_cvref_t<T>>, std::forward<T>(value)) {}

  friend bool operator==(const Message& a, const Message& b);
};

// `from` and `to` are kNone on a direct link between the two; set when a node relays.
struct Envelope {
  Peer from;
  Peer to;
  std::uint64_t cause = 0;  // the event that led to it, for logs and stories
  std::uint64_t epoch = 0;  // of the head, as the sender knows it; 0 when it does not matter
  Message message;

  friend bool operator==(const Envelope& a, const Envelope& b);
};

// "PushCalls", for logs and refusals.
const char* name_of(const Message& message);

}  // namespace mobula
