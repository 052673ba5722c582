// LocalRuntime: the driver (in the sense of DESIGN: who performs) of one process's engine, in drivers and workers
// alike.
//
// The engine is stepped under one lock by whichever thread has events; what it wants sent is appended to per-peer
// queues before the lock is released, and bytes move afterwards. A thread that waits takes the loop's leadership and
// does the I/O itself, so a synchronous call crosses no thread. User code never runs under a lock of ours.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <mobula/detail/core.h>

#include "runtime/core/engine/engine.h"
#include "runtime/core/functions.h"
#include "runtime/core/peer_links.h"
#include "runtime/core/ref_cell.h"
#include "runtime/core/shared_pages.h"
#include "runtime/net/loop.h"

namespace mobula::core {

// A call that runs in this thread.
struct RunningCall {
  const Execute* execute = nullptr;
  std::atomic<bool> cancelled{false};
};

// Bound of the queued calls of a worker; a driver takes a share of the memory.
inline constexpr std::size_t kWorkerQueueBytes = std::size_t{256} << 20;

struct RuntimeConfig {
  std::string session;  // of the node, where it is known before joining: workers
  std::string name_space;
  std::size_t queue_bytes_max = 0;  // of arguments of queued calls: above it submitters block
  bool log_to_driver = true;
};

// When what was stepped leaves: at once, together with what follows closely, or at once unless more work is queued
// here.
enum class Flush : std::uint8_t { kNow, kSoon, kWhenIdle };

class LocalRuntime {
 public:
  // The one of this process, or null. Set by start, cleared by stop.
  static std::shared_ptr<LocalRuntime> current();
  // The same, or an Error kRuntimeStopped that says to call init.
  static std::shared_ptr<LocalRuntime> require();

  explicit LocalRuntime(RuntimeConfig config);
  ~LocalRuntime();
  LocalRuntime(const LocalRuntime&) = delete;
  LocalRuntime& operator=(const LocalRuntime&) = delete;

  // Joins the node behind `socket` and becomes current().
  static Result<std::shared_ptr<LocalRuntime>> start(net::Fd socket, const Hello& hello, int executable,
                                                     RuntimeConfig config);
  // Ends it: unfinished calls fail with RuntimeStopped. Idempotent.
  void stop();

  // Runs calls in this and, for actors with more than one, further threads until the node says to end. Workers only.
  int work();

  // ---- the API's side; see mobula/detail/core.h ----
  std::vector<detail::RefHandle> submit(const detail::FunctionRecord& function,
                                        std::vector<detail::CallArgument> arguments, std::uint32_t returns,
                                        const detail::CallOptions& options);
  std::vector<detail::RefHandle> submit_call(const detail::ActorState& actor, const detail::FunctionRecord& method,
                                             std::vector<detail::CallArgument> arguments, std::uint32_t returns,
                                             const detail::CallOptions& options);
  std::shared_ptr<const detail::ActorState> create_actor(const FunctionKey& constructor, const std::string& display,
                                                         std::uint64_t class_fingerprint,
                                                         std::vector<detail::CallArgument> arguments,
                                                         const detail::CallOptions& options);
  ActorInfo find_actor(const std::string& name, const std::string& name_space);
  void end_actor(ActorId actor, bool no_restart);
  void cancel(ObjectId object, bool force, bool recursive);

  detail::RefHandle put_inline(std::vector<std::byte> bytes, const std::vector<detail::RefHandle>& refs);
  detail::RefHandle put_stored(const SlabRoom& room, std::uint64_t size, const std::vector<detail::RefHandle>& refs);

  // Waits until all are readable (mode kValue) or `count` are ready; false at the deadline.
  bool await(std::span<const detail::RefHandle> refs, std::size_t count, WantMode mode, Instant deadline);
  // What a readable cell holds, as a payload.
  detail::InPayload payload_of(const CellValue& value);

  QueryReply ask(Query query, Duration timeout);
  std::string own_log_tail();

  // ---- for parts of the runtime ----
  net::Loop& loop() { return loop_; }
  SharedPages& pages() { return pages_; }
  RefTable& refs() { return *refs_; }
  const NodeContext& context() const { return links_.context(); }
  const RuntimeConfig& config() const { return config_; }
  void post(Event event);  // appended; takes effect at the next step
  void pump(Flush flush);  // steps with what was posted, then flushes
  ObjectId new_object();
  void set_runtime_key(RuntimeKey key);
  // Workers of later calls load them too: lines of process/libraries.h.
  void add_libraries(const std::vector<std::string>& lines);
  bool stopping() const { return stopping_.load(); }
  static RunningCall* running_call();  // of this thread
  std::optional<std::string> fatal() const;
  void set_log_printer(std::function<void(const LogLines&)> print) { print_lines_ = std::move(print); }

 private:
  void run_one(Execute execute);
  void perform(Actions& actions);
  void received(const Peer& from, std::vector<Envelope>& envelopes, std::vector<net::Fd>& descriptors);
  bool handle_own(const Peer& from, Message& message, std::vector<net::Fd>& descriptors);
  void publish(Ready& ready);
  void order(ActorAnswer& answer);
  void order(const CancelRunning& cancel);
  void order(const DropInstance& drop);
  void order(const ExitProcess& exit);
  void order(const QueueChanged& changed);
  void arm_timer();
  void send_to_node(Message message);
  void answer_query(const Peer& from, const Query& query);
  void post_call(Event event);
  void post_finished(CallFinished finished);
  bool post_in_batch(Event event, Duration burst);
  SpecRef intern(CallSpec spec);
  SpecRef spec_of(const detail::FunctionRecord& function, const detail::CallOptions& options, bool actor_call);
  CallSpec make_spec(const FunctionKey& function, const std::string& display, const detail::CallOptions& options,
                     bool actor_call) const;
  std::vector<ArgumentIn> take_arguments(std::vector<detail::CallArgument>& arguments,
                                         std::vector<detail::RefHandle>& keep);
  InlineValue inline_of(detail::OutPayload& payload);
  void wait_for_room(bool fail);
  std::vector<detail::RefHandle> make_returns(ObjectId& first, std::uint32_t returns);
  CellValue pinned_value(PinnedLocation pinned);
  bool begin_blocking();
  void end_blocking();
  void forget_answer(RequestId request);
  void finish_call(const Execute& execute, CallFinished finished, Instant started);
  void worker_thread();
  void start_threads(std::uint32_t count);
  ActorInfo await_answer(RequestId request);

  RuntimeConfig config_;
  RuntimeKey runtime_key_;  // of the workers that calls of this process need: its own executable
  net::Loop loop_;
  RefTable* refs_ = nullptr;  // leaked on purpose: handles may outlive the runtime
  PeerLinks links_;
  SharedPages pages_;
  std::thread io_thread_;
  std::atomic<bool> stopping_{false};

  std::mutex inbox_mutex_;
  std::vector<Event> inbox_;
  Instant last_batched_;        // of post_in_batch
  bool batch_waiting_ = false;  // a timer will step what is in inbox_

  std::mutex mutex_;  // the engine
  std::unique_ptr<Engine> engine_;
  std::vector<Event> batch_;
  Actions actions_;
  Instant armed_ = Instant::never();

  std::atomic<std::uint64_t> next_task_{1};
  std::atomic<std::uint64_t> next_object_{1};
  std::atomic<std::uint64_t> next_actor_{1};
  std::atomic<std::uint64_t> next_request_{1};

  mutable std::mutex specs_mutex_;  // also the runtime key
  std::map<CallSpec, SpecRef> specs_;
  // Those of calls with default options, of which most are.
  std::unordered_map<const detail::FunctionRecord*, SpecRef> plain_tasks_;
  std::unordered_map<const detail::FunctionRecord*, SpecRef> plain_methods_;

  std::mutex answers_mutex_;
  std::map<RequestId, std::variant<ActorInfo, ErrorInfo>> actor_answers_;
  std::set<RequestId> unwanted_answers_;
  std::map<RequestId, QueryReply> query_answers_;
  std::map<RequestId, LogChunk> log_answers_;

  std::atomic<std::uint64_t> queued_bytes_{0};

  // Work of this worker.
  mutable std::mutex work_mutex_;
  std::deque<Execute> work_;
  std::atomic<std::size_t> work_size_{0};
  std::map<TaskId, RunningCall*> running_;
  std::map<ActorId, std::shared_ptr<void>> instances_;
  std::vector<std::thread> threads_;  // besides the first
  std::uint32_t thread_count_ = 1;
  std::optional<std::string> exit_;   // why the node or the engine wants this worker to end
  std::atomic<bool> leaving_{false};  // exit_ is set
  std::optional<std::string> fatal_;  // the node is gone

  std::function<void(const LogLines&)> print_lines_;
};

// Of the calling thread; null outside calls.
void set_running_call(RunningCall* call);

}  // namespace mobula::core
