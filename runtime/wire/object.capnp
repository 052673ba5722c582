# Objects (runtime/base/protocol/object.h). Rules of change: see common.capnp.
@0x87e237c9c782d093;

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("mobula::wire::schema");

# ---- borrower and owner ---------------------------------------------------------------------------------------------

struct ResolveObjects {
  objects @0 :Common.PairIds;
  value @1 :Bool = true;              # false: only that it is ready
}

struct ObjectResolved {
  object :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  outcome :union {
    inline @2 :Data;
    stored @3 :Common.StoredValue;
    error @4 :Common.ErrorInfo;
  }
  inlineRefs @5 :Common.Locators;     # references inside `inline`
}

struct ObjectsResolved {
  objects @0 :List(ObjectResolved);
}

struct BorrowObjects {
  round @0 :UInt64;
  objects @1 :Common.PairIds;
}

struct ObjectsBorrowed {
  round @0 :UInt64;
  objects @1 :Common.PairIds;
  gone @2 :Common.PairIds;            # freed already
}

struct ReleaseObjects {
  round @0 :UInt64;
  objects @1 :Common.PairIds;
}

struct HandoffDone {
  tasks @0 :Common.PairIds;
}

struct ObjectLocation {
  object :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  node @2 :UInt64;
  present @3 :Bool = true;
}

# ---- process and its node's store -----------------------------------------------------------------------------------

struct RequestSlab {
  request @0 :UInt64;
  bytes @1 :UInt64;
}

struct SlabGranted {
  request @0 :UInt64;
  slab @1 :UInt64;
  segment @2 :UInt32;
  segmentSize @3 :UInt64;
  offset @4 :UInt64;                  # of the slab in the segment
  size @5 :UInt64;
  error @6 :Common.ErrorInfo;         # null: granted
}

struct SealObject {
  object :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  owner @2 :UInt64;                   # process whose death frees it
  job @3 :UInt64;
  slab @4 :UInt64;
  offset @5 :UInt64;                  # in the slab
  size @6 :UInt64;
}

struct ReturnSlab {
  slab @0 :UInt64;
}

struct PinObject {
  object :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  size @2 :UInt64;
  nodes @3 :List(UInt64);
  map @4 :Bool = true;                # false: only bring it here
}

struct ObjectPinned {
  object :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  segment @2 :UInt32;
  segmentSize @3 :UInt64;
  offset @4 :UInt64;                  # in the segment
  size @5 :UInt64;
  copied @6 :Bool;
  mapped @7 :Bool = true;
  error @8 :Common.ErrorInfo;         # null: pinned
}

struct UnpinObjects {
  objects @0 :Common.PairIds;
}

struct FreeObjects {
  objects @0 :Common.PairIds;
}

# ---- between nodes --------------------------------------------------------------------------------------------------

struct ChunkRequest {
  request @0 :UInt64;
  object :group {                     # zero: `content` instead
    maker @1 :UInt64;
    sequence @2 :UInt64;
  }
  content @3 :Text;
  offset @4 :UInt64;
  length @5 :UInt64;
}

struct ChunkReply {
  request @0 :UInt64;
  found @1 :Bool;
  total @2 :UInt64;
  owner @3 :UInt64;
  job @4 :UInt64;
  length @5 :UInt64;
}
