// The machine of one process, driver or worker: everything that decides there, in one value.
//
// It is made of three machines that know nothing of each other: the submitter (leases, pipelines, retries, ordered
// actor queues), the executor (order, deduplication, cancels) and the owner (references, borrowers, values). The engine
// routes between them, watches peers on behalf of all three, and has no rule of its own. One machine instead of three
// loops with locks, because most bugs of such runtimes live between them: a result that arrives while its last
// reference goes away is one step here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "objectstore/owner.h"
#include "runtime/base/id_map.h"
#include "runtime/core/engine/engine_io.h"
#include "runtime/core/engine/peer_watch.h"
#include "scheduler/executor.h"
#include "scheduler/submitter.h"

namespace mobula::core {

struct EngineStats {
  scheduler::SubmitterStats submitter;
  scheduler::ExecutorStats executor;
  objectstore::OwnerStats owner;
};

class Engine {
 public:
  explicit Engine(const EngineConfig& config);

  // The only mutator. Takes values out of `events`; appends to `actions`.
  void step(Instant now, std::span<Event> events, Actions& actions);
  // The driver sends Tick at or after it.
  Instant next_deadline() const;
  EngineStats stats() const;
  void check() const;
  // Why objects are held, for `mobula list objects`.
  std::string describe_objects(std::size_t lines_max) const { return owner_.describe(lines_max); }
  // True when nothing is left: no call, lease, reference or answer. For tests.
  bool idle() const;

 private:
  // Which of the three takes a message.
  enum class Room { kNone, kSubmitter, kExecutor, kOwner };
  template <class M>
  static constexpr Room room_of();

  template <class E>
  void on(E& event);
  void on_received(Received& event);
  void on_trouble(std::vector<PeerWatch::Verdict> verdicts);
  void node_gone(NodeId node);
  void cut_off(const ErrorInfo& why);

  template <class E>
  void to_submitter(E event);
  template <class E>
  void to_executor(E event);
  template <class E>
  void to_owner(E event);
  // Carries what the three say to each other until none has anything to say.
  void route();
  void route_owner();
  void route_submitter();
  void route_executor();
  template <class Output>
  void routed(Output& output);
  void pin(objectstore::PinKind kind, TaskId key, const std::vector<ArgumentIn>& arguments);
  // Lets the three send, and delivers what this process sends to itself.
  void flush();
  void maybe_exit();

  static constexpr Duration kExitWait = std::chrono::seconds(5);

  ProcessAddress self_;
  Instant now_;
  Actions* actions_ = nullptr;  // during a step
  PeerWatch watch_;
  scheduler::Submitter submitter_;
  scheduler::Executor executor_;
  objectstore::Owner owner_;
  IdMap<ObjectId, ActorId> handles_;
  bool cut_off_ = false;
  std::optional<ExitProcess> exit_;  // wanted, put off until what was sent is taken over
  Instant exit_by_ = Instant::never();
  // Buffers, empty between steps; a pair each, so that one is read while the other fills.
  scheduler::SubmitterActions from_submitter_, reading_submitter_;
  scheduler::ExecutorActions from_executor_, reading_executor_;
  objectstore::OwnerActions from_owner_, reading_owner_;
  std::vector<Send> sends_;
};

}  // namespace mobula::core
