// See loop.h for the rules of the token.
//
// Everything about the token is under one mutex; handlers run outside it. Asio is told that one thread runs it at a
// time (concurrency hint 1), which the token guarantees.

#include "runtime/net/loop.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/net/asio.h"

namespace mobula::net {
namespace {

thread_local const Loop* t_leading = nullptr;  // the loop whose token this thread holds

std::chrono::steady_clock::time_point to_time_point(Instant at) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::nanoseconds(at.nanoseconds)));
}

// A thread asleep in run_until(). Woken one by one, so that dropping the token wakes one successor and not a herd.
struct Follower {
  std::condition_variable wake;
  bool woken = false;
};

enum class Holder { kNobody, kResident, kUser };
enum class ResidentState {
  kAbsent,    // no thread is inside run()
  kLeading,   // it holds the token
  kAsleep,    // waits for a notification: a user thread leads
  kWatching,  // looks every kTokenGrace whether the token is unused
};

}  // namespace

struct Loop::Impl {
  explicit Impl(Loop& loop)
      : self(loop), context(std::make_unique<asio::io_context>(1)), io(*context), work(io.get_executor()),
        alarm(std::make_unique<asio::steady_timer>(io)) {}

  Loop& self;
  std::unique_ptr<asio::io_context> context;
  asio::io_context& io;
  asio::executor_work_guard<asio::io_context::executor_type> work;

  std::mutex mutex;  // guards all up to the timers
  Holder holder = Holder::kNobody;
  std::uint64_t uses = 0;  // how often a user thread took the token
  ResidentState resident = ResidentState::kAbsent;
  bool resident_kicked = false;  // it should take a free token at once
  std::condition_variable resident_wake;
  std::vector<Follower*> followers;  // oldest first

  std::atomic<bool> stopping = false;
  std::atomic<int> follower_count = 0;   // followers.size(), for notify() without the lock
  std::atomic<bool> user_leads = false;  // holder == kUser, likewise
  std::atomic<int> posted = 0;           // post()s that have not run yet

  std::mutex timer_mutex;
  std::uint64_t last_timer = 0;
  std::map<std::pair<Instant, TimerId>, std::function<void()>> timers;
  std::map<TimerId, Instant> timer_at;
  Instant alarm_at = Instant::never();        // when `alarm` is set to ring
  std::unique_ptr<asio::steady_timer> alarm;  // touched by the token's holder only

  void drop_token(std::unique_lock<std::mutex>& lock);
  void wake_one_follower();
  void wake_all_followers();
  void interrupt_user_leader();
  void lead_as_resident(std::unique_lock<std::mutex>& lock);
  void wait_as_resident(std::unique_lock<std::mutex>& lock);
  bool lead_as_user(const std::function<bool()>& done, Instant deadline);
  void submit(std::function<void()> fn);
  void set_alarm();
  void ring();
};

Loop::Loop() : impl_(std::make_unique<Impl>(*this)) {}

Loop::~Loop() {
  // Handlers that are destroyed unrun may own links and watches that ask for the loop; it is still whole here.
  t_leading = this;
  impl_->stopping.store(true);
  auto timers = std::move(impl_->timers);
  impl_->timers.clear();
  impl_->timer_at.clear();
  timers.clear();
  impl_->work.reset();
  impl_->alarm.reset();
  impl_->context.reset();
  t_leading = nullptr;
}

// Wakes whoever should lead next. The resident thread is left alone while it watches: that is the cheap path.
void Loop::Impl::drop_token(std::unique_lock<std::mutex>& lock) {
  MOBULA_CHECK(lock.owns_lock());
  holder = Holder::kNobody;
  user_leads.store(false, std::memory_order_relaxed);
  if (!followers.empty()) {
    wake_one_follower();
  } else if (resident == ResidentState::kAsleep || (resident == ResidentState::kWatching && posted.load() > 0)) {
    resident_kicked = posted.load() > 0;
    resident = ResidentState::kWatching;
    resident_wake.notify_one();
  }
}

void Loop::Impl::wake_one_follower() {
  for (Follower* follower : followers) {
    if (follower->woken) return;  // one is on its way already
  }
  if (followers.empty()) return;
  followers.front()->woken = true;
  followers.front()->wake.notify_one();
}

void Loop::Impl::wake_all_followers() {
  for (Follower* follower : followers) {
    if (follower->woken) continue;
    follower->woken = true;
    follower->wake.notify_one();
  }
}

// Makes a user thread that may be inside the kernel look at its done() again.
void Loop::Impl::interrupt_user_leader() {
  asio::post(io, [] {});
}

void Loop::run() {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  MOBULA_CHECK(impl.resident == ResidentState::kAbsent, "one thread at a time runs a loop");
  impl.resident = ResidentState::kWatching;
  bool watched_before = true;  // take a free token at once the first time
  std::uint64_t uses_seen = impl.uses;
  while (!impl.stopping.load()) {
    const bool unused = impl.holder == Holder::kNobody && impl.followers.empty();
    if (unused && (impl.resident_kicked || (watched_before && impl.uses == uses_seen))) {
      impl.lead_as_resident(lock);
      watched_before = false;
    } else {
      watched_before = true;
      // The kick was for a token that others are about to take: kept, it would end every wait at once, without the lock
      // ever being free for them.
      impl.resident_kicked = false;
      // Held by one and the same user for a whole grace: sleep until it is dropped.
      if (impl.holder == Holder::kUser && impl.uses == uses_seen) {
        impl.resident = ResidentState::kAsleep;
        watched_before = false;
      }
    }
    uses_seen = impl.uses;
    if (!impl.stopping.load()) impl.wait_as_resident(lock);
  }
  impl.resident = ResidentState::kAbsent;
}

void Loop::Impl::lead_as_resident(std::unique_lock<std::mutex>& lock) {
  holder = Holder::kResident;
  resident = ResidentState::kLeading;
  resident_kicked = false;
  lock.unlock();
  t_leading = &self;
  io.run();  // until a user thread or stop() stops it
  t_leading = nullptr;
  lock.lock();
  if (!stopping.load()) io.restart();
  resident = ResidentState::kWatching;
  drop_token(lock);
}

void Loop::Impl::wait_as_resident(std::unique_lock<std::mutex>& lock) {
  if (resident == ResidentState::kAsleep) {
    while (resident == ResidentState::kAsleep && !stopping.load()) resident_wake.wait(lock);
    return;
  }
  resident = ResidentState::kWatching;
  resident_wake.wait_for(lock, kTokenGrace, [this] { return resident_kicked || stopping.load(); });
}

void Loop::stop() {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  impl.stopping.store(true);
  impl.io.stop();
  impl.resident_wake.notify_one();
  impl.wake_all_followers();
}

bool Loop::stopped() const {
  return impl_->stopping.load();
}

bool Loop::run_until(const std::function<bool()>& done, Instant deadline) {
  MOBULA_CHECK(t_leading == nullptr, "a handler must not wait");
  if (done()) return true;
  Impl& impl = *impl_;
  Follower follower;
  std::unique_lock lock(impl.mutex);
  bool result = false;
  for (;;) {
    if (impl.stopping.load()) break;
    if (impl.holder == Holder::kNobody) {
      impl.holder = Holder::kUser;
      impl.user_leads.store(true);
      ++impl.uses;
      lock.unlock();
      result = impl.lead_as_user(done, deadline);
      lock.lock();
      impl.drop_token(lock);
      break;
    }
    if (impl.holder == Holder::kResident) {
      impl.io.stop();  // it restarts Asio itself before it drops the token
    }
    impl.followers.push_back(&follower);
    impl.follower_count.store(static_cast<int>(impl.followers.size()));
    follower.woken = false;
    // Between the last look at done() and here a notify() may have passed unheard.
    lock.unlock();
    result = done();
    lock.lock();
    if (!result) {
      const auto stop_waiting = [&] { return follower.woken || impl.stopping.load(); };
      if (deadline == Instant::never()) {
        follower.wake.wait(lock, stop_waiting);
      } else {
        follower.wake.wait_until(lock, to_time_point(deadline), stop_waiting);
      }
    }
    impl.followers.erase(std::find(impl.followers.begin(), impl.followers.end(), &follower));
    impl.follower_count.store(static_cast<int>(impl.followers.size()));
    if (!result) {
      lock.unlock();
      result = done();
      lock.lock();
    }
    if (result || monotonic_now() >= deadline) {
      // If the token was offered to this thread, it goes on to the next.
      if (impl.holder == Holder::kNobody) {
        impl.drop_token(lock);
      }
      break;
    }
  }
  return result;
}

bool Loop::Impl::lead_as_user(const std::function<bool()>& done, Instant deadline) {
  t_leading = &self;
  bool result = false;
  for (;;) {
    result = done();
    if (result || stopping.load()) break;
    if (deadline == Instant::never()) {
      io.run_one();
    } else {
      if (monotonic_now() >= deadline) break;
      io.run_one_until(to_time_point(deadline));
    }
  }
  t_leading = nullptr;
  return result;
}

void Loop::notify() {
  Impl& impl = *impl_;
  // A read-modify-write, so that what the caller changed is visible before the count is read: whoever registers after
  // this count looks at done() once more and sees the change.
  const int followers = impl.follower_count.fetch_add(0);
  if (t_leading != this && impl.user_leads.load()) impl.interrupt_user_leader();
  if (followers == 0) return;
  const std::lock_guard lock(impl.mutex);
  impl.wake_all_followers();
}

void Loop::Impl::submit(std::function<void()> fn) {
  posted.fetch_add(1);
  asio::post(io, [this, fn = std::move(fn)] {
    posted.fetch_sub(1);
    fn();
  });
  if (t_leading == &self) return;
  const std::lock_guard lock(mutex);
  if (holder == Holder::kNobody && resident == ResidentState::kWatching && followers.empty()) {
    resident_kicked = true;
    resident_wake.notify_one();
  }
}

void Loop::post(std::function<void()> fn) {
  impl_->submit(std::move(fn));
}

TimerId Loop::call_after(Duration after, std::function<void()> fn) {
  return call_at(monotonic_now() + after, std::move(fn));
}

TimerId Loop::call_at(Instant at, std::function<void()> fn) {
  Impl& impl = *impl_;
  TimerId timer;
  bool earlier;
  {
    const std::lock_guard lock(impl.timer_mutex);
    timer = TimerId{++impl.last_timer};
    impl.timers.emplace(std::pair(at, timer), std::move(fn));
    impl.timer_at.emplace(timer, at);
    earlier = at < impl.alarm_at;
  }
  if (earlier) {
    if (in_loop()) {
      impl.set_alarm();
    } else {
      impl.submit([&impl] { impl.set_alarm(); });
    }
  }
  return timer;
}

bool Loop::cancel(TimerId timer) {
  Impl& impl = *impl_;
  std::function<void()> dropped;  // destroyed outside the lock
  const std::lock_guard lock(impl.timer_mutex);
  const auto found = impl.timer_at.find(timer);
  if (found == impl.timer_at.end()) return false;
  const auto entry = impl.timers.find(std::pair(found->second, timer));
  dropped = std::move(entry->second);
  impl.timers.erase(entry);
  impl.timer_at.erase(found);
  return true;  // the alarm may ring for nothing
}

// Sets the alarm to the earliest timer, if that is earlier than it is set to.
void Loop::Impl::set_alarm() {
  {
    const std::lock_guard lock(timer_mutex);
    if (timers.empty() || timers.begin()->first.first >= alarm_at) return;
    alarm_at = timers.begin()->first.first;
    alarm->expires_at(to_time_point(alarm_at));  // an earlier wait ends with operation_aborted
  }
  alarm->async_wait([this](const asio::error_code& error) {
    if (!error) ring();
  });
}

// Runs what is due now; what a function adds for "now" runs at the next ring, so that sockets get their turn.
void Loop::Impl::ring() {
  const Instant now = monotonic_now();
  std::unique_lock lock(timer_mutex);
  alarm_at = Instant::never();
  const std::uint64_t newest = last_timer;
  for (auto entry = timers.begin(); entry != timers.end() && entry->first.first <= now;) {
    if (static_cast<std::uint64_t>(entry->first.second) > newest) {
      ++entry;
      continue;
    }
    std::function<void()> fn = std::move(entry->second);
    timer_at.erase(entry->first.second);
    timers.erase(entry);
    lock.unlock();
    fn();
    fn = nullptr;  // what it owned may want the lock
    lock.lock();
    entry = timers.begin();
  }
  lock.unlock();
  set_alarm();
}

bool Loop::in_loop() const {
  return t_leading == this;
}

asio::io_context& Loop::context() {
  return impl_->io;
}

}  // namespace mobula::net
