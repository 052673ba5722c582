#include "runtime/net/link.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/net/net_testing.h"

namespace mobula::net {
namespace {

using std::chrono::milliseconds;
using testing::Inbox;
using testing::kLong;
using testing::make_pair_of_sockets;
using testing::RunningLoop;
using testing::text_frame;

// Two links that face each other, on one loop.
struct Pair {
  explicit Pair(RunningLoop& loop, LinkOptions options = {}) : inbox_a(*loop), inbox_b(*loop) {
    auto sockets = make_pair_of_sockets();
    a = Link::plain(*loop, std::move(sockets.a), "side a", options);
    b = Link::plain(*loop, std::move(sockets.b), "side b", options);
  }
  void start() {
    a->start(inbox_a.handlers());
    b->start(inbox_b.handlers());
  }
  Inbox inbox_a;
  Inbox inbox_b;
  std::shared_ptr<Link> a;
  std::shared_ptr<Link> b;
};

void close_and_wait(RunningLoop& loop, Pair& pair) {
  pair.a->close();
  pair.b->close();
  CHECK(loop.wait([&] { return pair.inbox_a.closed() && pair.inbox_b.closed(); }));
}

TEST_CASE("frames of all kinds cross a link in order") {
  RunningLoop loop;
  Pair pair(loop);
  CHECK(pair.a->send(text_frame("sent before either side started")));
  pair.start();
  Rng rng(3);
  std::vector<std::string> sent;
  for (int i = 0; i < 400; ++i) {
    std::string text(rng.below(rng.chance(1, 10) ? 300'000 : 2000), static_cast<char>('a' + i % 26));
    pair.a->queue(text_frame(text));
    if (i % 7 == 0) pair.a->flush();
    sent.push_back(std::move(text));
  }
  pair.a->flush();
  CHECK(loop.wait([&] { return pair.inbox_b.count() == 401; }));
  const auto frames = pair.inbox_b.take();
  CHECK(frames[0].body.text() == "sent before either side started");
  for (std::size_t i = 0; i < sent.size(); ++i) CHECK(frames[i + 1].body.text() == sent[i]);
  CHECK(pair.a->stats().frames_out == 401);
  CHECK(pair.b->stats().frames_in == 401);
  CHECK(pair.a->stats().bytes_out == pair.b->stats().bytes_in);
  CHECK(pair.a->queued_bytes() == 0);
  close_and_wait(loop, pair);
}

TEST_CASE("many threads send on one link; each one's frames stay in order") {
  RunningLoop loop;
  Pair pair(loop);
  pair.start();
  constexpr int kThreads = 4;
  constexpr int kFrames = 3000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kFrames; ++i) pair.a->send(text_frame(std::to_string(t) + ":" + std::to_string(i)));
    });
  }
  CHECK(loop.wait([&] { return pair.inbox_b.count() == kThreads * kFrames; }));
  for (auto& thread : threads) thread.join();
  std::vector<int> next(kThreads, 0);
  bool in_order = true;
  for (const Frame& frame : pair.inbox_b.take()) {
    const std::string text(frame.body.text());
    const auto t = static_cast<std::size_t>(std::stoi(text));
    in_order = in_order && text == std::to_string(t) + ":" + std::to_string(next[t]);
    ++next[t];
  }
  CHECK(in_order);
  close_and_wait(loop, pair);
}

TEST_CASE("descriptors arrive with their frame") {
  RunningLoop loop;
  Pair pair(loop);
  pair.start();
  CHECK(pair.a->carries_descriptors());
  std::vector<ino_t> inodes;
  for (int i = 0; i < 50; ++i) {
    Frame frame = text_frame("memory " + std::to_string(i));
    for (int n = 0; n < i % 4; ++n) {
      frame.descriptors.emplace_back(::memfd_create("test", MFD_CLOEXEC));
      struct stat info {};
      ::fstat(frame.descriptors.back().get(), &info);
      inodes.push_back(info.st_ino);
    }
    pair.a->queue(std::move(frame));
  }
  pair.a->flush();
  CHECK(loop.wait([&] { return pair.inbox_b.count() == 50; }));
  const auto frames = pair.inbox_b.take();
  std::size_t next = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    REQUIRE(frames[i].descriptors.size() == i % 4);
    for (const Fd& descriptor : frames[i].descriptors) {
      struct stat info {};
      CHECK(::fstat(descriptor.get(), &info) == 0);
      CHECK(info.st_ino == inodes[next++]);
      CHECK((::fcntl(descriptor.get(), F_GETFD) & FD_CLOEXEC) != 0);
    }
  }
  close_and_wait(loop, pair);
}

TEST_CASE("a slow reader: the queue is bounded, the mark is told, and it drains") {
  RunningLoop loop;
  LinkOptions options;
  options.high_water = 1 << 20;
  auto sockets = make_pair_of_sockets();
  Inbox inbox(*loop);
  auto link = Link::plain(*loop, std::move(sockets.a), "the slow reader", options);
  std::atomic<int> drained = 0;
  LinkHandlers handlers = inbox.handlers();
  handlers.on_drained = [&] {
    ++drained;
    loop->notify();
  };
  link->start(handlers);
  for (int i = 0; i < 40; ++i) link->send(text_frame(std::string(100'000, 'x')));
  CHECK(link->above_high_water());
  CHECK(link->queued_bytes() > options.high_water);
  Inbox other_inbox(*loop);
  auto other = Link::plain(*loop, std::move(sockets.b), "the sender");
  other->start(other_inbox.handlers());
  CHECK(loop.wait([&] { return other_inbox.count() == 40 && drained == 1; }));
  CHECK_FALSE(link->above_high_water());
  link->close();
  CHECK(loop.wait([&] { return inbox.closed() && other_inbox.closed(); }));
}

TEST_CASE("a reader that stops is cut off after the stall limit, with a readable reason") {
  RunningLoop loop;
  LinkOptions options;
  options.stall_limit = milliseconds(50);
  auto sockets = make_pair_of_sockets();
  Inbox inbox(*loop);
  auto link = Link::plain(*loop, std::move(sockets.a), "worker 17", options);
  link->start(inbox.handlers());
  for (int i = 0; i < 20; ++i) link->send(text_frame(std::string(100'000, 'x')));
  CHECK(loop.wait([&] { return inbox.closed(); }));
  CHECK(inbox.reason().message.find("worker 17 has stopped reading") != std::string::npos);
  CHECK_FALSE(link->send(text_frame("late")));
}

TEST_CASE("a queue above its bound closes the link") {
  RunningLoop loop;
  LinkOptions options;
  options.queued_bytes_max = 2 << 20;
  auto sockets = make_pair_of_sockets();
  Inbox inbox(*loop);
  auto link = Link::plain(*loop, std::move(sockets.a), "worker 18", options);
  link->start(inbox.handlers());
  for (int i = 0; i < 100 && link->send(text_frame(std::string(100'000, 'x'))); ++i) {}
  CHECK(loop.wait([&] { return inbox.closed(); }));
  CHECK(inbox.reason().kind == ErrorKind::kOverloaded);
}

TEST_CASE("the ways a link ends, each with its reason") {
  RunningLoop loop;
  SUBCASE("the other end closes") {
    Pair pair(loop);
    pair.start();
    pair.b->close();
    CHECK(loop.wait([&] { return pair.inbox_a.closed() && pair.inbox_b.closed(); }));
    CHECK(pair.inbox_a.reason().message == "side a closed the connection");
    CHECK(pair.inbox_b.reason().message == "the connection was closed on this side");
  }
  SUBCASE("a reason of one's own, given before the start") {
    Pair pair(loop);
    pair.a->close(make_error(ErrorKind::kInvalid, "the hello made no sense"));
    pair.a->close();
    pair.start();
    CHECK(loop.wait([&] { return pair.inbox_a.closed() && pair.inbox_b.closed(); }));
    CHECK(pair.inbox_a.reason().message == "the hello made no sense");
  }
  SUBCASE("in the middle of a frame") {
    auto sockets = make_pair_of_sockets();
    Inbox inbox(*loop);
    auto link = Link::plain(*loop, std::move(sockets.a), "the other");
    link->start(inbox.handlers());
    CHECK(::send(sockets.b.get(), "\x40\0\0\0\0\0\0\0abc", 11, 0) == 11);
    sockets.b.reset();
    CHECK(loop.wait([&] { return inbox.closed(); }));
    CHECK(inbox.reason().message == "the other closed the connection in the middle of a frame");
  }
  SUBCASE("broken framing; what came before it is delivered") {
    auto sockets = make_pair_of_sockets();
    Inbox inbox(*loop);
    auto link = Link::plain(*loop, std::move(sockets.a), "the other");
    CHECK(::send(sockets.b.get(), "\x01\0\0\0\0\0\0\0x\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0", 24, 0) == 24);
    link->start(inbox.handlers());
    CHECK(loop.wait([&] { return inbox.closed(); }));
    CHECK(inbox.count() == 1);
    CHECK(inbox.reason().message.find("a frame of 4294967295 bytes") != std::string::npos);
  }
}

TEST_CASE("close_when_flushed lets the last words through") {
  for (int round = 0; round < 20; ++round) {
    RunningLoop loop;
    Pair pair(loop);
    pair.b->start(pair.inbox_b.handlers());
    if (round % 2 == 0) pair.a->start(pair.inbox_a.handlers());
    for (int i = 0; i < 30; ++i) pair.a->send(text_frame(std::string(50'000, 'x')));
    pair.a->send(text_frame("goodbye"));
    pair.a->close_when_flushed(make_error(ErrorKind::kInvalid, "another protocol version"));
    CHECK_FALSE(pair.a->send(text_frame("more")));
    CHECK(loop.wait([&] { return pair.inbox_b.closed(); }));
    const auto frames = pair.inbox_b.take();
    REQUIRE(frames.size() == 31);
    CHECK(frames.back().body.text() == "goodbye");
    pair.b->close();
    if (round % 2 != 0) pair.a->start(pair.inbox_a.handlers());
    CHECK(loop.wait([&] { return pair.inbox_a.closed(); }));
    CHECK(pair.inbox_a.reason().message == "another protocol version");
  }
}

TEST_CASE("a handler may close its link and drop it") {
  RunningLoop loop;
  auto sockets = make_pair_of_sockets();
  std::atomic<int> frames_seen = 0;
  std::atomic<bool> closed = false;
  auto link = std::make_shared<std::shared_ptr<Link>>(Link::plain(*loop, std::move(sockets.a), "peer"));
  LinkHandlers handlers;
  handlers.on_frames = [&, link](std::span<Frame> frames) {
    frames_seen += static_cast<int>(frames.size());
    (*link)->close();
    link->reset();
  };
  handlers.on_closed = [&](const ErrorInfo&) {
    closed = true;
    loop->notify();
  };
  (*link)->start(std::move(handlers));
  CHECK(::send(sockets.b.get(), "\0\0\0\0\0\0\0\0", 8, 0) == 8);
  CHECK(loop.wait([&] { return closed.load(); }));
  static_cast<void>(::send(sockets.b.get(), "\0\0\0\0\0\0\0\0", 8, MSG_NOSIGNAL));
  loop.run([] {});
  CHECK(frames_seen == 1);
}

TEST_CASE("a raw body is received into the memory that the handler names") {
  RunningLoop loop;
  Pair pair(loop);
  auto memory = std::make_shared<std::string>(1'000'000, '?');
  LinkHandlers handlers = pair.inbox_b.handlers();
  handlers.raw_target = [memory](const Bytes& head, std::size_t size) -> RawTarget {
    if (head.text() != "to mem!!" || size > memory->size()) return {};
    return {reinterpret_cast<std::byte*>(memory->data()), memory};
  };
  pair.b->start(std::move(handlers));
  pair.a->start(pair.inbox_a.handlers());
  Frame frame;
  frame.type = FrameType::kRaw;
  frame.head = Bytes::copy_of("to mem!!");
  frame.body = Bytes::copy_of(std::string(1'000'000, 'y'));
  pair.a->send(std::move(frame));
  CHECK(loop.wait([&] { return pair.inbox_b.count() == 1; }));
  const auto frames = pair.inbox_b.take();
  CHECK(reinterpret_cast<const char*>(frames[0].body.data()) == memory->data());
  CHECK(*memory == std::string(1'000'000, 'y'));
  close_and_wait(loop, pair);
}

TEST_CASE("a link echoes small frames fast enough to be of use") {
  RunningLoop loop;
  Pair pair(loop);
  // The far side answers from handlers; this thread waits as `get` does.
  LinkHandlers echo = pair.inbox_b.handlers();
  echo.on_frames = [link = pair.b.get()](std::span<Frame> frames) {
    for (Frame& frame : frames) link->queue(text_frame(std::string(frame.body.text())));
    link->flush();
  };
  pair.b->start(std::move(echo));
  pair.a->start(pair.inbox_a.handlers());
  const Instant begin = monotonic_now();
  for (std::size_t i = 1; i <= 2000; ++i) {
    pair.a->send(text_frame("ping"));
    CHECK(loop.wait([&] { return pair.inbox_a.count() == i; }));
  }
  CHECK(monotonic_now() - begin < std::chrono::seconds(10));
  // Without waiting for each: everything queued is gathered.
  static_cast<void>(pair.inbox_a.take());
  for (int i = 0; i < 20'000; ++i) pair.a->queue(text_frame("ping"));
  pair.a->flush();
  CHECK(loop.wait([&] { return pair.inbox_a.count() == 20'000; }));
  close_and_wait(loop, pair);
}

}  // namespace
}  // namespace mobula::net
