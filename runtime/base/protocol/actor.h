// Actors: created, placed, watched and ended by the head; called directly by their callers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/call.h"
#include "runtime/base/protocol/peer.h"
#include "runtime/base/resources.h"

namespace mobula {

// Everything needed to start the actor, at first and again. Kept by the head.
struct ActorSpec {
  ActorId actor;
  ProcessAddress owner;       // its creator: the actor ends with it unless detached
  CallSpec constructor;       // `resources`: what it holds for life
  ResourceRequest placement;  // what a node must have free when it is placed (at least `constructor.resources`)
  std::vector<CallValue> arguments;
  std::string name;  // "" : anonymous
  std::string name_space;
  bool detached = false;
  bool get_if_exists = false;
  std::int32_t max_restarts = 0;  // -1: no bound
  std::int32_t max_task_retries = 0;
  std::uint32_t max_concurrency = 1;
  std::uint64_t class_fingerprint = 0;
  friend bool operator==(const ActorSpec&, const ActorSpec&) = default;
};

// A place inside a process: room for several actors in one process.
struct ActorAddress {
  ProcessAddress host;
  std::uint32_t slot = 0;
  friend bool operator==(const ActorAddress&, const ActorAddress&) = default;
};

enum class ActorPhase : std::uint8_t { kPending = 0, kAlive = 1, kRestarting = 2, kDead = 3 };

struct ActorInfo {
  ActorId actor;
  JobId job;
  ActorPhase phase = ActorPhase::kPending;
  std::uint64_t incarnation = 0;  // 1 for the first start
  ActorAddress address;           // when alive
  std::int32_t max_task_retries = 0;
  std::string name;
  std::string display;  // the class, for people
  std::uint64_t class_fingerprint = 0;
  std::optional<ErrorInfo> error;  // why it is dead or restarting
  friend bool operator==(const ActorInfo&, const ActorInfo&) = default;
};

// process -> head. Answered by ActorCreated once it is persisted; a repeat gets the same answer.
struct CreateActor {
  RequestId request;
  ActorSpec spec;
  friend bool operator==(const CreateActor&, const CreateActor&) = default;
};
struct ActorCreated {
  RequestId request;
  std::optional<ErrorInfo> error;  // name taken, unschedulable, ...
  ActorInfo info;                  // get_if_exists: may be another actor than the one asked for
  friend bool operator==(const ActorCreated&, const ActorCreated&) = default;
};

// head -> node. Idempotent by (actor, incarnation).
struct StartActor {
  ActorSpec spec;
  std::uint64_t incarnation = 0;
  friend bool operator==(const StartActor&, const StartActor&) = default;
};
// node -> worker, after AssignWorker.
struct HostActor {
  ActorSpec spec;
  std::uint64_t incarnation = 0;
  std::uint32_t slot = 0;
  friend bool operator==(const HostActor&, const HostActor&) = default;
};
// worker -> node -> head.
struct ActorStarted {
  ActorId actor;
  std::uint64_t incarnation = 0;
  ActorAddress address;
  friend bool operator==(const ActorStarted&, const ActorStarted&) = default;
};
enum class ActorEnd : std::uint8_t {
  kNoRoom = 0,  // the node cannot take it: place it elsewhere, no restart is charged
  kConstructorFailed = 1,
  kProcessDied = 2,
  kExited = 3,  // on purpose
  kKilled = 4,
};
// node -> head: it did not start, or it ended. Repeated until the head's StopActor or a new StartActor for it arrives.
struct ActorEnded {
  ActorId actor;
  std::uint64_t incarnation = 0;
  ActorEnd end = ActorEnd::kProcessDied;
  ErrorInfo error;
  friend bool operator==(const ActorEnded&, const ActorEnded&) = default;
};
// head -> node: end it (or forget an ended one). Idempotent.
struct StopActor {
  ActorId actor;
  std::uint64_t incarnation = 0;
  bool graceful = false;  // let queued calls finish
  friend bool operator==(const StopActor&, const StopActor&) = default;
};
// node -> worker for a graceful stop.
struct ExitActor {
  ActorId actor;
  friend bool operator==(const ExitActor&, const ExitActor&) = default;
};

// process -> head. Idempotent.
struct KillActor {
  ActorId actor;
  bool no_restart = true;
  bool graceful = false;  // the last handle went away
  friend bool operator==(const KillActor&, const KillActor&) = default;
};

// process -> head: tell me now, and whenever it changes. A caller re-asks when it hears nothing for a while.
struct WatchActor {
  ActorId actor;
  friend bool operator==(const WatchActor&, const WatchActor&) = default;
};
struct UnwatchActor {
  ActorId actor;
  friend bool operator==(const UnwatchActor&, const UnwatchActor&) = default;
};
// head -> watching processes.
struct ActorUpdate {
  ActorInfo info;
  friend bool operator==(const ActorUpdate&, const ActorUpdate&) = default;
};

// process -> head.
struct FindActor {
  RequestId request;
  std::string name;
  std::string name_space;
  friend bool operator==(const FindActor&, const FindActor&) = default;
};
struct ActorFound {
  RequestId request;
  std::optional<ErrorInfo> error;
  ActorInfo info;
  friend bool operator==(const ActorFound&, const ActorFound&) = default;
};

}  // namespace mobula
