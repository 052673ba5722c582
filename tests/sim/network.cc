#include "tests/sim/network.h"

#include <algorithm>
#include <cstdio>

#include "runtime/base/check.h"
#include "runtime/base/result.h"
#include "runtime/wire/codec.h"

namespace mobula::sim {
namespace {

constexpr Duration kConnectTimeout = 1s;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 1099511628211ULL;
  return hash ^ (hash >> 29U);
}

std::uint64_t hash_of(const Bytes& bytes) {
  std::uint64_t hash = bytes.size();
  for (const char byte : bytes.text()) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  return hash;
}

}  // namespace

// ---- time ----------------------------------------------------------------------------------------------------------

void Timeline::at(Instant when, std::function<void()> what) {
  items_.push({std::max(when, now_), numbers_++, std::move(what)});
}

bool Timeline::step(Instant end) {
  if (items_.empty() || end < items_.top().when) {
    now_ = std::max(now_, end);
    return false;
  }
  now_ = items_.top().when;
  std::function<void()> what = items_.top().what;
  items_.pop();
  ++done_;
  what();
  return true;
}

// ---- trace ---------------------------------------------------------------------------------------------------------

void Trace::note(Instant when, const Peer& from, const Peer& to, const char* what, std::uint64_t detail) {
  hash_ = mixed(hash_, static_cast<std::uint64_t>(when.nanoseconds));
  hash_ = mixed(hash_, from.id);
  hash_ = mixed(hash_, to.id);
  hash_ = mixed(hash_, detail);
  lines_.push_back({when, from, to, what});
  if (lines_.size() > kLinesMax) lines_.pop_front();
}

std::string Trace::story(const std::vector<Peer>& about, std::size_t lines_max) const {
  std::vector<std::string> found;
  for (auto line = lines_.rbegin(); line != lines_.rend() && found.size() < lines_max; ++line) {
    const bool named = std::any_of(about.begin(), about.end(),
                                   [&](const Peer& peer) { return peer == line->from || peer == line->to; });
    if (!named && !about.empty()) continue;
    char when[32];
    std::snprintf(when, sizeof when, "%13.6f", static_cast<double>(line->when.nanoseconds) / 1e9);
    found.push_back(std::string("  ") + when + " " + to_string(line->from) + " -> " + to_string(line->to) + " " +
                    line->what + "\n");
  }
  std::string text;
  for (auto line = found.rbegin(); line != found.rend(); ++line) text += *line;
  return text;
}

// ---- links ---------------------------------------------------------------------------------------------------------

Network::Network(Timeline& time, Trace& trace, Rng rng, bool codec, Handlers handlers)
    : time_(time), trace_(trace), rng_(rng), codec_(codec), handlers_(std::move(handlers)) {}

Duration Network::delay(const Peer& from, const Peer& to) {
  const bool near = from.node == to.node;
  Duration wait(rng_.between(near ? 5'000 : 80'000, near ? 60'000 : 600'000));
  if (near) return wait;
  for (const NodeId node : {from.node, to.node}) {
    const auto slow = slow_.find(node);
    if (slow != slow_.end() && time_.now() < slow->second.second) wait += slow->second.first;
  }
  return wait;
}

bool Network::reachable(const Peer& from, const Peer& to) const {
  if (from.node == to.node) return true;
  for (const NodeId node : {from.node, to.node}) {
    const auto cut = cut_.find(node);
    if (cut != cut_.end() && time_.now() < cut->second) return false;
  }
  return true;
}

void Network::open(const Ends& ends, Link& link, std::size_t opener) {
  link.open = true;
  const std::uint64_t epoch = ++link.epoch;
  const Peer& from = link.ends[opener];
  const Peer& to = link.ends[1 - opener];
  const Instant ready = std::max(time_.now() + delay(from, to) + delay(to, from), link.noticed[1 - opener] + 1ns);
  link.last = {ready, ready};
  time_.at(ready, [this, ends, epoch, opener] {
    Link& now = links_.at(ends);
    if (now.epoch != epoch) return;
    if (!handlers_.alive(now.ends[opener])) {  // nobody is there to notice
      ++now.epoch;
      now.open = false;
      return;
    }
    const bool through = reachable(now.ends[0], now.ends[1]);
    if (through && handlers_.alive(now.ends[1 - opener])) {
      for (const std::size_t side : {opener, 1 - opener}) handlers_.joined(now.ends[side], now.ends[1 - side]);
      return;
    }
    ++now.epoch;
    now.open = false;
    lose(ends, opener, time_.now() + (through ? Duration(1) : kConnectTimeout),
         make_error(ErrorKind::kUnreachable, through ? "connection refused" : "no connection in time"));
  });
}

void Network::lose(const Ends& ends, std::size_t side, Instant when, ErrorInfo why) {
  Link& link = links_.at(ends);
  link.noticed[side] = std::max(link.noticed[side], when);
  time_.at(when, [this, ends, side, why = std::move(why)] {
    const Link& now = links_.at(ends);
    if (!handlers_.alive(now.ends[side])) return;
    trace_.note(time_.now(), now.ends[1 - side], now.ends[side], "(link lost)", 1);
    handlers_.lost(now.ends[side], now.ends[1 - side], why);
  });
}

void Network::send(const Peer& from, const Peer& to, Envelope envelope) {
  const Ends ends = key(from, to);
  Link& link = links_[ends];
  const std::size_t side = from < to ? 0 : 1;
  link.ends[side] = from;
  link.ends[1 - side] = to;
  if (time_.now() < link.noticed[side]) return;
  if (!link.open) open(ends, link, side);
  ++messages_;
  link.last[side] = std::max(time_.now() + delay(from, to), link.last[side]);
  Bytes frame;
  if (codec_) {
    auto bytes = wire::encode({&envelope, 1});
    MOBULA_CHECK(bytes.ok(), "a message does not fit a frame");
    frame = *std::move(bytes);
    envelope = {};
  }
  time_.at(link.last[side], [this, ends, side, epoch = link.epoch, frame = std::move(frame),
                             envelope = std::move(envelope)]() mutable { arrive(ends, side, epoch, frame, envelope); });
}

void Network::arrive(const Ends& ends, std::size_t side, std::uint64_t epoch, const Bytes& frame, Envelope& envelope) {
  const Link& link = links_.at(ends);
  if (link.epoch != epoch || !handlers_.alive(link.ends[1 - side])) return;
  std::uint64_t detail = envelope.message.index();
  if (codec_) {
    detail = hash_of(frame);
    auto decoded = wire::decode(frame);
    MOBULA_CHECK(decoded.ok() && decoded->size() == 1, "what was encoded cannot be decoded");
    envelope = std::move(decoded->front());
  }
  const Peer from = link.ends[side];
  const Peer to = link.ends[1 - side];
  trace_.note(time_.now(), from, to, name_of(envelope.message), detail);
  handlers_.message(to, from, std::move(envelope));
}

void Network::break_link(const Peer& one, const Peer& other) {
  const Ends ends = key(one, other);
  const auto found = links_.find(ends);
  if (found == links_.end() || !found->second.open) return;
  Link& link = found->second;
  ++link.epoch;
  link.open = false;
  for (const std::size_t side : {0U, 1U}) {
    const Instant when = time_.now() + Duration(rng_.between(10'000, rng_.chance(1, 4) ? 300'000'000 : 2'000'000));
    lose(ends, side, when, make_error(ErrorKind::kUnreachable, "the link broke"));
  }
}

void Network::drop(const Peer& gone, bool in_flight, Duration notice) {
  std::vector<Ends> open;
  for (const auto& [ends, link] : links_) {
    if (link.open && (ends.first == gone || ends.second == gone)) open.push_back(ends);
  }
  for (const Ends& ends : open) {
    Link& link = links_.at(ends);
    const std::size_t side = ends.first == gone ? 0 : 1;
    if (!in_flight) ++link.epoch;
    const Instant when = std::max(time_.now() + Duration(rng_.between(1, notice.count())),
                                  in_flight ? link.last[side] + 1ns : time_.now());
    time_.at(when, [this, ends, side, epoch = link.epoch, gone] {
      Link& now = links_.at(ends);
      if (now.epoch != epoch) return;
      ++now.epoch;
      now.open = false;
      lose(ends, 1 - side, time_.now(), make_error(ErrorKind::kUnreachable, to_string(gone) + " closed the link"));
    });
  }
}

std::optional<std::pair<Peer, Peer>> Network::some_link(Rng& rng) const {
  std::vector<Ends> open;
  for (const auto& [ends, link] : links_) {
    const bool to_own_node = link.ends[0].node == link.ends[1].node && ends.first.kind != ends.second.kind;
    if (link.open && !to_own_node) open.push_back({link.ends[0], link.ends[1]});
  }
  if (open.empty()) return std::nullopt;
  return open[rng.below(open.size())];
}

void Network::cut(NodeId node, Instant until) {
  cut_[node] = until;
  for (const auto& [one, other] : links_across(node)) break_link(one, other);
}

std::vector<std::pair<Peer, Peer>> Network::links_across(NodeId node) const {
  std::vector<Ends> across;
  for (const auto& [ends, link] : links_) {
    const bool crosses = link.ends[0].node != link.ends[1].node;
    if (link.open && crosses && (link.ends[0].node == node || link.ends[1].node == node)) across.push_back(ends);
  }
  return across;
}

void Network::heal() {
  slow_.clear();
  cut_.clear();
}

}  // namespace mobula::sim
