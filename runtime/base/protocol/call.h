// Tasks and actor calls, from the caller to the worker and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/bytes.h"
#include "runtime/base/protocol/peer.h"
#include "runtime/base/resources.h"

namespace mobula {

// Which function. Within one build: (module, offset). Across programs (module empty): symbol, with the fingerprint
// compared.
struct FunctionKey {
  std::string module;        // build id in hex
  std::uint64_t offset = 0;  // of the invoker in its module
  std::string symbol;
  std::uint64_t fingerprint = 0;  // structural, of arguments and results
  friend auto operator<=>(const FunctionKey&, const FunctionKey&) = default;
};

// Which kind of worker process: what its zygote is keyed by.
struct RuntimeKey {
  std::string executable;                                        // a program's identity (Hello::executable)
  NodeId origin;                                                 // a node that can supply its files
  std::vector<std::pair<std::string, std::string>> environment;  // sorted
  std::string working_dir;                                       // content hash of a shipped folder, or empty
  friend auto operator<=>(const RuntimeKey&, const RuntimeKey&) = default;
};

// What many calls have in common; sent once per link (DefineSpec) and named by number afterwards.
struct CallSpec {
  JobId job;
  FunctionKey function;
  std::string name;  // for people
  ResourceRequest resources;
  RuntimeKey runtime;
  std::int32_t max_retries = 0;
  bool retry_exceptions = false;
  friend auto operator<=>(const CallSpec&, const CallSpec&) = default;
};

// An encoded value of at most kInlineMax bytes and the references inside it.
struct InlineValue {
  Bytes bytes;
  std::vector<ObjectLocator> refs;
  friend bool operator==(const InlineValue&, const InlineValue&) = default;
};

inline constexpr std::size_t kInlineMax = 64 * 1024;

// A value in the shared memory of `nodes`.
struct StoredValue {
  ObjectLocator object;
  std::uint64_t size = 0;
  std::vector<NodeId> nodes;
  std::vector<ObjectLocator> refs;  // references inside it
  friend bool operator==(const StoredValue&, const StoredValue&) = default;
};

using CallValue = std::variant<InlineValue, StoredValue>;

struct Call {
  TaskId task;
  std::uint32_t spec = 0;     // number given by DefineSpec on this link
  std::uint32_t attempt = 0;  // 0 for the first
  std::uint32_t returns = 1;
  ObjectId first_return;  // the others follow in sequence; same maker
  std::vector<CallValue> arguments;
  // Actor calls only:
  ActorId actor;
  std::uint64_t incarnation = 0;  // of the actor, as the caller knows it
  std::uint64_t sequence = 0;     // 1, 2, 3, ... per caller and incarnation
  friend bool operator==(const Call&, const Call&) = default;
};

// caller -> worker. Must precede the first call that uses `number`.
struct DefineSpec {
  std::uint32_t number = 0;
  CallSpec spec;
  friend bool operator==(const DefineSpec&, const DefineSpec&) = default;
};

// caller -> leased worker, or actor's worker. A repeat of a task that is queued, runs or is done gets the first answer.
struct PushCalls {
  LeaseId lease;                   // tasks; zero for actor calls
  std::uint64_t acknowledged = 0;  // every task of this caller with a smaller sequence is settled: forget its answer
  std::vector<Call> calls;
  friend bool operator==(const PushCalls&, const PushCalls&) = default;
};

struct CallResult {
  TaskId task;
  std::uint32_t attempt = 0;
  std::optional<ErrorInfo> error;
  std::vector<CallValue> returns;  // when there is no error; in order
  std::uint64_t run_ns = 0;        // time in user code
  bool cancelled = false;
  friend bool operator==(const CallResult&, const CallResult&) = default;
};

// worker -> caller.
struct CallsDone {
  std::vector<CallResult> results;
  friend bool operator==(const CallsDone&, const CallsDone&) = default;
};

// worker -> caller: these were not started (it is about to block, or was asked to). No attempt is charged.
struct GiveBack {
  std::vector<TaskId> tasks;
  friend bool operator==(const GiveBack&, const GiveBack&) = default;
};

// caller -> worker: hand back what has not started.
struct StealBack {
  LeaseId lease;
  friend bool operator==(const StealBack&, const StealBack&) = default;
};

// caller -> worker. Before the task is seen it leaves a tombstone. Idempotent.
struct CancelCall {
  TaskId task;
  bool force = false;     // end the process if it does not stop
  bool recursive = true;  // its children too
  friend bool operator==(const CancelCall&, const CancelCall&) = default;
};

}  // namespace mobula
