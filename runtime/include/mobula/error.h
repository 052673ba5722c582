// What a caller can be told went wrong: one exception class for each kind that some caller would act on.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include <mobula/detail/export.h>
#include <mobula/ids.h>

namespace mobula {

// Numbers travel on the wire: they only grow, and a retired one is never given out again.
enum class ErrorKind : std::uint16_t {
  kTaskFailed = 1,        // user code threw
  kWorkerDied = 2,        // the process that ran it ended
  kActorDied = 3,         // the actor is gone for good
  kActorUnavailable = 4,  // the actor is being restarted or cannot be reached; the call was not retried
  kObjectLost = 5,        // the last copy is gone and cannot be made again
  kOwnerDied = 6,         // the process that owned the object is gone
  kCancelled = 7,
  kTimeout = 8,
  kUnschedulable = 9,  // can never fit; the message says why, per node
  kOutOfMemory = 10,
  kStoreFull = 11,
  kOutOfDisk = 12,
  kOverloaded = 13,  // a bounded queue is full; try again later
  kGpuOutOfMemory = 14,
  kGpuLost = 15,
  kGpuBusy = 16,
  kCollectiveAborted = 17,
  kSignatureMismatch = 18,
  kUnknownFunction = 19,
  kUnauthenticated = 20,
  kUnreachable = 21,     // the cluster, a node or the head cannot be reached
  kInvalid = 22,         // the request itself makes no sense; the message says what to change
  kRuntimeStopped = 23,  // the Runtime has left its scope
};

// An error as it travels and is stored. A value.
struct ErrorInfo {
  ErrorKind kind = ErrorKind::kInvalid;
  std::string message;  // one or more lines; says what to do where something can be done
  std::string type;     // kTaskFailed: the demangled type of the user's exception
  std::string task;     // name of the task, method or actor, if any
  NodeId node;          // where it happened, if known
  std::uint32_t pid = 0;
  std::int32_t signal = 0;     // kWorkerDied: the signal that ended it, or 0
  std::int32_t exit_code = 0;  // kWorkerDied: the exit status if it exited
  std::string log_tail;        // the last lines the process wrote

  friend bool operator==(const ErrorInfo&, const ErrorInfo&) = default;
};

// The name of a kind as users see it, such as "TaskFailed".
MOBULA_API const char* name_of(ErrorKind kind);

// Base of all that Mobula throws. what() is one readable text with all of info() in it.
class MOBULA_API Error : public std::runtime_error {
 public:
  explicit Error(ErrorInfo info);
  const ErrorInfo& info() const { return info_; }
  ErrorKind kind() const { return info_.kind; }

 private:
  ErrorInfo info_;
};

// A class per kind, so that `catch (const mobula::WorkerDied&)` works.
template <ErrorKind Kind>
class MOBULA_API ErrorOf : public Error {
 public:
  explicit ErrorOf(ErrorInfo info) : Error(std::move(info)) {}
};

using TaskFailed = ErrorOf<ErrorKind::kTaskFailed>;
using WorkerDied = ErrorOf<ErrorKind::kWorkerDied>;
using ActorDied = ErrorOf<ErrorKind::kActorDied>;
using ActorUnavailable = ErrorOf<ErrorKind::kActorUnavailable>;
using ObjectLost = ErrorOf<ErrorKind::kObjectLost>;
using OwnerDied = ErrorOf<ErrorKind::kOwnerDied>;
using Cancelled = ErrorOf<ErrorKind::kCancelled>;
using Timeout = ErrorOf<ErrorKind::kTimeout>;
using Unschedulable = ErrorOf<ErrorKind::kUnschedulable>;
using OutOfMemory = ErrorOf<ErrorKind::kOutOfMemory>;
using StoreFull = ErrorOf<ErrorKind::kStoreFull>;
using OutOfDisk = ErrorOf<ErrorKind::kOutOfDisk>;
using Overloaded = ErrorOf<ErrorKind::kOverloaded>;
using GpuOutOfMemory = ErrorOf<ErrorKind::kGpuOutOfMemory>;
using GpuLost = ErrorOf<ErrorKind::kGpuLost>;
using GpuBusy = ErrorOf<ErrorKind::kGpuBusy>;
using CollectiveAborted = ErrorOf<ErrorKind::kCollectiveAborted>;
using SignatureMismatch = ErrorOf<ErrorKind::kSignatureMismatch>;
using UnknownFunction = ErrorOf<ErrorKind::kUnknownFunction>;
using Unauthenticated = ErrorOf<ErrorKind::kUnauthenticated>;
using Unreachable = ErrorOf<ErrorKind::kUnreachable>;
using Invalid = ErrorOf<ErrorKind::kInvalid>;
using RuntimeStopped = ErrorOf<ErrorKind::kRuntimeStopped>;

// Throws the class that belongs to info.kind.
[[noreturn]] MOBULA_API void throw_error(ErrorInfo info);

}  // namespace mobula
