# The frame: one list of messages, each in its envelope. Rules of change: see common.capnp.
@0xc852f60c12b83635;

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Calls = import "call.capnp";
using Leases = import "lease.capnp";
using Actors = import "actor.capnp";
using Objects = import "object.capnp";
using Cluster = import "cluster.capnp";
$Cxx.namespace("mobula::wire::schema");

# A receiver refuses an arm it does not know; a sender uses a new one only towards a peer whose Hello named the feature.
struct Envelope {
  from @0 :Common.Peer;               # null: the other end of the link
  to @1 :Common.Peer;                 # null: the receiver itself
  cause @2 :UInt64;                   # the event that led to it
  epoch @3 :UInt64;                   # of the head; 0: does not matter
  union {
    # hello.h
    hello @4 :Cluster.Hello;
    helloReply @5 :Cluster.HelloReply;
    # call.h
    defineSpec @6 :Calls.DefineSpec;
    pushCalls @7 :Calls.PushCalls;
    callsDone @8 :Calls.CallsDone;
    giveBack @9 :Calls.GiveBack;
    stealBack @10 :Calls.StealBack;
    cancelCall @11 :Calls.CancelCall;
    # lease.h
    requestLease @12 :Leases.RequestLease;
    leaseGranted @13 :Leases.LeaseGranted;
    leaseFailed @14 :Leases.LeaseFailed;
    leaseMoved @15 :Leases.LeaseMoved;
    returnLease @16 :Leases.ReturnLease;
    reclaimLease @17 :Leases.ReclaimLease;
    leaseLost @18 :Leases.LeaseLost;
    assignWorker @19 :Leases.AssignWorker;
    workerBlocked @20 :Leases.WorkerBlocked;
    workerUnblocked @21 :Leases.WorkerUnblocked;
    findNode @22 :Leases.FindNode;
    nodeFound @23 :Leases.NodeFound;
    leaseRefused @24 :Leases.LeaseRefused;
    probeProcess @25 :Leases.ProbeProcess;
    processStatus @26 :Leases.ProcessStatus;
    processGone @27 :Leases.ProcessGone;
    # actor.h
    createActor @28 :Actors.CreateActor;
    actorCreated @29 :Actors.ActorCreated;
    startActor @30 :Actors.StartActor;
    hostActor @31 :Actors.HostActor;
    actorStarted @32 :Actors.ActorStarted;
    actorEnded @33 :Actors.ActorEnded;
    stopActor @34 :Actors.StopActor;
    exitActor @35 :Actors.ExitActor;
    killActor @36 :Actors.KillActor;
    watchActor @37 :Actors.WatchActor;
    unwatchActor @38 :Actors.UnwatchActor;
    actorUpdate @39 :Actors.ActorUpdate;
    findActor @40 :Actors.FindActor;
    actorFound @41 :Actors.ActorFound;
    # object.h
    resolveObjects @42 :Objects.ResolveObjects;
    objectsResolved @43 :Objects.ObjectsResolved;
    borrowObjects @44 :Objects.BorrowObjects;
    objectsBorrowed @45 :Objects.ObjectsBorrowed;
    releaseObjects @46 :Objects.ReleaseObjects;
    handoffDone @47 :Objects.HandoffDone;
    objectLocation @48 :Objects.ObjectLocation;
    requestSlab @49 :Objects.RequestSlab;
    slabGranted @50 :Objects.SlabGranted;
    sealObject @51 :Objects.SealObject;
    returnSlab @52 :Objects.ReturnSlab;
    pinObject @53 :Objects.PinObject;
    objectPinned @54 :Objects.ObjectPinned;
    unpinObjects @55 :Objects.UnpinObjects;
    freeObjects @56 :Objects.FreeObjects;
    chunkRequest @57 :Objects.ChunkRequest;
    chunkReply @58 :Objects.ChunkReply;
    # cluster.h
    registerNode @59 :Cluster.RegisterNode;
    nodeRegistered @60 :Cluster.NodeRegistered;
    heartbeat @61 :Cluster.Heartbeat;
    heartbeatAck @62 :Cluster.HeartbeatAck;
    nodesChanged @63 :Cluster.NodesChanged;
    nodeLeaves @64 :Cluster.NodeLeaves;
    resolveNode @65 :Cluster.ResolveNode;
    nodeResolved @66 :Cluster.NodeResolved;
    requestLinkKey @67 :Cluster.RequestLinkKey;
    linkKeyGranted @68 :Cluster.LinkKeyGranted;
    linkAccepted @69 :Cluster.LinkAccepted;
    registerJob @70 :Cluster.RegisterJob;
    jobFinished @71 :Cluster.JobFinished;
    endJob @72 :Cluster.EndJob;
    submitJob @73 :Cluster.SubmitJob;
    stopSubmission @74 :Cluster.StopSubmission;
    getSubmission @75 :Cluster.GetSubmission;
    submissionReply @76 :Cluster.SubmissionReply;
    startDriver @77 :Cluster.StartDriver;
    stopDriver @78 :Cluster.StopDriver;
    driverStatus @79 :Cluster.DriverStatus;
    putContent @80 :Cluster.PutContent;
    contentStored @81 :Cluster.ContentStored;
    getContent @82 :Cluster.GetContent;
    contentChunk @83 :Cluster.ContentChunk;
    logLines @84 :Cluster.LogLines;
    readLog @85 :Cluster.ReadLog;
    logChunk @86 :Cluster.LogChunk;
    query @87 :Cluster.Query;
    queryReply @88 :Cluster.QueryReply;
  }
}

# The root of a frame's payload.
struct Frame {
  messages @0 :List(Envelope);
}
