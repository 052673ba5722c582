// Loop: the event loop of a process, whose leadership moves to the thread that waits for an answer.
//
// Handlers (socket events, timers, posted functions) are run by whoever holds the leader token, one thread at a time,
// so handlers never race with each other. In a daemon that is always the thread inside run(). In a user's process a
// thread that waits in `get` takes the token and runs handlers itself: then no thread hop lies between the arrival of
// a reply and the return of `get`. (Refused: handing every reply from an I/O thread to the waiter by a condition
// variable; that halves the rate of synchronous calls.)
//
// The rules of the token:
//  - run_until() takes it when it is free, or interrupts the resident thread (the one inside run()) and takes it then;
//    it never takes it from another user thread.
//  - A user thread that drops the token wakes one other waiter, which takes it. With no other waiter the token lies
//    free, and the resident thread picks it up once it was not used for a whole kTokenGrace. So back-to-back
//    run_until() calls find it free and wake nobody; what arrives while it lies free waits up to 2 * kTokenGrace.
//  - post(), call_at() and cancel() from outside the token make the resident thread pick a free token up at once.
//  - While the resident thread leads, and while a user thread leads for long, nothing wakes up periodically.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/time.h"

namespace asio {
class io_context;
}

namespace mobula::net {

// Names one call_at(); never reused. Zero means "none".
enum class TimerId : std::uint64_t { kNone = 0 };

class Loop {
 public:
  // How long a dropped token must lie unused before the resident thread takes it.
  static constexpr Duration kTokenGrace = std::chrono::milliseconds(1);

  Loop();
  ~Loop();  // nobody may be inside run() or run_until(); handlers that did not run are destroyed unrun
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs handlers until stop(): the resident I/O thread. At most one thread calls it at a time. A process without a
  // resident thread (a one-shot command) may use run_until() alone.
  void run();

  // Makes run() and every run_until() return, now and later. From any thread. Final.
  void stop();
  bool stopped() const;

  // Waits until done() is true and returns true; returns false at the deadline or after stop(). Runs handlers in this
  // thread while it leads, else sleeps. `done` is called in this thread only, with no lock of the loop held: first at
  // once, then after each handler this thread ran, after each notify(), and when leadership is offered to it.
  // It must be quick. Not to be called from a handler.
  bool run_until(const std::function<bool()>& done, Instant deadline = Instant::never());

  // Says that some waiter's done() may have changed. Every handler (or other thread) that changes what a done() reads
  // calls it afterwards. From any thread; nearly free when nobody else waits.
  void notify();

  // Runs `fn` as a handler, soon, in order of posting. From any thread.
  void post(std::function<void()> fn);

  // Runs `fn` as a handler at or soon after `at` (of monotonic_now()'s clock). From any thread.
  TimerId call_at(Instant at, std::function<void()> fn);
  TimerId call_after(Duration after, std::function<void()> fn);
  // True when the function had not run and now never will. From any thread; a token holder can rely on it.
  bool cancel(TimerId timer);

  // True in the thread that holds the token, thus in handlers.
  bool in_loop() const;

  // For this layer only.
  asio::io_context& context();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mobula::net
