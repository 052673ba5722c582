#include "runtime/net/link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/net/asio.h"

namespace mobula::net {
namespace {

constexpr std::size_t kPartsMax = 64;                      // of one gathering write
constexpr std::size_t kWriteMax = std::size_t{256} << 10;  // bytes offered to one write, beyond its first frame
constexpr std::size_t kReadBudget = std::size_t{1} << 20;  // bytes one link reads before others get their turn
constexpr int kWriteRoundsMax = 16;                        // then a thread that came to send is let go
constexpr Duration kLingerMax = std::chrono::seconds(2);   // for the other end to take our last bytes

constexpr std::array<std::byte, 8> kZeros{};

// A frame on its way out; `written` counts its bytes on the wire that the socket has taken.
struct Outgoing {
  std::array<std::byte, kFrameHeaderSize> header;
  Frame frame;
  std::size_t written = 0;
  std::size_t size = 0;
};

// Collects the parts of frames for one gathering write, leaving out what is written already.
class Gather {
 public:
  // False when it is full: the frame was not added.
  bool add(const Outgoing& out) {
    if (count_ + 5 > kPartsMax || (count_ > 0 && size_ >= kWriteMax)) return false;
    skip_ = out.written;
    part(out.header.data(), out.header.size());
    part(out.frame.head.data(), out.frame.head.size());
    part(kZeros.data(), padded(out.frame.head.size()) - out.frame.head.size());
    part(out.frame.body.data(), out.frame.body.size());
    part(kZeros.data(), padded(out.frame.body.size()) - out.frame.body.size());
    return true;
  }
  std::span<const iovec> parts() const { return {parts_.data(), count_}; }

 private:
  void part(const std::byte* data, std::size_t size) {
    if (size <= skip_) {
      skip_ -= size;
      return;
    }
    parts_[count_++] = iovec{const_cast<std::byte*>(data) + skip_, size - skip_};
    size_ += size - skip_;
    skip_ = 0;
  }

  std::array<iovec, kPartsMax> parts_;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
  std::size_t skip_ = 0;
};

}  // namespace

struct Link::Impl {
  Impl(Link& link, Loop& loop_, std::unique_ptr<Transport> transport_, std::string peer_, LinkOptions options_)
      : self(link), loop(loop_), options(options_), transport(std::move(transport_)), peer(std::move(peer_)),
        identity(transport->peer_identity()), stream(loop_.context(), transport->descriptor()),
        reader(options_.frame_size_max) {}

  Link& self;
  Loop& loop;
  const LinkOptions options;
  const std::unique_ptr<Transport> transport;
  const std::string peer;
  const std::optional<Identity> identity;

  // Touched in handlers only.
  asio::posix::stream_descriptor stream;  // watches the transport's descriptor, does not own it
  FrameReader reader;
  std::vector<Frame> frames;
  LinkHandlers handlers;
  bool released = false;   // the descriptor is not watched any more
  bool lingering = false;  // everything is written and shut down; what still arrives is dropped
  TimerId stall_timer = TimerId::kNone;

  std::atomic<std::uint64_t> bytes_in = 0, bytes_out = 0, frames_in = 0, frames_out = 0;

  mutable std::mutex mutex;  // guards what follows
  std::deque<Outgoing> out;
  std::size_t queued = 0;
  bool started = false;
  bool writing = false;  // some thread is inside transport->write()
  bool blocked = false;  // the socket is full, the loop waits for it
  bool above_mark = false;
  bool closing = false;          // final; finish() is on its way or done
  bool closing_soon = false;     // once all is written
  bool finish_deferred = false;  // the writing thread has to ask for finish()
  bool finished = false;         // on_closed was called, or will be by start()
  ErrorInfo reason;

  void arm_read();
  void on_readable();
  bool read_once(std::size_t& budget, bool& more);
  void deliver();
  void arm_write();
  void on_stall();
  std::size_t consume(std::size_t size, std::vector<Outgoing>& done);
  bool write_round(std::unique_lock<std::mutex>& lock, std::vector<Outgoing>& done);
  void after_writing(std::unique_lock<std::mutex>& lock);
  void close(ErrorInfo why);
  void finish();
  void linger();
  // Runs `fn` as a handler, with the link kept alive until then.
  template <class Fn>
  void post(Fn fn) {
    loop.post([link = self.shared_from_this(), fn] { fn(*link->impl_); });
  }
};

Link::Link(Loop& loop, std::unique_ptr<Transport> transport, std::string peer, LinkOptions options)
    : impl_(std::make_unique<Impl>(*this, loop, std::move(transport), std::move(peer), options)) {}

Link::~Link() {
  if (!impl_->released) impl_->stream.release();
}

std::shared_ptr<Link> Link::over(Loop& loop, std::unique_ptr<Transport> transport, std::string peer,
                                 LinkOptions options) {
  return std::shared_ptr<Link>(new Link(loop, std::move(transport), std::move(peer), options));
}

std::shared_ptr<Link> Link::plain(Loop& loop, Fd socket, std::string peer, LinkOptions options) {
  return over(loop, make_plain_transport(std::move(socket)), std::move(peer), options);
}

void Link::start(LinkHandlers handlers) {
  // In a handler, because what is set here is touched in handlers only.
  auto begin = [handlers = std::move(handlers)](Impl& impl) mutable {
    bool was_finished;
    {
      const std::lock_guard lock(impl.mutex);
      MOBULA_CHECK(!impl.started, "a link is started once");
      impl.started = true;
      was_finished = impl.finished;
    }
    if (was_finished) {
      if (handlers.on_closed) handlers.on_closed(impl.reason);
      return;
    }
    impl.reader.set_raw_target(std::move(handlers.raw_target));
    impl.handlers = std::move(handlers);
    impl.arm_read();
    // What TLS read ahead during the handshake announces itself by no event.
    if (impl.transport->has_buffered()) impl.post([](Impl& later) { later.on_readable(); });
  };
  impl_->loop.post([link = shared_from_this(), begin = std::move(begin)]() mutable { begin(*link->impl_); });
}

// --- Reading -------------------------------------------------------------------------------------------------------

void Link::Impl::arm_read() {
  if (released) return;
  stream.async_wait(asio::posix::stream_descriptor::wait_read,
                    [link = self.shared_from_this()](const asio::error_code& error) {
                      if (!error) link->impl_->on_readable();
                    });
}

void Link::Impl::on_readable() {
  if (released) return;
  std::size_t budget = kReadBudget;
  bool more = true;
  while (more && read_once(budget, more)) {}
  deliver();
  if (released) return;
  {
    const std::lock_guard lock(mutex);
    if (closing) return;
  }
  if (more) {
    post([](Impl& later) { later.on_readable(); });  // others get their turn
  } else {
    arm_read();
  }
}

// One read. False when the link is closing or the turn is over; `more` says whether to come back without waiting.
bool Link::Impl::read_once(std::size_t& budget, bool& more) {
  const std::span<std::byte> into = reader.writable();
  std::vector<Fd> descriptors;
  const IoResult result = transport->read(into, descriptors);
  more = false;
  if (result.state == IoResult::State::kWouldBlock) return false;
  if (result.state == IoResult::State::kEnd) {
    deliver();
    close(make_error(ErrorKind::kUnreachable, reader.at_boundary()
                                                  ? peer + " closed the connection"
                                                  : peer + " closed the connection in the middle of a frame"));
    return false;
  }
  if (result.state == IoResult::State::kError) {
    deliver();
    close(make_error(ErrorKind::kUnreachable, "the connection to " + peer + " broke: " + result.error));
    return false;
  }
  bytes_in.fetch_add(result.size, std::memory_order_relaxed);
  Status status;
  if (!descriptors.empty()) status = reader.add_descriptors(std::move(descriptors));
  if (status.ok()) status = reader.commit(result.size, frames);
  if (!status) {
    deliver();
    close(make_error(status.error().kind, peer + ": " + status.error().message));
    return false;
  }
  // A read that did not fill its room has emptied the socket.
  more = result.size == into.size() || transport->has_buffered();
  if (!more) return false;
  if (result.size >= budget) return false;
  budget -= result.size;
  return true;
}

void Link::Impl::deliver() {
  if (frames.empty()) return;
  frames_in.fetch_add(frames.size(), std::memory_order_relaxed);
  bool wanted = !lingering && handlers.on_frames;
  if (wanted) {
    const std::lock_guard lock(mutex);
    wanted = !closing;
  }
  if (wanted) handlers.on_frames(frames);
  frames.clear();
}

// --- Writing -------------------------------------------------------------------------------------------------------

bool Link::queue(Frame frame) {
  Impl& impl = *impl_;
  MOBULA_CHECK(frame.descriptors.empty() || impl.transport->carries_descriptors(),
               "descriptors travel on Unix links only");
  Outgoing out;
  out.header = encode_frame_header(frame);
  out.size = kFrameHeaderSize + padded(payload_size(frame));
  out.frame = std::move(frame);
  const std::lock_guard lock(impl.mutex);
  if (impl.closing || impl.closing_soon) return false;
  impl.queued += out.size;
  impl.out.push_back(std::move(out));
  if (impl.queued > impl.options.high_water) impl.above_mark = true;
  return true;
}

bool Link::send(Frame frame) {
  const bool queued = queue(std::move(frame));
  if (queued) flush();
  return queued;
}

void Link::flush() {
  Impl& impl = *impl_;
  std::vector<Outgoing> done;  // destroyed last, outside the lock: it may own what others guard by locks
  std::unique_lock lock(impl.mutex);
  if (impl.writing || impl.blocked || impl.closing) {
    if (!impl.closing && impl.queued > impl.options.queued_bytes_max) {
      lock.unlock();
      impl.close(make_error(ErrorKind::kOverloaded, impl.peer + " takes its data too slowly: more than " +
                                                        std::to_string(impl.options.queued_bytes_max) +
                                                        " bytes wait for it"));
    }
    return;
  }
  impl.writing = true;
  int rounds = 0;
  while (!impl.out.empty() && !impl.closing && impl.write_round(lock, done)) {
    if (++rounds < kWriteRoundsMax || impl.loop.in_loop()) continue;
    impl.post([](Impl& later) { later.self.flush(); });
    break;
  }
  impl.writing = false;
  impl.after_writing(lock);
}

// One write; the lock is released meanwhile. False when the socket takes no more.
bool Link::Impl::write_round(std::unique_lock<std::mutex>& lock, std::vector<Outgoing>& done) {
  Gather gather;
  std::span<const Fd> descriptors;
  bool first = true;
  for (const Outgoing& outgoing : out) {
    // Descriptors belong to the first byte of a write.
    const bool has_descriptors = !outgoing.frame.descriptors.empty() && outgoing.written == 0;
    if (has_descriptors && !first) break;
    if (!gather.add(outgoing)) break;
    if (has_descriptors) descriptors = outgoing.frame.descriptors;
    first = false;
  }
  // Elements stay where they are while others push to the back.
  lock.unlock();
  IoResult result = transport->write(gather.parts(), descriptors);
  lock.lock();
  if (result.state == IoResult::State::kDone) {
    consume(result.size, done);
    return true;
  }
  if (result.state == IoResult::State::kWouldBlock) {
    blocked = true;
    return false;
  }
  lock.unlock();
  close(make_error(ErrorKind::kUnreachable, "the connection to " + peer + " broke: " + result.error));
  lock.lock();
  return false;
}

std::size_t Link::Impl::consume(std::size_t size, std::vector<Outgoing>& done) {
  bytes_out.fetch_add(size, std::memory_order_relaxed);
  queued -= size;
  std::size_t count = 0;
  while (size > 0) {
    Outgoing& front = out.front();
    const std::size_t part = std::min(size, front.size - front.written);
    front.written += part;
    size -= part;
    if (front.written < front.size) break;
    done.push_back(std::move(front));
    out.pop_front();
    ++count;
  }
  frames_out.fetch_add(count, std::memory_order_relaxed);
  return count;
}

// What a thread owes the others once it is done writing. Releases the lock.
void Link::Impl::after_writing(std::unique_lock<std::mutex>& lock) {
  const bool wait = blocked && !closing;
  const bool drained = above_mark && queued < options.high_water / 2;
  if (drained) above_mark = false;
  const bool end = finish_deferred;
  finish_deferred = false;
  const bool linger_now = closing_soon && out.empty() && !closing;
  lock.unlock();
  if (wait) {
    if (loop.in_loop()) {
      arm_write();
    } else {
      post([](Impl& later) { later.arm_write(); });
    }
  }
  if (drained) {
    post([](Impl& later) {
      if (!later.released && later.handlers.on_drained) later.handlers.on_drained();
    });
  }
  if (linger_now) post([](Impl& later) { later.linger(); });
  if (end) post([](Impl& later) { later.finish(); });
}

void Link::Impl::arm_write() {
  if (released) return;
  loop.cancel(stall_timer);
  stall_timer = loop.call_after(options.stall_limit, [weak = self.weak_from_this()] {
    if (const auto link = weak.lock()) link->impl_->on_stall();
  });
  stream.async_wait(asio::posix::stream_descriptor::wait_write,
                    [link = self.shared_from_this()](const asio::error_code& error) {
                      if (error) return;
                      Impl& impl = *link->impl_;
                      impl.loop.cancel(impl.stall_timer);
                      {
                        const std::lock_guard lock(impl.mutex);
                        impl.blocked = false;
                      }
                      link->flush();
                    });
}

void Link::Impl::on_stall() {
  std::size_t waiting;
  {
    const std::lock_guard lock(mutex);
    if (!blocked) return;
    waiting = queued;
  }
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options.stall_limit);
  close(make_error(ErrorKind::kUnreachable, peer + " has stopped reading: nothing was taken for " +
                                                std::to_string(limit.count()) + " ms while " + std::to_string(waiting) +
                                                " bytes wait for it"));
}

std::size_t Link::queued_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->queued;
}

bool Link::above_high_water() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->above_mark;
}

// --- Closing -------------------------------------------------------------------------------------------------------

void Link::close() {
  impl_->close(make_error(ErrorKind::kUnreachable, "the connection was closed on this side"));
}
void Link::close(ErrorInfo reason) {
  impl_->close(std::move(reason));
}

void Link::Impl::close(ErrorInfo why) {
  {
    const std::lock_guard lock(mutex);
    if (closing) return;
    closing = true;
    if (!closing_soon) reason = std::move(why);
    if (writing) {
      finish_deferred = true;
      return;
    }
  }
  post([](Impl& later) { later.finish(); });
}

// The end: nobody writes any more. In a handler, at most once.
void Link::Impl::finish() {
  std::deque<Outgoing> dropped;
  bool call;
  {
    const std::lock_guard lock(mutex);
    if (finished) return;
    finished = true;
    dropped.swap(out);
    queued = 0;
    call = started;
  }
  loop.cancel(stall_timer);
  released = true;
  stream.release();
  if (!lingering) transport->shutdown();
  ::shutdown(transport->descriptor(), SHUT_RDWR);
  // The handlers may own the link: they go when the last of them is done.
  const LinkHandlers last = std::exchange(handlers, {});
  reader.set_raw_target({});
  if (call && last.on_closed) last.on_closed(reason);
}

void Link::close_when_flushed(ErrorInfo reason) {
  Impl& impl = *impl_;
  {
    const std::lock_guard lock(impl.mutex);
    if (impl.closing || impl.closing_soon) return;
    impl.closing_soon = true;
    impl.reason = std::move(reason);
    if (impl.writing || !impl.out.empty()) return;
  }
  impl.post([](Impl& later) { later.linger(); });
}

// All is written. A close right now would throw away what the other end has not read yet if it still sends (TCP
// resets), so only our direction ends, and the rest follows when the other end closes too.
void Link::Impl::linger() {
  if (released || lingering) return;
  lingering = true;
  transport->shutdown();
  ::shutdown(transport->descriptor(), SHUT_WR);
  loop.call_after(kLingerMax, [weak = self.weak_from_this()] {
    if (const auto link = weak.lock()) link->impl_->close({});
  });
  const std::lock_guard lock(mutex);
  if (!started) post([](Impl& later) { later.arm_read(); });
}

bool Link::closed() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->closing || impl_->closing_soon;
}

const std::string& Link::peer() const {
  return impl_->peer;
}
const std::optional<Identity>& Link::identity() const {
  return impl_->identity;
}
bool Link::carries_descriptors() const {
  return impl_->transport->carries_descriptors();
}
Loop& Link::loop() const {
  return impl_->loop;
}

LinkStats Link::stats() const {
  const auto read = [](const std::atomic<std::uint64_t>& value) { return value.load(std::memory_order_relaxed); };
  return {read(impl_->bytes_in), read(impl_->bytes_out), read(impl_->frames_in), read(impl_->frames_out)};
}

}  // namespace mobula::net
