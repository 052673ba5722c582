#include "runtime/net/handshake.h"

#include <utility>

#include "runtime/net/asio.h"

namespace mobula::net {
namespace {

class Driver final : public Handshake, public std::enable_shared_from_this<Driver> {
 public:
  Driver(Loop& loop, std::unique_ptr<TlsSession> session, Done done)
      : loop_(loop), session_(std::move(session)), stream_(loop.context(), session_->descriptor()),
        done_(std::move(done)) {}
  ~Driver() override {
    if (stream_.is_open()) stream_.release();
  }

  void set_deadline(Instant deadline) {
    timer_ = loop_.call_at(deadline, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->finish(HandshakeEnd::kTimeout);
    });
  }

  void advance() {
    if (!session_) return;
    switch (session_->handshake()) {
      case TlsSession::Progress::kDone: return finish(HandshakeEnd::kDone);
      case TlsSession::Progress::kFailed: return finish(HandshakeEnd::kFailed);
      case TlsSession::Progress::kWantsRead: return wait(asio::posix::stream_descriptor::wait_read);
      case TlsSession::Progress::kWantsWrite: return wait(asio::posix::stream_descriptor::wait_write);
    }
  }

  void cancel() override {
    done_ = nullptr;
    finish(HandshakeEnd::kFailed);
  }

 private:
  void wait(asio::posix::stream_descriptor::wait_type what) {
    stream_.async_wait(what, [self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->advance();
    });
  }

  void finish(HandshakeEnd end) {
    if (!session_) return;
    loop_.cancel(timer_);
    stream_.release();
    std::unique_ptr<TlsSession> session = std::move(session_);
    const Done done = std::exchange(done_, nullptr);
    if (done) done(std::move(session), end);
  }

  Loop& loop_;
  std::unique_ptr<TlsSession> session_;
  asio::posix::stream_descriptor stream_;
  Done done_;
  TimerId timer_ = TimerId::kNone;
};

}  // namespace

std::shared_ptr<Handshake> Handshake::begin(Loop& loop, std::unique_ptr<TlsSession> session, Instant deadline,
                                            Done done) {
  auto driver = std::make_shared<Driver>(loop, std::move(session), std::move(done));
  driver->set_deadline(deadline);
  driver->advance();
  return driver;
}

}  // namespace mobula::net
