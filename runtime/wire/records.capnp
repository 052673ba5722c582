# What the head keeps on disk (runtime/base/protocol/records.h). Rules of change: see common.capnp. A store is read by
# later versions: ClusterRecord.schema says which rules it was written under.
@0xe808965a75127fa9;

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Actors = import "actor.capnp";
using Cluster = import "cluster.capnp";
$Cxx.namespace("mobula::wire::schema");

struct ClusterRecord {
  schema @0 :UInt32 = 1;
  cluster @1 :UInt64;
  epoch @2 :UInt64;
  listen @3 :Common.Endpoint;
  advertised @4 :Common.Endpoint;
}

struct NodeRecord {
  description @0 :Cluster.NodeDescription;
  dead @1 :Bool;
}

struct ActorRecord {
  spec @0 :Actors.ActorSpec;
  info @1 :Actors.ActorInfo;
  request :group {
    maker @2 :UInt64;
    sequence @3 :UInt64;
  }
  restarts @4 :Int32;
}

struct JobRecord {
  job @0 :Cluster.JobDescription;
  ended @1 :Bool;
  endTimeMs @2 :Int64;
}

struct SubmissionRecord {
  job @0 :Cluster.SubmitJob;
  info @1 :Cluster.SubmissionInfo;
}

struct Record {
  union {
    cluster @0 :ClusterRecord;
    node @1 :NodeRecord;
    actor @2 :ActorRecord;
    job @3 :JobRecord;
    submission @4 :SubmissionRecord;
  }
}
