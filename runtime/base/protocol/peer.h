// Who talks to whom.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include <mobula/ids.h>

namespace mobula {

enum class PeerKind : std::uint8_t {
  kNone = 0,  // the other end of the link
  kHead = 1,
  kNode = 2,     // id: NodeId
  kProcess = 3,  // id: ProcessId; node: where it lives, for routing
  kClient = 4,   // id: a connection of a command-line client, numbered by the head
};

struct Peer {
  PeerKind kind = PeerKind::kNone;
  std::uint64_t id = 0;
  NodeId node;  // not part of the identity

  static Peer head() { return {PeerKind::kHead, 0, {}}; }
  static Peer of(NodeId node) { return {PeerKind::kNode, node.value, node}; }
  static Peer of(ProcessId process, NodeId node) { return {PeerKind::kProcess, process.value, node}; }
  static Peer client(std::uint64_t connection) { return {PeerKind::kClient, connection, {}}; }

  ProcessId process() const { return ProcessId{kind == PeerKind::kProcess ? id : 0}; }

  friend bool operator==(const Peer& a, const Peer& b) { return a.kind == b.kind && a.id == b.id; }
  friend std::strong_ordering operator<=>(const Peer& a, const Peer& b) {
    if (const auto order = a.kind <=> b.kind; order != 0) return order;
    return a.id <=> b.id;
  }
};

std::string to_string(const Peer& peer);

// Host name, IPv4 or IPv6 address (no brackets), and port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

// Where a process is: its node's daemon hands connections over to it.
struct ProcessAddress {
  ProcessId process;
  NodeId node;
  JobId job;

  Peer peer() const { return Peer::of(process, node); }
  friend auto operator<=>(const ProcessAddress&, const ProcessAddress&) = default;
};

}  // namespace mobula

template <>
struct std::hash<mobula::Peer> {
  std::size_t operator()(const mobula::Peer& peer) const {
    return mobula::detail::mix(peer.id ^ (static_cast<std::uint64_t>(peer.kind) << 60));
  }
};
