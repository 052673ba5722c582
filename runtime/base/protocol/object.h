// Objects: between a process and the owner, a process and its node's store, and nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/call.h"
#include "runtime/base/protocol/peer.h"

namespace mobula {

// ---- borrower and owner (direct links)
// -------------------------------------------------------------------------------

// borrower -> owner: tell me each when it is ready. Idempotent; a repeat is answered again.
struct ResolveObjects {
  std::vector<ObjectId> objects;
  bool value = true;  // false: only that it is ready (wait)
  friend bool operator==(const ResolveObjects&, const ResolveObjects&) = default;
};
struct ObjectResolved {
  ObjectId object;
  std::variant<InlineValue, StoredValue, ErrorInfo> outcome;  // without `value`: an empty InlineValue when it is inline
  friend bool operator==(const ObjectResolved&, const ObjectResolved&) = default;
};
// owner -> borrower: as they become ready.
struct ObjectsResolved {
  std::vector<ObjectResolved> objects;
  friend bool operator==(const ObjectsResolved&, const ObjectsResolved&) = default;
};

// borrower -> owner: this process (the sender) now holds them. `round` grows each time the same process borrows anew,
// so that a late release of an earlier round takes nothing away. Answered by ObjectsBorrowed.
struct BorrowObjects {
  std::uint64_t round = 0;
  std::vector<ObjectId> objects;
  friend bool operator==(const BorrowObjects&, const BorrowObjects&) = default;
};
struct ObjectsBorrowed {
  std::uint64_t round = 0;
  std::vector<ObjectId> objects;
  std::vector<ObjectId> gone;  // freed already: the borrower's reads end in ObjectLost
  friend bool operator==(const ObjectsBorrowed&, const ObjectsBorrowed&) = default;
};
// borrower -> owner: no longer. Applies to rounds up to `round`. Idempotent.
struct ReleaseObjects {
  std::uint64_t round = 0;
  std::vector<ObjectId> objects;
  friend bool operator==(const ReleaseObjects&, const ReleaseObjects&) = default;
};
// receiver of a result that holds references -> the worker that sent it: I have borrowed them, drop yours.
struct HandoffDone {
  std::vector<TaskId> tasks;
  friend bool operator==(const HandoffDone&, const HandoffDone&) = default;
};
// borrower -> owner: its node has a copy now, or the copy at a node is gone.
struct ObjectLocation {
  ObjectId object;
  NodeId node;
  bool present = true;
  friend bool operator==(const ObjectLocation&, const ObjectLocation&) = default;
};

// ---- process and its node's store (Unix link)
// ----------------------------------------------------------------------------

// process -> node.
struct RequestSlab {
  std::uint64_t request = 0;  // numbered by the process
  std::uint64_t bytes = 0;
  friend bool operator==(const RequestSlab&, const RequestSlab&) = default;
};
// node -> process. A writable descriptor of the segment comes with the frame when this process has none yet.
struct SlabGranted {
  std::uint64_t request = 0;
  std::uint64_t slab = 0;
  std::uint32_t segment = 0;
  std::uint64_t segment_size = 0;
  std::uint64_t offset = 0;  // of the slab in the segment
  std::uint64_t size = 0;
  std::optional<ErrorInfo> error;  // StoreFull
  friend bool operator==(const SlabGranted&, const SlabGranted&) = default;
};
// process -> node: the bytes at `offset` of the slab are object `object` from now on. One way; idempotent.
struct SealObject {
  ObjectId object;
  ProcessId owner;  // whose death frees it
  JobId job;
  std::uint64_t slab = 0;
  std::uint64_t offset = 0;  // in the slab
  std::uint64_t size = 0;
  friend bool operator==(const SealObject&, const SealObject&) = default;
};
// process -> node: no more objects will be put into it; the unused rest returns.
struct ReturnSlab {
  std::uint64_t slab = 0;
  friend bool operator==(const ReturnSlab&, const ReturnSlab&) = default;
};
// process -> node: make it readable here, from one of `nodes` if need be, and pin it for me. Answered by ObjectPinned,
// once.
struct PinObject {
  ObjectId object;
  std::uint64_t size = 0;
  std::vector<NodeId> nodes;
  bool map = true;  // false: only bring it here, no pin (wait with fetch; prefetch of arguments)
  friend bool operator==(const PinObject&, const PinObject&) = default;
};
// node -> process. A read-only descriptor of the segment comes with the frame when this process has none yet.
struct ObjectPinned {
  ObjectId object;
  std::uint32_t segment = 0;
  std::uint64_t segment_size = 0;
  std::uint64_t offset = 0;  // in the segment
  std::uint64_t size = 0;
  bool copied = false;  // a new copy was made on this node: tell the owner
  bool mapped = true;
  std::optional<ErrorInfo> error;  // ObjectLost: no copy where they were said to be; StoreFull; ...
  friend bool operator==(const ObjectPinned&, const ObjectPinned&) = default;
};
// process -> node: each entry takes back one pin.
struct UnpinObjects {
  std::vector<ObjectId> objects;
  friend bool operator==(const UnpinObjects&, const UnpinObjects&) = default;
};
// owner -> its node -> the nodes that have copies: nobody refers to them any more. Idempotent.
struct FreeObjects {
  std::vector<ObjectId> objects;
  friend bool operator==(const FreeObjects&, const FreeObjects&) = default;
};

// ---- between nodes (transfer connections)
// ----------------------------------------------------------------------------------

// Answered by ChunkReply, then by `length` raw bytes when it is there.
struct ChunkRequest {
  std::uint64_t request = 0;
  ObjectId object;      // zero: `content` instead
  std::string content;  // hash of a shipped file
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // at most 4 MiB
  friend bool operator==(const ChunkRequest&, const ChunkRequest&) = default;
};
struct ChunkReply {
  std::uint64_t request = 0;
  bool found = false;
  std::uint64_t total = 0;  // size of the whole object
  ProcessId owner;
  JobId job;
  std::uint64_t length = 0;  // of the raw frames that follow
  friend bool operator==(const ChunkReply&, const ChunkReply&) = default;
};

}  // namespace mobula
