// The first 24 bytes of every TCP connection: what it is for, before anything is trusted.
//
// Little-endian: magic "MOBULA\r\n", u16 version, u16 kind, u32 flags, u64 target. The same 24 bytes with kind
// kRefusal are the only thing an acceptor ever says in the clear, and only to who began with the right magic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/result.h"

namespace mobula::net {

inline constexpr std::size_t kPreambleSize = 24;
inline constexpr std::uint16_t kPreambleVersion = 1;  // equal on both sides, else refused naming both

enum class ConnectionKind : std::uint16_t {
  kControl = 1,   // messages with the daemon itself
  kProcess = 2,   // to a process on the node: the daemon hands the socket over to `target`
  kTransfer = 3,  // object chunks
  kHeartbeat = 4,
  kRefusal = 0xffff,  // acceptor to connector: `flags` is a RefusalCode, `version` the acceptor's
};

enum class RefusalCode : std::uint32_t {
  kVersion = 1,        // the other speaks another version
  kBusy = 2,           // too many connections are being set up; try again
  kUnknownTarget = 3,  // no such incarnation here (any more)
};

struct Preamble {
  std::uint16_t version = kPreambleVersion;
  ConnectionKind kind = ConnectionKind::kControl;
  std::uint32_t flags = 0;
  std::uint64_t target = 0;  // NodeId, ProcessId, or 0 for the head

  friend bool operator==(const Preamble&, const Preamble&) = default;
};

std::array<std::byte, kPreambleSize> encode_preamble(const Preamble& preamble);
// The error says what came instead ("an HTTP request", "a TLS hello without preamble", "protocol version 7", ...).
Result<Preamble> decode_preamble(std::span<const std::byte, kPreambleSize> bytes);
// True when `bytes` (at least one) can no longer become a preamble.
bool preamble_is_hopeless(std::span<const std::byte> bytes);
// The clearest guess at what `bytes` are, for a log line; printable.
std::string describe_junk(std::span<const std::byte> bytes);

Preamble make_refusal(RefusalCode code);

}  // namespace mobula::net
