// Leases: a worker process for one resource shape, from a node to a caller.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/call.h"
#include "runtime/base/protocol/peer.h"
#include "runtime/base/resources.h"

namespace mobula {

// process -> its node -> (when it does not fit) another node that the head picked. The lease id is client-made: a
// repeat gets the first answer.
struct RequestLease {
  LeaseId lease;
  ProcessAddress caller;
  ResourceRequest request;
  RuntimeKey runtime;
  std::string name;                                        // of a task waiting for it, for people
  std::vector<std::pair<NodeId, std::uint64_t>> locality;  // bytes of arguments that are on a node
  std::uint32_t hops = 0;                                  // how often it was passed on
  friend bool operator==(const RequestLease&, const RequestLease&) = default;
};

// node -> caller.
struct LeaseGranted {
  LeaseId lease;
  ProcessAddress worker;
  Allocation allocation;
  friend bool operator==(const LeaseGranted&, const LeaseGranted&) = default;
};

// node -> caller: it will never be granted (Unschedulable, no such executable, job ended, ...).
struct LeaseFailed {
  LeaseId lease;
  ErrorInfo error;
  friend bool operator==(const LeaseFailed&, const LeaseFailed&) = default;
};

// node -> caller: passed on; the lease now belongs to `node`.
struct LeaseMoved {
  LeaseId lease;
  NodeId node;
  friend bool operator==(const LeaseMoved&, const LeaseMoved&) = default;
};

// caller -> node, relayed to `LeaseMoved.node`. Before or after the grant; idempotent, leaves a tombstone.
struct ReturnLease {
  LeaseId lease;
  bool worker_failed = false;  // the worker must not be used again
  friend bool operator==(const ReturnLease&, const ReturnLease&) = default;
};

// node -> caller: give it back once nothing runs on it (fair share). Repeated until it is. Also to the caller's node,
// after their link was broken: it answers ReturnLease when it knows nothing of the lease.
struct ReclaimLease {
  LeaseId lease;
  friend bool operator==(const ReclaimLease&, const ReclaimLease&) = default;
};

// node -> caller: the worker ended. `error` is what its unfinished tasks are told.
struct LeaseLost {
  LeaseId lease;
  ErrorInfo error;
  friend bool operator==(const LeaseLost&, const LeaseLost&) = default;
};

// node -> worker: who uses it now and with what. Sent before LeaseGranted goes to the caller.
struct AssignWorker {
  LeaseId lease;
  JobId job;
  ProcessAddress caller;
  Allocation allocation;
  friend bool operator==(const AssignWorker&, const AssignWorker&) = default;
};

// worker -> node: it waits in get or wait and lends its CPUs; it goes on. Counted, so nested threads may overlap.
struct WorkerBlocked {
  LeaseId lease;
  friend bool operator==(const WorkerBlocked&, const WorkerBlocked&) = default;
};
struct WorkerUnblocked {
  LeaseId lease;
  friend bool operator==(const WorkerUnblocked&, const WorkerUnblocked&) = default;
};

// node -> head: where else? Answered by NodeFound: there, or why not; and again by itself once a node has room. While
// it waits the head shows it to nodes that could serve it (head -> node), so that they call leases back by fair share.
struct FindNode {
  LeaseId lease;
  JobId job;
  ResourceRequest request;
  std::vector<std::pair<NodeId, std::uint64_t>> locality;
  std::vector<NodeId> refused;  // offers that were turned down
  friend bool operator==(const FindNode&, const FindNode&) = default;
};

struct NodeFound {
  LeaseId lease;
  NodeId node;         // zero: none can take it now
  bool never = false;  // none ever can: `reasons` say why
  std::vector<std::pair<NodeId, std::string>> reasons;
  friend bool operator==(const NodeFound&, const NodeFound&) = default;
};

// other node -> the node that passed a lease on: no room after all.
struct LeaseRefused {
  LeaseId lease;
  std::uint32_t hops = 0;  // of the request it answers
  friend bool operator==(const LeaseRefused&, const LeaseRefused&) = default;
};

// Asked of the node where a process lives (through one's own node), when its link broke: is it gone?
struct ProbeProcess {
  ProcessId process;
  friend bool operator==(const ProbeProcess&, const ProbeProcess&) = default;
};
struct ProcessStatus {
  ProcessId process;
  bool alive = false;
  ErrorInfo error;  // how it ended, when known
  friend bool operator==(const ProcessStatus&, const ProcessStatus&) = default;
};

// node -> nodes its processes held leases on: release all that this process holds or asked for.
struct ProcessGone {
  ProcessId process;
  friend bool operator==(const ProcessGone&, const ProcessGone&) = default;
};

}  // namespace mobula
