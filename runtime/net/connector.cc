#include "runtime/net/connector.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "runtime/net/asio.h"
#include "runtime/net/handshake.h"
#include "runtime/net/socket.h"
#include "runtime/net/tls.h"

namespace mobula::net {
namespace {

using asio::ip::tcp;

constexpr Duration kRetryFirst = std::chrono::milliseconds(20);
constexpr Duration kRetryLongest = std::chrono::seconds(1);
constexpr int kUnheardRetriesMax = 4;  // a peer that closes without a word may be busy, or no Mobula at all

// One connect(): lives by the handlers that wait for something on its behalf.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  using Done = std::function<void(Result<std::shared_ptr<Link>>)>;

  Attempt(Loop& loop, HostPort to, Leaf leaf, const Preamble& preamble, Instant deadline, Done done,
          LinkOptions options)
      : loop_(loop), to_(std::move(to)), leaf_(std::move(leaf)), preamble_(preamble), deadline_(deadline),
        done_(std::move(done)), options_(options), resolver_(loop.context()) {}
  ~Attempt() {
    if (stream_) stream_->release();
  }

  void begin() {
    if (deadline_ != Instant::never()) {
      deadline_timer_ = loop_.call_at(deadline_, [self = shared_from_this()] { self->on_deadline(); });
    }
    resolve();
  }

 private:
  void resolve();
  void on_resolved(const asio::error_code& error, const tcp::resolver::results_type& found);
  void try_next();
  void wait_connected();
  void on_connected();
  void on_handshake(std::unique_ptr<TlsSession> session, HandshakeEnd end);
  void on_refusal(const Preamble& refusal);
  void retry_later(std::string why);
  void give_up_address(int error);
  void drop_socket();
  void on_deadline();
  void finish(Result<std::shared_ptr<Link>> result);
  void fail_unreachable(const std::string& why, const std::string& remedy);

  Loop& loop_;
  const HostPort to_;
  const Leaf leaf_;
  const Preamble preamble_;
  const Instant deadline_;
  Done done_;
  const LinkOptions options_;

  tcp::resolver resolver_;
  std::vector<tcp::endpoint> endpoints_;
  std::size_t next_ = 0;  // of endpoints_
  std::string failures_;  // one part per address tried
  Fd socket_;
  std::unique_ptr<asio::posix::stream_descriptor> stream_;
  std::weak_ptr<Handshake> handshake_;  // it owns this Attempt, through its callback
  TimerId deadline_timer_ = TimerId::kNone;
  TimerId step_timer_ = TimerId::kNone;  // ends the wait for one address, or the pause before a retry
  Duration retry_ = kRetryFirst;
  int unheard_ = 0;
  const char* doing_ = "resolving the name";
  bool finished_ = false;
};

void Attempt::resolve() {
  asio::error_code error;
  const auto address = asio::ip::make_address(to_.host, error);
  if (!error) {
    endpoints_.emplace_back(address, to_.port);
    try_next();
    return;
  }
  resolver_.async_resolve(
      to_.host, std::to_string(to_.port),
      [self = shared_from_this()](const asio::error_code& failure, const tcp::resolver::results_type& found) {
        self->on_resolved(failure, found);
      });
}

void Attempt::on_resolved(const asio::error_code& error, const tcp::resolver::results_type& found) {
  if (finished_) return;
  if (error || found.empty()) {
    return fail_unreachable("the host name is not known (" + error.message() + ")",
                            "Check its spelling, or use an IP address");
  }
  for (const auto& entry : found) endpoints_.push_back(entry.endpoint());
  try_next();
}

void Attempt::try_next() {
  doing_ = "connecting";
  if (next_ == endpoints_.size()) {
    return fail_unreachable(failures_,
                            "Is the cluster running there, and are address, network and firewall right? "
                            "(mobula doctor)");
  }
  const tcp::endpoint& endpoint = endpoints_[next_];
  socket_.reset(::socket(endpoint.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return give_up_address(errno);
  tune_tcp_socket(socket_.get());
  if (::connect(socket_.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 && errno != EINPROGRESS) {
    return give_up_address(errno);
  }
  wait_connected();
}

void Attempt::wait_connected() {
  stream_ = std::make_unique<asio::posix::stream_descriptor>(loop_.context(), socket_.get());
  stream_->async_wait(asio::posix::stream_descriptor::wait_write,
                      [self = shared_from_this()](const asio::error_code& error) {
                        if (!error && !self->finished_) self->on_connected();
                      });
  const std::size_t left = endpoints_.size() - next_;
  if (left > 1 && deadline_ != Instant::never()) {
    // Leave time for the other addresses.
    const Duration share = (deadline_ - monotonic_now()) / static_cast<std::int64_t>(left);
    step_timer_ = loop_.call_after(share, [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && !self->finished_) self->give_up_address(ETIMEDOUT);
    });
  }
}

void Attempt::give_up_address(int error) {
  drop_socket();
  if (!failures_.empty()) failures_ += "; ";
  if (endpoints_.size() > 1 || endpoints_[next_].address().to_string() != to_.host) {
    failures_ += endpoints_[next_].address().to_string() + ": ";
  }
  failures_ += errno_text(error);
  ++next_;
  try_next();
}

void Attempt::on_connected() {
  loop_.cancel(step_timer_);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return give_up_address(error);
  doing_ = "waiting for the other end to authenticate";
  stream_->release();
  stream_.reset();
  handshake_ = Handshake::begin(loop_, TlsSession::client(std::move(socket_), leaf_, preamble_), Instant::never(),
                                [self = shared_from_this()](std::unique_ptr<TlsSession> session, HandshakeEnd end) {
                                  self->on_handshake(std::move(session), end);
                                });
}

void Attempt::on_handshake(std::unique_ptr<TlsSession> session, HandshakeEnd end) {
  if (finished_) return;
  if (end == HandshakeEnd::kDone) {
    finish(Link::over(loop_, std::move(session), to_string(to_), options_));
    return;
  }
  if (const auto refusal = session->refusal()) return on_refusal(*refusal);
  if (session->closed_unheard() && unheard_++ < kUnheardRetriesMax) {
    return retry_later("the other end closes the connection without a word");
  }
  if (session->failure().kind == ErrorKind::kUnauthenticated) {
    finish(make_error(ErrorKind::kUnauthenticated, to_string(to_) + ": " + session->failure().message));
    return;
  }
  fail_unreachable(session->failure().message, "Is it a Mobula cluster that listens there?");
}

void Attempt::on_refusal(const Preamble& refusal) {
  switch (static_cast<RefusalCode>(refusal.flags)) {
    case RefusalCode::kBusy: return retry_later("the other end sets up too many connections");
    case RefusalCode::kVersion:
      return fail_unreachable("it speaks protocol version " + std::to_string(refusal.version) +
                                  ", this program version " + std::to_string(kPreambleVersion),
                              "Use the same version of Mobula on both sides");
    case RefusalCode::kUnknownTarget:
      return fail_unreachable("what the connection is for is not there (any more)", "It has ended or was restarted");
  }
  fail_unreachable("it refused for a reason this version does not know",
                   "Use the same version of Mobula on both sides");
}

void Attempt::retry_later(std::string why) {
  failures_ = std::move(why);
  if (deadline_ != Instant::never() && monotonic_now() + retry_ >= deadline_) {
    return fail_unreachable(failures_, "Try again later");
  }
  step_timer_ = loop_.call_after(retry_, [self = shared_from_this()] {
    if (self->finished_) return;
    self->failures_.clear();
    self->try_next();
  });
  retry_ = std::min(retry_ * 2, kRetryLongest);
}

void Attempt::drop_socket() {
  loop_.cancel(step_timer_);
  if (stream_) stream_->release();
  stream_.reset();
  socket_.reset();
}

void Attempt::on_deadline() {
  if (finished_) return;
  const std::string before = failures_.empty() ? std::string() : " (" + failures_ + ")";
  fail_unreachable("no answer in time while " + std::string(doing_) + before,
                   "Is the cluster running there, and are address, network and firewall right? (mobula doctor)");
}

void Attempt::fail_unreachable(const std::string& why, const std::string& remedy) {
  finish(make_error(ErrorKind::kUnreachable, "cannot reach " + to_string(to_) + ": " + why + ". " + remedy));
}

void Attempt::finish(Result<std::shared_ptr<Link>> result) {
  if (finished_) return;
  finished_ = true;
  loop_.cancel(deadline_timer_);
  resolver_.cancel();
  drop_socket();
  if (const auto handshake = handshake_.lock()) handshake->cancel();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(result));
}

}  // namespace

void connect(Loop& loop, const HostPort& to, const Leaf& leaf, const Preamble& preamble, Instant deadline,
             std::function<void(Result<std::shared_ptr<Link>>)> done, LinkOptions options) {
  auto attempt = std::make_shared<Attempt>(loop, to, leaf, preamble, deadline, std::move(done), options);
  loop.post([attempt = std::move(attempt)] { attempt->begin(); });
}

}  // namespace mobula::net
