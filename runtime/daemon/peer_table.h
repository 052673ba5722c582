// The links of a daemon, by peer, with what is queued for each until the end of the handler.
//
// Everything that one wake-up caused leaves together: one frame a peer. Used on the daemon's loop only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/machine.h"
#include "runtime/base/protocol/message.h"
#include "runtime/net/link.h"

namespace mobula::daemon {

struct PeerLink {
  Peer peer;
  Role role = Role::kClient;        // proven by the connection's kind and identity
  JobId job;                        // processes
  std::shared_ptr<net::Link> link;  // null while it is being opened
  bool joined = false;              // hello and reply are done: messages may flow
  std::vector<Envelope> out;        // bounded by the link's own bound once it is open
  bool dirty = false;
  std::set<std::uint32_t> writable;  // segments whose descriptors this process has
  std::set<std::uint32_t> readable;
  std::size_t queued_before_open = 0;
  static constexpr std::size_t kQueuedMax = 100000;  // messages kept while a link is opened
};

class PeerTable {
 public:
  PeerLink* find(const Peer& peer);
  // Makes an entry if there is none.
  PeerLink& entry(const Peer& peer);
  void erase(const Peer& peer);
  std::size_t size() const { return peers_.size(); }
  void for_each(const std::function<void(PeerLink&)>& visit);

  void queue(PeerLink& to, Envelope envelope);
  // One message with a descriptor (duplicated here): a frame of its own, after what is queued.
  void queue_with_descriptor(PeerLink& to, Envelope envelope, int descriptor);
  // Encodes and writes what was queued. Peers whose link is not open yet keep theirs.
  void flush();
  void flush_peer(PeerLink& peer);

 private:
  std::map<Peer, std::unique_ptr<PeerLink>> peers_;
  std::vector<Peer> dirty_;
};

// The first frame on a link, either way.
void send_hello(net::Link& link, const Hello& hello);
void send_hello_reply(net::Link& link, const HelloReply& reply);

// Takes the envelopes out of a frame; an error closes the link with it. False then.
bool decode_frame(net::Link& link, const net::Frame& frame, std::vector<Envelope>& envelopes);

// Major versions must be equal; the error names both.
std::optional<ErrorInfo> check_protocol(std::uint32_t theirs, const std::string& their_build);

inline constexpr const char* kBuild = "mobula 0.1.0";

}  // namespace mobula::daemon
