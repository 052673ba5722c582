// connect(): from an address and a leaf to an authenticated link, or to an error that says what to do.
#pragma once

#include <functional>
#include <memory>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/net/address.h"
#include "runtime/net/keys.h"
#include "runtime/net/link.h"
#include "runtime/net/loop.h"
#include "runtime/net/preamble.h"

namespace mobula::net {

// Resolves, tries the addresses one after the other, sends the preamble, authenticates both ways. `done` runs as a
// handler, exactly once, at the deadline at the latest: with a link that is not started yet, or with
//   kUnreachable      no such host, nothing listens there, no answer in time, another protocol version
//   kUnauthenticated  the other end refused our key, or could not prove that it knows it
// A busy acceptor is asked again until the deadline; nothing else is retried. From any thread.
void connect(Loop& loop, const HostPort& to, const Leaf& leaf, const Preamble& preamble, Instant deadline,
             std::function<void(Result<std::shared_ptr<Link>>)> done, LinkOptions options = {});

}  // namespace mobula::net
