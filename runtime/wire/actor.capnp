# Actors (runtime/base/protocol/actor.h). Rules of change: see common.capnp.
@0xd28db473390fcd47;

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Calls = import "call.capnp";
$Cxx.namespace("mobula::wire::schema");

struct ActorSpec {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  owner @2 :Common.ProcessAddress;
  constructor @3 :Calls.CallSpec;
  placement @4 :Common.ResourceRequest;
  arguments @5 :List(Common.Value);
  name @6 :Text;
  nameSpace @7 :Text;
  detached @8 :Bool;
  getIfExists @9 :Bool;
  maxRestarts @10 :Int32;             # -1: no bound
  maxTaskRetries @11 :Int32;
  maxConcurrency @12 :UInt32 = 1;
  classFingerprint @13 :UInt64;
}

struct ActorAddress {
  host @0 :Common.ProcessAddress;
  slot @1 :UInt32;
}

enum ActorPhase {
  pending @0;
  alive @1;
  restarting @2;
  dead @3;
}

struct ActorInfo {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  job @2 :UInt64;
  phase @3 :ActorPhase;
  incarnation @4 :UInt64;
  address @5 :ActorAddress;
  maxTaskRetries @6 :Int32;
  name @7 :Text;
  display @8 :Text;
  classFingerprint @9 :UInt64;
  error @10 :Common.ErrorInfo;        # null: nothing is wrong
}

struct CreateActor {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  spec @2 :ActorSpec;
}

struct ActorCreated {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
  info @3 :ActorInfo;
}

struct StartActor {
  spec @0 :ActorSpec;
  incarnation @1 :UInt64;
}

struct HostActor {
  spec @0 :ActorSpec;
  incarnation @1 :UInt64;
  slot @2 :UInt32;
}

struct ActorStarted {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  incarnation @2 :UInt64;
  address @3 :ActorAddress;
}

enum ActorEnd {
  noRoom @0;
  constructorFailed @1;
  processDied @2;
  exited @3;
  killed @4;
}

struct ActorEnded {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  incarnation @2 :UInt64;
  end @3 :ActorEnd = processDied;
  error @4 :Common.ErrorInfo;
}

struct StopActor {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  incarnation @2 :UInt64;
  graceful @3 :Bool;
}

struct ExitActor {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
}

struct KillActor {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  noRestart @2 :Bool = true;
  graceful @3 :Bool;
}

struct WatchActor {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
}

struct UnwatchActor {
  actor :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
}

struct ActorUpdate {
  info @0 :ActorInfo;
}

struct FindActor {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  name @2 :Text;
  nameSpace @3 :Text;
}

struct ActorFound {
  request :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
  info @3 :ActorInfo;
}
