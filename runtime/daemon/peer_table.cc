#include "runtime/daemon/peer_table.h"

#include <fcntl.h>

#include <span>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/wire/codec.h"

namespace mobula::daemon {
namespace {

constexpr std::size_t kFrameTarget = 1U << 20U;  // bytes of one frame, unless one message is larger

void send_one(net::Link& link, net::FrameType type, Message message) {
  const Envelope envelope{{}, {}, 0, 0, std::move(message)};
  auto bytes = wire::encode({&envelope, 1});
  MOBULA_CHECK(bytes.ok(), "a hello fits a frame");
  link.send(net::Frame{type, {}, *std::move(bytes), {}});
}

}  // namespace

PeerLink* PeerTable::find(const Peer& peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second.get();
}

PeerLink& PeerTable::entry(const Peer& peer) {
  auto& link = peers_[peer];
  if (!link) {
    link = std::make_unique<PeerLink>();
    link->peer = peer;
  }
  return *link;
}

void PeerTable::erase(const Peer& peer) {
  peers_.erase(peer);
}

void PeerTable::for_each(const std::function<void(PeerLink&)>& visit) {
  for (auto& [peer, link] : peers_) visit(*link);
}

void PeerTable::queue(PeerLink& to, Envelope envelope) {
  if (!to.joined && to.out.size() >= PeerLink::kQueuedMax) return;  // its peer will hear of the loss as PeerLost
  to.out.push_back(std::move(envelope));
  if (to.dirty) return;
  to.dirty = true;
  dirty_.push_back(to.peer);
}

void PeerTable::queue_with_descriptor(PeerLink& to, Envelope envelope, int descriptor) {
  flush_peer(to);
  if (!to.link) return;
  auto bytes = wire::encode({&envelope, 1});
  MOBULA_CHECK(bytes.ok(), "messages with descriptors are small");
  net::Frame frame;
  frame.body = *std::move(bytes);
  frame.descriptors.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  to.link->send(std::move(frame));
}

void PeerTable::flush() {
  std::vector<Peer> dirty;
  dirty.swap(dirty_);
  for (const Peer& peer : dirty) {
    if (PeerLink* link = find(peer)) {
      link->dirty = false;
      flush_peer(*link);
    }
  }
}

void PeerTable::flush_peer(PeerLink& peer) {
  if (!peer.link || !peer.joined || peer.out.empty()) return;
  std::vector<Envelope> out;
  out.swap(peer.out);
  std::size_t begin = 0;
  while (begin < out.size()) {
    std::size_t end = begin;
    std::size_t bytes = wire::kFrameOverhead;
    do {
      bytes += wire::encoded_size(out[end]);
      ++end;
    } while (end < out.size() && bytes + wire::encoded_size(out[end]) < kFrameTarget);
    auto encoded = wire::encode(std::span(out).subspan(begin, end - begin));
    if (encoded) {
      peer.link->queue(net::Frame{net::FrameType::kMessages, {}, *std::move(encoded), {}});
    } else {
      peer.link->close(encoded.error());  // one message alone is too large: nobody can receive it
      return;
    }
    begin = end;
  }
  peer.link->flush();
}

void send_hello(net::Link& link, const Hello& hello) {
  send_one(link, net::FrameType::kHello, hello);
}
void send_hello_reply(net::Link& link, const HelloReply& reply) {
  send_one(link, net::FrameType::kHello, reply);
}

bool decode_frame(net::Link& link, const net::Frame& frame, std::vector<Envelope>& envelopes) {
  const Status status = wire::decode(frame.body, envelopes);
  if (!status) link.close(status.error());
  return status.ok();
}

std::optional<ErrorInfo> check_protocol(std::uint32_t theirs, const std::string& their_build) {
  if (theirs == kProtocolMajor) return std::nullopt;
  return make_error(ErrorKind::kInvalid, "protocol versions differ: this side speaks " +
                                             std::to_string(kProtocolMajor) + " (" + kBuild + "), the other " +
                                             std::to_string(theirs) + " (" + their_build +
                                             "). Install the same version of Mobula on both.");
}

}  // namespace mobula::daemon
