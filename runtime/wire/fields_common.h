// Fields of what all groups share: peers, errors, resources and values (common.capnp).
#pragma once

#include <string>
#include <utility>
#include <variant>

#include <mobula/error.h>

#include "runtime/base/protocol/call.h"
#include "runtime/base/protocol/peer.h"
#include "runtime/base/resources.h"
#include "runtime/wire/common.capnp.h"
#include "runtime/wire/visitors.h"

namespace mobula::wire::detail {

MOBULA_WIRE_ENUM(PeerKind, (kNone, NONE), (kHead, HEAD), (kNode, NODE), (kProcess, PROCESS), (kClient, CLIENT))
MOBULA_WIRE_ENUM(ErrorKind, (kTaskFailed, TASK_FAILED), (kWorkerDied, WORKER_DIED), (kActorDied, ACTOR_DIED),
                 (kActorUnavailable, ACTOR_UNAVAILABLE), (kObjectLost, OBJECT_LOST), (kOwnerDied, OWNER_DIED),
                 (kCancelled, CANCELLED), (kTimeout, TIMEOUT), (kUnschedulable, UNSCHEDULABLE),
                 (kOutOfMemory, OUT_OF_MEMORY), (kStoreFull, STORE_FULL), (kOutOfDisk, OUT_OF_DISK),
                 (kOverloaded, OVERLOADED), (kGpuOutOfMemory, GPU_OUT_OF_MEMORY), (kGpuLost, GPU_LOST),
                 (kGpuBusy, GPU_BUSY), (kCollectiveAborted, COLLECTIVE_ABORTED),
                 (kSignatureMismatch, SIGNATURE_MISMATCH), (kUnknownFunction, UNKNOWN_FUNCTION),
                 (kUnauthenticated, UNAUTHENTICATED), (kUnreachable, UNREACHABLE), (kInvalid, INVALID),
                 (kRuntimeStopped, RUNTIME_STOPPED))

MOBULA_WIRE(Peer, (kind, Kind), (id, Id), (node, Node))
MOBULA_WIRE(Endpoint, (host, Host), (port, Port))
MOBULA_WIRE(ProcessAddress, (process, Process), (node, Node), (job, Job))
MOBULA_WIRE(ObjectLocator, (id, Id), (owner_node, OwnerNode), (owner_job, OwnerJob))
MOBULA_WIRE(ErrorInfo, (kind, Kind), (message, Message), (type, Type), (task, Task), (node, Node), (pid, Pid),
            (signal, Signal), (exit_code, ExitCode), (log_tail, LogTail))

// Pairs, by the types of their halves.
using TextPair = std::pair<std::string, std::string>;
using NamedQuantity = std::pair<std::string, Quantity>;
using NodeBytes = std::pair<NodeId, std::uint64_t>;
using NodeText = std::pair<NodeId, std::string>;
MOBULA_WIRE(TextPair, (first, First), (second, Second))
MOBULA_WIRE(NamedQuantity, (first, First), (second, Second))
MOBULA_WIRE(NodeBytes, (first, First), (second, Second))
MOBULA_WIRE(NodeText, (first, First), (second, Second))

MOBULA_WIRE(ResourceRequest, (cpus, Cpus), (gpus, Gpus), (gpu_memory, GpuMemory), (memory, Memory),
            (store_memory, StoreMemory), (custom, Custom), (labels, Labels))
MOBULA_WIRE(GpuDevice, (uuid, Uuid), (share, Share), (memory_total, MemoryTotal), (memory, Memory))
MOBULA_WIRE(DeviceGrant, (uuid, Uuid), (share, Share), (memory, Memory))
MOBULA_WIRE(Allocation, (cpus, Cpus), (memory, Memory), (store_memory, StoreMemory), (custom, Custom),
            (devices, Devices))
MOBULA_WIRE(NodeResources, (cpus, Cpus), (memory, Memory), (store_memory, StoreMemory), (custom, Custom),
            (devices, Devices))

MOBULA_WIRE(StoredValue, (object, Object), (size, Size), (nodes, Nodes), (refs, Refs))

// The accessors of an inline value's references, which lie beside the union.
inline constexpr auto kInlineRefs = [](auto op, auto& at, auto... arguments) -> decltype(auto) {
  if constexpr (op == Op::kInit) {
    return at.initInlineRefs(arguments...);
  } else if constexpr (op == Op::kHas) {
    return at.hasInlineRefs(arguments...);
  } else {
    return at.getInlineRefs(arguments...);
  }
};

// A variant: written by hand, one function for each visitor.
template <>
struct Fields<CallValue> {
  using Schema = schema::Value;

  static void visit(Sizer& io, const CallValue& value) {
    if (const auto* inlined = std::get_if<InlineValue>(&value)) {
      io.add(inlined->bytes);
      io.add(inlined->refs);
    } else {
      io.add(std::get<StoredValue>(value));
    }
  }

  static void visit(Writer<Schema>& io, const CallValue& value) {
    if (const auto* inlined = std::get_if<InlineValue>(&value)) {
      const auto& [bytes, refs] = *inlined;
      if (!bytes.empty()) io.at.setInline(Writer<Schema>::data_of(bytes));
      io.field(refs, "refs", kInlineRefs);
    } else {
      write_stored(io.at.initStored(), std::get<StoredValue>(value));
    }
  }

  static void visit(Reader<Schema>& io, CallValue& value) {
    switch (io.at.which()) {
      case schema::Value::INLINE: {
        auto& [bytes, refs] = value.emplace<InlineValue>();
        const auto data = io.at.getInline();
        bytes = io.context.share(data.begin(), data.size());
        io.field(refs, "refs", kInlineRefs);
        return;
      }
      case schema::Value::STORED: {
        Reader<schema::StoredValue> inner{io.at.getStored(), io.context};
        return Fields<StoredValue>::visit(inner, value.emplace<StoredValue>());
      }
    }
    io.context.fail_enum("value", "kind of value", static_cast<unsigned>(io.at.which()));
  }

 private:
  static void write_stored(schema::StoredValue::Builder at, const StoredValue& value) {
    Writer<schema::StoredValue> inner{at};
    Fields<StoredValue>::visit(inner, value);
  }
};

}  // namespace mobula::wire::detail
