#include "runtime/process/log_capture.h"

#include <doctest/doctest.h>

#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

Instant at(std::int64_t milliseconds) {
  return Instant{milliseconds * 1'000'000};
}

void put(const Fd& fd, const std::string& text) {
  REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

struct Lines {
  std::vector<std::string> seen;
  LineCollector::Sink sink() {
    return [this](Stream stream, std::string_view line) {
      seen.push_back((stream == Stream::kOut ? "out:" : "err:") + std::string(line));
    };
  }
};

}  // namespace

TEST_CASE("pieces become lines, the last one at the end of the process") {
  Lines lines;
  LineCollector collector({}, lines.sink());
  collector.add(Stream::kOut, "one\ntw", at(0));
  collector.add(Stream::kErr, "other\r\n", at(0));
  collector.add(Stream::kOut, "o\n\nthree", at(0));
  CHECK(lines.seen == std::vector<std::string>{"out:one", "err:other", "out:two", "out:"});
  collector.finish(at(1));
  CHECK(lines.seen.back() == "out:three");
  CHECK(collector.tail() == "one\nother\ntwo\n\nthree\n");
}

TEST_CASE("a line without end is cut") {
  LogLimits limits;
  limits.line_bytes_max = 10;
  Lines lines;
  LineCollector collector(limits, lines.sink());
  collector.add(Stream::kOut, std::string(25, 'x') + "\n", at(0));
  CHECK(lines.seen == std::vector<std::string>{"out:xxxxxxxxxx", "out:xxxxxxxxxx", "out:xxxxx"});
  collector.add(Stream::kOut, std::string(10, 'y') + "\nz\n", at(0));  // exactly full: one line, not a second empty one
  CHECK(lines.seen.size() == 5);
  CHECK(lines.seen.back() == "out:z");
}

TEST_CASE("the tail keeps the last lines within its bounds") {
  LogLimits limits;
  limits.tail_lines = 3;
  limits.tail_bytes = 100;
  Lines lines;
  LineCollector collector(limits, lines.sink());
  for (int i = 0; i < 10; ++i) collector.add(Stream::kOut, "line " + std::to_string(i) + "\n", at(0));
  CHECK(collector.tail() == "line 7\nline 8\nline 9\n");
  collector.add(Stream::kOut, std::string(1000, 'x') + "\n", at(0));
  CHECK(collector.tail().size() <= limits.tail_bytes);
}

TEST_CASE("above its rate a process's lines are dropped and counted where they are missing") {
  LogLimits limits;
  limits.bytes_per_second = 1024;
  limits.burst_bytes = 30;
  Lines lines;
  LineCollector collector(limits, lines.sink());
  for (int i = 0; i < 10; ++i) collector.add(Stream::kOut, "123456789\n", at(0));
  CHECK(lines.seen.size() == 3);
  CHECK(collector.dropped_lines() == 7);
  collector.add(Stream::kOut, "later\n", at(1000));
  REQUIRE(lines.seen.size() == 5);
  CHECK(lines.seen[3] == "out:[mobula: 7 lines dropped here, the process prints more than 1 KiB/s]");
  CHECK(lines.seen[4] == "out:later");
}

TEST_CASE("a token bucket gains what time gives, up to its burst") {
  TokenBucket bucket(10, 5);
  CHECK(bucket.take(5, at(0)));
  CHECK_FALSE(bucket.take(1, at(50)));
  CHECK(bucket.take(1, at(100)));
  CHECK_FALSE(bucket.take(1, at(150)));
  CHECK(bucket.take(1, at(200)));  // the 50 ms before were not lost
  CHECK(bucket.take(5, at(1'000'000'000)));
  CHECK_FALSE(bucket.take(1, at(1'000'000'000)));
}

TEST_CASE("a hub reads many processes into files and callbacks") {
  ScratchDir scratch;
  std::vector<std::string> seen;
  auto hub = LogHub::create({}, {}, [&](ProcessId process, Stream, std::string_view line) {
    seen.push_back(std::to_string(process.value) + ":" + std::string(line));
  });
  REQUIRE(hub.ok());
  auto first = (*hub)->add(ProcessId{1}, scratch.path() + "/worker-1");
  auto second = (*hub)->add(ProcessId{2}, "");
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK_FALSE((*hub)->add(ProcessId{1}, "").ok());
  put(first->out, "a\n");
  put(second->out, "b\n");
  put(first->err, "c\nunfinished");
  pollfd entry{(*hub)->fd(), POLLIN, 0};
  CHECK(::poll(&entry, 1, 10'000) == 1);
  (*hub)->poll(at(0));
  CHECK(seen.size() == 3);
  CHECK((*hub)->finish(ProcessId{1}, at(1)) == "a\nc\nunfinished\n");
  CHECK(file_tail(scratch.path() + "/worker-1.out", 100) == "a\n");
  CHECK(file_tail(scratch.path() + "/worker-1.err", 100) == "c\nunfinished\n");
  CHECK((*hub)->tail(ProcessId{2}) == "b\n");
  CHECK((*hub)->size() == 1);
  second->out.reset();
  second->err.reset();
  (*hub)->poll(at(2));
  CHECK(::poll(&entry, 1, 0) == 0);  // closed pipes are not watched any more
  CHECK((*hub)->finish(ProcessId{2}, at(3)) == "b\n");
}

TEST_CASE("a child that keeps the pipe open does not delay the end") {
  auto hub = LogHub::create({}, {}, nullptr);
  REQUIRE(hub.ok());
  auto ends = (*hub)->add(ProcessId{1}, "");
  put(ends->out, "last words\n");
  CHECK((*hub)->finish(ProcessId{1}, at(0)) == "last words\n");
}

TEST_CASE("a worker's last words reach its tail") {
  auto hub = LogHub::create({}, {}, nullptr);
  REQUIRE(hub.ok());
  TestDaemon daemon;
  auto ends = (*hub)->add(ProcessId{9}, "");
  Result<SocketPair> control = make_socket_pair(SOCK_STREAM);
  SpawnRequest request;
  request.worker = ProcessId{9};
  request.control = std::move(control->theirs);
  request.out = std::move(ends->out);
  request.err = std::move(ends->err);
  REQUIRE(daemon.spawner().spawn(TestDaemon::executable("static_worker_program"), std::move(request)).ok());
  daemon.wait_until([&] { return daemon.started(ProcessId{9}); });
  REQUIRE(release_worker(control->ours.get()));
  const std::string orders = "print I was here\nabort\n";
  REQUIRE(::write(control->ours.get(), orders.data(), orders.size()) > 0);
  CHECK(daemon.exit_of(ProcessId{9}).signal == SIGABRT);
  CHECK((*hub)->finish(ProcessId{9}, at(0)) == "I was here\n");
}

}  // namespace mobula::process::testing
