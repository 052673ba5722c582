# Links, nodes, jobs, content, logs and questions (runtime/base/protocol/hello.h and cluster.h). Rules of change: see
# common.capnp.
@0xe21579b972240a4b;

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Actors = import "actor.capnp";
$Cxx.namespace("mobula::wire::schema");

# ---- hello ----------------------------------------------------------------------------------------------------------

enum Role {
  head @0;
  node @1;
  driver @2;
  worker @3;
  client @4;
  viewer @5;
}

# Field 0 of Hello and HelloReply is the protocol major for all time: it is read before anything else is believed.
struct Hello {
  protocol @0 :UInt32 = 1;
  role @1 :Role = client;
  from @2 :Common.Peer;
  cluster @3 :UInt64;
  job @4 :UInt64;
  pid @5 :UInt64;
  build @6 :Text;
  features @7 :List(Text);
  executable @8 :Text;
  executablePath @9 :Text;
  name @10 :Text;
  logToDriver @11 :Bool = true;
  libraries @12 :List(Text);
}

struct HelloReply {
  protocol @0 :UInt32 = 1;
  error @1 :Common.ErrorInfo;         # null: welcome
  from @2 :Common.Peer;
  cluster @3 :UInt64;
  epoch @4 :UInt64;
  build @5 :Text;
  features @6 :List(Text);
  node @7 :UInt64;
  endpoint @8 :Common.Endpoint;
  session @9 :Text;
  linkKey @10 :Data;
  storeCapacity @11 :UInt64;
  nodeCpus @12 :UInt32;
}

# ---- membership -----------------------------------------------------------------------------------------------------

struct NodeDescription {
  node @0 :UInt64;
  endpoint @1 :Common.Endpoint;
  hostName @2 :Text;
  pid @3 :UInt64;
  build @4 :Text;
  total @5 :Common.NodeResources;
  labels @6 :List(Common.TextPair);
  isHeadNode @7 :Bool;
}

struct RegisterNode {
  description @0 :NodeDescription;
  free @1 :Common.NodeResources;
  actors @2 :List(Actors.ActorInfo);
  jobs @3 :List(UInt64);
}

struct NodeRegistered {
  epoch @0 :UInt64;
  error @1 :Common.ErrorInfo;
  nodes @2 :List(NodeDescription);
}

struct QueuedShape {
  request @0 :Common.ResourceRequest;
  count @1 :UInt32;
}

struct Heartbeat {
  sequence @0 :UInt64;
  free @1 :Common.NodeResources;
  queued @2 :List(QueuedShape);
  workers @3 :UInt32;
  storeUsed @4 :UInt64;
  loopLagNs @5 :UInt64;
  loadPermille @6 :UInt32;
}

struct HeartbeatAck {
  sequence @0 :UInt64;
  epoch @1 :UInt64;
}

struct NodesChanged {
  added @0 :List(NodeDescription);
  removed @1 :List(UInt64);
}

struct NodeLeaves {
}

struct ResolveNode {
  node @0 :UInt64;
}

struct NodeResolved {
  node @0 :UInt64;
  alive @1 :Bool;
  endpoint @2 :Common.Endpoint;
}

struct RequestLinkKey {
  process @0 :UInt64;
}

struct LinkKeyGranted {
  process @0 :UInt64;
  key @1 :Data;
}

struct LinkAccepted {
  from @0 :Text;
}

# ---- jobs -----------------------------------------------------------------------------------------------------------

struct JobDescription {
  job @0 :UInt64;
  name @1 :Text;
  driver @2 :Common.ProcessAddress;
  pid @3 :UInt64;
  entrypoint @4 :Text;
  submission @5 :Text;
  startTimeMs @6 :Int64;              # wall clock
}

struct RegisterJob {
  job @0 :JobDescription;
}

struct JobFinished {
  job @0 :UInt64;
}

struct EndJob {
  job @0 :UInt64;
}

enum SubmissionPhase {
  pending @0;
  running @1;
  succeeded @2;
  failed @3;
  stopped @4;
}

struct SubmissionInfo {
  submission @0 :Text;
  phase @1 :SubmissionPhase;
  argv @2 :List(Text);
  node @3 :UInt64;
  job @4 :UInt64;
  exitCode @5 :Int32;
  message @6 :Text;
  startTimeMs @7 :Int64;
  endTimeMs @8 :Int64;
}

struct SubmitJob {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  submission @2 :Text;
  argv @3 :List(Text);
  environment @4 :List(Common.TextPair);
  workingDir @5 :Text;
  resources @6 :Common.ResourceRequest;
}

struct StopSubmission {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  submission @2 :Text;
}

struct GetSubmission {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  submission @2 :Text;
  wait @3 :Bool;
}

struct SubmissionReply {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
  info @3 :SubmissionInfo;
}

struct StartDriver {
  job @0 :SubmitJob;
}

struct StopDriver {
  submission @0 :Text;
}

struct DriverStatus {
  submission @0 :Text;
  phase @1 :SubmissionPhase = running;
  exitCode @2 :Int32;
  message @3 :Text;
}

# ---- shipped content ------------------------------------------------------------------------------------------------

struct PutContent {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  hash @2 :Text;                      # SHA-256, 64 hex digits
  total @3 :UInt64;
  offset @4 :UInt64;
  bytes @5 :Data;
}

struct ContentStored {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
  have @3 :UInt64;
}

struct GetContent {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  hash @2 :Text;
  offset @3 :UInt64;
}

struct ContentChunk {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
  total @3 :UInt64;
  offset @4 :UInt64;
  bytes @5 :Data;
}

# ---- logs -----------------------------------------------------------------------------------------------------------

struct LogLines {
  worker @0 :UInt64;
  pid @1 :UInt64;
  node @2 :UInt64;
  name @3 :Text;
  errorStream @4 :Bool;
  lines @5 :List(Text);
  dropped @6 :UInt64;
  job @7 :UInt64;                     # whose driver prints them
}

struct ReadLog {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  entity @2 :Text;
  offset @3 :UInt64;
  follow @4 :Bool;
}

struct LogChunk {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
  offset @3 :UInt64;
  bytes @4 :Data;
  end @5 :Bool;
}

# ---- questions ------------------------------------------------------------------------------------------------------

enum QueryKind {
  status @0;
  nodes @1;
  workers @2;
  actors @3;
  tasks @4;
  objects @5;
  jobs @6;
  explain @7;
  kill @8;
  stop @9;
  doctor @10;
}

struct Query {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  kind @2 :QueryKind;
  target @3 :Text;
  limit @4 :UInt32 = 10000;
}

struct QueryReply {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
  columns @3 :List(Text);
  rows @4 :List(List(Text));
  notes @5 :List(Text);
}
