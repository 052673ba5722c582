#include "scheduler/node_state.h"

#include <initializer_list>

#include "runtime/base/check.h"

namespace mobula::scheduler {
namespace {

template <class Phase>
struct Step {
  Phase from;
  Phase to;
};

template <class Phase>
void advance_by(std::initializer_list<Step<Phase>> steps, Phase& phase, Phase next) {
  bool known = false;
  for (const auto& step : steps) known = known || (step.from == phase && step.to == next);
  MOBULA_CHECK(known, std::string(name_of(phase)) + " -> " + name_of(next));
  phase = next;
}

}  // namespace

const char* name_of(WorkerPhase phase) {
  switch (phase) {
    case WorkerPhase::kSpawning: return "spawning";
    case WorkerPhase::kIdle: return "idle";
    case WorkerPhase::kLeased: return "leased";
    case WorkerPhase::kBlocked: return "blocked";
    case WorkerPhase::kHosting: return "hosting";
    case WorkerPhase::kDying: return "dying";
  }
  return "?";
}

void advance(WorkerPhase& phase, WorkerPhase next) {
  using enum WorkerPhase;
  advance_by<WorkerPhase>({{kSpawning, kIdle},
                           {kSpawning, kDying},
                           {kIdle, kLeased},
                           {kIdle, kHosting},
                           {kIdle, kDying},
                           {kLeased, kIdle},
                           {kLeased, kBlocked},
                           {kLeased, kDying},
                           {kBlocked, kLeased},
                           {kBlocked, kHosting},
                           {kBlocked, kIdle},
                           {kBlocked, kDying},
                           {kHosting, kBlocked},
                           {kHosting, kDying}},
                          phase, next);
}

const char* name_of(LeasePhase phase) {
  switch (phase) {
    case LeasePhase::kQueued: return "queued";
    case LeasePhase::kMoved: return "moved";
    case LeasePhase::kStarting: return "starting";
    case LeasePhase::kGranted: return "granted";
  }
  return "?";
}

void advance(LeasePhase& phase, LeasePhase next) {
  using enum LeasePhase;
  advance_by<LeasePhase>({{kQueued, kMoved}, {kQueued, kStarting}, {kMoved, kQueued}, {kStarting, kGranted}}, phase,
                         next);
}

const char* name_of(HostPhase phase) {
  switch (phase) {
    case HostPhase::kWaiting: return "waiting for a worker";
    case HostPhase::kStarting: return "starting";
    case HostPhase::kAlive: return "alive";
    case HostPhase::kStopping: return "stopping";
    case HostPhase::kEnded: return "ended";
  }
  return "?";
}

void advance(HostPhase& phase, HostPhase next) {
  using enum HostPhase;
  advance_by<HostPhase>({{kWaiting, kStarting},
                         {kWaiting, kEnded},
                         {kStarting, kAlive},
                         {kStarting, kStopping},
                         {kStarting, kEnded},
                         {kAlive, kStopping},
                         {kAlive, kEnded},
                         {kStopping, kEnded}},
                        phase, next);
}

}  // namespace mobula::scheduler
