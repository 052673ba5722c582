#include "runtime/cli/bench/limits.h"

#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/cli/bench/stopwatch.h"
#include "runtime/net/fd.h"

extern char** environ;

namespace mobula::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::size_t kMessageSize = 64;
constexpr std::size_t kChunkSize = std::size_t{256} << 10;
constexpr std::size_t kCopySize = std::size_t{256} << 20;

struct Pair {
  net::Fd near;
  net::Fd far;
};

Pair unix_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {net::Fd(ends[0]), net::Fd(ends[1])};
}

Pair tcp_pair() {
  const net::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  if (!listener || ::bind(listener.get(), at, size) != 0 || ::listen(listener.get(), 1) != 0) return {};
  if (::getsockname(listener.get(), at, &size) != 0) return {};
  Pair pair;
  pair.near = net::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!pair.near || ::connect(pair.near.get(), at, size) != 0) return {};
  pair.far = net::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int on = 1;
  for (const net::Fd* end : {&pair.near, &pair.far}) {
    if (*end) ::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return pair;
}

// Forks; the child runs `other` and ends, the parent `mine`.
template <class Other, class Mine>
double with_child(Other other, Mine mine) {
  const pid_t child = ::fork();
  if (child < 0) return 0;
  if (child == 0) {
    other();
    ::_exit(0);
  }
  const double value = mine();
  ::waitpid(child, nullptr, 0);
  return value;
}

double ping_pong(Pair pair, double seconds) {
  if (!pair.near || !pair.far) return 0;
  std::array<char, kMessageSize> message{};
  return with_child(
      [&] {
        pair.near = {};
        while (::read(pair.far.get(), message.data(), message.size()) > 0) {
          if (::write(pair.far.get(), message.data(), message.size()) < 0) return;
        }
      },
      [&] {
        pair.far = {};
        const double rate = rate_of(1, seconds, [&] {
          if (::write(pair.near.get(), message.data(), message.size()) < 0) return false;
          return ::read(pair.near.get(), message.data(), message.size()) > 0;
        });
        pair.near = {};  // the child sees the end
        return rate;
      });
}

double stream(Pair pair, double seconds) {
  if (!pair.near || !pair.far) return 0;
  std::vector<char> chunk(kChunkSize);
  return with_child(
      [&] {
        pair.near = {};
        while (::read(pair.far.get(), chunk.data(), chunk.size()) > 0) {}
      },
      [&] {
        pair.far = {};
        const double rate = rate_of(static_cast<double>(kChunkSize) / kGiB, seconds, [&] {
          for (std::size_t done = 0; done < chunk.size();) {
            const ssize_t written = ::write(pair.near.get(), chunk.data() + done, chunk.size() - done);
            if (written <= 0) return false;
            done += static_cast<std::size_t>(written);
          }
          return true;
        });
        pair.near = {};
        return rate;
      });
}

void futex(std::atomic<int>& word, int operation, int value) {
  ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

struct alignas(64) FutexWord {
  std::atomic<int> value{0};
};

double futex_round_trips(double seconds) {
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  auto* const words = new (memory) FutexWord[2];
  std::atomic<int>& there = words[0].value;
  std::atomic<int>& back = words[1].value;
  const auto wait_for = [](std::atomic<int>& word, int seen) {
    while (word.load() == seen) futex(word, FUTEX_WAIT, seen);
    return word.load();
  };
  const auto tell = [](std::atomic<int>& word, int value) {
    word.store(value);
    futex(word, FUTEX_WAKE, 1);
  };
  const double rate = with_child(
      [&] {
        for (int seen = 0; seen >= 0;) {
          seen = wait_for(there, seen);
          tell(back, seen);
        }
      },
      [&] {
        int round = 0;
        const double result = rate_of(1, seconds, [&] {
          tell(there, round + 1);
          wait_for(back, round);
          ++round;
          return true;
        });
        tell(there, -1);
        return result;
      });
  ::munmap(memory, 4096);
  return rate;
}

// Copies of kCopySize into shared memory whose pages are there already, by `threads` threads.
double warm_copies(double seconds, std::size_t threads) {
  const net::Fd file(::memfd_create("mobula-bench", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(kCopySize)) != 0) return 0;
  void* mapped = ::mmap(nullptr, kCopySize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return 0;
  auto* const shared = static_cast<char*>(mapped);
  std::vector<char> source(kCopySize, 1);
  std::memcpy(shared, source.data(), kCopySize);
  const double rate = rate_of(static_cast<double>(kCopySize) / kGiB, seconds, [&] {
    const std::size_t part = kCopySize / threads;
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < threads; ++i) {
      others.emplace_back([&, i] { std::memcpy(shared + i * part, source.data() + i * part, part); });
    }
    std::memcpy(shared, source.data(), part);
    for (std::thread& other : others) other.join();
    return true;
  });
  ::munmap(mapped, kCopySize);
  return rate;
}

double spawns(double seconds) {
  return rate_of(1, seconds, [] {
    char name[] = "/bin/true";
    char* arguments[] = {name, nullptr};
    pid_t child = 0;
    if (::posix_spawn(&child, name, nullptr, nullptr, arguments, environ) != 0) return false;
    return ::waitpid(child, nullptr, 0) == child;
  });
}

}  // namespace

std::span<const Limit> limits() {
  static constexpr std::array<Limit, 7> all = {{
      {"Unix socket round trip", "1/s", [](double seconds) { return ping_pong(unix_pair(), seconds); }},
      {"shared memory + futex round trip", "1/s", futex_round_trips},
      {"TCP loopback round trip", "1/s", [](double seconds) { return ping_pong(tcp_pair(), seconds); }},
      {"TCP loopback stream", "GiB/s", [](double seconds) { return stream(tcp_pair(), seconds); }},
      {"copy into warm shared memory", "GiB/s", [](double seconds) { return warm_copies(seconds, 1); }},
      {"copy into warm shared memory, 2 threads", "GiB/s", [](double seconds) { return warm_copies(seconds, 2); }},
      {"process spawn and exit", "1/s", spawns},
  }};
  return all;
}

const Limit* find_limit(std::string_view name) {
  for (const Limit& limit : limits()) {
    if (name == limit.name) return &limit;
  }
  return nullptr;
}

}  // namespace mobula::cli
