// The members of every struct of the protocol by name, for tests that fill, print or compare them. Kept apart from the
// codec's own list on purpose: a member forgotten there is filled here and missed after the round trip. A member
// missing here does not compile, for a structured binding takes all of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/protocol/message.h"
#include "runtime/base/protocol/records.h"

namespace mobula::test {

// visit_members(struct, visitor) calls visitor(name, member) for each member, in order.
#define MOBULA_MEMBERS(Type, ...)                      \
  template <class Visitor>                             \
  void visit_members(Type& whole, Visitor&& visitor) { \
    auto& [__VA_ARGS__] = whole;                       \
    visit_named(#__VA_ARGS__, visitor, __VA_ARGS__);   \
  }

// `names` is "a, b, c", as the preprocessor spells the members.
template <class Visitor, class... Members>
void visit_named(const char* names, Visitor& visitor, Members&... members) {
  std::string_view rest = names;
  const auto next = [&rest] {
    const std::size_t comma = rest.find(',');
    const std::string name(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(rest.find_first_not_of(", ", comma));
    return name;
  };
  (visitor(next(), members), ...);
}

MOBULA_MEMBERS(Endpoint, host, port)
MOBULA_MEMBERS(ProcessAddress, process, node, job)
MOBULA_MEMBERS(Peer, kind, id, node)
MOBULA_MEMBERS(ObjectLocator, id, owner_node, owner_job)
MOBULA_MEMBERS(ErrorInfo, kind, message, type, task, node, pid, signal, exit_code, log_tail)
MOBULA_MEMBERS(ResourceRequest, cpus, gpus, gpu_memory, memory, store_memory, custom, labels)
MOBULA_MEMBERS(GpuDevice, uuid, share, memory_total, memory)
MOBULA_MEMBERS(DeviceGrant, uuid, share, memory)
MOBULA_MEMBERS(Allocation, cpus, memory, store_memory, custom, devices)
MOBULA_MEMBERS(NodeResources, cpus, memory, store_memory, custom, devices)
MOBULA_MEMBERS(Hello, protocol, role, from, cluster, job, pid, build, features, executable, executable_path, name,
               log_to_driver, libraries)
MOBULA_MEMBERS(HelloReply, protocol, error, from, cluster, epoch, build, features, node, endpoint, session, link_key,
               store_capacity, node_cpus)
MOBULA_MEMBERS(FunctionKey, module, offset, symbol, fingerprint)
MOBULA_MEMBERS(RuntimeKey, executable, origin, environment, working_dir)
MOBULA_MEMBERS(CallSpec, job, function, name, resources, runtime, max_retries, retry_exceptions)
MOBULA_MEMBERS(InlineValue, bytes, refs)
MOBULA_MEMBERS(StoredValue, object, size, nodes, refs)
MOBULA_MEMBERS(Call, task, spec, attempt, returns, first_return, arguments, actor, incarnation, sequence)
MOBULA_MEMBERS(DefineSpec, number, spec)
MOBULA_MEMBERS(PushCalls, lease, acknowledged, calls)
MOBULA_MEMBERS(CallResult, task, attempt, error, returns, run_ns, cancelled)
MOBULA_MEMBERS(CallsDone, results)
MOBULA_MEMBERS(GiveBack, tasks)
MOBULA_MEMBERS(StealBack, lease)
MOBULA_MEMBERS(CancelCall, task, force, recursive)
MOBULA_MEMBERS(RequestLease, lease, caller, request, runtime, name, locality, hops)
MOBULA_MEMBERS(LeaseGranted, lease, worker, allocation)
MOBULA_MEMBERS(LeaseFailed, lease, error)
MOBULA_MEMBERS(LeaseMoved, lease, node)
MOBULA_MEMBERS(ReturnLease, lease, worker_failed)
MOBULA_MEMBERS(ReclaimLease, lease)
MOBULA_MEMBERS(LeaseLost, lease, error)
MOBULA_MEMBERS(AssignWorker, lease, job, caller, allocation)
MOBULA_MEMBERS(WorkerBlocked, lease)
MOBULA_MEMBERS(WorkerUnblocked, lease)
MOBULA_MEMBERS(FindNode, lease, job, request, locality, refused)
MOBULA_MEMBERS(NodeFound, lease, node, never, reasons)
MOBULA_MEMBERS(LeaseRefused, lease, hops)
MOBULA_MEMBERS(ProbeProcess, process)
MOBULA_MEMBERS(ProcessStatus, process, alive, error)
MOBULA_MEMBERS(ProcessGone, process)
MOBULA_MEMBERS(ActorSpec, actor, owner, constructor, placement, arguments, name, name_space, detached, get_if_exists,
               max_restarts, max_task_retries, max_concurrency, class_fingerprint)
MOBULA_MEMBERS(ActorAddress, host, slot)
MOBULA_MEMBERS(ActorInfo, actor, job, phase, incarnation, address, max_task_retries, name, display, class_fingerprint,
               error)
MOBULA_MEMBERS(CreateActor, request, spec)
MOBULA_MEMBERS(ActorCreated, request, error, info)
MOBULA_MEMBERS(StartActor, spec, incarnation)
MOBULA_MEMBERS(HostActor, spec, incarnation, slot)
MOBULA_MEMBERS(ActorStarted, actor, incarnation, address)
MOBULA_MEMBERS(ActorEnded, actor, incarnation, end, error)
MOBULA_MEMBERS(StopActor, actor, incarnation, graceful)
MOBULA_MEMBERS(ExitActor, actor)
MOBULA_MEMBERS(KillActor, actor, no_restart, graceful)
MOBULA_MEMBERS(WatchActor, actor)
MOBULA_MEMBERS(UnwatchActor, actor)
MOBULA_MEMBERS(ActorUpdate, info)
MOBULA_MEMBERS(FindActor, request, name, name_space)
MOBULA_MEMBERS(ActorFound, request, error, info)
MOBULA_MEMBERS(ResolveObjects, objects, value)
MOBULA_MEMBERS(ObjectResolved, object, outcome)
MOBULA_MEMBERS(ObjectsResolved, objects)
MOBULA_MEMBERS(BorrowObjects, round, objects)
MOBULA_MEMBERS(ObjectsBorrowed, round, objects, gone)
MOBULA_MEMBERS(ReleaseObjects, round, objects)
MOBULA_MEMBERS(HandoffDone, tasks)
MOBULA_MEMBERS(ObjectLocation, object, node, present)
MOBULA_MEMBERS(RequestSlab, request, bytes)
MOBULA_MEMBERS(SlabGranted, request, slab, segment, segment_size, offset, size, error)
MOBULA_MEMBERS(SealObject, object, owner, job, slab, offset, size)
MOBULA_MEMBERS(ReturnSlab, slab)
MOBULA_MEMBERS(PinObject, object, size, nodes, map)
MOBULA_MEMBERS(ObjectPinned, object, segment, segment_size, offset, size, copied, mapped, error)
MOBULA_MEMBERS(UnpinObjects, objects)
MOBULA_MEMBERS(FreeObjects, objects)
MOBULA_MEMBERS(ChunkRequest, request, object, content, offset, length)
MOBULA_MEMBERS(ChunkReply, request, found, total, owner, job, length)
MOBULA_MEMBERS(NodeDescription, node, endpoint, host_name, pid, build, total, labels, is_head_node)
MOBULA_MEMBERS(RegisterNode, description, free, actors, jobs)
MOBULA_MEMBERS(NodeRegistered, epoch, error, nodes)
MOBULA_MEMBERS(QueuedShape, request, count)
MOBULA_MEMBERS(Heartbeat, sequence, free, queued, workers, store_used, loop_lag_ns, load_permille)
MOBULA_MEMBERS(HeartbeatAck, sequence, epoch)
MOBULA_MEMBERS(NodesChanged, added, removed)
template <class Visitor>
void visit_members(NodeLeaves&, Visitor&&) {}
MOBULA_MEMBERS(ResolveNode, node)
MOBULA_MEMBERS(NodeResolved, node, alive, endpoint)
MOBULA_MEMBERS(RequestLinkKey, process)
MOBULA_MEMBERS(LinkKeyGranted, process, key)
MOBULA_MEMBERS(LinkAccepted, from)
MOBULA_MEMBERS(JobDescription, job, name, driver, pid, entrypoint, submission, start_time_ms)
MOBULA_MEMBERS(RegisterJob, job)
MOBULA_MEMBERS(JobFinished, job)
MOBULA_MEMBERS(EndJob, job)
MOBULA_MEMBERS(SubmissionInfo, submission, phase, argv, node, job, exit_code, message, start_time_ms, end_time_ms)
MOBULA_MEMBERS(SubmitJob, request, submission, argv, environment, working_dir, resources)
MOBULA_MEMBERS(StopSubmission, request, submission)
MOBULA_MEMBERS(GetSubmission, request, submission, wait)
MOBULA_MEMBERS(SubmissionReply, request, error, info)
MOBULA_MEMBERS(StartDriver, job)
MOBULA_MEMBERS(StopDriver, submission)
MOBULA_MEMBERS(DriverStatus, submission, phase, exit_code, message)
MOBULA_MEMBERS(PutContent, request, hash, total, offset, bytes)
MOBULA_MEMBERS(ContentStored, request, error, have)
MOBULA_MEMBERS(GetContent, request, hash, offset)
MOBULA_MEMBERS(ContentChunk, request, error, total, offset, bytes)
MOBULA_MEMBERS(LogLines, job, worker, pid, node, name, error_stream, lines, dropped)
MOBULA_MEMBERS(ReadLog, request, entity, offset, follow)
MOBULA_MEMBERS(LogChunk, request, error, offset, bytes, end)
MOBULA_MEMBERS(Query, request, kind, target, limit)
MOBULA_MEMBERS(QueryReply, request, error, columns, rows, notes)
MOBULA_MEMBERS(Envelope, from, to, cause, epoch, message)
MOBULA_MEMBERS(ClusterRecord, schema, cluster, epoch, listen, advertised)
MOBULA_MEMBERS(NodeRecord, description, dead)
MOBULA_MEMBERS(ActorRecord, spec, info, request, restarts)
MOBULA_MEMBERS(JobRecord, job, ended, end_time_ms)
MOBULA_MEMBERS(SubmissionRecord, job, info)
MOBULA_MEMBERS(EraseRecord, kind, key)

#undef MOBULA_MEMBERS

}  // namespace mobula::test
