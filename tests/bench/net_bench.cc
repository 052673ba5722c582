// Round trips of links against those of bare sockets, to see what frames, loop and TLS cost. The other end is a process
// of its own. Usage: net_bench [seconds a row].

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "runtime/net/acceptor.h"
#include "runtime/net/connector.h"
#include "runtime/net/link.h"
#include "runtime/net/loop.h"
#include "runtime/net/socket.h"

namespace {

using namespace mobula;       // NOLINT(google-build-using-namespace)
using namespace mobula::net;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kSize = 64;  // bytes of a message

double g_seconds = 1;

struct Sockets {
  Fd ours;
  Fd theirs;
};

Sockets unix_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::exit(1);
  return {Fd(ends[0]), Fd(ends[1])};
}

Sockets tcp_sockets() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  Sockets sockets;
  sockets.ours.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::connect(sockets.ours.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    std::exit(1);
  }
  sockets.theirs.reset(::accept(listener.get(), nullptr, nullptr));
  return sockets;
}

// Calls `once` for g_seconds; returns calls a second.
double rate(const std::function<void()>& once) {
  for (int i = 0; i < 200; ++i) once();
  const Instant begin = monotonic_now();
  const Instant end = begin + std::chrono::nanoseconds(static_cast<std::int64_t>(g_seconds * 1e9));
  std::uint64_t count = 0;
  while (monotonic_now() < end) {
    for (int i = 0; i < 32; ++i) once();
    count += 32;
  }
  return static_cast<double>(count) / std::chrono::duration<double>(monotonic_now() - begin).count();
}

void exact(int descriptor, char* buffer, bool write) {
  std::size_t done = 0;
  while (done < kSize) {
    const ssize_t size = write ? ::send(descriptor, buffer + done, kSize - done, MSG_NOSIGNAL)
                               : ::recv(descriptor, buffer + done, kSize - done, 0);
    if (size <= 0) ::_exit(0);
    done += static_cast<std::size_t>(size);
  }
}

// Runs `child` in a process of its own that ends when the sockets do.
void fork_off(const std::function<void()>& child) {
  if (::fork() == 0) {
    child();
    ::_exit(0);
  }
}

double bare(Sockets sockets) {
  fork_off([&] {
    sockets.ours.reset();
    char buffer[kSize];
    for (;;) {
      exact(sockets.theirs.get(), buffer, false);
      exact(sockets.theirs.get(), buffer, true);
    }
  });
  sockets.theirs.reset();
  char buffer[kSize] = {};
  const double result = rate([&] {
    exact(sockets.ours.get(), buffer, true);
    exact(sockets.ours.get(), buffer, false);
  });
  sockets.ours.reset();
  ::wait(nullptr);
  return result;
}

Frame message() {
  static const Bytes body = Bytes::copy_of(std::string(kSize, 'm'));
  Frame frame;
  frame.body = body;
  return frame;
}

// Answers each frame with a frame, from handlers, until the link closes.
void echo(Loop& loop, const std::shared_ptr<Link>& link) {
  LinkHandlers handlers;
  handlers.on_frames = [raw = link.get()](std::span<Frame> frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) raw->queue(message());
    raw->flush();
  };
  handlers.on_closed = [&loop](const ErrorInfo&) { loop.stop(); };
  link->start(std::move(handlers));
}

struct Caller {
  Caller(Loop& loop_, std::shared_ptr<Link> link_) : loop(loop_), link(std::move(link_)) {
    LinkHandlers handlers;
    handlers.on_frames = [this](std::span<Frame> frames) { answers += frames.size(); };
    link->start(std::move(handlers));
  }
  void call() {
    const std::uint64_t wanted = ++calls;
    link->send(message());
    loop.run_until([&] { return answers >= wanted; });
  }
  // `count` at once, gathered.
  void call_many(std::uint64_t count) {
    calls += count;
    for (std::uint64_t i = 0; i < count; ++i) link->queue(message());
    link->flush();
    loop.run_until([&] { return answers >= calls; });
  }
  Loop& loop;
  std::shared_ptr<Link> link;
  std::uint64_t calls = 0;
  std::atomic<std::uint64_t> answers = 0;
};

// A handler on the I/O thread hands each answer to the waiting thread: what run_until() is there to avoid.
double with_thread_hop(Loop& loop, Link& link) {
  std::atomic<std::uint64_t> answers = 0;
  LinkHandlers handlers;
  handlers.on_frames = [&](std::span<Frame> frames) {
    answers += frames.size();
    answers.notify_one();
  };
  link.start(std::move(handlers));
  std::thread resident([&] { loop.run(); });
  std::uint64_t calls = 0;
  const double result = rate([&] {
    ++calls;
    link.send(message());
    for (std::uint64_t seen = answers; seen < calls; seen = answers) answers.wait(seen);
  });
  loop.stop();
  resident.join();
  return result;
}

struct LinkRates {
  double alone = 0;     // the caller leads, no resident thread
  double resident = 0;  // the caller leads, a resident thread stands by
  double hop = 0;
  double gathered = 0;  // messages a second, 1000 at once
};

void fork_echo(Sockets& sockets) {
  fork_off([&] {
    sockets.ours.reset();
    set_nonblocking(sockets.theirs.get()).ok();
    Loop loop;
    auto link = Link::plain(loop, std::move(sockets.theirs), "caller");
    echo(loop, link);
    loop.run();
    ::_exit(0);
  });
  sockets.theirs.reset();
  set_nonblocking(sockets.ours.get()).ok();
}

LinkRates links(Sockets (*make)()) {
  LinkRates rates;
  for (int mode = 0; mode < 3; ++mode) {
    Sockets sockets = make();
    tune_tcp_socket(sockets.ours.get());
    tune_tcp_socket(sockets.theirs.get());
    fork_echo(sockets);
    Loop loop;
    auto link = Link::plain(loop, std::move(sockets.ours), "echo");
    if (mode == 2) {
      rates.hop = with_thread_hop(loop, *link);
    } else {
      std::thread resident;
      if (mode == 1) resident = std::thread([&] { loop.run(); });
      Caller caller(loop, link);
      (mode == 0 ? rates.alone : rates.resident) = rate([&] { caller.call(); });
      if (mode == 1) rates.gathered = 1000 * rate([&] { caller.call_many(1000); });
      loop.stop();
      if (resident.joinable()) resident.join();
    }
    ::shutdown(sockets.ours.get(), SHUT_RDWR);
    link.reset();
  }
  return rates;
}

struct TlsRates {
  double calls = 0;
  double stream = 0;  // GiB/s one way
};

TlsRates tls() {
  const Key key = Key::random();
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) std::exit(1);
  const pid_t child = ::fork();
  if (child == 0) {
    Loop loop;
    std::vector<std::shared_ptr<Link>> kept;
    AcceptHandlers handlers;
    handlers.lookup = cluster_key_lookup(key, 1, {Role::kNode});
    handlers.on_link = [&](const Preamble& preamble, std::shared_ptr<Link> link) {
      kept.push_back(link);
      if (preamble.kind == ConnectionKind::kControl) return echo(loop, link);
      LinkHandlers sink;
      sink.on_frames = [raw = link.get()](std::span<Frame> frames) {
        for (const Frame& frame : frames) {
          if (frame.type == FrameType::kHello) raw->send(message());
        }
      };
      link->start(std::move(sink));
    };
    auto acceptor = Acceptor::listen(loop, "127.0.0.1", {}, std::move(handlers));
    const std::uint16_t port = (*acceptor)->port();
    if (::write(pipe_ends[1], &port, sizeof port) != sizeof port) ::_exit(1);
    loop.run();
    ::_exit(0);
  }
  std::uint16_t port = 0;
  if (::read(pipe_ends[0], &port, sizeof port) != sizeof port) std::exit(1);
  Loop loop;
  std::thread resident([&] { loop.run(); });
  const auto dial = [&](ConnectionKind kind) {
    std::shared_ptr<Link> made;
    std::atomic<bool> done = false;
    Preamble preamble;
    preamble.kind = kind;
    connect(loop, {"127.0.0.1", port}, make_leaf(key, {1, Role::kNode, {}, 1}), preamble, Instant::never(),
            [&](Result<std::shared_ptr<Link>> link) {
              made = std::move(link).value();
              done = true;
            });
    loop.run_until([&] { return done.load(); });
    return made;
  };
  TlsRates rates;
  {
    Caller bulk(loop, dial(ConnectionKind::kTransfer));
    const auto payload = Bytes::adopt(std::vector<std::byte>(4 << 20));
    rates.stream = rate([&] {
                     Frame frame;
                     frame.type = FrameType::kRaw;
                     frame.body = payload;
                     bulk.link->queue(std::move(frame));
                     if (++bulk.calls % 8 != 0) return;
                     Frame ask;
                     ask.type = FrameType::kHello;
                     bulk.link->send(std::move(ask));
                     const std::uint64_t wanted = bulk.calls / 8;
                     loop.run_until([&] { return bulk.answers >= wanted; });
                   }) *
                   (4.0 / 1024);
  }
  Caller caller(loop, dial(ConnectionKind::kControl));
  rates.calls = rate([&] { caller.call(); });
  loop.stop();
  resident.join();
  ::kill(child, SIGKILL);
  ::wait(nullptr);
  return rates;
}

void row(const char* name, double value, double limit) {
  std::printf("%-58s %12.0f /s", name, value);
  if (limit > 0) std::printf("   %.2f of bare", value / limit);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) g_seconds = std::atof(argv[1]);
  const double bare_unix = bare(unix_sockets());
  row("Unix socket, bare round trips", bare_unix, 0);
  const LinkRates on_unix = links(&unix_sockets);
  row("Unix link, the caller leads, no resident thread", on_unix.alone, bare_unix);
  row("Unix link, the caller leads, resident thread stands by", on_unix.resident, bare_unix);
  row("Unix link, answers handed over by the I/O thread", on_unix.hop, bare_unix);
  row("Unix link, 1000 messages at once", on_unix.gathered, 0);
  const double bare_tcp = bare(tcp_sockets());
  row("TCP, bare round trips", bare_tcp, 0);
  const LinkRates on_tcp = links(&tcp_sockets);
  row("TCP link without TLS, the caller leads", on_tcp.resident, bare_tcp);
  const TlsRates encrypted = tls();
  row("TCP link with TLS, the caller leads", encrypted.calls, bare_tcp);
  std::printf("%-58s %12.2f GiB/s\n", "TCP link with TLS, 4 MiB frames", encrypted.stream);
  return 0;
}
