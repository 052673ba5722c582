// How much the engine itself costs: two engines wired back to back in one thread, no codec, no sockets, no user code.
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "runtime/core/engine/engine.h"

namespace mobula::core {
namespace {

using Clock = std::chrono::steady_clock;

class Pair {
 public:
  Pair() : driver_(config(1)), worker_(config(2)) {
    CallSpec spec;
    spec.name = "nothing";
    spec_ = SpecRef{1, std::make_shared<const CallSpec>(spec)};
    to_worker_.push_back(Received{kNodePeer, AssignWorker{kLease, JobId{1}, address(1), {}}});
    run();
  }

  // Seconds for `count` calls in batches of `batch`.
  double tasks(std::uint64_t count, std::uint64_t batch) {
    return calls(count, batch, [this](TaskId task, ObjectId result) {
      SubmitTask submit;
      submit.task = task;
      submit.spec = spec_;
      submit.arguments.emplace_back(InlineValue{bytes_, {}});
      submit.first_return = result;
      return Event(std::move(submit));
    });
  }
  double actor_calls(std::uint64_t count, std::uint64_t batch) {
    start_actor();
    return calls(count, batch, [this](TaskId task, ObjectId result) {
      SubmitActorCall submit;
      submit.task = task;
      submit.actor = kActor;
      submit.spec = spec_;
      submit.arguments.emplace_back(InlineValue{bytes_, {}});
      submit.first_return = result;
      return Event(std::move(submit));
    });
  }

 private:
  static constexpr LeaseId kLease{1, 1};
  static constexpr ActorId kActor{1, 1};
  inline static const Peer kNodePeer = Peer::of(NodeId{9});

  static ProcessAddress address(std::uint64_t id) { return {ProcessId{id}, NodeId{9}, JobId{1}}; }
  static EngineConfig config(std::uint64_t id) {
    EngineConfig config;
    config.self = address(id);
    config.lease_requests_max = 1;
    return config;
  }

  void start_actor() {
    HostActor host;
    host.spec.actor = kActor;
    host.spec.owner = address(1);
    host.incarnation = 1;
    to_worker_.push_back(Received{kNodePeer, std::move(host)});
    run();
    ActorUpdate update;
    update.info.actor = kActor;
    update.info.phase = ActorPhase::kAlive;
    update.info.incarnation = 1;
    update.info.address.host = address(2);
    actor_ = update;
  }

  template <class Make>
  double calls(std::uint64_t count, std::uint64_t batch, Make make) {
    const auto start = Clock::now();
    for (std::uint64_t done = 0; done < count;) {
      std::vector<ObjectId> results;
      for (std::uint64_t i = 0; i < batch && done < count; ++i, ++done) {
        results.push_back(ObjectId{1, ++next_object_});
        to_driver_.push_back(make(TaskId{1, ++next_task_}, results.back()));
      }
      run();
      for (const ObjectId object : results) to_driver_.push_back(RefDropped{object});
    }
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (ready_ < count) std::printf("only %llu calls were answered\n", static_cast<unsigned long long>(ready_));
    ready_ = 0;
    return seconds;
  }

  void run() {
    while (!to_driver_.empty() || !to_worker_.empty()) {
      now_ = now_ + std::chrono::microseconds(10);
      step(driver_, to_driver_, 1, to_worker_, 2);
      step(worker_, to_worker_, 2, to_driver_, 1);
    }
  }

  void step(Engine& engine, std::vector<Event>& events, std::uint64_t self, std::vector<Event>& others,
            std::uint64_t other) {
    if (events.empty()) return;
    buffer_.swap(events);
    engine.step(now_, buffer_, actions_);
    buffer_.clear();
    for (Send& send : actions_.sends) {
      if (send.to == address(other).peer()) {
        others.push_back(Received{address(self).peer(), std::move(send.message)});
      } else if (const auto* request = std::get_if<RequestLease>(&send.message)) {
        if (std::exchange(granted_, true)) continue;  // there is but one worker
        events.push_back(Received{kNodePeer, LeaseGranted{request->lease, address(2), {}}});
        others.push_back(Received{kNodePeer, AssignWorker{request->lease, JobId{1}, address(1), {}}});
      } else if (std::holds_alternative<WatchActor>(send.message)) {
        events.push_back(Received{Peer::head(), actor_});
      }
    }
    ready_ += actions_.ready.size();
    for (Execute& execute : actions_.execute) {
      CallFinished finished;
      finished.task = execute.task;
      finished.attempt = execute.attempt;
      if (execute.constructor) finished.actor = execute.actor;
      if (!execute.constructor) finished.results.emplace_back(InlineValue{bytes_, {}});
      finished.run_ns = 500;
      events.push_back(std::move(finished));
    }
    actions_.clear();
  }

  Engine driver_;
  Engine worker_;
  Instant now_{1'000'000'000};
  SpecRef spec_;
  Bytes bytes_ = Bytes::copy_of("12345678");
  ActorUpdate actor_;
  std::vector<Event> to_driver_;
  std::vector<Event> to_worker_;
  std::vector<Event> buffer_;
  Actions actions_;
  bool granted_ = false;
  std::uint64_t next_object_ = 0;
  std::uint64_t next_task_ = 0;
  std::uint64_t ready_ = 0;
};

}  // namespace
}  // namespace mobula::core

int main() {
  using mobula::core::Pair;
  for (const std::uint64_t batch : {std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{10'000}}) {
    Pair pair;
    const std::uint64_t count = batch == 1 ? 200'000 : 1'000'000;
    const double tasks = pair.tasks(count, batch);
    Pair another;
    const double calls = another.actor_calls(count, batch);
    std::printf("batches of %6llu: %9.0f tasks/s, %9.0f actor calls/s\n", static_cast<unsigned long long>(batch),
                static_cast<double>(count) / tasks, static_cast<double>(count) / calls);
  }
  return 0;
}
