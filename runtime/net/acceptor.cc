#include "runtime/net/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/net/asio.h"
#include "runtime/net/handshake.h"
#include "runtime/net/refusal_log.h"
#include "runtime/net/socket.h"
#include "runtime/net/tls.h"

namespace mobula::net {
namespace {

constexpr int kBacklog = 512;
constexpr int kAcceptsPerTurn = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);  // after the process ran out of descriptors

void set_port(sockaddr_storage& address, std::uint16_t port) {
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
}

// What counts as one address: a host with IPv6 owns a whole /64.
std::string counting_key(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    return std::string(reinterpret_cast<const char*>(&four.sin_addr), 4);
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  const char* bytes = reinterpret_cast<const char*>(&six.sin6_addr);
  return IN6_IS_ADDR_V4MAPPED(&six.sin6_addr) ? std::string(bytes + 12, 4) : std::string(bytes, 8);
}

// A listening socket at one address and port; an errno when that fails.
Fd listen_at(const sockaddr_storage& address, socklen_t size, int& error) {
  Fd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket && address.ss_family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    error = errno;
    return {};
  }
  return socket;
}

Result<Fd> listen_on(const std::string& host, PortRange ports) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const Addresses list(found);
  if (error != 0) {
    return make_error(ErrorKind::kInvalid, "cannot listen at " + host + ": " + ::gai_strerror(error) +
                                               ". Name an address of this machine with --node-ip-address");
  }
  int last_error = 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, entry->ai_addr, entry->ai_addrlen);
    for (std::uint32_t port = ports.first; port <= ports.last; ++port) {
      set_port(address, static_cast<std::uint16_t>(port));
      Fd socket = listen_at(address, entry->ai_addrlen, last_error);
      if (socket) return socket;
      if (last_error != EADDRINUSE) break;
    }
  }
  const std::string where = to_string(HostPort{host, ports.first}) +
                            (ports.last != ports.first ? "-" + std::to_string(ports.last) : std::string());
  const char* remedy = "Name an address of this machine with --node-ip-address";
  if (last_error == EADDRINUSE) remedy = "Stop what uses the port, or choose another with --port or --port-range";
  if (last_error == EACCES) remedy = "Ports below 1024 need root; choose another with --port";
  return make_error(ErrorKind::kUnreachable,
                    "cannot listen at " + where + ": " + errno_text(last_error) + ". " + remedy);
}

}  // namespace

struct Acceptor::Impl : std::enable_shared_from_this<Acceptor::Impl> {
  // A connection that has not proven anything yet.
  struct Incoming {
    std::string peer;
    std::string key;
    Fd socket;  // until the preamble is complete
    std::unique_ptr<asio::posix::stream_descriptor> stream;
    std::array<std::byte, kPreambleSize> bytes{};
    std::size_t got = 0;
    Instant deadline;
    TimerId timer = TimerId::kNone;
    std::shared_ptr<Handshake> handshake;
    ~Incoming() {
      if (stream) stream->release();
    }
  };

  Impl(Loop& loop_, Fd socket_, AcceptHandlers handlers_, AcceptLimits limits_, LinkOptions link_options_)
      : loop(loop_), socket(std::move(socket_)), stream(loop.context(), socket.get()), handlers(std::move(handlers_)),
        limits(limits_), link_options(link_options_), log(limits.log_lines_per_minute_max, handlers.log) {}
  ~Impl() {
    if (!stopped) stream.release();
  }

  Loop& loop;
  Fd socket;
  asio::posix::stream_descriptor stream;
  const AcceptHandlers handlers;
  const AcceptLimits limits;
  const LinkOptions link_options;
  RefusalLog log;
  bool stopped = false;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, std::unique_ptr<Incoming>> incoming;  // oldest first; bounded by limits.pending_max
  std::map<std::string, std::size_t> per_address;               // only addresses with some incoming
  TimerId pause = TimerId::kNone;

  void arm();
  void accept_some();
  void admit(Fd accepted, const sockaddr_storage& from);
  void read_preamble(std::uint64_t id);
  void wait_for_preamble(std::uint64_t id);
  void on_preamble(std::uint64_t id);
  void authenticate(std::uint64_t id, Fd accepted, const Preamble& preamble);
  void authenticated(std::uint64_t id, const Preamble& preamble, std::unique_ptr<TlsSession> session, HandshakeEnd end);
  void refuse(std::uint64_t id, const std::string& why, std::optional<RefusalCode> code = std::nullopt);
  std::unique_ptr<Incoming> take(std::uint64_t id);
  void stop();
};

Result<std::unique_ptr<Acceptor>> Acceptor::listen(Loop& loop, const std::string& host, PortRange ports,
                                                   AcceptHandlers handlers, AcceptLimits limits,
                                                   LinkOptions link_options) {
  MOBULA_CHECK(handlers.lookup && handlers.on_link);
  auto socket = listen_on(host, ports);
  if (!socket) return std::move(socket).error();
  auto impl = std::make_shared<Impl>(loop, std::move(*socket), std::move(handlers), limits, link_options);
  impl->arm();
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(impl)));
}

Acceptor::Acceptor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Acceptor::~Acceptor() {
  impl_->stop();
}
std::uint16_t Acceptor::port() const {
  return local_port(impl_->socket.get());
}
std::size_t Acceptor::pending() const {
  return impl_->incoming.size();
}
std::uint64_t Acceptor::refused() const {
  return impl_->log.refused();
}

void Acceptor::Impl::stop() {
  stopped = true;
  loop.cancel(pause);
  stream.release();
  while (!incoming.empty()) {
    const auto dropped = take(incoming.begin()->first);
    if (dropped->handshake) dropped->handshake->cancel();
  }
  socket.reset();
}

void Acceptor::Impl::arm() {
  stream.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const asio::error_code& error) {
                      if (!error && !self->stopped) self->accept_some();
                    });
}

void Acceptor::Impl::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn && !stopped; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    Fd accepted(::accept4(socket.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) {
      admit(std::move(accepted), from);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the backlog, so the socket stays readable: waiting for that would spin.
      log.refused(monotonic_now(), "cannot accept connections for now: " + errno_text(errno) +
                                       ". Raise the limit of open files (ulimit -n)");
      pause = loop.call_after(kAcceptPause, [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self && !self->stopped) self->accept_some();
      });
      return;
    }
    // Others (ECONNABORTED, network errors) concern the one connection.
  }
  if (!stopped) arm();
}

void Acceptor::Impl::admit(Fd accepted, const sockaddr_storage& from) {
  const std::string key = counting_key(from);
  const auto counted = per_address.find(key);
  if (counted != per_address.end() && counted->second >= limits.pending_per_address_max) {
    log.refused(monotonic_now(), "refused a connection from " + address_text(from) + ": " +
                                     std::to_string(counted->second) + " others from there are not authenticated yet");
    refuse_socket(std::move(accepted), RefusalCode::kBusy);
    return;
  }
  if (incoming.size() >= limits.pending_max) {
    refuse(incoming.begin()->first, "too many connections are not authenticated yet, and this is the oldest",
           RefusalCode::kBusy);
  }
  tune_tcp_socket(accepted.get());
  const std::uint64_t id = ++last_id;
  auto fresh = std::make_unique<Incoming>();
  fresh->peer = address_text(from);
  fresh->key = key;
  fresh->socket = std::move(accepted);
  fresh->stream = std::make_unique<asio::posix::stream_descriptor>(loop.context(), fresh->socket.get());
  fresh->deadline = monotonic_now() + limits.handshake_time_max;
  fresh->timer = loop.call_at(fresh->deadline, [weak = weak_from_this(), id] {
    const auto self = weak.lock();
    if (!self || !self->incoming.contains(id)) return;
    const Incoming& late = *self->incoming[id];
    if (late.handshake) return;  // keeps the same deadline itself
    self->refuse(id, late.got == 0 ? "it said nothing in time" : "it did not finish its preamble in time");
  });
  incoming.emplace(id, std::move(fresh));
  ++per_address[key];
  read_preamble(id);
}

void Acceptor::Impl::read_preamble(std::uint64_t id) {
  Incoming& from = *incoming.at(id);
  while (from.got < kPreambleSize) {
    const ssize_t size =
        ::recv(from.socket.get(), from.bytes.data() + from.got, kPreambleSize - from.got, MSG_DONTWAIT);
    if (size > 0) {
      from.got += static_cast<std::size_t>(size);
      const auto so_far = std::span(from.bytes).first(from.got);
      if (preamble_is_hopeless(so_far)) return refuse(id, "it sent " + describe_junk(so_far));
      continue;
    }
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return wait_for_preamble(id);
    return refuse(id, size == 0 ? "it closed after " + std::to_string(from.got) + " bytes"
                                : "the connection broke: " + errno_text(errno));
  }
  on_preamble(id);
}

void Acceptor::Impl::wait_for_preamble(std::uint64_t id) {
  incoming.at(id)->stream->async_wait(asio::posix::stream_descriptor::wait_read,
                                      [self = shared_from_this(), id](const asio::error_code& error) {
                                        if (!error && self->incoming.contains(id)) self->read_preamble(id);
                                      });
}

void Acceptor::Impl::on_preamble(std::uint64_t id) {
  Incoming& from = *incoming.at(id);
  const auto preamble = decode_preamble(from.bytes);
  if (!preamble) return refuse(id, "it speaks " + preamble.error().message, RefusalCode::kVersion);
  if (preamble->kind == ConnectionKind::kRefusal) return refuse(id, "it sent a refusal");
  from.stream->release();
  from.stream.reset();
  Fd accepted = std::move(from.socket);
  if (preamble->kind != ConnectionKind::kProcess) return authenticate(id, std::move(accepted), *preamble);
  if (!handlers.on_hand_over) {
    from.socket = std::move(accepted);
    return refuse(id, "it wants a process, and there are none here", RefusalCode::kUnknownTarget);
  }
  const auto done = take(id);
  handlers.on_hand_over(*preamble, std::move(accepted), done->peer);
}

void Acceptor::Impl::authenticate(std::uint64_t id, Fd accepted, const Preamble& preamble) {
  const Instant deadline = incoming.at(id)->deadline;
  auto handshake =
      Handshake::begin(loop, TlsSession::server(std::move(accepted), handlers.lookup), deadline,
                       [weak = weak_from_this(), id, preamble](std::unique_ptr<TlsSession> session, HandshakeEnd end) {
                         const auto self = weak.lock();
                         if (self) self->authenticated(id, preamble, std::move(session), end);
                       });
  // It may have ended within begin().
  if (const auto found = incoming.find(id); found != incoming.end()) found->second->handshake = std::move(handshake);
}

void Acceptor::Impl::authenticated(std::uint64_t id, const Preamble& preamble, std::unique_ptr<TlsSession> session,
                                   HandshakeEnd end) {
  if (stopped) return;
  if (end == HandshakeEnd::kTimeout) return refuse(id, "it did not authenticate in time");
  if (end == HandshakeEnd::kFailed) return refuse(id, session->failure().message);
  const auto done = take(id);
  handlers.on_link(preamble, Link::over(loop, std::move(session), done->peer, link_options));
}

void Acceptor::Impl::refuse(std::uint64_t id, const std::string& why, std::optional<RefusalCode> code) {
  const auto dropped = take(id);
  log.refused(monotonic_now(), "refused a connection from " + dropped->peer + ": " + why);
  if (dropped->handshake) dropped->handshake->cancel();
  if (dropped->stream) {
    dropped->stream->release();
    dropped->stream.reset();
  }
  if (code && dropped->socket) refuse_socket(std::move(dropped->socket), *code);
}

std::unique_ptr<Acceptor::Impl::Incoming> Acceptor::Impl::take(std::uint64_t id) {
  const auto found = incoming.find(id);
  MOBULA_CHECK(found != incoming.end());
  auto taken = std::move(found->second);
  incoming.erase(found);
  loop.cancel(taken->timer);
  const auto counted = per_address.find(taken->key);
  if (--counted->second == 0) per_address.erase(counted);
  return taken;
}

void accept_handed_over(Loop& loop, Fd socket, KeyLookup lookup,
                        std::function<void(Result<std::shared_ptr<Link>>)> done, AcceptLimits limits,
                        LinkOptions link_options) {
  tune_tcp_socket(socket.get());
  // Everything that moves lives in one shared piece, because a posted function must be copyable.
  struct Start {
    Fd socket;
    KeyLookup lookup;
    std::function<void(Result<std::shared_ptr<Link>>)> done;
  };
  auto start = std::make_shared<Start>(Start{std::move(socket), std::move(lookup), std::move(done)});
  const Instant deadline = monotonic_now() + limits.handshake_time_max;
  loop.post([&loop, start, deadline, link_options] {
    const std::string peer = peer_address_text(start->socket.get());
    auto finished = [&loop, start, link_options, peer](std::unique_ptr<TlsSession> session, HandshakeEnd end) {
      if (end == HandshakeEnd::kDone) return start->done(Link::over(loop, std::move(session), peer, link_options));
      const ErrorInfo why = end == HandshakeEnd::kTimeout
                                ? make_error(ErrorKind::kUnauthenticated, "it did not authenticate in time")
                                : session->failure();
      start->done(make_error(why.kind, "refused a connection from " + peer + ": " + why.message));
    };
    Handshake::begin(loop, TlsSession::server(std::move(start->socket), start->lookup), deadline, std::move(finished));
  });
}

void refuse_socket(Fd socket, RefusalCode code) {
  const auto bytes = encode_preamble(make_refusal(code));
  static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  ::shutdown(socket.get(), SHUT_WR);
  // Closing with unread bytes resets the connection, which could overtake the refusal.
  std::array<std::byte, kHandshakeBytesMax> dropped;
  static_cast<void>(::recv(socket.get(), dropped.data(), dropped.size(), MSG_DONTWAIT));
}

}  // namespace mobula::net
