#include "runtime/base/protocol/roles.h"

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

namespace mobula {
namespace {

constexpr Roles kNobody;
constexpr Roles kHead = Role::kHead;
constexpr Roles kNode = Role::kNode;
constexpr Roles kDaemon = kHead | kNode;
constexpr Roles kWorker = Role::kWorker;
constexpr Roles kDriver = Role::kDriver;
constexpr Roles kProcess = kDriver | kWorker;
constexpr Roles kViewer = Role::kViewer;
constexpr Roles kClient = Role::kClient;
constexpr Roles kReader = kClient | kViewer;  // asks, changes nothing

struct Row {
  std::size_t message = std::variant_npos;
  Roles to_head;
  Roles to_node;
  Roles to_process;
  Roles to_client;
};

template <class T, class... All>
constexpr std::size_t position(std::type_identity<std::variant<All...>>) {
  std::size_t index = 0;
  static_cast<void>(((std::is_same_v<T, All> || (++index, false)) || ...));
  return index;
}

// Does not compile for a type that is no message.
template <class T>
constexpr Row row(Roles to_head, Roles to_node, Roles to_process, Roles to_client = kNobody) {
  constexpr std::size_t index = position<T>(std::type_identity<AnyMessage>());
  static_assert(index < std::variant_size_v<AnyMessage>);
  return {index, to_head, to_node, to_process, to_client};
}

// One line a message, in columns.
// clang-format off
constexpr std::array kTable = {
    //                    to the head             to a node                    to a process                  to a client
    // hello.h
    row<Hello>(           kNode | kReader,        kNode | kProcess | kReader,  kProcess),
    row<HelloReply>(      kNobody,                kHead | kNode,               kNode | kProcess,             kDaemon),
    // call.h
    row<DefineSpec>(      kNobody,                kNobody,                     kProcess),
    row<PushCalls>(       kNobody,                kNobody,                     kProcess),
    row<CallsDone>(       kNobody,                kNobody,                     kWorker),
    row<GiveBack>(        kNobody,                kNobody,                     kWorker),
    row<StealBack>(       kNobody,                kNobody,                     kProcess),
    row<CancelCall>(      kNobody,                kNobody,                     kProcess),
    // lease.h
    row<RequestLease>(    kNobody,                kNode | kProcess,            kNobody),
    row<LeaseGranted>(    kNobody,                kNode,                       kNode),
    row<LeaseFailed>(     kNobody,                kNode,                       kNode),
    row<LeaseMoved>(      kNobody,                kNode,                       kNode),
    row<ReturnLease>(     kNobody,                kNode | kProcess,            kNobody),
    row<ReclaimLease>(    kNobody,                kNode,                       kNode),
    row<LeaseLost>(       kNobody,                kNode,                       kNode),
    row<AssignWorker>(    kNobody,                kNobody,                     kNode),
    row<WorkerBlocked>(   kNobody,                kWorker,                     kNobody),
    row<WorkerUnblocked>( kNobody,                kWorker,                     kNobody),
    row<FindNode>(        kNode,                  kHead,                       kNobody),
    row<NodeFound>(       kNobody,                kHead,                       kNobody),
    row<LeaseRefused>(    kNobody,                kNode,                       kNobody),
    row<ProbeProcess>(    kNobody,                kNode | kProcess,            kNobody),
    row<ProcessStatus>(   kNobody,                kNode,                       kNode),
    row<ProcessGone>(     kNode,                  kNode,                       kNobody),
    // actor.h
    row<CreateActor>(     kProcess,               kNobody,                     kNobody),
    row<ActorCreated>(    kNobody,                kNobody,                     kHead),
    row<StartActor>(      kNobody,                kHead,                       kNobody),
    row<HostActor>(       kNobody,                kNobody,                     kNode),
    row<ActorStarted>(    kNode,                  kWorker,                     kNobody),
    row<ActorEnded>(      kNode,                  kWorker,                     kNobody),
    row<StopActor>(       kNobody,                kHead,                       kNobody),
    row<ExitActor>(       kNobody,                kNobody,                     kNode),
    row<KillActor>(       kProcess,               kNobody,                     kNobody),
    row<WatchActor>(      kProcess,               kNobody,                     kNobody),
    row<UnwatchActor>(    kProcess,               kNobody,                     kNobody),
    row<ActorUpdate>(     kNobody,                kNobody,                     kHead),
    row<FindActor>(       kProcess,               kNobody,                     kNobody),
    row<ActorFound>(      kNobody,                kNobody,                     kHead),
    // object.h
    row<ResolveObjects>(  kNobody,                kNobody,                     kProcess),
    row<ObjectsResolved>( kNobody,                kNobody,                     kProcess),
    row<BorrowObjects>(   kNobody,                kNobody,                     kProcess),
    row<ObjectsBorrowed>( kNobody,                kNobody,                     kProcess),
    row<ReleaseObjects>(  kNobody,                kNobody,                     kProcess),
    row<HandoffDone>(     kNobody,                kNobody,                     kProcess),
    row<ObjectLocation>(  kNobody,                kNobody,                     kNode | kProcess),
    row<RequestSlab>(     kNobody,                kProcess,                    kNobody),
    row<SlabGranted>(     kNobody,                kNobody,                     kNode),
    row<SealObject>(      kNobody,                kProcess,                    kNobody),
    row<ReturnSlab>(      kNobody,                kProcess,                    kNobody),
    row<PinObject>(       kNobody,                kProcess,                    kNobody),
    row<ObjectPinned>(    kNobody,                kNobody,                     kNode),
    row<UnpinObjects>(    kNobody,                kProcess,                    kNobody),
    row<FreeObjects>(     kNobody,                kNode | kProcess,            kNobody),
    row<ChunkRequest>(    kNobody,                kNode,                       kNobody),
    row<ChunkReply>(      kNobody,                kNode,                       kNobody),
    // cluster.h
    row<RegisterNode>(    kNode,                  kNobody,                     kNobody),
    row<NodeRegistered>(  kNobody,                kHead,                       kNobody),
    row<Heartbeat>(       kNode,                  kNobody,                     kNobody),
    row<HeartbeatAck>(    kNobody,                kHead,                       kNobody),
    row<NodesChanged>(    kNobody,                kHead,                       kNobody),
    row<NodeLeaves>(      kNode,                  kNobody,                     kNobody),
    row<ResolveNode>(     kNobody,                kProcess,                    kNobody),
    row<NodeResolved>(    kNobody,                kNobody,                     kNode),
    row<RequestLinkKey>(  kNobody,                kProcess,                    kNobody),
    row<LinkKeyGranted>(  kNobody,                kNobody,                     kNode),
    row<LinkAccepted>(    kNobody,                kNobody,                     kNode),
    row<RegisterJob>(     kNode,                  kNobody,                     kNobody),
    row<JobFinished>(     kNode,                  kNobody,                     kNobody),
    row<EndJob>(          kNobody,                kHead,                       kNobody),
    row<SubmitJob>(       kClient,                kNobody,                     kNobody),
    row<StopSubmission>(  kClient,                kNobody,                     kNobody),
    row<GetSubmission>(   kReader,                kNobody,                     kNobody),
    row<SubmissionReply>( kNobody,                kNobody,                     kNobody,                      kHead),
    row<StartDriver>(     kNobody,                kHead,                       kNobody),
    row<StopDriver>(      kNobody,                kHead,                       kNobody),
    row<DriverStatus>(    kNode,                  kNobody,                     kNobody),
    row<PutContent>(      kClient,                kNobody,                     kNobody),
    row<ContentStored>(   kNobody,                kNobody,                     kNobody,                      kHead),
    row<GetContent>(      kNode,                  kNobody,                     kNobody),
    row<ContentChunk>(    kNobody,                kHead,                       kNobody),
    row<LogLines>(        kNobody,                kNode,                       kNode),
    row<ReadLog>(         kReader,                kHead | kReader | kWorker,   kNobody),
    row<LogChunk>(        kNode,                  kNobody,                     kNode,                        kDaemon),
    row<Query>(           kReader | kProcess,     kHead | kReader,             kHead | kNode | kReader),
    row<QueryReply>(      kNode | kProcess,       kProcess,                    kDaemon,                      kDaemon),
};
// clang-format on

// Rows by message, so that a look-up is an index. Every message must have one row.
constexpr auto kByMessage = [] {
  std::array<Row, std::variant_size_v<AnyMessage>> rows{};
  for (const Row& entry : kTable) rows[entry.message] = entry;
  return rows;
}();
constexpr bool complete() {
  for (const Row& entry : kByMessage) {
    if (entry.message == std::variant_npos) return false;
  }
  return kTable.size() == kByMessage.size();
}
static_assert(complete(), "a message has no row, or two");

constexpr Roles senders(std::size_t message, Receiver receiver) {
  const Row& entry = kByMessage[message];
  switch (receiver) {
    case Receiver::kHead: return entry.to_head;
    case Receiver::kNode: return entry.to_node;
    case Receiver::kProcess: return entry.to_process;
    case Receiver::kClient: return entry.to_client;
  }
  return kNobody;
}

// What this very message asks for: a viewer and a process may look but not end things.
constexpr bool changes_something(QueryKind kind) {
  return kind == QueryKind::kKill || kind == QueryKind::kStop;
}

Roles allowed(const Message& message, Receiver receiver) {
  const Roles roles = senders(message.index(), receiver);
  const auto* query = std::get_if<Query>(&message);
  if (query != nullptr && changes_something(query->kind))
    return roles.without(Role::kViewer).without(Role::kDriver).without(Role::kWorker);
  return roles;
}

// The roles that whoever `peer` names can have.
constexpr Roles roles_of(PeerKind peer) {
  switch (peer) {
    case PeerKind::kNone: return kNobody;
    case PeerKind::kHead: return kHead;
    case PeerKind::kNode: return kNode;
    case PeerKind::kProcess: return kProcess;
    case PeerKind::kClient: return kReader;
  }
  return kNobody;
}

// Whom a link's other end may speak for besides itself. A node is the gate of its processes; towards others it relays
// what processes and nodes say, never what a head or a client would.
constexpr Roles relayed_by(Role link, Receiver self) {
  if (link == Role::kNode) return self == Receiver::kProcess ? kHead | kNode | kProcess | kReader : kNode | kProcess;
  if (link == Role::kHead) return kNode | kProcess | kReader;
  return kNobody;
}

constexpr Receiver receiver_of(PeerKind to, Receiver self) {
  switch (to) {
    case PeerKind::kNone: return self;
    case PeerKind::kHead: return Receiver::kHead;
    case PeerKind::kNode: return Receiver::kNode;
    case PeerKind::kProcess: return Receiver::kProcess;
    case PeerKind::kClient: return Receiver::kClient;
  }
  return self;
}

}  // namespace

Roles senders_of(const Message& message, Receiver receiver) {
  return senders(message.index(), receiver);
}

bool may_send(Role role, Receiver receiver, const Message& message) {
  return allowed(message, receiver).has(role);
}

bool may_pass(Role link, const Peer& peer, Receiver self, const Envelope& envelope) {
  const Receiver receiver = receiver_of(envelope.to.kind, self);
  if (envelope.from.kind == PeerKind::kNone || envelope.from == peer) {
    return may_send(link, receiver, envelope.message);
  }
  const Roles origin = roles_of(envelope.from.kind);
  return origin.meets(relayed_by(link, self)) && origin.meets(allowed(envelope.message, receiver));
}

}  // namespace mobula
