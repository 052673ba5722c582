// Acceptor: the one TCP port of a daemon, and what stands between an open port and the cluster.
//
// Whoever connects gets 4 KiB and 5 seconds to say a preamble and to prove an identity; few may try at once. A refusal
// costs one log line (rate-limited) and nothing else.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/net/address.h"
#include "runtime/net/fd.h"
#include "runtime/net/keys.h"
#include "runtime/net/link.h"
#include "runtime/net/loop.h"
#include "runtime/net/preamble.h"

namespace mobula::net {

struct AcceptLimits {
  Duration handshake_time_max = std::chrono::seconds(5);
  std::size_t pending_per_address_max = 16;  // unauthenticated connections; an IPv6 /64 counts as one address
  std::size_t pending_max = 256;             // in all; above it the oldest is dropped
  std::uint32_t log_lines_per_minute_max = 20;
};

struct AcceptHandlers {
  // Finds keys; called with identities nobody has proven yet.
  KeyLookup lookup;
  // An authenticated connection (link->identity() is set). It is not started yet; whether the role may use this kind
  // is checked by the receiver, which closes the link otherwise.
  std::function<void(const Preamble&, std::shared_ptr<Link>)> on_link;
  // A connection for a process (ConnectionKind::kProcess): socket as it is after the preamble, nothing proven. The
  // receiver hands it to the process, which calls accept_handed_over(), or calls refuse_socket(). May be empty: then
  // such connections are refused.
  std::function<void(const Preamble&, Fd socket, std::string peer)> on_hand_over;
  // One refusal, already rate-limited, without secrets, on one line.
  std::function<void(std::string_view line)> log;
};

// Handlers run as handlers of the loop. Used and destroyed where the token is held (or before the loop runs).
class Acceptor {
 public:
  // Listens at `host` (a name or address; "0.0.0.0" or "::" for all) on a port of the range. The error names the
  // address and the remedy.
  static Result<std::unique_ptr<Acceptor>> listen(Loop& loop, const std::string& host, PortRange ports,
                                                  AcceptHandlers handlers, AcceptLimits limits = {},
                                                  LinkOptions link_options = {});
  ~Acceptor();  // stops listening; drops connections that are not authenticated yet
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  std::uint16_t port() const;
  std::size_t pending() const;    // unauthenticated connections now
  std::uint64_t refused() const;  // since the start

  struct Impl;  // for this layer

 private:
  explicit Acceptor(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// Runs the accepting side of the handshake on a socket whose preamble somebody else has read (it came over a Unix
// link). `done` runs as a handler, within limits.handshake_time_max.
void accept_handed_over(Loop& loop, Fd socket, KeyLookup lookup,
                        std::function<void(Result<std::shared_ptr<Link>>)> done, AcceptLimits limits = {},
                        LinkOptions link_options = {});

// Tells the connecting side why, then closes.
void refuse_socket(Fd socket, RefusalCode code);

}  // namespace mobula::net
