// One simulated driver or worker: the real engine, and around it what runtime/core does with threads and sockets.
//
// User code is a coroutine that sleeps, reads, submits and puts; it counts its references as the runtime does, and
// every value names its object, so that a read which gets the wrong bytes is seen.
#pragma once

#include <coroutine>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/core/engine/engine.h"
#include "tests/sim/network.h"

namespace mobula::sim {

class World;

// User code. Lives in its process and ends with it at the latest.
struct Script {
  struct promise_type {
    std::uint64_t number = 0;
    Script get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

struct Read {
  std::optional<ErrorInfo> error;
  std::vector<ObjectLocator> refs;
};

class Process {
 public:
  Process(World& world, ProcessAddress address, RuntimeKey runtime, bool driver);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // ---- for the world ----
  void post(core::Event event);
  void message(const Peer& from, Envelope envelope);
  void lost(const Peer& other, const ErrorInfo& why);
  // A driver's end, as by the last line of main: what it holds is gone, its calls fail, its messages still go out.
  void leave();
  bool has_scripts() const { return !scripts_.empty(); }
  std::string waits() const;

  // ---- for user code ----
  struct Sleep {
    Process& process;
    Duration wait;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<Script::promise_type> script);
    void await_resume() const {}
  };
  // The reference must be held. `blocks`: from within a call.
  struct Get {
    Process& process;
    ObjectLocator object;
    bool blocks;
    Read read{};
    bool await_ready();
    void await_suspend(std::coroutine_handle<Script::promise_type> script);
    Read await_resume();
  };
  // Room in shared memory, filled with `object`.
  struct Seal {
    Process& process;
    ObjectId object;
    std::uint64_t size;
    bool done = false;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<Script::promise_type> script);
    bool await_resume() const { return done; }
  };
  Sleep sleep(Duration wait) { return {*this, wait}; }
  Get get(const ObjectLocator& object, bool blocks) { return {*this, object, blocks}; }
  Seal seal(ObjectId object, std::uint64_t size) { return {*this, object, size}; }

  void run(Script script);
  ObjectLocator make_object();
  void put_sealed(const ObjectLocator& object, std::uint64_t size);  // after seal()
  ObjectLocator submit(const std::string& what, std::vector<ArgumentIn> arguments, TaskId parent = {});
  std::pair<ActorId, ObjectLocator> create_actor(std::int32_t max_restarts, std::int32_t max_task_retries);
  ObjectLocator call(ActorId actor, const ObjectLocator& self, const std::string& what,
                     std::vector<ArgumentIn> arguments, TaskId parent = {});
  void acquire(const ObjectLocator& object);
  void release(ObjectId object);
  void finish(core::CallFinished finished);  // ends a call

  World& world;
  const ProcessAddress address;
  const bool driver;
  core::Engine engine;
  bool joined = false;  // its node knows it
  std::uint64_t submitted = 0;
  std::uint64_t answered = 0;
  std::map<std::pair<ProcessId, ActorId>, std::uint64_t> heard;  // newest number by caller: the state of actors here

 private:
  void step();
  void arm();
  void perform(core::Actions& actions);
  void on_ready(core::Ready& ready);
  void read_of(core::Ready& ready, Read& read);
  void order(const core::Order& order);
  void start_calls();
  void maybe_exit();
  void resume(std::uint64_t number);
  void send(Send send);
  void send_direct(Send send);
  void resolved(const NodeResolved& message);
  SpecRef spec(const std::string& what, std::int32_t retries, bool actor);
  void view(const PinnedLocation& pinned, const char* who);

  RuntimeKey runtime_;
  std::vector<core::Event> inbox_;
  Instant armed_ = Instant::never();
  std::uint64_t next_object_ = 0;
  std::uint64_t next_task_ = 0;
  std::uint64_t next_actor_ = 0;
  std::uint64_t next_request_ = 0;
  std::map<std::string, SpecRef> specs_;
  std::map<ObjectId, int> local_;
  std::map<ObjectId, Read> cells_;
  struct Waiter {
    std::uint64_t script = 0;
    Read* read = nullptr;  // in the script's frame
  };
  std::map<ObjectId, std::vector<Waiter>> waiting_;
  struct WaitingSeal {
    std::uint64_t script = 0;
    ObjectId object;
    std::uint64_t size = 0;
    bool* done = nullptr;
  };
  std::map<std::uint64_t, WaitingSeal> slabs_;
  std::map<std::uint64_t, std::coroutine_handle<Script::promise_type>> scripts_;
  std::uint64_t next_script_ = 0;
  std::deque<core::Execute> work_;
  std::uint32_t running_ = 0;
  std::uint32_t threads_ = 1;
  std::optional<std::string> exit_;
  std::set<NodeId> known_nodes_;
  std::map<NodeId, std::vector<Send>> unresolved_;
};

// What workers do when they are called: by the name of the function.
Script run_call(Process& self, core::Execute call);

}  // namespace mobula::sim
