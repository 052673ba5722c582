#include "runtime/net/connector.h"

#include <doctest/doctest.h>
#include <netinet/in.h>

#include <string>
#include <thread>

#include "runtime/net/socket.h"
#include "tests/net/net_testing.h"

namespace mobula::net {
namespace {

using std::chrono::milliseconds;
using testing::connect_and_wait;
using testing::Inbox;
using testing::Port;
using testing::RunningLoop;
using testing::text_frame;

Leaf any_leaf() {
  return make_leaf(Key::random(), {1, Role::kNode, {}, 1});
}

// A listener that does what `serve` does with each connection.
class PlainServer {
 public:
  explicit PlainServer(std::function<void(Fd)> serve) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(listener_.get(), 8);
    address_ = {"127.0.0.1", local_port(listener_.get())};
    thread_ = std::thread([this, serve = std::move(serve)] {
      for (;;) {
        Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket) return;
        serve(std::move(socket));
      }
    });
  }
  ~PlainServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  const HostPort& address() const { return address_; }

 private:
  Fd listener_;
  HostPort address_;
  std::thread thread_;
};

TEST_CASE("nobody listens, no such name, no answer") {
  RunningLoop loop;
  SUBCASE("nobody listens") {
    HostPort free_port;
    {
      Port port(loop);
      free_port = port.address;
    }
    const auto link = connect_and_wait(loop, free_port, any_leaf());
    REQUIRE_FALSE(link.ok());
    CHECK(link.error().kind == ErrorKind::kUnreachable);
    CHECK(link.error().message.find("Connection refused") != std::string::npos);
    CHECK(link.error().message.find("mobula doctor") != std::string::npos);
  }
  SUBCASE("no such name") {
    const auto link = connect_and_wait(loop, {"no-such-host.invalid", 1234}, any_leaf());
    REQUIRE_FALSE(link.ok());
    CHECK(link.error().kind == ErrorKind::kUnreachable);
  }
  SUBCASE("no answer") {
    const PlainServer server(
        [held = std::make_shared<std::vector<Fd>>()](Fd socket) { held->push_back(std::move(socket)); });
    const auto link = connect_and_wait(loop, server.address(), any_leaf(), {}, milliseconds(80));
    REQUIRE_FALSE(link.ok());
    CHECK(link.error().message.find("no answer in time while waiting for the other end to authenticate") !=
          std::string::npos);
  }
  SUBCASE("what answers is no Mobula") {
    const PlainServer server([](Fd socket) {
      static_cast<void>(::send(socket.get(), "220 mail.example.org ESMTP\r\n", 28, MSG_NOSIGNAL));
      char buffer[512];
      static_cast<void>(::recv(socket.get(), buffer, sizeof buffer, 0));
    });
    const auto link = connect_and_wait(loop, server.address(), any_leaf());
    REQUIRE_FALSE(link.ok());
  }
  SUBCASE("what answers closes without a word") {
    const PlainServer server([](Fd) {});
    const auto link = connect_and_wait(loop, server.address(), any_leaf());
    REQUIRE_FALSE(link.ok());
    CHECK(link.error().kind == ErrorKind::kUnreachable);
  }
  SUBCASE("another version") {
    const PlainServer server([](Fd socket) {
      Preamble refusal = make_refusal(RefusalCode::kVersion);
      refusal.version = 9;
      const auto bytes = encode_preamble(refusal);
      static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
      char buffer[4096];
      static_cast<void>(::recv(socket.get(), buffer, sizeof buffer, 0));
    });
    const auto link = connect_and_wait(loop, server.address(), any_leaf());
    REQUIRE_FALSE(link.ok());
    CHECK(link.error().message.find("it speaks protocol version 9, this program version 1") != std::string::npos);
  }
}

TEST_CASE("a host name and an IPv6 address") {
  RunningLoop loop;
  Port port(loop);
  const Leaf leaf = make_leaf(port.key, {1, Role::kNode, {}, 1});
  CHECK(connect_and_wait(loop, {"localhost", port.address.port}, leaf).ok());
  AcceptHandlers handlers;
  handlers.lookup = cluster_key_lookup(port.key, 1, {Role::kNode});
  std::vector<std::shared_ptr<Link>> links;
  handlers.on_link = [&](const Preamble&, std::shared_ptr<Link> link) { links.push_back(std::move(link)); };
  std::unique_ptr<Acceptor> six;
  loop.run([&] {
    auto made = Acceptor::listen(*loop, "::1", {}, handlers);
    if (made) six = std::move(made).value();
  });
  if (six) {
    CHECK(connect_and_wait(loop, {"::1", six->port()}, leaf).ok());
  } else {
    MESSAGE("this machine has no IPv6");
  }
  loop.run([&] {
    six.reset();
    for (const auto& link : links) link->close();
  });
}

TEST_CASE("ports: taken ones are said so, ranges are searched") {
  RunningLoop loop;
  Port port(loop);
  AcceptHandlers handlers;
  handlers.lookup = cluster_key_lookup(port.key, 1, {});
  handlers.on_link = [](const Preamble&, const std::shared_ptr<Link>&) {};
  loop.run([&] {
    const std::uint16_t taken = port.address.port;
    const auto same = Acceptor::listen(*loop, "127.0.0.1", {taken, taken}, handlers);
    REQUIRE_FALSE(same.ok());
    CHECK(same.error().message.find(std::to_string(taken)) != std::string::npos);
    CHECK(same.error().message.find("--port") != std::string::npos);
    const auto last = static_cast<std::uint16_t>(std::min(65535, taken + 50));
    const auto next = Acceptor::listen(*loop, "127.0.0.1", {taken, last}, handlers);
    REQUIRE(next.ok());
    CHECK((*next)->port() > taken);
    const auto elsewhere = Acceptor::listen(*loop, "192.0.2.1", {}, handlers);
    REQUIRE_FALSE(elsewhere.ok());
    CHECK(elsewhere.error().message.find("--node-ip-address") != std::string::npos);
  });
}

TEST_CASE("a connection for a process: handed over a Unix link, authenticated by the process") {
  RunningLoop loop;
  Port port(loop);
  const JobId job{0xabc};
  const Key link_key = process_link_key(port.key, ProcessId{42});
  Preamble preamble;
  preamble.kind = ConnectionKind::kProcess;
  preamble.target = 42;

  auto sockets = testing::make_pair_of_sockets();
  Inbox at_daemon(*loop);
  Inbox at_process(*loop);
  auto daemon_side = Link::plain(*loop, std::move(sockets.a), "the process");
  auto process_side = Link::plain(*loop, std::move(sockets.b), "the daemon");
  daemon_side->start(at_daemon.handlers());
  process_side->start(at_process.handlers());

  std::atomic<bool> connected = false;
  std::atomic<bool> accepted = false;
  std::shared_ptr<Link> caller;
  std::shared_ptr<Link> callee;
  ErrorInfo refused;
  Leaf leaf = make_link_leaf(link_key, 1, job, ProcessId{7});
  bool expected = true;
  SUBCASE("with the leaf for it, of whichever job") {}
  SUBCASE("with a leaf for another process") {
    leaf = make_link_leaf(process_link_key(port.key, ProcessId{43}), 1, job, ProcessId{7});
    expected = false;
  }
  SUBCASE("as somebody else") {
    leaf.identity.holder = 8;
    expected = false;
  }
  connect(*loop, port.address, leaf, preamble, monotonic_now() + testing::kLong,
          [&](Result<std::shared_ptr<Link>> made) {
            if (made) caller = *made;
            connected = true;
            loop->notify();
          });
  REQUIRE(loop.wait([&] { return port.handed_over() == 1; }));
  Frame frame;
  frame.descriptors.push_back(port.take_handed_over());
  daemon_side->send(std::move(frame));
  REQUIRE(loop.wait([&] { return at_process.count() == 1; }));
  Fd arrived = std::move(at_process.take()[0].descriptors.at(0));
  accept_handed_over(*loop, std::move(arrived), link_key_lookup(link_key, 1), [&](Result<std::shared_ptr<Link>> made) {
    if (made) {
      callee = *made;
    } else {
      refused = made.error();
    }
    accepted = true;
    loop->notify();
  });
  CHECK(loop.wait([&] { return connected && accepted; }));
  CHECK((caller != nullptr) == expected);
  CHECK((callee != nullptr) == expected);
  if (expected) {
    CHECK(callee->identity()->holder == 7);
    Inbox inbox(*loop);
    callee->start(inbox.handlers());
    caller->send(text_frame("direct"));
    CHECK(loop.wait([&] { return inbox.count() == 1; }));
    callee->close();
    CHECK(loop.wait([&] { return inbox.closed(); }));
    caller->close();
  } else {
    CHECK(refused.kind == ErrorKind::kUnauthenticated);
  }
  daemon_side->close();
  CHECK(loop.wait([&] { return at_daemon.closed() && at_process.closed(); }));
}

TEST_CASE("a connection for a process that is gone") {
  RunningLoop loop;
  Port port(loop);
  Preamble preamble;
  preamble.kind = ConnectionKind::kProcess;
  preamble.target = 43;
  std::thread daemon([&] {
    CHECK(loop.wait([&] { return port.handed_over() == 1; }));
    refuse_socket(port.take_handed_over(), RefusalCode::kUnknownTarget);
  });
  const auto link = connect_and_wait(loop, port.address, any_leaf(), preamble);
  daemon.join();
  REQUIRE_FALSE(link.ok());
  CHECK(link.error().kind == ErrorKind::kUnreachable);
  CHECK(link.error().message.find("is not there (any more)") != std::string::npos);
}

}  // namespace
}  // namespace mobula::net
