// Identities of everything a cluster knows, each a type of its own so that none is passed for another.
//
// Ids are drawn at random (64 bits) by whoever makes the thing, or are a pair of the maker's id and a
// sequence number. They are values: copyable, comparable, hashable, and printed as hex.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include <mobula/detail/export.h>

namespace mobula {

// A random 64-bit identity. Zero means "none".
template <class Tag>
struct Id {
  std::uint64_t value = 0;

  constexpr explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

// An identity made of its maker's process id and a sequence number that the maker never reuses. Zero means "none".
template <class Tag>
struct PairId {
  std::uint64_t maker = 0;
  std::uint64_t sequence = 0;

  constexpr explicit operator bool() const { return maker != 0 || sequence != 0; }
  friend constexpr auto operator<=>(const PairId&, const PairId&) = default;
};

// One start of a node daemon: a restarted daemon is a new node.
using NodeId = Id<struct NodeTag>;
// One run of a driver or worker: never reused, so it is its own incarnation.
using ProcessId = Id<struct ProcessTag>;
// One run of a driver and of all it started.
using JobId = Id<struct JobTag>;
// A cluster, from its first start for as long as its store lives.
using ClusterId = Id<struct ClusterTag>;

// `maker` is the process that owns the object.
using ObjectId = PairId<struct ObjectTag>;
// `maker` is the process that submitted the task or call.
using TaskId = PairId<struct TaskTag>;
// `maker` is the process that created the actor.
using ActorId = PairId<struct ActorTag>;
// `maker` is the process that asked for the lease.
using LeaseId = PairId<struct LeaseTag>;
// A client-made request id, see "Idempotence" in ARCHITECTURE.md. `maker` is the client's process id.
using RequestId = PairId<struct RequestTag>;

// An object and where its owner is reached. A value of 32 bytes; travels inside payloads.
struct ObjectLocator {
  ObjectId id;
  NodeId owner_node;
  JobId owner_job;
  friend auto operator<=>(const ObjectLocator&, const ObjectLocator&) = default;
};

// The process that owns `id`.
constexpr ProcessId owner_of(ObjectId id) {
  return ProcessId{id.maker};
}

// 16 hex digits.
MOBULA_API std::string to_string_hex(std::uint64_t value);

template <class Tag>
std::string to_string(Id<Tag> id) {
  return to_string_hex(id.value);
}

// "maker:sequence" in hex.
template <class Tag>
std::string to_string(PairId<Tag> id) {
  return to_string_hex(id.maker) + ":" + to_string_hex(id.sequence);
}

// The reverse of to_string; false when `text` is not such an id.
MOBULA_API bool parse_hex(std::string_view text, std::uint64_t& value);

template <class Tag>
bool parse_id(std::string_view text, Id<Tag>& id) {
  return parse_hex(text, id.value);
}

template <class Tag>
bool parse_id(std::string_view text, PairId<Tag>& id) {
  const auto colon = text.find(':');
  return colon != std::string_view::npos && parse_hex(text.substr(0, colon), id.maker) &&
         parse_hex(text.substr(colon + 1), id.sequence);
}

namespace detail {
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93U;
  x ^= x >> 32;
  return x;
}
}  // namespace detail

}  // namespace mobula

template <class Tag>
struct std::hash<mobula::Id<Tag>> {
  std::size_t operator()(mobula::Id<Tag> id) const { return mobula::detail::mix(id.value); }
};

template <class Tag>
struct std::hash<mobula::PairId<Tag>> {
  std::size_t operator()(mobula::PairId<Tag> id) const {
    return mobula::detail::mix(id.maker ^ mobula::detail::mix(id.sequence));
  }
};
