// Whatever is not of the cluster is refused at the port: one clear line in the log, nothing left behind.

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>

#include <string>
#include <thread>

#include "runtime/net/acceptor.h"
#include "runtime/net/socket.h"
#include "runtime/net/tls.h"
#include "tests/net/net_testing.h"
#include "tests/net/tls_testing.h"

namespace mobula::net {
namespace {

using std::chrono::milliseconds;
using testing::CertificateServer;
using testing::connect_and_wait;
using testing::dial;
using testing::Inbox;
using testing::kLong;
using testing::Port;
using testing::read_to_end;
using testing::RunningLoop;
using testing::stock_client_gets_in;
using testing::text_frame;

Leaf node_leaf(const Key& key, std::uint32_t epoch = 1) {
  return make_leaf(key, {epoch, Role::kNode, {}, 0x77});
}

// One line was logged, it says `what`, no key is in it, and no connection is pending.
void check_refused(RunningLoop& loop, Port& port, const std::string& what) {
  CHECK(loop.wait([&] { return !port.lines().empty(); }));
  CHECK(port.pending() == 0);
  const auto lines = port.lines();
  REQUIRE(lines.size() == 1);
  CAPTURE(lines[0]);
  CHECK(lines[0].starts_with("refused a connection from 127.0.0.1:"));
  CHECK(lines[0].find(what) != std::string::npos);
  CHECK(lines[0].find('\n') == std::string::npos);
  CHECK(lines[0].find(port.key.reveal_hex()) == std::string::npos);
  CHECK(port.links() == 0);
}

void say(const Fd& socket, std::string_view text) {
  CHECK(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

std::string preamble_text(const Preamble& preamble = {}) {
  const auto bytes = encode_preamble(preamble);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("the right key is let in, and both ends talk") {
  RunningLoop loop;
  Port port(loop);
  const auto link = connect_and_wait(loop, port.address, node_leaf(port.key));
  REQUIRE(link.ok());
  REQUIRE(loop.wait([&] { return port.links() == 1; }));
  CHECK(port.link()->identity() == node_leaf(port.key).identity);
  CHECK_FALSE((*link)->identity().has_value());
  CHECK_FALSE((*link)->carries_descriptors());
  Inbox ours(*loop);
  Inbox theirs(*loop);
  (*link)->start(ours.handlers());
  port.link()->start(theirs.handlers());
  for (int i = 0; i < 300; ++i) {
    (*link)->queue(text_frame(std::string(static_cast<std::size_t>(i) * 997, 'q')));
    port.link()->queue(text_frame(std::string(static_cast<std::size_t>(i), 'r')));
  }
  (*link)->flush();
  port.link()->flush();
  CHECK(loop.wait([&] { return ours.count() == 300 && theirs.count() == 300; }));
  const auto frames = theirs.take();
  for (std::size_t i = 0; i < 300; ++i) CHECK(frames[i].body.text() == std::string(i * 997, 'q'));
  (*link)->close();
  CHECK(loop.wait([&] { return ours.closed() && theirs.closed(); }));
  CHECK(theirs.reason().message.find("closed the connection") != std::string::npos);
  CHECK(port.lines().empty());
}

TEST_CASE("many megabytes both ways at once through TLS") {
  RunningLoop loop;
  Port port(loop);
  const auto link = connect_and_wait(loop, port.address, node_leaf(port.key));
  REQUIRE(link.ok());
  REQUIRE(loop.wait([&] { return port.links() == 1; }));
  Inbox ours(*loop);
  Inbox theirs(*loop);
  (*link)->start(ours.handlers());
  port.link()->start(theirs.handlers());
  const std::string chunk(1'000'001, 'z');
  std::thread other([&] {
    for (int i = 0; i < 40; ++i) port.link()->send(text_frame(chunk));
  });
  for (int i = 0; i < 40; ++i) (*link)->send(text_frame(chunk));
  CHECK(loop.wait([&] { return ours.count() == 40 && theirs.count() == 40; }));
  other.join();
  for (const auto& frame : ours.take()) CHECK(frame.body.text() == chunk);
  for (const auto& frame : theirs.take()) CHECK(frame.body.text() == chunk);
  (*link)->close();
  CHECK(loop.wait([&] { return ours.closed() && theirs.closed(); }));
}

TEST_CASE("a wrong key") {
  RunningLoop loop;
  Port port(loop);
  const auto link = connect_and_wait(loop, port.address, node_leaf(Key::random()));
  REQUIRE_FALSE(link.ok());
  CHECK(link.error().kind == ErrorKind::kUnauthenticated);
  CHECK(link.error().message.find("do not share a key") != std::string::npos);
  CHECK(link.error().message.find("Copy the cluster file") != std::string::npos);
  check_refused(loop, port, "it holds another key than this cluster");
}

TEST_CASE("no key") {
  RunningLoop loop;
  Port port(loop);
  const Fd socket = dial(port.address);
  CHECK_FALSE(stock_client_gets_in(socket, nullptr));
  check_refused(loop, port, "it offered no key");
}

TEST_CASE("a wrong role, a wrong epoch, the leaf of another identity") {
  RunningLoop loop;
  Port port(loop);
  SUBCASE("role") {
    const auto link = connect_and_wait(loop, port.address, make_leaf(port.key, {1, Role::kViewer, {}, 5}));
    REQUIRE_FALSE(link.ok());
    CHECK(link.error().kind == ErrorKind::kUnauthenticated);
    check_refused(loop, port, "the role viewer may not connect here");
  }
  SUBCASE("epoch") {
    const auto link = connect_and_wait(loop, port.address, node_leaf(port.key, 2));
    REQUIRE_FALSE(link.ok());
    check_refused(loop, port, "its key is of epoch 2");
  }
  SUBCASE("a viewer's key under a node's name") {
    Leaf stolen = make_leaf(port.key, {1, Role::kViewer, {}, 5});
    stolen.identity.role = Role::kNode;
    const auto link = connect_and_wait(loop, port.address, stolen);
    REQUIRE_FALSE(link.ok());
    check_refused(loop, port, "it holds another key than this cluster");
  }
}

TEST_CASE("a rogue server with a certificate is refused by the connecting side") {
  RunningLoop loop;
  const CertificateServer rogue;
  const auto link = connect_and_wait(loop, {"127.0.0.1", rogue.port()}, node_leaf(Key::random()));
  REQUIRE_FALSE(link.ok());
  CHECK(link.error().kind == ErrorKind::kUnauthenticated);
  CHECK(link.error().message.find("it showed a certificate") != std::string::npos);
}

TEST_CASE("a resumed ticket") {
  RunningLoop loop;
  Port port(loop);
  const CertificateServer other;
  const auto ticket = testing::earn_ticket(other.port());
  REQUIRE(ticket);
  REQUIRE(SSL_SESSION_has_ticket(ticket.get()) == 1);
  const Fd socket = dial(port.address);
  CHECK_FALSE(stock_client_gets_in(socket, ticket.get()));
  check_refused(loop, port, "it offered a resumption ticket");
}

TEST_CASE("junk, and what is not ours") {
  RunningLoop loop;
  Port port(loop);
  const Fd socket = dial(port.address);
  std::string answer;
  const auto refused = [&](const std::string& what) {
    CHECK(read_to_end(socket, answer));
    check_refused(loop, port, what);
  };
  SUBCASE("random bytes") {
    say(socket, "\x01\x02\x03 and more");
    refused("it sent junk that begins with 0x010203");
    CHECK(answer.empty());
  }
  SUBCASE("a huge length in front") {
    say(socket, "\xff\xff\xff\xff\xff\xff\xff\xff");
    refused("it sent junk that begins with 0xffffffff");
  }
  SUBCASE("a huge record after the preamble") {
    say(socket, preamble_text() + "\x16\x03\x01\xff\xff");
    refused("refused");
  }
  SUBCASE("an HTTP request") {
    say(socket, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    refused("it sent an HTTP request");
    CHECK(answer.empty());
  }
  SUBCASE("a TLS hello without preamble") {
    say(socket, "\x16\x03\x01\x02\x05");
    refused("it sent a TLS hello without preamble");
  }
  SUBCASE("another version gets an answer that names ours") {
    Preamble preamble;
    preamble.version = 7;
    say(socket, preamble_text(preamble));
    refused("it speaks protocol version 7, this is version 1");
    CHECK(answer == preamble_text(make_refusal(RefusalCode::kVersion)));
  }
  SUBCASE("a connection kind that does not exist") {
    Preamble preamble;
    preamble.kind = static_cast<ConnectionKind>(99);
    say(socket, preamble_text(preamble));
    refused("connection kind 99");
  }
  SUBCASE("half a preamble, then the end") {
    say(socket, preamble_text().substr(0, 11));
    ::shutdown(socket.get(), SHUT_WR);
    refused("it closed after 11 bytes");
  }
  SUBCASE("junk after the preamble") {
    say(socket, preamble_text() + "and then no TLS at all");
    refused("it offered no key");
  }
  SUBCASE("a flood before it is authenticated") {
    std::string flood = preamble_text() + std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03", 11);
    flood += std::string(16'000, 'x');
    static_cast<void>(::send(socket.get(), flood.data(), flood.size(), MSG_NOSIGNAL));
    refused("more than 4096 bytes came before it was authenticated");
  }
}

TEST_CASE("a huge frame from one who is authenticated") {
  RunningLoop loop;
  Port port(loop);
  const Fd plain = dial(port.address);
  tune_tcp_socket(plain.get());
  const auto session = TlsSession::client(Fd(::dup(plain.get())), node_leaf(port.key), {});
  TlsSession::Progress progress;
  while ((progress = session->handshake()) == TlsSession::Progress::kWantsRead) {
    pollfd wait{plain.get(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 10'000) == 1);
  }
  REQUIRE(progress == TlsSession::Progress::kDone);
  REQUIRE(loop.wait([&] { return port.links() == 1; }));
  Inbox inbox(*loop);
  port.link()->start(inbox.handlers());
  char header[] = "\xff\xff\xff\x7f\0\0\0";
  const iovec part{header, 8};
  CHECK(session->write(std::span(&part, 1), {}).size == 8);
  CHECK(loop.wait([&] { return inbox.closed(); }));
  CHECK(inbox.reason().message.find("a frame of 2147483647 bytes, above the limit of 16777216") != std::string::npos);
}

TEST_CASE("silence") {
  RunningLoop loop;
  AcceptLimits limits;
  limits.handshake_time_max = milliseconds(60);
  Port port(loop, limits);
  const Fd socket = dial(port.address);
  std::string what = "it said nothing in time";
  SUBCASE("from the start") {}
  SUBCASE("within the preamble") {
    say(socket, preamble_text().substr(0, 5));
    what = "it did not finish its preamble in time";
  }
  SUBCASE("after the preamble") {
    say(socket, preamble_text());
    what = "it did not authenticate in time";
  }
  std::string answer;
  CHECK(read_to_end(socket, answer));
  CHECK(answer.empty());
  check_refused(loop, port, what);
}

TEST_CASE("few may try at once from one address, in all, and the log stays short") {
  RunningLoop loop;
  std::vector<Fd> sockets;
  std::string answer;
  SUBCASE("per address") {
    AcceptLimits limits;
    limits.pending_per_address_max = 3;
    Port port(loop, limits);
    for (int i = 0; i < 3; ++i) sockets.push_back(dial(port.address));
    while (port.pending() < 3) std::this_thread::yield();
    const Fd fourth = dial(port.address);
    CHECK(read_to_end(fourth, answer));
    CHECK(answer == preamble_text(make_refusal(RefusalCode::kBusy)));
    CHECK(port.pending() == 3);
    // One of ours waits for a free place instead of failing.
    std::thread frees([&] {
      // Once it was refused too.
      CHECK(loop.wait([&] { return port.lines().size() >= 2; }));
      sockets.clear();
    });
    CHECK(connect_and_wait(loop, port.address, node_leaf(port.key)).ok());
    frees.join();
  }
  SUBCASE("in all: the oldest goes") {
    AcceptLimits limits;
    limits.pending_max = 4;
    Port port(loop, limits);
    for (int i = 0; i < 4; ++i) sockets.push_back(dial(port.address));
    while (port.pending() < 4) std::this_thread::yield();
    CHECK(connect_and_wait(loop, port.address, node_leaf(port.key)).ok());
    CHECK(read_to_end(sockets[0], answer));
    CHECK(loop.wait([&] { return port.lines().size() == 1; }));
    CHECK(port.lines()[0].find("this is the oldest") != std::string::npos);
  }
  SUBCASE("log lines") {
    AcceptLimits limits;
    limits.log_lines_per_minute_max = 5;
    Port port(loop, limits);
    for (int i = 0; i < 30; ++i) {
      const Fd socket = dial(port.address);
      say(socket, "junk");
      CHECK(read_to_end(socket, answer));
    }
    CHECK(port.pending() == 0);
    CHECK(port.lines().size() == 6);
  }
}

TEST_CASE("out of descriptors: accepting pauses and goes on") {
  RunningLoop loop;
  Port port(loop);
  std::vector<Fd> sockets;
  for (int i = 0; i < 2; ++i) sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(sockets[0].get());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port.address.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::connect(sockets[0].get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(loop.wait([&] { return !port.lines().empty(); }));
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(port.lines()[0].find("ulimit -n") != std::string::npos);
  CHECK(connect_and_wait(loop, port.address, node_leaf(port.key)).ok());
}

}  // namespace
}  // namespace mobula::net
