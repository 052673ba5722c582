// Which role may send which message to which kind of receiver: one table, so that a stolen or mistaken client key
// cannot pose as a node. Every receiver asks it before it looks into a message; what is not allowed is refused and
// logged.
#pragma once

#include <cstdint>

#include "runtime/base/protocol/message.h"

namespace mobula {

enum class Receiver : std::uint8_t { kHead = 0, kNode = 1, kProcess = 2, kClient = 3 };

// A set of roles, one bit each.
class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(Role role) : bits_(bit(role)) {}  // NOLINT(google-explicit-constructor)

  constexpr bool has(Role role) const { return (bits_ & bit(role)) != 0; }
  constexpr bool meets(Roles other) const { return (bits_ & other.bits_) != 0; }
  constexpr Roles without(Role role) const {
    Roles rest = *this;
    rest.bits_ = static_cast<std::uint8_t>(rest.bits_ & ~bit(role));
    return rest;
  }
  constexpr bool empty() const { return bits_ == 0; }

  friend constexpr Roles operator|(Roles a, Roles b) {
    a.bits_ = static_cast<std::uint8_t>(a.bits_ | b.bits_);
    return a;
  }
  friend constexpr bool operator==(Roles, Roles) = default;

 private:
  static constexpr std::uint8_t bit(Role role) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(role)); }
  std::uint8_t bits_ = 0;
};

// Who may send this kind of message to such a receiver. By kind only: see may_send for what depends on the content.
Roles senders_of(const Message& message, Receiver receiver);

// A message from the process or daemon with `role` itself.
bool may_send(Role role, Receiver receiver, const Message& message);

// An envelope that arrives at `self` over a link whose other end is `peer` and has the role `link`. `from` and `to`
// decide when they are set: nobody but a node or the head speaks for others, and only for those it can stand for.
bool may_pass(Role link, const Peer& peer, Receiver self, const Envelope& envelope);

}  // namespace mobula
