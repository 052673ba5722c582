// Every message with its arm of the envelope's union, and the three functions a codec_*.cc defines for each. This
// header is the seam that lets each group compile its own fields once.
#pragma once

#include <cstddef>

#include "runtime/base/protocol/message.h"
#include "runtime/wire/context.h"
#include "runtime/wire/envelope.capnp.h"

#define MOBULA_WIRE_MESSAGES(X)                                                                                        \
  X(Hello, HELLO)                                                                                                      \
  X(HelloReply, HELLO_REPLY) X(DefineSpec, DEFINE_SPEC) X(PushCalls, PUSH_CALLS) X(CallsDone, CALLS_DONE)              \
      X(GiveBack, GIVE_BACK) X(StealBack, STEAL_BACK) X(CancelCall, CANCEL_CALL) X(RequestLease, REQUEST_LEASE)        \
          X(LeaseGranted, LEASE_GRANTED) X(LeaseFailed, LEASE_FAILED) X(LeaseMoved, LEASE_MOVED) X(                    \
              ReturnLease, RETURN_LEASE) X(ReclaimLease, RECLAIM_LEASE) X(LeaseLost, LEASE_LOST)                       \
              X(AssignWorker, ASSIGN_WORKER) X(WorkerBlocked, WORKER_BLOCKED) X(WorkerUnblocked, WORKER_UNBLOCKED) X(  \
                  FindNode, FIND_NODE) X(NodeFound, NODE_FOUND) X(LeaseRefused, LEASE_REFUSED)                         \
                  X(ProbeProcess, PROBE_PROCESS) X(ProcessStatus, PROCESS_STATUS) X(ProcessGone, PROCESS_GONE) X(      \
                      CreateActor, CREATE_ACTOR) X(ActorCreated, ACTOR_CREATED) X(StartActor, START_ACTOR)             \
                      X(HostActor, HOST_ACTOR) X(ActorStarted, ACTOR_STARTED) X(ActorEnded, ACTOR_ENDED) X(            \
                          StopActor, STOP_ACTOR) X(ExitActor, EXIT_ACTOR) X(KillActor, KILL_ACTOR)                     \
                          X(WatchActor, WATCH_ACTOR) X(UnwatchActor, UNWATCH_ACTOR) X(ActorUpdate, ACTOR_UPDATE) X(    \
                              FindActor, FIND_ACTOR) X(ActorFound, ACTOR_FOUND) X(ResolveObjects, RESOLVE_OBJECTS)     \
                              X(ObjectsResolved, OBJECTS_RESOLVED) X(BorrowObjects, BORROW_OBJECTS)                    \
                                  X(ObjectsBorrowed, OBJECTS_BORROWED) X(ReleaseObjects, RELEASE_OBJECTS) X(           \
                                      HandoffDone, HANDOFF_DONE) X(ObjectLocation, OBJECT_LOCATION)                    \
                                      X(RequestSlab, REQUEST_SLAB) X(SlabGranted, SLAB_GRANTED) X(                     \
                                          SealObject, SEAL_OBJECT) X(ReturnSlab, RETURN_SLAB) X(PinObject, PIN_OBJECT) \
                                          X(ObjectPinned, OBJECT_PINNED) X(UnpinObjects, UNPIN_OBJECTS) X(             \
                                              FreeObjects, FREE_OBJECTS) X(ChunkRequest,                               \
                                                                           CHUNK_REQUEST) X(ChunkReply, CHUNK_REPLY)   \
                                              X(RegisterNode, REGISTER_NODE) X(NodeRegistered, NODE_REGISTERED) X(     \
                                                  Heartbeat, HEARTBEAT) X(HeartbeatAck, HEARTBEAT_ACK)                 \
                                                  X(NodesChanged, NODES_CHANGED) X(NodeLeaves, NODE_LEAVES)            \
                                                      X(ResolveNode, RESOLVE_NODE) X(NodeResolved, NODE_RESOLVED) X(   \
                                                          RequestLinkKey,                                              \
                                                          REQUEST_LINK_KEY) X(LinkKeyGranted, LINK_KEY_GRANTED)        \
                                                          X(LinkAccepted, LINK_ACCEPTED) X(RegisterJob, REGISTER_JOB)  \
                                                              X(JobFinished, JOB_FINISHED) X(EndJob, END_JOB)          \
                                                                  X(SubmitJob, SUBMIT_JOB) X(StopSubmission,           \
                                                                                             STOP_SUBMISSION)          \
                                                                      X(GetSubmission, GET_SUBMISSION) X(              \
                                                                          SubmissionReply, SUBMISSION_REPLY)           \
                                                                          X(StartDriver, START_DRIVER) X(StopDriver,   \
                                                                                                         STOP_DRIVER)  \
                                                                              X(DriverStatus, DRIVER_STATUS)           \
                                                                                  X(PutContent, PUT_CONTENT) X(        \
                                                                                      ContentStored, CONTENT_STORED)   \
                                                                                      X(GetContent, GET_CONTENT) X(    \
                                                                                          ContentChunk, CONTENT_CHUNK) \
                                                                                          X(LogLines, LOG_LINES)       \
                                                                                              X(ReadLog, READ_LOG) X(  \
                                                                                                  LogChunk, LOG_CHUNK) \
                                                                                                  X(Query, QUERY)      \
                                                                                                      X(QueryReply,    \
                                                                                                        QUERY_REPLY)

namespace mobula::wire::detail {

#define MOBULA_WIRE_DECLARE(Type, ARM)                               \
  std::size_t message_words(const Type& message);                    \
  void write_message(schema::Type::Builder at, const Type& message); \
  void read_message(schema::Type::Reader at, Context& context, Type& message);
MOBULA_WIRE_MESSAGES(MOBULA_WIRE_DECLARE)
#undef MOBULA_WIRE_DECLARE

}  // namespace mobula::wire::detail

// Defines them, where the message's Fields are known.
#define MOBULA_WIRE_DEFINE(Type)                                                \
  std::size_t message_words(const Type& message) {                              \
    return words_of(message);                                                   \
  }                                                                             \
  void write_message(schema::Type::Builder at, const Type& message) {           \
    write_struct<Type>(at, message);                                            \
  }                                                                             \
  void read_message(schema::Type::Reader at, Context& context, Type& message) { \
    read_struct<Type>(at, context, message);                                    \
  }

// The fields of a message and its three functions.
#define MOBULA_WIRE_MESSAGE(Type, ...) \
  MOBULA_WIRE(Type, __VA_ARGS__)       \
  MOBULA_WIRE_DEFINE(Type)
