// Link: a connection that carries frames, in order, both ways, over a Unix socket or TCP with TLS.
//
// Sending is split in two, because machines are stepped under a lock but bytes move outside it: queue() only appends
// (order is fixed there), flush() writes without blocking, in the calling thread when the socket takes it, so a call
// needs no thread hop; what the socket does not take is written by the loop when it can.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/net/frame.h"
#include "runtime/net/keys.h"
#include "runtime/net/loop.h"
#include "runtime/net/transport.h"

namespace mobula::net {

struct LinkOptions {
  std::size_t frame_size_max = kFrameSizeMax;             // of what arrives
  std::size_t high_water = std::size_t{8} << 20;          // queued bytes above which a sender should hold back
  std::size_t queued_bytes_max = std::size_t{256} << 20;  // a queue above this closes the link
  Duration stall_limit = std::chrono::seconds(30);        // no byte taken for so long closes the link
};

// All are called as handlers of the loop, never two at once, and never from inside a Link function.
struct LinkHandlers {
  // What arrived at one wake-up, in order. The frames may be moved from.
  std::function<void(std::span<Frame>)> on_frames;
  // Once, after the last on_frames; the reason is readable text. Nothing is called after it.
  std::function<void(const ErrorInfo&)> on_closed;
  // The queue was above high_water and has fallen below half of it. May be empty.
  std::function<void()> on_drained;
  // Where bodies of raw frames go; may be empty. It is asked once a frame, before the body arrives, and the memory is
  // written as bytes come, complete only when on_frames has the frame.
  RawTargetFn raw_target;
};

struct LinkStats {
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t frames_in = 0;
  std::uint64_t frames_out = 0;
};

// Thread-safe, except where it says otherwise. An open link keeps itself alive: whoever is done with it closes it.
class Link : public std::enable_shared_from_this<Link> {
 public:
  // Over a connected, unencrypted stream socket: Unix sockets, socket pairs.
  static std::shared_ptr<Link> plain(Loop& loop, Fd socket, std::string peer, LinkOptions options = {});
  // Over any transport (connector and acceptor make TLS ones).
  static std::shared_ptr<Link> over(Loop& loop, std::unique_ptr<Transport> transport, std::string peer,
                                    LinkOptions options = {});
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Begins to read. Once. Frames may be queued and flushed before.
  void start(LinkHandlers handlers);

  // Appends; writes nothing. Returns false when the link is closed (the frame is dropped). A payload above
  // kFrameSizeMax or descriptors on a TLS link are a mistake of the caller (checked).
  bool queue(Frame frame);
  // Writes what is queued as far as the socket takes it; another thread that is already writing takes it over.
  void flush();
  bool send(Frame frame);  // queue, then flush

  std::size_t queued_bytes() const;
  bool above_high_water() const;

  // Closes soon, dropping what is queued. The first reason given wins.
  void close();
  void close(ErrorInfo reason);
  // Closes once everything queued so far is written (or the stall limit passes); nothing can be queued after it.
  void close_when_flushed(ErrorInfo reason);
  bool closed() const;

  // For messages: "10.0.0.7:4711", "unix, pid 123".
  const std::string& peer() const;
  // On the accepting side of a TLS link: who is at the other end, proven. None on the connecting side (there it is
  // whoever holds the keys) and on a Unix link.
  const std::optional<Identity>& identity() const;
  bool carries_descriptors() const;
  LinkStats stats() const;
  Loop& loop() const;

 private:
  struct Impl;
  Link(Loop& loop, std::unique_ptr<Transport> transport, std::string peer, LinkOptions options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mobula::net
