// What a Spawner keeps of each program, zygote and worker. Private to spawner*.cc.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/process/spawner.h"

namespace mobula::process {

// An executable with its load-time environment: what a zygote is made of.
struct Spawner::Program {
  RuntimeKey key;
  Executable executable;
  std::uint64_t zygote = 0;                           // the token of the one that serves, 0: none
  bool alone = false;                                 // it cannot be forked: one process per worker
  std::deque<std::unique_ptr<SpawnRequest>> waiting;  // at most kWaitingMax
};

// A process started in worker mode that has not become a worker.
struct Spawner::Zygote {
  // kSpent: it was sent the one request that makes it a worker. kEnding: its socket is closed, its process may still
  // run.
  enum class State { kStarting, kServing, kSpent, kEnding };
  std::uint64_t token = 0;
  Program* program = nullptr;
  State state = State::kStarting;
  PidWatch watch;
  Fd socket;
  std::string log_path;
  std::unique_ptr<SpawnRequest> only_for;  // started for this one request (programs that run alone)
  std::deque<ProcessId> in_flight;         // sent and not answered, in order; at most kInFlightMax
  std::size_t children = 0;
  bool served = false;  // it has said hello
  bool forked = false;  // it has made a worker
  bool ended_by_us = false;
  Instant started;
  Instant idle_since;
};

struct Spawner::Worker {
  ProcessId id;
  PidWatch watch;
  std::uint64_t zygote = 0;  // its parent's token; 0: it is our own child
};

// A zygote's socket has its token with this bit set; its process the token itself; the timer is 0.
inline constexpr std::uint64_t kSocketBit = std::uint64_t{1} << 63U;

}  // namespace mobula::process
