#include "runtime/process/spawn_protocol.h"

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "runtime/process/launch.h"
#include "runtime/process/limits.h"
#include "runtime/process/process_group.h"
#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

SocketPair make_pair() {
  Result<SocketPair> pair = make_socket_pair(SOCK_SEQPACKET);
  REQUIRE(pair.ok());
  REQUIRE(set_nonblocking(pair->ours.get()).ok());
  REQUIRE(set_nonblocking(pair->theirs.get()).ok());
  return std::move(*pair);
}

SpawnRequest make_request() {
  SpawnRequest request;
  request.worker = ProcessId{42};
  request.environment = {{"A", "1"}, {"EMPTY", ""}};
  request.unset = {"B"};
  request.working_dir = "/tmp";
  request.title = "title";
  request.oom_score = -7;
  request.descriptor_limit = 1024;
  request.control = std::move(*duplicate(0));
  request.out = std::move(*duplicate(1));
  request.err = std::move(*duplicate(2));
  return request;
}

}  // namespace

TEST_CASE("a request arrives as it was sent, with its descriptors") {
  const SocketPair pair = make_pair();
  REQUIRE(send_request(pair.ours.get(), make_request()) == PacketOutcome::kDone);
  SpawnRequest got;
  REQUIRE(receive_request(pair.theirs.get(), got) == PacketOutcome::kDone);
  CHECK(got.worker == ProcessId{42});
  CHECK(got.environment == Environment{{"A", "1"}, {"EMPTY", ""}});
  CHECK(got.unset == std::vector<std::string>{"B"});
  CHECK(got.working_dir == "/tmp");
  CHECK(got.title == "title");
  CHECK(got.oom_score == -7);
  CHECK(got.descriptor_limit == 1024);
  CHECK(got.control.get() > 2);
  CHECK(got.out.get() > 2);
  CHECK(got.err.get() > 2);
  CHECK(receive_request(pair.theirs.get(), got) == PacketOutcome::kWouldBlock);
}

TEST_CASE("each message of a zygote arrives as it was sent") {
  const SocketPair pair = make_pair();
  SpawnHello hello;
  hello.pid = 5;
  hello.can_fork = false;
  hello.why_not = "threads";
  REQUIRE(send_message(pair.theirs.get(), hello) == PacketOutcome::kDone);
  REQUIRE(send_message(pair.theirs.get(), SpawnForked{ProcessId{1}, 77, std::move(*duplicate(0))}) ==
          PacketOutcome::kDone);
  REQUIRE(send_message(pair.theirs.get(), SpawnForkFailed{ProcessId{2}, 11}) == PacketOutcome::kDone);
  REQUIRE(send_message(pair.theirs.get(), SpawnExited{ProcessId{3}, 78, 9}) == PacketOutcome::kDone);
  ZygoteMessage message;
  REQUIRE(receive_message(pair.ours.get(), message) == PacketOutcome::kDone);
  CHECK(std::get<SpawnHello>(message).why_not == "threads");
  CHECK_FALSE(std::get<SpawnHello>(message).can_fork);
  REQUIRE(receive_message(pair.ours.get(), message) == PacketOutcome::kDone);
  CHECK(std::get<SpawnForked>(message).pid == 77);
  CHECK(std::get<SpawnForked>(message).pidfd);
  REQUIRE(receive_message(pair.ours.get(), message) == PacketOutcome::kDone);
  CHECK(std::get<SpawnForkFailed>(message).error == 11);
  REQUIRE(receive_message(pair.ours.get(), message) == PacketOutcome::kDone);
  CHECK(std::get<SpawnExited>(message).wait_status == 9);
}

TEST_CASE("junk, cut packets and foreign versions are told apart") {
  const SocketPair pair = make_pair();
  ZygoteMessage message;
  SpawnRequest request;
  const std::string junk = "GET / HTTP/1.1\r\n\r\n";
  REQUIRE(::send(pair.theirs.get(), junk.data(), junk.size(), 0) > 0);
  CHECK(receive_message(pair.ours.get(), message) == PacketOutcome::kFailed);

  // Every prefix of a good message, alone.
  REQUIRE(send_message(pair.theirs.get(), SpawnExited{ProcessId{3}, 78, 9}) == PacketOutcome::kDone);
  std::array<char, 256> packet{};
  const ssize_t size = ::recv(pair.ours.get(), packet.data(), packet.size(), 0);
  REQUIRE(size > 8);
  for (ssize_t cut = 1; cut < size; ++cut) {
    REQUIRE(::send(pair.theirs.get(), packet.data(), static_cast<std::size_t>(cut), 0) == cut);
    CHECK(receive_message(pair.ours.get(), message) == PacketOutcome::kFailed);
  }
  packet[4] = 99;  // the version, after the magic
  REQUIRE(::send(pair.theirs.get(), packet.data(), static_cast<std::size_t>(size), 0) == size);
  REQUIRE(receive_message(pair.ours.get(), message) == PacketOutcome::kDone);
  CHECK(std::get<SpawnHello>(message).version == 99);

  REQUIRE(::send(pair.ours.get(), packet.data(), static_cast<std::size_t>(size), 0) == size);
  CHECK(receive_request(pair.theirs.get(), request) == PacketOutcome::kFailed);
}

TEST_CASE("a closed end is told") {
  SocketPair pair = make_pair();
  pair.theirs.reset();
  ZygoteMessage message;
  CHECK(receive_message(pair.ours.get(), message) == PacketOutcome::kClosed);
  CHECK(send_request(pair.ours.get(), make_request()) == PacketOutcome::kClosed);
}

TEST_CASE("a launched process gets the descriptors that were named and no others") {
  const Result<Pipe> output = make_pipe();
  const int leaked = ::dup(1);  // without CLOEXEC, as a careless library would leave it
  LaunchSpec spec;
  spec.path = "/bin/ls";
  spec.argv = {"ls", "/proc/self/fd"};
  spec.environment = environment_with({{"LC_ALL", "C"}});
  spec.out = output->write.get();
  const Result<pid_t> pid = launch(spec);
  ::close(leaked);
  REQUIRE(pid.ok());
  CHECK(is_launched(*pid));
  REQUIRE(gone(*pid));
  CHECK(reap_with_group(*pid)->clean());
  CHECK_FALSE(is_launched(*pid));
  std::array<char, 100> text{};
  CHECK(::read(output->read.get(), text.data(), text.size()) > 0);
  CHECK(std::string(text.data()) == "0\n1\n2\n3\n");  // 3 is the folder that ls reads
}

TEST_CASE("the environment of a child: additions win, the last of equals counts, the mark is never passed on") {
  ::setenv("MOBULA_TEST_VARIABLE", "before", 1);
  ::setenv("MOBULA_WORKER_MODE", "9", 1);
  const auto environment = environment_with({{"MOBULA_TEST_VARIABLE", "first"}, {"MOBULA_TEST_VARIABLE", "second"}});
  ::unsetenv("MOBULA_TEST_VARIABLE");
  ::unsetenv("MOBULA_WORKER_MODE");
  const auto count = [&](const std::string& start) {
    return std::count_if(environment.begin(), environment.end(),
                         [&](const std::string& entry) { return entry.starts_with(start); });
  };
  CHECK(count("MOBULA_TEST_VARIABLE=") == 1);
  CHECK(count("MOBULA_TEST_VARIABLE=second") == 1);
  CHECK(count("MOBULA_WORKER_MODE=") == 0);
}

TEST_CASE("the descriptor limit is raised and what it was is remembered") {
  const std::uint64_t before = original_descriptor_limit();
  CHECK(raise_descriptor_limit() == before);
  CHECK(raise_descriptor_limit() == before);
  CHECK(original_descriptor_limit() == before);
  CHECK(set_descriptor_limit(before));
}

TEST_CASE("ends in words") {
  CHECK(to_string(ExitStatus{true, 3, 0, false}) == "exit status 3");
  CHECK(to_string(ExitStatus{true, 0, 11, false}) == "signal 11 (Segmentation fault)");
  CHECK(to_string(ExitStatus{}) == "unknown status");
  CHECK_FALSE(signal_group(1, 9));
  CHECK_FALSE(signal_group(::getpgrp(), 9));
}

}  // namespace mobula::process::testing
