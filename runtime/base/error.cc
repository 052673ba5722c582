#include <mobula/error.h>

namespace mobula {
namespace {

std::string describe(const ErrorInfo& info) {
  std::string text = name_of(info.kind);
  if (!info.task.empty()) text += " in " + info.task;
  text += ": ";
  if (!info.type.empty()) text += info.type + ": ";
  text += info.message;
  if (info.signal != 0) text += " (signal " + std::to_string(info.signal) + ")";
  if (info.node || info.pid != 0) {
    text += "\n  at";
    if (info.node) text += " node " + to_string(info.node);
    if (info.pid != 0) text += " pid " + std::to_string(info.pid);
  }
  if (!info.log_tail.empty()) text += "\n  last lines it wrote:\n" + info.log_tail;
  return text;
}

template <ErrorKind... Kinds>
void throw_matching(ErrorInfo& info) {
  ((info.kind == Kinds ? throw ErrorOf<Kinds>(std::move(info)) : void()), ...);
}

}  // namespace

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kTaskFailed: return "TaskFailed";
    case ErrorKind::kWorkerDied: return "WorkerDied";
    case ErrorKind::kActorDied: return "ActorDied";
    case ErrorKind::kActorUnavailable: return "ActorUnavailable";
    case ErrorKind::kObjectLost: return "ObjectLost";
    case ErrorKind::kOwnerDied: return "OwnerDied";
    case ErrorKind::kCancelled: return "Cancelled";
    case ErrorKind::kTimeout: return "Timeout";
    case ErrorKind::kUnschedulable: return "Unschedulable";
    case ErrorKind::kOutOfMemory: return "OutOfMemory";
    case ErrorKind::kStoreFull: return "StoreFull";
    case ErrorKind::kOutOfDisk: return "OutOfDisk";
    case ErrorKind::kOverloaded: return "Overloaded";
    case ErrorKind::kGpuOutOfMemory: return "GpuOutOfMemory";
    case ErrorKind::kGpuLost: return "GpuLost";
    case ErrorKind::kGpuBusy: return "GpuBusy";
    case ErrorKind::kCollectiveAborted: return "CollectiveAborted";
    case ErrorKind::kSignatureMismatch: return "SignatureMismatch";
    case ErrorKind::kUnknownFunction: return "UnknownFunction";
    case ErrorKind::kUnauthenticated: return "Unauthenticated";
    case ErrorKind::kUnreachable: return "Unreachable";
    case ErrorKind::kInvalid: return "Invalid";
    case ErrorKind::kRuntimeStopped: return "RuntimeStopped";
  }
  return "Error";
}

Error::Error(ErrorInfo info) : std::runtime_error(describe(info)), info_(std::move(info)) {}

void throw_error(ErrorInfo info) {
  throw_matching<ErrorKind::kTaskFailed, ErrorKind::kWorkerDied, ErrorKind::kActorDied, ErrorKind::kActorUnavailable,
                 ErrorKind::kObjectLost, ErrorKind::kOwnerDied, ErrorKind::kCancelled, ErrorKind::kTimeout,
                 ErrorKind::kUnschedulable, ErrorKind::kOutOfMemory, ErrorKind::kStoreFull, ErrorKind::kOutOfDisk,
                 ErrorKind::kOverloaded, ErrorKind::kGpuOutOfMemory, ErrorKind::kGpuLost, ErrorKind::kGpuBusy,
                 ErrorKind::kCollectiveAborted, ErrorKind::kSignatureMismatch, ErrorKind::kUnknownFunction,
                 ErrorKind::kUnauthenticated, ErrorKind::kUnreachable, ErrorKind::kInvalid, ErrorKind::kRuntimeStopped>(
      info);
  throw Error(std::move(info));
}

}  // namespace mobula
