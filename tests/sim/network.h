// The links between the processes and daemons of a simulated cluster.
//
// A link keeps order and delays at random. It breaks with all that is on the way, and each side notices in its own
// time: until then it sends in vain. Nothing of a new link arrives at a side that has not noticed the end of the old
// one.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include <mobula/error.h>

#include "runtime/base/bytes.h"
#include "runtime/base/protocol/message.h"
#include "runtime/base/rng.h"
#include "runtime/base/time.h"

namespace mobula::sim {

using namespace std::chrono_literals;

// A heap of (time, number): the only order there is.
class Timeline {
 public:
  void at(Instant when, std::function<void()> what);
  void after(Duration wait, std::function<void()> what) { at(now_ + wait, std::move(what)); }
  // Runs the next one; false when there is none up to `end`.
  bool step(Instant end);
  Instant now() const { return now_; }
  std::uint64_t events() const { return done_; }

 private:
  struct Item {
    Instant when;
    std::uint64_t number = 0;
    std::function<void()> what;
    friend bool operator<(const Item& a, const Item& b) {
      return a.when != b.when ? b.when < a.when : b.number < a.number;
    }
  };
  std::priority_queue<Item> items_;
  std::uint64_t numbers_ = 0;
  std::uint64_t done_ = 0;
  Instant now_{1'000'000'000};
};

// What has happened lately, a line each, and the hash of all that ever did.
class Trace {
 public:
  void note(Instant when, const Peer& from, const Peer& to, const char* what, std::uint64_t detail);
  std::uint64_t hash() const { return hash_; }
  // The last lines that name one of `about`; all of them when it is empty.
  std::string story(const std::vector<Peer>& about, std::size_t lines_max) const;

 private:
  struct Line {
    Instant when;
    Peer from;
    Peer to;
    const char* what = "";
  };
  static constexpr std::size_t kLinesMax = 200'000;

  std::deque<Line> lines_;
  std::uint64_t hash_ = 14695981039346656037ULL;
};

class Network {
 public:
  struct Handlers {
    std::function<bool(const Peer&)> alive;
    std::function<void(const Peer& at, const Peer& from, Envelope)> message;
    std::function<void(const Peer& at, const Peer& other)> joined;
    std::function<void(const Peer& at, const Peer& other, const ErrorInfo& why)> lost;
  };

  Network(Timeline& time, Trace& trace, Rng rng, bool codec, Handlers handlers);

  // Opens the link when there is none.
  void send(const Peer& from, const Peer& to, Envelope envelope);
  // Breaks the link between them, if one is open.
  void break_link(const Peer& one, const Peer& other);
  // `gone` has ended. `in_flight`: what it sent still arrives. The others notice within `notice`.
  void drop(const Peer& gone, bool in_flight, Duration notice);
  // Any open link between daemons or processes of different nodes, or between processes.
  std::optional<std::pair<Peer, Peer>> some_link(Rng& rng) const;
  std::vector<std::pair<Peer, Peer>> links_across(NodeId node) const;
  // All that comes from and goes to this node takes so much longer until then.
  void slow(NodeId node, Duration by, Instant until) { slow_[node] = {by, until}; }
  // Nothing gets through to other nodes and the head until then.
  void cut(NodeId node, Instant until);
  void heal();
  std::uint64_t messages() const { return messages_; }

 private:
  using Ends = std::pair<Peer, Peer>;
  struct Link {
    std::uint64_t epoch = 0;
    bool open = false;
    std::array<Peer, 2> ends;
    std::array<Instant, 2> noticed{};  // by the lower, the higher end: it sends in vain before
    std::array<Instant, 2> last{};     // delivery of the newest message, by sender
  };

  static Ends key(const Peer& a, const Peer& b) { return a < b ? Ends{a, b} : Ends{b, a}; }
  Duration delay(const Peer& from, const Peer& to);
  bool reachable(const Peer& from, const Peer& to) const;
  void open(const Ends& ends, Link& link, std::size_t opener);
  void lose(const Ends& ends, std::size_t side, Instant when, ErrorInfo why);
  void arrive(const Ends& ends, std::size_t side, std::uint64_t epoch, const Bytes& frame, Envelope& envelope);

  Timeline& time_;
  Trace& trace_;
  Rng rng_;
  bool codec_;
  Handlers handlers_;
  std::map<Ends, Link> links_;
  std::map<NodeId, std::pair<Duration, Instant>> slow_;
  std::map<NodeId, Instant> cut_;
  std::uint64_t messages_ = 0;
};

}  // namespace mobula::sim
