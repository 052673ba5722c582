// Encoding of tasks and actor calls.
#include "runtime/wire/fields_call.h"
#include "runtime/wire/messages.h"

namespace mobula::wire::detail {

MOBULA_WIRE(Call, (task, Task), (spec, Spec), (attempt, Attempt), (returns, Returns), (first_return, FirstReturn),
            (arguments, Arguments), (actor, Actor), (incarnation, Incarnation), (sequence, Sequence))
MOBULA_WIRE(CallResult, (task, Task), (attempt, Attempt), (error, Error), (returns, Returns), (run_ns, RunNs),
            (cancelled, Cancelled))

MOBULA_WIRE_MESSAGE(DefineSpec, (number, Number), (spec, Spec))
MOBULA_WIRE_MESSAGE(PushCalls, (lease, Lease), (acknowledged, Acknowledged), (calls, Calls))
MOBULA_WIRE_MESSAGE(CallsDone, (results, Results))
MOBULA_WIRE_MESSAGE(GiveBack, (tasks, Tasks))
MOBULA_WIRE_MESSAGE(StealBack, (lease, Lease))
MOBULA_WIRE_MESSAGE(CancelCall, (task, Task), (force, Force), (recursive, Recursive))

}  // namespace mobula::wire::detail
