#include "runtime/core/local_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "runtime/process/fd.h"

namespace mobula::core {
namespace {

constexpr Duration kLazyPump = std::chrono::milliseconds(2);      // dropped references are said at the latest after it
constexpr Duration kBurst = std::chrono::microseconds(20);        // events closer together are a burst
constexpr Duration kBatchDelay = std::chrono::microseconds(200);  // nor is one of a burst stepped later
constexpr std::size_t kBatchMax = 32;                             // nor with more others
constexpr int kForcedExit = 137;                                  // of a worker whose task was cancelled by force
constexpr std::size_t kLazyMax = 512;                             // or when so many wait

std::mutex current_mutex;
std::shared_ptr<LocalRuntime> current_runtime;  // NOLINT: the one global, behind init() and the free functions
thread_local RunningCall* running_here = nullptr;

// MOBULA_TRACE=1 in the environment: every message of this process, a line each, on its error stream.
void trace(const char* way, const Peer& peer, const Message& message, ProcessId self) {
  static const bool on = std::getenv("MOBULA_TRACE") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (!on) [[likely]]
    return;
  std::fprintf(stderr, "mobula-trace %s %s %s %s\n", to_string(self).c_str(), way, to_string(peer).c_str(),
               name_of(message));
}

}  // namespace

std::shared_ptr<LocalRuntime> LocalRuntime::current() {
  const std::lock_guard lock(current_mutex);
  return current_runtime;
}

std::shared_ptr<LocalRuntime> LocalRuntime::require() {
  auto runtime = current();
  if (!runtime) {
    throw_error(
        make_error(ErrorKind::kRuntimeStopped,
                   "Mobula does not run in this process. Keep the Runtime that mobula::init returns in scope while "
                   "calls are made."));
  }
  return runtime;
}

RunningCall* LocalRuntime::running_call() {
  return running_here;
}

void set_running_call(RunningCall* call) {
  running_here = call;
}

LocalRuntime::LocalRuntime(RuntimeConfig config)
    : config_(std::move(config)), refs_(new RefTable([this](Event event) { post(std::move(event)); })),
      links_(loop_,
             PeerLinks::Handlers{[this](const Peer& from, std::vector<Envelope>& envelopes,
                                        std::vector<net::Fd>& descriptors) { received(from, envelopes, descriptors); },
                                 [this](const Peer& peer, const Hello& hello) {
                                   post(PeerJoined{peer, hello});
                                   pump(Flush::kSoon);
                                 },
                                 [this](const Peer& peer, const ErrorInfo& why) {
                                   post(PeerLost{peer, why});
                                   pump(Flush::kNow);
                                 },
                                 [this](const ErrorInfo& why) {
                                   {
                                     const std::lock_guard lock(work_mutex_);
                                     fatal_ = "the node daemon of this process is gone: " + why.message;
                                   }
                                   if (context().role == Role::kWorker) ::_exit(0);  // workers end with their daemon
                                   post(JobEnding{});
                                   pump(Flush::kNow);
                                   pages_.stop();
                                   loop_.notify();
                                 }}),
      pages_(loop_, [this](Message message) { send_to_node(std::move(message)); }) {}

LocalRuntime::~LocalRuntime() {
  stop();
}

Result<std::shared_ptr<LocalRuntime>> LocalRuntime::start(net::Fd socket, const Hello& hello, int executable,
                                                          RuntimeConfig config) {
  auto runtime = std::make_shared<LocalRuntime>(std::move(config));
  if (!runtime->config_.session.empty()) {
    const Status listening = runtime->links_.listen(runtime->config_.session, hello.from.process());
    if (!listening) return listening.error();
  }
  auto context = runtime->links_.join(std::move(socket), hello, executable, monotonic_now() + std::chrono::seconds(20));
  if (!context) return context.error();
  EngineConfig engine;
  engine.self = context->self;
  {
    const std::lock_guard lock(runtime->mutex_);
    runtime->engine_ = std::make_unique<Engine>(engine);
  }
  {
    const std::lock_guard lock(current_mutex);
    current_runtime = runtime;
  }
  runtime->links_.begin();
  runtime->io_thread_ = std::thread([loop = &runtime->loop_] { loop->run(); });
  return runtime;
}

void LocalRuntime::stop() {
  if (stopping_.exchange(true)) return;
  {
    const std::lock_guard lock(current_mutex);
    if (current_runtime.get() == this) current_runtime.reset();
  }
  if (engine_) {
    post(JobEnding{});
    pump(Flush::kNow);
  }
  refs_->close();
  pages_.stop();
  loop_.notify();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  // What is queued to the daemon leaves before the loop stops.
  loop_.post([this] { links_.close(); });
  const Instant deadline = monotonic_now() + std::chrono::seconds(1);
  loop_.run_until([this] { return links_.drained(); }, deadline);
  loop_.stop();
  if (io_thread_.joinable()) io_thread_.join();
}

// ---- stepping
// ------------------------------------------------------------------------------------------------------------

void LocalRuntime::post(Event event) {
  // References go away by the thousand and nobody waits to hear of it.
  const bool lazy = std::holds_alternative<RefDropped>(event) || std::holds_alternative<ViewReleased>(event);
  bool first = false;
  bool many = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    first = inbox_.empty();
    inbox_.push_back(std::move(event));
    many = inbox_.size() == kLazyMax;
  }
  if (!lazy || stopping_) return;
  if (many) {
    loop_.post([this] { pump(Flush::kSoon); });
  } else if (first) {
    loop_.call_after(kLazyPump, [this] { pump(Flush::kSoon); });
  }
}

// What comes in full flow is stepped many at a time, since a step costs more than an event in it. False when it is time
// to step now: after a pause, or with enough of them.
bool LocalRuntime::post_in_batch(Event event, Duration burst) {
  const Instant now = monotonic_now();
  bool arm = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_.push_back(std::move(event));
    const bool step = now - last_batched_ > burst || inbox_.size() >= kBatchMax;
    last_batched_ = now;
    if (step) return false;
    arm = !std::exchange(batch_waiting_, true);
  }
  if (!arm) return true;
  loop_.call_after(kBatchDelay, [this] {
    {
      const std::lock_guard lock(inbox_mutex_);
      batch_waiting_ = false;
    }
    pump(Flush::kNow);
  });
  return true;
}

void LocalRuntime::post_call(Event event) {
  if (!post_in_batch(std::move(event), kBurst)) pump(Flush::kSoon);
}

// While more work lies here the answer may wait for the next ones.
void LocalRuntime::post_finished(CallFinished finished) {
  if (work_size_.load() == 0) {
    post(std::move(finished));
  } else if (post_in_batch(std::move(finished), kBurst)) {
    return;
  }
  pump(Flush::kWhenIdle);
}

void LocalRuntime::pump(Flush flush) {
  {
    const std::lock_guard lock(mutex_);
    {
      const std::lock_guard inbox(inbox_mutex_);
      batch_.swap(inbox_);
    }
    while (!batch_.empty() && engine_) {
      engine_->step(monotonic_now(), batch_, actions_);
      batch_.clear();
      perform(actions_);
      actions_.clear();
      arm_timer();
      const std::lock_guard inbox(inbox_mutex_);  // what it said to itself
      batch_.swap(inbox_);
    }
    batch_.clear();
  }
  // Work that this step brought is begun first: its answer will go with this one.
  links_.flush(flush == Flush::kNow || (flush == Flush::kWhenIdle && work_size_.load() == 0));
}

void LocalRuntime::arm_timer() {
  const Instant deadline = engine_->next_deadline();
  if (deadline >= armed_ || stopping_) return;
  armed_ = deadline;
  loop_.call_at(deadline, [this] {
    {
      const std::lock_guard lock(mutex_);
      armed_ = Instant::never();
    }
    post(Tick{});
    pump(Flush::kNow);
  });
}

void LocalRuntime::perform(Actions& actions) {
  for (Send& send : actions.sends) {
    trace("->", send.to, send.message, context().self.process);
    if (send.to.kind == PeerKind::kProcess && send.to.process() == context().self.process) {
      post(Received{send.to, std::move(send.message)});  // an actor that calls itself
    } else {
      links_.queue(std::move(send));
    }
  }
  bool changed = false;
  for (Ready& ready : actions.ready) {
    publish(ready);
    changed = true;
  }
  if (!actions.execute.empty()) {
    const std::lock_guard lock(work_mutex_);
    for (Execute& execute : actions.execute) work_.push_back(std::move(execute));
    work_size_.store(work_.size());
    changed = true;
  }
  for (Order& one : actions.orders) {
    std::visit([this](auto& action) { order(action); }, one);
    changed = true;
  }
  if (changed) loop_.notify();
}

void LocalRuntime::publish(Ready& ready) {
  CellValue value;
  if (auto* inlined = std::get_if<InlineValue>(&ready.outcome)) {
    // A few bytes must not keep a whole receive buffer alive.
    value.bytes = Bytes::copy_of(inlined->bytes.data(), inlined->bytes.size());
    value.refs = std::move(inlined->refs);
    value.readable = true;
  } else if (auto* pinned = std::get_if<PinnedLocation>(&ready.outcome)) {
    value = pinned_value(std::move(*pinned));
  } else if (auto* error = std::get_if<ErrorInfo>(&ready.outcome)) {
    value.error = std::move(*error);
  } else {
    value.here = std::get<ReadyOnly>(ready.outcome).here;
  }
  refs_->publish(ready.object, std::move(value));
}

CellValue LocalRuntime::pinned_value(PinnedLocation pinned) {
  CellValue value;
  const ObjectId object = pinned.object;
  // The last copy of this owner says that the pages may go.
  const std::shared_ptr<const void> view(static_cast<const void*>(this),
                                         [this, object](const void*) { post(ViewReleased{object}); });
  auto data = pages_.readable(pinned.segment, pinned.offset, pinned.size);
  if (!data) {
    value.error = data.error();
    return value;
  }
  value.bytes = Bytes(view, *data, pinned.size);
  value.refs = std::move(pinned.refs);
  value.readable = true;
  return value;
}

void LocalRuntime::order(ActorAnswer& answer) {
  const std::lock_guard lock(answers_mutex_);
  if (unwanted_answers_.erase(answer.request) > 0) return;
  actor_answers_[answer.request] = std::move(answer.outcome);
}

void LocalRuntime::order(const CancelRunning& cancel) {
  const std::lock_guard lock(work_mutex_);
  const auto waiting = std::find_if(work_.begin(), work_.end(), [&](const Execute& execute) {
    return execute.task == cancel.task && !execute.constructor;
  });
  if (waiting != work_.end()) {  // before its turn
    CallFinished finished;
    finished.task = waiting->task;
    finished.attempt = waiting->attempt;
    finished.cancelled = true;
    finished.error = make_error(ErrorKind::kCancelled, "it was cancelled");
    finished.error->task = waiting->spec->name;
    post(std::move(finished));
    work_.erase(waiting);
    work_size_.store(work_.size());
    return;
  }
  const auto found = running_.find(cancel.task);
  if (found != running_.end()) found->second->cancelled.store(true);
  if (!cancel.force) return;
  const TaskId task = cancel.task;
  loop_.call_after(std::chrono::milliseconds(50), [this, task] {
    const std::lock_guard again(work_mutex_);
    if (running_.contains(task)) ::_exit(kForcedExit);
  });
}

void LocalRuntime::order(const DropInstance& drop) {
  std::shared_ptr<void> instance;  // destroyed outside the lock
  const std::lock_guard lock(work_mutex_);
  const auto found = instances_.find(drop.actor);
  if (found == instances_.end()) return;
  instance = std::move(found->second);
  instances_.erase(found);
}

void LocalRuntime::order(const ExitProcess& exit) {
  const std::lock_guard lock(work_mutex_);
  exit_ = exit.why;
  leaving_.store(true);
}

void LocalRuntime::order(const QueueChanged& changed) {
  queued_bytes_.store(changed.bytes);
}

std::optional<std::string> LocalRuntime::fatal() const {
  const std::lock_guard lock(work_mutex_);
  return fatal_;
}

// ---- what arrives
// ----------------------------------------------------------------------------------------------------------

void LocalRuntime::received(const Peer& from, std::vector<Envelope>& envelopes, std::vector<net::Fd>& descriptors) {
  for (Envelope& envelope : envelopes) {
    const Peer sender = envelope.from.kind == PeerKind::kNone ? from : envelope.from;
    trace("<-", sender, envelope.message, context().self.process);
    if (!handle_own(sender, envelope.message, descriptors)) post(Received{sender, std::move(envelope.message)});
  }
  pump(Flush::kSoon);
}

// Messages of the runtime itself; true when the engine has no interest in it.
bool LocalRuntime::handle_own(const Peer& from, Message& message, std::vector<net::Fd>& descriptors) {
  const auto descriptor = [&] {
    if (descriptors.empty()) return net::Fd{};
    net::Fd first = std::move(descriptors.front());
    descriptors.erase(descriptors.begin());
    return first;
  };
  if (auto* pinned = std::get_if<ObjectPinned>(&message)) {
    pages_.learn_segment(pinned->segment, pinned->segment_size, descriptor());
    return false;
  }
  if (auto* granted = std::get_if<SlabGranted>(&message)) {
    pages_.on_granted(*granted, descriptor());
    return true;
  }
  if (auto* resolved = std::get_if<NodeResolved>(&message)) {
    links_.on_node_resolved(*resolved);
    return false;
  }
  if (auto* accepted = std::get_if<LinkAccepted>(&message)) {
    links_.adopt(descriptor(), accepted->from);
    return true;
  }
  if (auto* key = std::get_if<LinkKeyGranted>(&message)) {
    links_.on_link_key(*key);
    return true;
  }
  if (auto* lines = std::get_if<LogLines>(&message)) {
    if (print_lines_) print_lines_(*lines);
    return true;
  }
  if (auto* query = std::get_if<Query>(&message)) {
    answer_query(from, *query);
    return true;
  }
  if (auto* reply = std::get_if<QueryReply>(&message)) {
    const std::lock_guard lock(answers_mutex_);
    query_answers_[reply->request] = std::move(*reply);
    loop_.notify();
    return true;
  }
  if (auto* chunk = std::get_if<LogChunk>(&message)) {
    const std::lock_guard lock(answers_mutex_);
    log_answers_[chunk->request] = std::move(*chunk);
    loop_.notify();
    return true;
  }
  return false;
}

void LocalRuntime::send_to_node(Message message) {
  links_.queue(Send{Peer::of(context().self.node), std::move(message), 0});
  links_.flush(true);
}

void LocalRuntime::answer_query(const Peer& from, const Query& query) {
  QueryReply reply;
  reply.request = query.request;
  reply.columns = {"task", "name", "state", "process"};
  {
    const std::lock_guard lock(work_mutex_);
    for (const auto& [task, call] : running_) {
      if (reply.rows.size() >= query.limit) break;
      reply.rows.push_back({to_string(task), call->execute->spec->name, "RUNNING", to_string(context().self.process)});
    }
  }
  links_.queue(Send{from, std::move(reply), 0});
}

QueryReply LocalRuntime::ask(Query query, Duration timeout) {
  query.request = RequestId{context().self.process.value, next_request_.fetch_add(1)};
  const RequestId request = query.request;
  links_.queue(Send{Peer::head(), std::move(query), 0});
  links_.flush(true);
  QueryReply reply;
  const bool answered = loop_.run_until(
      [&] {
        const std::lock_guard lock(answers_mutex_);
        const auto found = query_answers_.find(request);
        if (found == query_answers_.end()) return false;
        reply = std::move(found->second);
        query_answers_.erase(found);
        return true;
      },
      monotonic_now() + timeout);
  if (!answered)
    reply.error = make_error(ErrorKind::kTimeout, "the head did not answer in time; is it running? (`mobula status`)");
  return reply;
}

std::string LocalRuntime::own_log_tail() {
  const RequestId request{context().self.process.value, next_request_.fetch_add(1)};
  send_to_node(ReadLog{request, to_string(context().self.process), 0, false});
  std::string tail;
  loop_.run_until(
      [&] {
        const std::lock_guard lock(answers_mutex_);
        const auto found = log_answers_.find(request);
        if (found == log_answers_.end()) return false;
        tail = std::string(found->second.bytes.text());
        log_answers_.erase(found);
        return true;
      },
      monotonic_now() + std::chrono::milliseconds(500));
  return tail;
}

}  // namespace mobula::core
