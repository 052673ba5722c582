// PeerWatch: is a process whose link broke gone, or only hard to reach?
//
// A broken link proves nothing: frees and retries need to know. So the node where the process lives is asked (it knows
// by pidfd), again and again, and the answer, or how long there is none, becomes a verdict for all parts of this
// process.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "runtime/base/id_map.h"
#include "runtime/base/machine.h"
#include "runtime/base/peer_events.h"
#include "runtime/base/timers.h"

namespace mobula::core {

class PeerWatch {
 public:
  using Verdict = std::variant<PeerTroubled, PeerUsable>;

  static constexpr Duration kSilentAfter = std::chrono::seconds(2);
  static constexpr Duration kUnreachableAfter = std::chrono::seconds(10);
  static constexpr Duration kGoneAfter = std::chrono::seconds(30);
  // Between questions about one process, and how long after "it lives" an untroubled one is watched.
  static constexpr Duration kAskAgain = std::chrono::milliseconds(500);
  static constexpr Duration kForgetAfter = std::chrono::seconds(15);

  std::vector<Verdict> lost(Instant now, const PeerLost& event, std::vector<Send>& sends);
  std::vector<Verdict> joined(const Peer& peer);
  std::vector<Verdict> status(Instant now, const ProcessStatus& message);
  std::vector<Verdict> node_gone(NodeId node, const ErrorInfo& why);
  std::vector<Verdict> tick(Instant now, std::vector<Send>& sends);
  Instant next_deadline() const { return timers_.next(); }
  std::size_t size() const { return watched_.size(); }

 private:
  struct Watched {
    Peer peer;
    ErrorInfo why;
    Instant since;     // lost for the first time
    Instant alive_at;  // its node said so
    bool lost = true;  // not said to live since it was lost last
    PeerTrouble stage = PeerTrouble::kBroken;
  };
  enum class Timer : std::uint8_t { kLook };

  void ask(Instant now, const Watched& watched, std::vector<Send>& sends);
  // The next stage, when it is time. True when it was the last.
  bool worsen(Instant now, Watched& watched, std::vector<Verdict>& verdicts);

  IdMap<ProcessId, Watched> watched_;
  Timers<Timer> timers_;
};

}  // namespace mobula::core
