# Leases (runtime/base/protocol/lease.h). Rules of change: see common.capnp.
@0xe2ac22bd356c40cb;

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Calls = import "call.capnp";
$Cxx.namespace("mobula::wire::schema");

struct RequestLease {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  caller @2 :Common.ProcessAddress;
  request @3 :Common.ResourceRequest;
  runtime @4 :Calls.RuntimeKey;
  name @5 :Text;
  locality @6 :List(Common.NodeBytes); # bytes of arguments that are on a node
  hops @7 :UInt32;
}

struct LeaseGranted {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  worker @2 :Common.ProcessAddress;
  allocation @3 :Common.Allocation;
}

struct LeaseFailed {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo;
}

struct LeaseMoved {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  node @2 :UInt64;
}

struct ReturnLease {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  workerFailed @2 :Bool;
}

struct ReclaimLease {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
}

struct LeaseLost {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  error @2 :Common.ErrorInfo; # what the unfinished tasks are told
}

struct AssignWorker {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  job @2 :UInt64;
  caller @3 :Common.ProcessAddress;
  allocation @4 :Common.Allocation;
}

struct WorkerBlocked {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
}

struct WorkerUnblocked {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
}

struct FindNode {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  job @2 :UInt64;
  request @3 :Common.ResourceRequest;
  locality @4 :List(Common.NodeBytes);
  refused @5 :List(UInt64);           # nodes whose offers were turned down
}

struct NodeFound {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  node @2 :UInt64;                    # zero: none can take it now
  never @3 :Bool;
  reasons @4 :List(Common.NodeText);
}

struct LeaseRefused {
  lease :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  hops @2 :UInt32;                    # of the request it answers
}

struct ProbeProcess {
  process @0 :UInt64;
}

struct ProcessStatus {
  process @0 :UInt64;
  alive @1 :Bool;
  error @2 :Common.ErrorInfo;
}

struct ProcessGone {
  process @0 :UInt64;
}
