#include "runtime/core/engine/peer_watch.h"

#include <utility>

#include "runtime/base/result.h"

namespace mobula::core {

void PeerWatch::ask(Instant now, const Watched& watched, std::vector<Send>& sends) {
  sends.push_back(Send{Peer::of(watched.peer.node), ProbeProcess{watched.peer.process()}, 0});
  timers_.set(now + kAskAgain, Timer::kLook, watched.peer.id);
}

std::vector<PeerWatch::Verdict> PeerWatch::lost(Instant now, const PeerLost& event, std::vector<Send>& sends) {
  std::vector<Verdict> verdicts;
  const auto [watched, is_new] = watched_.emplace(event.peer.process());
  watched.peer = event.peer;
  watched.why = event.why;
  watched.lost = true;
  verdicts.emplace_back(PeerTroubled{event.peer, PeerTrouble::kBroken, event.why});
  if (is_new) {
    watched.since = now;
    ask(now, watched, sends);
  } else if (worsen(now, watched, verdicts)) {
    watched_.erase(event.peer.process());
  }
  return verdicts;
}

std::vector<PeerWatch::Verdict> PeerWatch::joined(const Peer& peer) {
  if (!watched_.erase(peer.process())) return {};
  return {PeerUsable{peer}};
}

std::vector<PeerWatch::Verdict> PeerWatch::status(Instant now, const ProcessStatus& message) {
  Watched* watched = watched_.find(message.process);
  if (watched == nullptr) return {};
  const Peer peer = watched->peer;
  if (!message.alive) {
    ErrorInfo why = message.error;
    if (why.message.empty()) why = make_error(ErrorKind::kWorkerDied, "its process has ended");
    watched_.erase(message.process);
    return {PeerTroubled{peer, PeerTrouble::kGone, std::move(why)}};
  }
  if (!std::exchange(watched->lost, false)) return {};
  watched->alive_at = now;
  return {PeerUsable{peer}};
}

std::vector<PeerWatch::Verdict> PeerWatch::node_gone(NodeId node, const ErrorInfo& why) {
  std::vector<Verdict> verdicts;
  for (const ProcessId process : watched_.sorted_keys()) {
    const Peer peer = watched_.at(process).peer;
    if (peer.node != node) continue;
    watched_.erase(process);
    verdicts.emplace_back(PeerTroubled{peer, PeerTrouble::kGone, why});
  }
  return verdicts;
}

bool PeerWatch::worsen(Instant now, Watched& watched, std::vector<Verdict>& verdicts) {
  const auto reach = [&](PeerTrouble stage, Duration after) {
    if (watched.stage >= stage || now - watched.since < after) return;
    watched.stage = stage;
    ErrorInfo why = watched.why;
    why.kind = ErrorKind::kUnreachable;
    why.message =
        "no link to its process could be made, and nobody could say that it has ended: " + watched.why.message;
    verdicts.emplace_back(PeerTroubled{watched.peer, stage, std::move(why)});
  };
  // A node that says "it lives" keeps its process from being silent, not from being unreachable.
  if (watched.alive_at < watched.since) reach(PeerTrouble::kSilent, kSilentAfter);
  reach(PeerTrouble::kUnreachable, kUnreachableAfter);
  reach(PeerTrouble::kGone, kGoneAfter);
  return watched.stage == PeerTrouble::kGone;
}

std::vector<PeerWatch::Verdict> PeerWatch::tick(Instant now, std::vector<Send>& sends) {
  std::vector<Verdict> verdicts;
  while (const auto timer = timers_.pop_due(now)) {
    Watched* watched = watched_.find(ProcessId{timer->id});
    if (watched == nullptr) continue;
    if (watched->lost) {
      if (worsen(now, *watched, verdicts)) {
        watched_.erase(ProcessId{timer->id});
      } else {
        ask(now, *watched, sends);
      }
    } else if (watched->alive_at + kForgetAfter <= now) {
      watched_.erase(ProcessId{timer->id});
    } else {
      ask(now, *watched, sends);  // the last answer may be older than the last loss
    }
  }
  return verdicts;
}

}  // namespace mobula::core
