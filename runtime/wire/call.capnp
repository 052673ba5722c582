# Tasks and actor calls (runtime/base/protocol/call.h). Rules of change: see common.capnp.
@0xfad4f5419800a6e7;

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("mobula::wire::schema");

struct FunctionKey {
  module @0 :Text;        # build id in hex; empty: found by symbol
  offset @1 :UInt64;
  symbol @2 :Text;
  fingerprint @3 :UInt64;
}

struct RuntimeKey {
  executable @0 :Text;
  origin @1 :UInt64;      # a node that can supply the executable
  environment @2 :List(Common.TextPair);
  workingDir @3 :Text;
}

struct CallSpec {
  job @0 :UInt64;
  function @1 :FunctionKey;
  name @2 :Text;
  resources @3 :Common.ResourceRequest;
  runtime @4 :RuntimeKey;
  maxRetries @5 :Int32;
  retryExceptions @6 :Bool;
}

struct Call {
  task :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  spec @2 :UInt32;        # number given by DefineSpec on this link
  attempt @3 :UInt32;
  returns @4 :UInt32 = 1;
  firstReturn :group {
    maker @5 :UInt64;
    sequence @6 :UInt64;
  }
  arguments @7 :List(Common.Value);
  actor :group {          # zero: a task
    maker @8 :UInt64;
    sequence @9 :UInt64;
  }
  incarnation @10 :UInt64;
  sequence @11 :UInt64;   # per caller and incarnation of the actor, from 1
}

struct DefineSpec {
  number @0 :UInt32;
  spec @1 :CallSpec;
}

struct PushCalls {
  lease :group {          # zero: actor calls
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  acknowledged @2 :UInt64;
  calls @3 :List(Call);
}

struct CallResult {
  task :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  attempt @2 :UInt32;
  error @3 :Common.ErrorInfo; # null: it succeeded
  returns @4 :List(Common.Value);
  runNs @5 :UInt64;
  cancelled @6 :Bool;
}

struct CallsDone {
  results @0 :List(CallResult);
}

struct GiveBack {
  tasks @0 :Common.PairIds;
}

struct StealBack {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
}

struct CancelCall {
  task :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  force @2 :Bool;
  recursive @3 :Bool = true;
}
