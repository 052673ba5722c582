#include "runtime/net/loop.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/net/watch.h"
#include "tests/net/net_testing.h"

namespace mobula::net {
namespace {

using std::chrono::milliseconds;
using testing::kLong;
using testing::RunningLoop;

TEST_CASE("posted functions run in order, on one thread at a time") {
  RunningLoop loop;
  std::vector<int> order;  // touched by handlers only: a race would show under a sanitizer
  std::atomic<int> ran = 0;
  for (int i = 0; i < 1000; ++i) {
    loop->post([&, i] {
      CHECK(loop->in_loop());
      order.push_back(i);
      ++ran;
      loop->notify();
    });
  }
  CHECK(loop.wait([&] { return ran == 1000; }));
  CHECK_FALSE(loop->in_loop());
  for (int i = 0; i < 1000; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("run_until leads without a resident thread") {
  Loop loop;
  bool ran = false;
  loop.post([&] { ran = true; });
  CHECK(loop.run_until([&] { return ran; }));
  CHECK_FALSE(loop.run_until([] { return false; }, monotonic_now() + milliseconds(5)));
}

TEST_CASE("a waiting thread runs the handlers itself, also right after the resident thread led") {
  RunningLoop loop;
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> ran = false;
    bool posted = false;
    loop.run([] {});
    const auto self = std::this_thread::get_id();
    CHECK(loop.wait([&] {
      if (loop->in_loop() && !posted) {  // now this thread leads, so what it posts is run by nobody else
        posted = true;
        loop->post([&] {
          CHECK(std::this_thread::get_id() == self);
          ran = true;
        });
      }
      return ran.load();
    }));
    CHECK(posted);
  }
}

TEST_CASE("the resident thread takes over when no user thread comes back") {
  RunningLoop loop;
  CHECK(loop->run_until([] { return true; }));
  std::atomic<bool> ran = false;
  std::atomic<std::thread::id> where;
  // Neither wakes the resident thread by itself: the timer is set while this thread leads.
  std::atomic<bool> set = false;
  loop->post([&] {
    loop->call_after(milliseconds(2), [&] {
      where = std::this_thread::get_id();
      ran = true;
      ran.notify_one();
    });
    set = true;
  });
  CHECK(loop.wait([&] { return set.load(); }));
  ran.wait(false);
  CHECK(where.load() != std::this_thread::get_id());
}

TEST_CASE("timers run in order of time, and cancelled ones never") {
  RunningLoop loop;
  std::mutex mutex;
  std::vector<int> order;
  const Instant now = monotonic_now();
  const auto add = [&](int value) {
    const std::lock_guard lock(mutex);
    order.push_back(value);
    loop->notify();
  };
  loop->call_at(now + milliseconds(6), [&] { add(3); });
  loop->call_at(now + milliseconds(2), [&] { add(1); });
  const TimerId cancelled = loop->call_at(now + milliseconds(3), [&] { add(99); });
  loop->call_at(now + milliseconds(4), [&] { add(2); });
  CHECK(loop->cancel(cancelled));
  CHECK_FALSE(loop->cancel(cancelled));
  CHECK_FALSE(loop->cancel(TimerId::kNone));
  CHECK(loop.wait([&] {
    const std::lock_guard lock(mutex);
    return order.size() == 3;
  }));
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("a timer may set and cancel timers, and owns what it captured until it is gone") {
  RunningLoop loop;
  std::atomic<int> rounds = 0;
  std::function<void()> again = [&] {
    if (++rounds < 50) loop->call_at(monotonic_now(), again);
    loop->notify();
  };
  loop->call_at(monotonic_now(), again);
  CHECK(loop.wait([&] { return rounds == 50; }));
  auto owned = std::make_shared<int>(1);
  const TimerId late = loop->call_after(kLong, [owned] {});
  CHECK(owned.use_count() == 2);
  CHECK(loop->cancel(late));
  CHECK(owned.use_count() == 1);
}

TEST_CASE("several waiters: each returns when its own condition holds, and leadership never gets lost") {
  RunningLoop loop;
  constexpr int kThreads = 6;
  constexpr int kRounds = 300;
  std::vector<std::atomic<int>> answers(kThreads);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto& answer = answers[static_cast<std::size_t>(t)];
      for (int round = 1; round <= kRounds; ++round) {
        loop->post([&] {
          ++answer;
          loop->notify();
        });
        if (!loop.wait([&] { return answer >= round; })) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a waiter is woken by notify from a thread that does not lead") {
  RunningLoop loop;
  std::atomic<bool> first = false;
  std::atomic<bool> second = false;
  std::atomic<int> waiting = 0;
  const auto wait_for = [&](std::atomic<bool>& flag) {
    return std::thread([&] {
      CHECK(loop.wait([&, counted = false]() mutable {
        if (!counted) ++waiting;
        counted = true;
        return flag.load();
      }));
    });
  };
  std::thread leader = wait_for(first);
  std::thread follower = wait_for(second);
  while (waiting < 2) std::this_thread::yield();
  // The follower first: it is not the one that would wake by an event.
  second = true;
  loop->notify();
  follower.join();
  first = true;
  loop->notify();
  leader.join();
}

TEST_CASE("deadlines end leaders and followers alike") {
  RunningLoop loop;
  std::vector<std::thread> threads;
  const Instant deadline = monotonic_now() + milliseconds(20);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      CHECK_FALSE(loop->run_until([] { return false; }, deadline));
      CHECK(monotonic_now() >= deadline);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(loop->run_until([] { return true; }, deadline));  // true wins over a past deadline
}

TEST_CASE("stop ends everybody") {
  Loop loop;
  std::thread resident([&] { loop.run(); });
  std::vector<std::thread> threads;
  std::atomic<int> waiting = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      CHECK_FALSE(loop.run_until([&, counted = false]() mutable {
        if (!counted) ++waiting;
        counted = true;
        return false;
      }));
    });
  }
  while (waiting < 3) std::this_thread::yield();
  loop.stop();
  for (auto& thread : threads) thread.join();
  resident.join();
  CHECK(loop.stopped());
  CHECK_FALSE(loop.run_until([] { return false; }));
}

TEST_CASE("an idle resident thread does not wake up") {
  std::atomic<long> switches = -1;
  Loop loop;
  std::thread resident([&] {
    loop.run();
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    switches = usage.ru_nvcsw;
  });
  CHECK(loop.run_until([] { return true; }));
  CHECK_FALSE(loop.run_until([] { return false; }, monotonic_now() + milliseconds(300)));
  loop.stop();
  resident.join();
  CHECK(switches < 30);  // a tick each millisecond would be 300
}

TEST_CASE("a watch calls while its descriptor is readable, and may destroy itself") {
  RunningLoop loop;
  const Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::atomic<int> calls = 0;
  std::unique_ptr<Watch> watch;
  loop.run([&] {
    watch = std::make_unique<Watch>(*loop, event.get(), [&] {
      std::uint64_t value = 0;
      CHECK(::read(event.get(), &value, sizeof value) == sizeof value);
      if (++calls == 3) watch.reset();
      loop->notify();
    });
  });
  const std::uint64_t one = 1;
  for (int i = 1; i <= 3; ++i) {
    CHECK(::write(event.get(), &one, sizeof one) == sizeof one);
    CHECK(loop.wait([&] { return calls == i; }));
  }
  CHECK(::write(event.get(), &one, sizeof one) == sizeof one);
  loop.run([] {});
  CHECK(calls == 3);
}

}  // namespace
}  // namespace mobula::net
