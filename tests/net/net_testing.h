// What the tests of this layer share: a loop with a resident thread, pairs of links, and sockets that misbehave.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/time.h"
#include "runtime/net/acceptor.h"
#include "runtime/net/connector.h"
#include "runtime/net/link.h"
#include "runtime/net/loop.h"

namespace mobula::net::testing {

inline constexpr Duration kLong = std::chrono::seconds(20);  // no test waits that long unless it fails

// A loop that a thread of its own runs.
class RunningLoop {
 public:
  RunningLoop() : thread_([this] { loop_.run(); }) {}
  ~RunningLoop() {
    loop_.stop();
    thread_.join();
  }
  Loop& operator*() { return loop_; }
  Loop* operator->() { return &loop_; }
  // Waits as a user thread does.
  bool wait(const std::function<bool()>& done, Duration at_most = kLong) {
    return loop_.run_until(done, monotonic_now() + at_most);
  }
  // Runs `fn` as a handler and waits for it.
  void run(const std::function<void()>& fn) {
    std::atomic<bool> ran = false;
    loop_.post([&] {
      fn();
      ran = true;
    });
    loop_.run_until([&] { return ran.load(); });
  }

 private:
  Loop loop_;
  std::thread thread_;
};

struct SocketPair {
  Fd a;
  Fd b;
};
inline SocketPair make_pair_of_sockets() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return {};
  return {Fd(ends[0]), Fd(ends[1])};
}

// What came over a link; filled by handlers, read by the test's thread.
class Inbox {
 public:
  explicit Inbox(Loop& loop) : loop_(loop) {}
  LinkHandlers handlers() {
    LinkHandlers made;
    made.on_frames = [this](std::span<Frame> frames) {
      {
        const std::lock_guard lock(mutex_);
        for (Frame& frame : frames) frames_.push_back(std::move(frame));
      }
      loop_.notify();
    };
    made.on_closed = [this](const ErrorInfo& reason) {
      {
        const std::lock_guard lock(mutex_);
        reason_ = reason;
        closed_ = true;
      }
      loop_.notify();
    };
    return made;
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return frames_.size();
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  ErrorInfo reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }
  std::vector<Frame> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(frames_, {});
  }

 private:
  Loop& loop_;
  mutable std::mutex mutex_;
  std::vector<Frame> frames_;
  bool closed_ = false;
  ErrorInfo reason_;
};

inline Frame text_frame(const std::string& text) {
  Frame frame;
  frame.body = Bytes::copy_of(text);
  return frame;
}

// A cluster's port: an acceptor that takes nodes, and what happened at it.
class Port {
 public:
  explicit Port(RunningLoop& loop, AcceptLimits limits = {}, LinkOptions options = {}) : loop_(loop) {
    AcceptHandlers handlers;
    handlers.lookup = cluster_key_lookup(key, 1, {Role::kNode});
    handlers.on_link = [this](const Preamble& preamble, std::shared_ptr<Link> link) {
      {
        const std::lock_guard lock(mutex_);
        links_.push_back(std::move(link));
        last_preamble_ = preamble;
      }
      loop_->notify();
    };
    handlers.on_hand_over = [this](const Preamble&, Fd socket, const std::string&) {
      const std::lock_guard lock(mutex_);
      handed_over_.push_back(std::move(socket));
      loop_->notify();
    };
    handlers.log = [this](std::string_view line) {
      {
        const std::lock_guard lock(mutex_);
        lines_.emplace_back(line);
      }
      loop_->notify();
    };
    loop_.run([&] {
      auto made = Acceptor::listen(*loop_, "127.0.0.1", {}, handlers, limits, options);
      acceptor_ = std::move(made).value();
      address = {"127.0.0.1", acceptor_->port()};
    });
  }
  ~Port() {
    loop_.run([&] {
      acceptor_.reset();
      for (const auto& link : links_) link->close();
    });
  }

  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::shared_ptr<Link> link(std::size_t index = 0) const {
    const std::lock_guard lock(mutex_);
    return index < links_.size() ? links_[index] : nullptr;
  }
  std::size_t links() const {
    const std::lock_guard lock(mutex_);
    return links_.size();
  }
  std::size_t pending() {
    std::size_t count = 0;
    loop_.run([&] { count = acceptor_->pending(); });
    return count;
  }
  std::size_t handed_over() const {
    const std::lock_guard lock(mutex_);
    return handed_over_.size();
  }
  Fd take_handed_over() {
    const std::lock_guard lock(mutex_);
    Fd taken = std::move(handed_over_.back());
    handed_over_.pop_back();
    return taken;
  }

  const Key key = Key::random();
  HostPort address;

 private:
  RunningLoop& loop_;
  mutable std::mutex mutex_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::shared_ptr<Link>> links_;
  std::vector<Fd> handed_over_;
  std::vector<std::string> lines_;
  Preamble last_preamble_;
};

// connect(), waited for.
inline Result<std::shared_ptr<Link>> connect_and_wait(RunningLoop& loop, const HostPort& to, const Leaf& leaf,
                                                      const Preamble& preamble = {}, Duration at_most = kLong,
                                                      LinkOptions options = {}) {
  auto result = std::make_shared<std::optional<Result<std::shared_ptr<Link>>>>();
  auto ready = std::make_shared<std::atomic<bool>>(false);
  connect(
      *loop, to, leaf, preamble, monotonic_now() + at_most,
      [result, ready, &loop](Result<std::shared_ptr<Link>> made) {
        result->emplace(std::move(made));
        *ready = true;
        loop->notify();
      },
      options);
  if (!loop.wait([&] { return ready->load(); }, at_most + kLong)) {
    return make_error(ErrorKind::kTimeout, "connect() never called back");
  }
  return std::move(**result);
}

// A plain TCP socket to a port, blocking, for what no Mobula process would say.
Fd dial(const HostPort& to);
// Reads until the other end closes or `at_most` passed; true when it closed.
bool read_to_end(const Fd& socket, std::string& text, Duration at_most = kLong);

}  // namespace mobula::net::testing
