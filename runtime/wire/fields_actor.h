// Fields of actors' specification and state (actor.capnp): used by actors, nodes and records.
#pragma once

#include "runtime/base/protocol/actor.h"
#include "runtime/wire/actor.capnp.h"
#include "runtime/wire/fields_call.h"

namespace mobula::wire::detail {

MOBULA_WIRE_ENUM(ActorPhase, (kPending, PENDING), (kAlive, ALIVE), (kRestarting, RESTARTING), (kDead, DEAD))

MOBULA_WIRE(ActorSpec, (actor, Actor), (owner, Owner), (constructor, Constructor), (placement, Placement),
            (arguments, Arguments), (name, Name), (name_space, NameSpace), (detached, Detached),
            (get_if_exists, GetIfExists), (max_restarts, MaxRestarts), (max_task_retries, MaxTaskRetries),
            (max_concurrency, MaxConcurrency), (class_fingerprint, ClassFingerprint))
MOBULA_WIRE(ActorAddress, (host, Host), (slot, Slot))
MOBULA_WIRE(ActorInfo, (actor, Actor), (job, Job), (phase, Phase), (incarnation, Incarnation), (address, Address),
            (max_task_retries, MaxTaskRetries), (name, Name), (display, Display), (class_fingerprint, ClassFingerprint),
            (error, Error))

}  // namespace mobula::wire::detail
