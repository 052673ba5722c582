// Fields of what says how a call runs (call.capnp): used by calls, leases and actors.
#pragma once

#include "runtime/base/protocol/call.h"
#include "runtime/wire/call.capnp.h"
#include "runtime/wire/fields_common.h"

namespace mobula::wire::detail {

MOBULA_WIRE(FunctionKey, (module, Module), (offset, Offset), (symbol, Symbol), (fingerprint, Fingerprint))
MOBULA_WIRE(RuntimeKey, (executable, Executable), (origin, Origin), (environment, Environment),
            (working_dir, WorkingDir))
MOBULA_WIRE(CallSpec, (job, Job), (function, Function), (name, Name), (resources, Resources), (runtime, Runtime),
            (max_retries, MaxRetries), (retry_exceptions, RetryExceptions))

}  // namespace mobula::wire::detail
