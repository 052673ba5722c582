// Encoding of actors.
#include "runtime/wire/fields_actor.h"
#include "runtime/wire/messages.h"

namespace mobula::wire::detail {

MOBULA_WIRE_ENUM(ActorEnd, (kNoRoom, NO_ROOM), (kConstructorFailed, CONSTRUCTOR_FAILED), (kProcessDied, PROCESS_DIED),
                 (kExited, EXITED), (kKilled, KILLED))

MOBULA_WIRE_MESSAGE(CreateActor, (request, Request), (spec, Spec))
MOBULA_WIRE_MESSAGE(ActorCreated, (request, Request), (error, Error), (info, Info))
MOBULA_WIRE_MESSAGE(StartActor, (spec, Spec), (incarnation, Incarnation))
MOBULA_WIRE_MESSAGE(HostActor, (spec, Spec), (incarnation, Incarnation), (slot, Slot))
MOBULA_WIRE_MESSAGE(ActorStarted, (actor, Actor), (incarnation, Incarnation), (address, Address))
MOBULA_WIRE_MESSAGE(ActorEnded, (actor, Actor), (incarnation, Incarnation), (end, End), (error, Error))
MOBULA_WIRE_MESSAGE(StopActor, (actor, Actor), (incarnation, Incarnation), (graceful, Graceful))
MOBULA_WIRE_MESSAGE(ExitActor, (actor, Actor))
MOBULA_WIRE_MESSAGE(KillActor, (actor, Actor), (no_restart, NoRestart), (graceful, Graceful))
MOBULA_WIRE_MESSAGE(WatchActor, (actor, Actor))
MOBULA_WIRE_MESSAGE(UnwatchActor, (actor, Actor))
MOBULA_WIRE_MESSAGE(ActorUpdate, (info, Info))
MOBULA_WIRE_MESSAGE(FindActor, (request, Request), (name, Name), (name_space, NameSpace))
MOBULA_WIRE_MESSAGE(ActorFound, (request, Request), (error, Error), (info, Info))

}  // namespace mobula::wire::detail
