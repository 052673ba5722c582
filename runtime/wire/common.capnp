# What all groups of messages share: identities, peers, errors, resources and values.
#
# Numbers only grow: a field or arm is never renumbered, retyped or given out again; a retired one is renamed to
# deprecatedN and stays. Defaults are those of the C++ structs, so that a field an older sender does not know reads as
# if it had never been set. Identities made of two numbers are groups: they lie in the struct itself and cost no
# pointer. The structs of runtime/base/protocol say what each field means; here stands what only the wire knows.
@0xa7b1e5ee1bb3466b;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("mobula::wire::schema");

# ---- identities ----------------------------------------------------------------------------------------------------

# A list of pair ids (objects, tasks) by columns. `makers` has one entry per id, or a single one when all ids have the
# same maker, as those sent to an owner do: 8 bytes an id instead of 16.
struct PairIds {
  makers @0 :List(UInt64);
  sequences @1 :List(UInt64);
}

# A list of object locators by columns, each of one entry per locator or of a single one that holds for all:
# 8 bytes a locator instead of 32 when one process owns them.
struct Locators {
  makers @0 :List(UInt64);
  sequences @1 :List(UInt64);
  ownerNodes @2 :List(UInt64);
  ownerJobs @3 :List(UInt64);
}

struct ObjectLocator {
  id :group {
    maker @0 :UInt64;
    sequence @1 :UInt64;
  }
  ownerNode @2 :UInt64;
  ownerJob @3 :UInt64;
}

# ---- who ------------------------------------------------------------------------------------------------------------

enum PeerKind {
  none @0;
  head @1;
  node @2;
  process @3;
  client @4;
}

struct Peer {
  kind @0 :PeerKind;
  id @1 :UInt64;
  node @2 :UInt64;    # where a process lives
}

struct Endpoint {
  host @0 :Text;      # name, IPv4 or IPv6 address without brackets
  port @1 :UInt16;
}

struct ProcessAddress {
  process @0 :UInt64;
  node @1 :UInt64;
  job @2 :UInt64;
}

# ---- errors ---------------------------------------------------------------------------------------------------------

enum ErrorKind {
  unused @0;          # never sent
  taskFailed @1;
  workerDied @2;
  actorDied @3;
  actorUnavailable @4;
  objectLost @5;
  ownerDied @6;
  cancelled @7;
  timeout @8;
  unschedulable @9;
  outOfMemory @10;
  storeFull @11;
  outOfDisk @12;
  overloaded @13;
  gpuOutOfMemory @14;
  gpuLost @15;
  gpuBusy @16;
  collectiveAborted @17;
  signatureMismatch @18;
  unknownFunction @19;
  unauthenticated @20;
  unreachable @21;
  invalid @22;
  runtimeStopped @23;
}

struct ErrorInfo {
  kind @0 :ErrorKind = invalid;
  message @1 :Text;
  type @2 :Text;      # demangled type of the user's exception
  task @3 :Text;      # name of the task, method or actor
  node @4 :UInt64;
  pid @5 :UInt32;
  signal @6 :Int32;
  exitCode @7 :Int32;
  logTail @8 :Text;
}

# ---- resources ------------------------------------------------------------------------------------------------------
# Quantities (CPUs, GPU shares, custom units) count in 1/10000; memory counts in bytes.

struct TextPair {
  first @0 :Text;
  second @1 :Text;
}

struct NamedQuantity {
  first @0 :Text;
  second @1 :Int64;
}

struct NodeBytes {
  first @0 :UInt64;   # node
  second @1 :UInt64;  # bytes on it
}

struct NodeText {
  first @0 :UInt64;   # node
  second @1 :Text;
}

struct ResourceRequest {
  cpus @0 :Int64;
  gpus @1 :Int64;
  gpuMemory @2 :UInt64;   # on each device
  memory @3 :UInt64;
  storeMemory @4 :UInt64;
  custom @5 :List(NamedQuantity);
  labels @6 :List(TextPair);
}

struct GpuDevice {
  uuid @0 :Text;
  share @1 :Int64 = 10000;
  memoryTotal @2 :UInt64;
  memory @3 :UInt64;
}

struct DeviceGrant {
  uuid @0 :Text;
  share @1 :Int64;
  memory @2 :UInt64;
}

struct Allocation {
  cpus @0 :Int64;
  memory @1 :UInt64;
  storeMemory @2 :UInt64;
  custom @3 :List(NamedQuantity);
  devices @4 :List(DeviceGrant);
}

struct NodeResources {
  cpus @0 :Int64;         # below zero when overdrawn by workers that woke up
  memory @1 :UInt64;
  storeMemory @2 :UInt64;
  custom @3 :List(NamedQuantity);
  devices @4 :List(GpuDevice);
}

# ---- values ---------------------------------------------------------------------------------------------------------

struct StoredValue {
  object @0 :ObjectLocator;
  size @1 :UInt64;
  nodes @2 :List(UInt64); # that have a copy
  refs @3 :Locators;      # references inside the value
}

# An argument or a result. The refs of an inline value stand outside the union so that the common value, a few bytes
# without references, costs one pointer.
struct Value {
  union {
    inline @0 :Data;
    stored @1 :StoredValue;
  }
  inlineRefs @2 :Locators; # references inside `inline`
}
