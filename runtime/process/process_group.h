// Ends of processes: their status, and the end of everything they started.
//
// A worker leads a session and a process group of its own. When it ends, what it started (a shell, a data loader) is
// killed *before* the leader is reaped: as long as the leader is a zombie its number cannot belong to anybody else.
// Members that moved to another group of the session are found by a sweep over /proc, batched because a look at
// every process of a machine costs about a millisecond.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/time.h"

namespace mobula::process {

struct ExitStatus {
  bool known = false;  // false: somebody else reaped it
  int code = 0;        // when it exited
  int signal = 0;      // when a signal ended it, else 0
  bool core = false;

  static ExitStatus from_wait(int wait_status);
  bool clean() const { return known && signal == 0 && code == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};
// "exit status 3", "signal 11 (Segmentation fault)", "unknown status".
std::string to_string(const ExitStatus& status);

// Sends `signal` to every process of the group; `group` is its leader's number. Refuses numbers below 2 and our own.
bool signal_group(pid_t group, int signal);

// If child `pid` has ended: kills its group, reaps it, and returns how it ended. No value while it runs.
// known == false when it is no child of ours (any more).
std::optional<ExitStatus> reap_with_group(pid_t pid);

// Kills every process whose session is in `sessions` (sorted); returns how many there were.
std::size_t kill_sessions(const std::vector<pid_t>& sessions);

// Sessions whose leader is dead, swept together a little later.
class SessionSweeper {
 public:
  // The sweep of a session that is added now happens at this time from now.
  static constexpr Duration kDelay = std::chrono::milliseconds(20);

  void add(pid_t session, Instant now);
  // A new process has this number: it is no dead session any more.
  void forget(pid_t session);
  Instant next_deadline() const { return deadline_; }
  void sweep_if_due(Instant now);
  void sweep();

 private:
  std::vector<pid_t> sessions_;  // sorted; bounded by the processes that can end within kDelay
  Instant deadline_ = Instant::never();
};

}  // namespace mobula::process
