#include "runtime/core/peer_links.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/net/acceptor.h"
#include "runtime/process/session_dir.h"
#include "runtime/wire/codec.h"

namespace mobula::core {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(5);
constexpr Duration kBurstWindow = std::chrono::microseconds(100);  // frames to one peer closer together are joined
constexpr Duration kHoldMax = std::chrono::microseconds(300);      // nothing is held back longer
constexpr std::size_t kHeldMax = 64;                               // messages held back to one peer
constexpr std::size_t kFrameTarget = 1U << 20U;                    // bytes of one frame, unless one message is larger
constexpr std::uint32_t kKeyEpoch = 1;

std::optional<net::Key> key_of(const std::vector<std::uint8_t>& bytes) {
  if (bytes.size() != net::Key::kSize) return std::nullopt;
  return net::Key(std::as_bytes(std::span(bytes)).first<net::Key::kSize>());
}

}  // namespace

// One peer. `out` and `link` are guarded by PeerLinks::mutex_; `writing` makes one thread at a time encode and write.
struct PeerLinks::Channel {
  Peer peer;
  Endpoint endpoint;  // of its node, while a link there is opened
  std::vector<Envelope> out;
  std::shared_ptr<net::Link> link;                 // what we send on
  std::vector<std::shared_ptr<net::Link>> others;  // what the peer opened besides; we only read from them
  bool opening = false;
  bool dirty = false;
  bool ready = false;  // hello said: messages may follow
  Instant last_flush;
  std::mutex writing;
};

PeerLinks::PeerLinks(net::Loop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {
  node_ = std::make_shared<Channel>();
}

PeerLinks::~PeerLinks() {
  close();
}

Hello PeerLinks::hello() const {
  return own_hello_;
}

// long-function: one handshake from the first byte to the context, with its two handlers
Result<NodeContext> PeerLinks::join(net::Fd socket, const Hello& hello, int executable, Instant deadline) {
  own_hello_ = hello;
  auto link = net::Link::plain(loop_, std::move(socket), "the node daemon");
  struct Answer {
    std::optional<HelloReply> reply;
    std::optional<ErrorInfo> failed;
  };
  const auto answer = std::make_shared<Answer>();  // the handlers outlive this call
  net::Frame first;
  const Envelope envelope{{}, {}, 0, 0, hello};
  auto bytes = wire::encode({&envelope, 1});
  if (!bytes) return bytes.error();
  first.type = net::FrameType::kHello;
  first.body = *std::move(bytes);
  if (executable >= 0) first.descriptors.emplace_back(::dup(executable));
  const ChannelPtr channel = node_;
  net::LinkHandlers handlers;
  handlers.on_frames = [this, channel, link, answer](std::span<net::Frame> frames) {
    if (!answer->reply) {
      std::vector<Envelope> envelopes;
      if (const Status status = wire::decode(frames[0].body, envelopes); !status) {
        answer->failed = status.error();
      } else if (envelopes.empty() || !std::holds_alternative<HelloReply>(envelopes[0].message)) {
        answer->failed = make_error(ErrorKind::kInvalid, "the node daemon answered with something else than a hello");
      } else {
        answer->reply = std::get<HelloReply>(std::move(envelopes[0].message));
      }
      frames = frames.subspan(1);
    }
    if (answer->failed) return loop_.notify();
    if (!begun_) {
      for (net::Frame& frame : frames) early_.push_back(std::move(frame));
    } else if (!frames.empty()) {
      on_frames(channel, link, frames);
    }
    loop_.notify();
  };
  handlers.on_closed = [this, channel, link, answer](const ErrorInfo& why) {
    if (!answer->reply || answer->failed) {
      if (!answer->failed) answer->failed = why;
      loop_.notify();
      return;
    }
    on_closed(channel, link, why);
  };
  {
    const std::lock_guard lock(mutex_);
    node_->link = link;
  }
  link->start(std::move(handlers));
  link->send(std::move(first));
  loop_.run_until([&] { return answer->reply || answer->failed; }, deadline);
  if (!answer->failed && !answer->reply) {
    answer->failed = make_error(ErrorKind::kUnreachable, "the node daemon did not answer in time");
  }
  if (!answer->failed) answer->failed = answer->reply->error;
  if (answer->failed) {
    link->close();
    return *answer->failed;
  }
  const HelloReply* reply = &*answer->reply;
  context_.self = {hello.from.process(), reply->node, hello.job};
  context_.role = hello.role;
  context_.cluster = reply->cluster;
  context_.session = reply->session;
  context_.node_address = net::to_string(net::HostPort{reply->endpoint.host, reply->endpoint.port});
  context_.store_capacity = reply->store_capacity;
  context_.node_cpus = std::max(1U, reply->node_cpus);
  context_.link_key = key_of(reply->link_key);
  own_hello_.from.node = reply->node;
  node_->peer = Peer::of(reply->node);
  if (!listener_) {
    if (Status status = listen(context_.session, context_.self.process); !status) return status.error();
  }
  {
    const std::lock_guard lock(mutex_);
    node_->ready = true;
  }
  return context_;
}

Status PeerLinks::listen(const std::string& session, ProcessId self) {
  auto listener = net::UnixListener::listen(
      loop_, process::process_socket_path(session, self), nullptr, [this](net::Fd accepted, net::UnixPeer) {
        accept(net::Link::plain(loop_, std::move(accepted), "a process of this node"));
      });
  if (!listener) return listener.error();
  listener_ = *std::move(listener);
  return {};
}

void PeerLinks::begin() {
  loop_.post([this] {
    begun_ = true;
    std::vector<net::Frame> early = std::move(early_);
    if (!early.empty()) on_frames(node_, node_->link, early);
  });
}

// ---- sending
// -----------------------------------------------------------------------------------------------------------

PeerLinks::ChannelPtr PeerLinks::channel_of(const Peer& peer) {
  auto& channel = processes_[peer.id];
  if (!channel) {
    channel = std::make_shared<Channel>();
    channel->peer = peer;
  }
  return channel;
}

void PeerLinks::queue(Send send) {
  Envelope envelope;
  ChannelPtr to_open;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    ChannelPtr channel = node_;
    if (send.to.kind == PeerKind::kProcess) {
      channel = channel_of(send.to);
      if (!channel->link && !channel->opening) {
        channel->opening = true;
        to_open = channel;
      }
    } else if (send.to != node_->peer && send.to.kind != PeerKind::kNone) {
      envelope.to = send.to;  // the daemon relays
    }
    envelope.message = std::move(send.message);
    channel->out.push_back(std::move(envelope));
    if (!channel->dirty) {
      channel->dirty = true;
      dirty_.push_back(channel);
    }
  }
  if (to_open) {
    loop_.post([this, to_open] { open(to_open); });
  }
}

void PeerLinks::flush(bool urgent) {
  std::vector<ChannelPtr> now;
  bool hold = false;
  {
    const std::lock_guard lock(mutex_);
    if (dirty_.empty()) return;
    const Instant time = monotonic_now();
    std::vector<ChannelPtr> later;
    for (ChannelPtr& channel : dirty_) {
      if (!channel->ready) {
        channel->dirty = false;  // attach() marks it again
      } else if (!urgent && channel->out.size() < kHeldMax && time - channel->last_flush < kBurstWindow) {
        later.push_back(std::move(channel));
      } else {
        channel->dirty = false;
        channel->last_flush = time;
        now.push_back(std::move(channel));
      }
    }
    dirty_ = std::move(later);
    hold = !dirty_.empty() && !flush_armed_;
    if (hold) flush_armed_ = true;
  }
  for (const ChannelPtr& channel : now) flush_channel(*channel);
  if (hold) arm_flush();
}

void PeerLinks::arm_flush() {
  loop_.call_after(kHoldMax, [this] {
    {
      const std::lock_guard lock(mutex_);
      flush_armed_ = false;
    }
    flush(true);
  });
}

bool PeerLinks::flush_channel(Channel& channel) {
  const std::lock_guard writing(channel.writing);
  std::vector<Envelope> out;
  std::shared_ptr<net::Link> link;
  {
    const std::lock_guard lock(mutex_);
    if (!channel.ready || channel.out.empty()) return false;
    out.swap(channel.out);
    link = channel.link;
  }
  std::size_t begin = 0;
  while (begin < out.size()) {
    std::size_t end = begin;
    std::size_t bytes = wire::kFrameOverhead;
    do {
      bytes += wire::encoded_size(out[end]);
      ++end;
    } while (end < out.size() && bytes < kFrameTarget);
    auto encoded = wire::encode(std::span(out).subspan(begin, end - begin));
    if (!encoded && end - begin > 1) {  // together too large: one by one
      end = begin + 1;
      encoded = wire::encode(std::span(out).subspan(begin, 1));
    }
    MOBULA_CHECK(encoded.ok(), "the API refuses what does not fit a frame");
    link->queue(net::Frame{net::FrameType::kMessages, {}, *std::move(encoded), {}});
    begin = end;
  }
  link->flush();
  return true;
}

// ---- opening
// -------------------------------------------------------------------------------------------------------------

void PeerLinks::open(const ChannelPtr& channel) {
  if (channel->peer.node == context_.self.node) {
    auto socket = net::connect_unix(process::process_socket_path(context_.session, channel->peer.process()),
                                    monotonic_now() + std::chrono::milliseconds(200));
    if (!socket) return fail(channel, socket.error());
    attach(channel, net::Link::plain(loop_, *std::move(socket), "process " + to_string(channel->peer.process())), true);
    return;
  }
  Endpoint endpoint;
  {
    const std::lock_guard lock(mutex_);
    const auto known = endpoints_.find(channel->peer.node);
    if (known == endpoints_.end()) {
      auto& waiting = resolving_[channel->peer.node];
      waiting.push_back(channel);
      if (waiting.size() > 1) return;
    } else {
      endpoint = known->second;
    }
  }
  if (endpoint.port == 0) {
    queue(Send{node_->peer, ResolveNode{channel->peer.node}, 0});
    flush(true);
    return;
  }
  connect_remote(channel, endpoint);
}

void PeerLinks::on_node_resolved(const NodeResolved& message) {
  std::vector<ChannelPtr> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (message.alive) {
      endpoints_[message.node] = message.endpoint;
    } else {
      endpoints_.erase(message.node);
    }
    if (const auto found = resolving_.find(message.node); found != resolving_.end()) {
      waiting = std::move(found->second);
      resolving_.erase(found);
    }
  }
  for (const ChannelPtr& channel : waiting) {
    if (message.alive) {
      connect_remote(channel, message.endpoint);
    } else {
      fail(channel, make_error(ErrorKind::kUnreachable, "node " + to_string(message.node) + " is gone"));
    }
  }
}

// The key comes from our daemon: it vouches for who we are, and the other process may be of any job.
void PeerLinks::connect_remote(const ChannelPtr& channel, const Endpoint& endpoint) {
  {
    const std::lock_guard lock(mutex_);
    channel->endpoint = endpoint;
  }
  queue(Send{node_->peer, RequestLinkKey{channel->peer.process()}, 0});
  flush(true);
}

void PeerLinks::on_link_key(const LinkKeyGranted& message) {
  ChannelPtr channel;
  Endpoint endpoint;
  {
    const std::lock_guard lock(mutex_);
    const auto found = processes_.find(message.process.value);
    if (found == processes_.end() || !found->second->opening) return;
    channel = found->second;
    endpoint = channel->endpoint;
  }
  const auto key = key_of(message.key);
  if (!key || endpoint.port == 0) return;
  const net::Identity self{kKeyEpoch, net::Role::kWorker, context_.self.job, context_.self.process.value};
  net::Preamble preamble;
  preamble.kind = net::ConnectionKind::kProcess;
  preamble.target = channel->peer.id;
  net::connect(loop_, net::HostPort{endpoint.host, endpoint.port}, net::Leaf{self, *key}, preamble,
               monotonic_now() + kConnectTimeout, [this, channel](Result<std::shared_ptr<net::Link>> link) {
                 if (!link) return fail(channel, link.error());
                 attach(channel, *std::move(link), true);
               });
}

void PeerLinks::adopt(net::Fd socket, const std::string& from) {
  if (!context_.link_key) return net::refuse_socket(std::move(socket), net::RefusalCode::kUnknownTarget);
  net::accept_handed_over(loop_, std::move(socket), net::link_key_lookup(*context_.link_key, kKeyEpoch),
                          [this, from](Result<std::shared_ptr<net::Link>> link) {
                            if (link) accept(*std::move(link));
                          });
}

// A link that somebody else opened: its hello says who.
void PeerLinks::accept(std::shared_ptr<net::Link> link) {
  auto channel = std::make_shared<ChannelPtr>();
  net::LinkHandlers handlers;
  handlers.on_frames = [this, link, channel](std::span<net::Frame> frames) {
    if (!*channel) {
      std::vector<Envelope> envelopes;
      const Status status = wire::decode(frames[0].body, envelopes);
      const auto* hello = status && !envelopes.empty() ? std::get_if<Hello>(&envelopes[0].message) : nullptr;
      if (hello == nullptr || !hello->from.process() || hello->protocol != kProtocolMajor ||
          (link->identity() && link->identity()->holder != hello->from.id)) {
        link->close(make_error(ErrorKind::kInvalid, "a process introduced itself wrongly"));
        return;
      }
      bool first = false;
      {
        const std::lock_guard lock(mutex_);
        *channel = channel_of(hello->from);
        (*channel)->peer.node = hello->from.node;
        if (!(*channel)->link && !(*channel)->opening) {
          (*channel)->link = link;
          (*channel)->ready = true;
          first = true;
        } else {
          (*channel)->others.push_back(link);
        }
      }
      if (first) handlers_.joined((*channel)->peer, *hello);
      frames = frames.subspan(1);
    }
    if (!frames.empty()) on_frames(*channel, link, frames);
  };
  handlers.on_closed = [this, link, channel](const ErrorInfo& why) {
    if (*channel) on_closed(*channel, link, why);
  };
  link->start(std::move(handlers));
}

void PeerLinks::attach(const ChannelPtr& channel, std::shared_ptr<net::Link> link, bool say_hello) {
  if (say_hello) {
    const Envelope envelope{{}, {}, 0, 0, hello()};
    auto bytes = wire::encode({&envelope, 1});
    MOBULA_CHECK(bytes.ok());
    link->queue(net::Frame{net::FrameType::kHello, {}, *std::move(bytes), {}});
  }
  net::LinkHandlers handlers;
  handlers.on_frames = [this, channel, link](std::span<net::Frame> frames) { on_frames(channel, link, frames); };
  handlers.on_closed = [this, channel, link](const ErrorInfo& why) { on_closed(channel, link, why); };
  {
    const std::lock_guard lock(mutex_);
    channel->link = link;
    channel->opening = false;
    channel->ready = true;
  }
  link->start(std::move(handlers));
  Hello peer;
  peer.from = channel->peer;
  handlers_.joined(channel->peer, peer);
  flush_channel(*channel);
}

// ---- receiving
// -----------------------------------------------------------------------------------------------------------

void PeerLinks::on_frames(const ChannelPtr& channel, const std::shared_ptr<net::Link>& link,
                          std::span<net::Frame> frames) {
  std::vector<Envelope> envelopes;
  std::vector<Envelope> decoded;
  std::vector<net::Fd> descriptors;
  for (net::Frame& frame : frames) {
    if (const Status status = wire::decode(frame.body, decoded); !status) {
      link->close(status.error());
      break;
    }
    if (!frame.descriptors.empty() && !envelopes.empty()) {
      std::vector<net::Fd> none;
      handlers_.received(channel->peer, envelopes, none);
      envelopes.clear();
    }
    for (Envelope& envelope : decoded) envelopes.push_back(std::move(envelope));
    if (!frame.descriptors.empty()) {
      descriptors = std::move(frame.descriptors);
      handlers_.received(channel->peer, envelopes, descriptors);
      envelopes.clear();
      descriptors.clear();
    }
  }
  if (!envelopes.empty()) handlers_.received(channel->peer, envelopes, descriptors);
}

void PeerLinks::on_closed(const ChannelPtr& channel, const std::shared_ptr<net::Link>& link, const ErrorInfo& why) {
  if (channel == node_) {
    bool quiet = false;
    {
      const std::lock_guard lock(mutex_);
      node_->ready = false;
      quiet = closed_;
    }
    if (!quiet) handlers_.node_lost(why);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase(channel->others, link);
    if (closed_) return;
  }
  fail(channel, why);
}

// What was sent may be lost: both directions start anew.
void PeerLinks::fail(const ChannelPtr& channel, const ErrorInfo& why) {
  std::vector<std::shared_ptr<net::Link>> links;
  {
    const std::lock_guard lock(mutex_);
    const auto found = processes_.find(channel->peer.id);
    if (found == processes_.end() || found->second != channel) return;
    processes_.erase(found);
    links = std::move(channel->others);
    if (channel->link) links.push_back(std::move(channel->link));
    channel->link.reset();
    channel->others.clear();
    channel->ready = false;
    channel->opening = false;
    channel->out.clear();
  }
  for (const auto& link : links) link->close(why);
  handlers_.lost(channel->peer, why);
}

bool PeerLinks::drained() const {
  const std::lock_guard lock(mutex_);
  return closed_ && (!node_->link || node_->link->closed() || node_->link->queued_bytes() == 0);
}

void PeerLinks::close() {
  std::vector<ChannelPtr> channels;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    channels.push_back(node_);
    for (const auto& [id, channel] : processes_) channels.push_back(channel);
  }
  for (const ChannelPtr& channel : channels) flush_channel(*channel);
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  listener_.reset();
  const ErrorInfo reason = make_error(ErrorKind::kRuntimeStopped, "the runtime of this process has ended");
  for (const ChannelPtr& channel : channels) {
    if (channel->link) channel->link->close_when_flushed(reason);
    for (const auto& link : channel->others) link->close(reason);
  }
}

}  // namespace mobula::core
