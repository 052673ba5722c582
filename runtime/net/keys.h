// Keys and identities: who may prove to be whom. See "Security" in ARCHITECTURE.md.
//
// A cluster has one 256-bit key. Whoever connects names an identity and proves that it holds the key derived for it;
// so a leaf (one identity and its key) can be given away without the cluster key, and roles cannot be forged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <mobula/ids.h>

#include "runtime/base/protocol/hello.h"
#include "runtime/base/result.h"

namespace mobula::net {

// 256 secret bits. Has no operator<< and no comparison but a constant-time one; wiped when destroyed. Never put into
// a log or an error message.
class Key {
 public:
  static constexpr std::size_t kSize = 32;

  static Key random();
  // The publicly known key of `--insecure`: then links are encrypted but anyone may connect.
  static Key insecure();
  // 64 hex digits. The error does not repeat the text.
  static Result<Key> from_hex(std::string_view hex);
  explicit Key(std::span<const std::byte, kSize> bytes);
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key();

  std::span<const std::byte, kSize> bytes() const { return bytes_; }
  // For the cluster file and for messages that hand a key over, nothing else.
  std::string reveal_hex() const;

  friend bool operator==(const Key& a, const Key& b);

 private:
  Key() = default;
  std::array<std::byte, kSize> bytes_{};
};

// What somebody may do follows from the role that was proven. On links between processes each, the driver too, is a
// kWorker.
using mobula::Role;
const char* name_of(Role role);

// Who is at the other end. As text: "1|<epoch>|<role>|<job>|<holder>", the TLS PSK identity.
struct Identity {
  std::uint32_t epoch = 1;  // which cluster key; two may live at a time
  Role role = Role::kViewer;
  JobId job;                 // kWorker and job-bound clients; else none
  std::uint64_t holder = 0;  // NodeId, ProcessId, or a random number for a key file

  friend bool operator==(const Identity&, const Identity&) = default;
};
std::string to_string(const Identity& identity);
// Accepts exactly what to_string makes.
Result<Identity> parse_identity(std::string_view text);

// What one side of a connection needs to prove who it is.
struct Leaf {
  Identity identity;
  Key key;
};

// HKDF-SHA256 of `parent`, with `label` as info.
Key derive_key(const Key& parent, std::string_view label);
// The key by which a process knows who may open links to it, from the cluster key: derived with "link|<process>". Only
// the process and the node daemons have it.
Key process_link_key(const Key& cluster_key, ProcessId process);
// The key that belongs to an identity, from the cluster key.
Key identity_key(const Key& cluster_key, const Identity& identity);
Leaf make_leaf(const Key& cluster_key, const Identity& identity);
// For a link of the process `holder`, of that job, to the process that `link_key` belongs to: a node daemon makes it
// for the processes of its node, of whichever job the other one is.
Leaf make_link_leaf(const Key& link_key, std::uint32_t epoch, JobId job, ProcessId holder);

// How an accepting side finds the key of whoever connects; an error refuses, and its message goes to the log.
using KeyLookup = std::function<Result<Key>(const Identity&)>;
// For a holder of the cluster key: accepts the roles named, of this epoch.
KeyLookup cluster_key_lookup(Key cluster_key, std::uint32_t epoch, std::initializer_list<Role> roles);
// For a process: accepts the processes that a node daemon gave a leaf for links to it.
KeyLookup link_key_lookup(Key link_key, std::uint32_t epoch);

}  // namespace mobula::net
