// Encoding of leases.
#include "runtime/wire/fields_call.h"
#include "runtime/wire/messages.h"

namespace mobula::wire::detail {

MOBULA_WIRE_MESSAGE(RequestLease, (lease, Lease), (caller, Caller), (request, Request), (runtime, Runtime),
                    (name, Name), (locality, Locality), (hops, Hops))
MOBULA_WIRE_MESSAGE(LeaseGranted, (lease, Lease), (worker, Worker), (allocation, Allocation))
MOBULA_WIRE_MESSAGE(LeaseFailed, (lease, Lease), (error, Error))
MOBULA_WIRE_MESSAGE(LeaseMoved, (lease, Lease), (node, Node))
MOBULA_WIRE_MESSAGE(ReturnLease, (lease, Lease), (worker_failed, WorkerFailed))
MOBULA_WIRE_MESSAGE(ReclaimLease, (lease, Lease))
MOBULA_WIRE_MESSAGE(LeaseLost, (lease, Lease), (error, Error))
MOBULA_WIRE_MESSAGE(AssignWorker, (lease, Lease), (job, Job), (caller, Caller), (allocation, Allocation))
MOBULA_WIRE_MESSAGE(WorkerBlocked, (lease, Lease))
MOBULA_WIRE_MESSAGE(WorkerUnblocked, (lease, Lease))
MOBULA_WIRE_MESSAGE(FindNode, (lease, Lease), (job, Job), (request, Request), (locality, Locality), (refused, Refused))
MOBULA_WIRE_MESSAGE(NodeFound, (lease, Lease), (node, Node), (never, Never), (reasons, Reasons))
MOBULA_WIRE_MESSAGE(LeaseRefused, (lease, Lease), (hops, Hops))
MOBULA_WIRE_MESSAGE(ProbeProcess, (process, Process))
MOBULA_WIRE_MESSAGE(ProcessStatus, (process, Process), (alive, Alive), (error, Error))
MOBULA_WIRE_MESSAGE(ProcessGone, (process, Process))

}  // namespace mobula::wire::detail
