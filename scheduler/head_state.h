// What the head keeps of nodes, actors, jobs, submissions and questions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/message.h"
#include "runtime/base/protocol/records.h"
#include "runtime/base/time.h"
#include "scheduler/policy.h"

namespace mobula::scheduler {

struct NodeEntry {
  NodeDescription description;
  bool returned = true;  // false: known from the store, not heard of since this head started
  bool link_up = false;
  Instant dead_at = Instant::never();
  Heartbeat last;
  std::set<ActorId> actors;  // placed or alive there
};

// CHECKs that the step exists. Alive, Restarting and Pending are the protocol's phases; where it is placed is extra.
const char* name_of(ActorPhase phase);
void advance(ActorPhase& phase, ActorPhase next);

struct ActorEntry {
  ActorSpec spec;
  ActorInfo info;
  RequestId request;
  std::int32_t restarts = 0;
  NodeId node;                        // StartActor was sent there, or it lives there; zero: waits to be placed
  bool restored = false;              // from the store: a node may come back and say that it has it
  bool doubtful = false;              // no node could take it when it came; decided once membership has settled
  Instant act_at = Instant::never();  // StartActor again
  std::vector<Peer> watchers;
};

// StopActor that has not been answered by ActorEnded.
struct Stopping {
  NodeId node;
  bool graceful = false;
  std::uint32_t tries = 0;
  Instant act_at{};
};

struct JobEntry {
  JobDescription job;
  bool ended = false;
  std::int64_t end_time_ms = 0;
};

struct SubmissionEntry {
  SubmitJob job;
  SubmissionInfo info;
  bool stopping = false;  // info.node: StartDriver was sent there
  Instant act_at = Instant::never();
  std::vector<std::pair<Peer, RequestId>> waiters;
};

// A FindNode that could not be answered with a node.
struct WaitingFind {
  FindNode find;
  NodeId asker;
  Instant since{};
  Instant asked{};  // last; one that is not repeated has been served otherwise
};

struct HeadQuery {
  Peer asker;
  Query query;
  std::set<NodeId> waiting;
  QueryReply reply;
  Instant deadline{};
};

}  // namespace mobula::scheduler
