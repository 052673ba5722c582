// Names of the messages, for logs and refusals. An overload is missing: the message was added to Message and not here.
#include "runtime/base/protocol/message.h"

#include <variant>

namespace mobula {
namespace {

#define MOBULA_NAME(Type)                     \
  const char* operator()(const Type&) const { \
    return #Type;                             \
  }

struct Names {
  // hello.h
  MOBULA_NAME(Hello)
  MOBULA_NAME(HelloReply)
  // call.h
  MOBULA_NAME(DefineSpec)
  MOBULA_NAME(PushCalls)
  MOBULA_NAME(CallsDone)
  MOBULA_NAME(GiveBack)
  MOBULA_NAME(StealBack)
  MOBULA_NAME(CancelCall)
  // lease.h
  MOBULA_NAME(RequestLease)
  MOBULA_NAME(LeaseGranted)
  MOBULA_NAME(LeaseFailed)
  MOBULA_NAME(LeaseMoved)
  MOBULA_NAME(ReturnLease)
  MOBULA_NAME(ReclaimLease)
  MOBULA_NAME(LeaseLost)
  MOBULA_NAME(AssignWorker)
  MOBULA_NAME(WorkerBlocked)
  MOBULA_NAME(WorkerUnblocked)
  MOBULA_NAME(FindNode)
  MOBULA_NAME(NodeFound)
  MOBULA_NAME(LeaseRefused)
  MOBULA_NAME(ProbeProcess)
  MOBULA_NAME(ProcessStatus)
  MOBULA_NAME(ProcessGone)
  // actor.h
  MOBULA_NAME(CreateActor)
  MOBULA_NAME(ActorCreated)
  MOBULA_NAME(StartActor)
  MOBULA_NAME(HostActor)
  MOBULA_NAME(ActorStarted)
  MOBULA_NAME(ActorEnded)
  MOBULA_NAME(StopActor)
  MOBULA_NAME(ExitActor)
  MOBULA_NAME(KillActor)
  MOBULA_NAME(WatchActor)
  MOBULA_NAME(UnwatchActor)
  MOBULA_NAME(ActorUpdate)
  MOBULA_NAME(FindActor)
  MOBULA_NAME(ActorFound)
  // object.h
  MOBULA_NAME(ResolveObjects)
  MOBULA_NAME(ObjectsResolved)
  MOBULA_NAME(BorrowObjects)
  MOBULA_NAME(ObjectsBorrowed)
  MOBULA_NAME(ReleaseObjects)
  MOBULA_NAME(HandoffDone)
  MOBULA_NAME(ObjectLocation)
  MOBULA_NAME(RequestSlab)
  MOBULA_NAME(SlabGranted)
  MOBULA_NAME(SealObject)
  MOBULA_NAME(ReturnSlab)
  MOBULA_NAME(PinObject)
  MOBULA_NAME(ObjectPinned)
  MOBULA_NAME(UnpinObjects)
  MOBULA_NAME(FreeObjects)
  MOBULA_NAME(ChunkRequest)
  MOBULA_NAME(ChunkReply)
  // cluster.h
  MOBULA_NAME(RegisterNode)
  MOBULA_NAME(NodeRegistered)
  MOBULA_NAME(Heartbeat)
  MOBULA_NAME(HeartbeatAck)
  MOBULA_NAME(NodesChanged)
  MOBULA_NAME(NodeLeaves)
  MOBULA_NAME(ResolveNode)
  MOBULA_NAME(NodeResolved)
  MOBULA_NAME(RequestLinkKey)
  MOBULA_NAME(LinkKeyGranted)
  MOBULA_NAME(LinkAccepted)
  MOBULA_NAME(RegisterJob)
  MOBULA_NAME(JobFinished)
  MOBULA_NAME(EndJob)
  MOBULA_NAME(SubmitJob)
  MOBULA_NAME(StopSubmission)
  MOBULA_NAME(GetSubmission)
  MOBULA_NAME(SubmissionReply)
  MOBULA_NAME(StartDriver)
  MOBULA_NAME(StopDriver)
  MOBULA_NAME(DriverStatus)
  MOBULA_NAME(PutContent)
  MOBULA_NAME(ContentStored)
  MOBULA_NAME(GetContent)
  MOBULA_NAME(ContentChunk)
  MOBULA_NAME(LogLines)
  MOBULA_NAME(ReadLog)
  MOBULA_NAME(LogChunk)
  MOBULA_NAME(Query)
  MOBULA_NAME(QueryReply)
};

#undef MOBULA_NAME

}  // namespace

const char* name_of(const Message& message) {
  return std::visit(Names{}, message);
}

Message::Message() = default;
Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

bool operator==(const Message& a, const Message& b) {
  return static_cast<const AnyMessage&>(a) == static_cast<const AnyMessage&>(b);
}

bool operator==(const Envelope& a, const Envelope& b) {
  return a.from == b.from && a.to == b.to && a.cause == b.cause && a.epoch == b.epoch && a.message == b.message;
}

}  // namespace mobula
