// PidWatch: one process seen through a pidfd, which is readable once the process has ended and never names another one.
#pragma once

#include <sys/types.h>

#include <optional>

#include "runtime/base/result.h"
#include "runtime/process/fd.h"
#include "runtime/process/process_group.h"

namespace mobula::process {

class PidWatch {
 public:
  PidWatch() = default;
  // `pidfd` from whoever forked it.
  PidWatch(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  // For a child of ours, or any process whose number is known to be still its own.
  static Result<PidWatch> open(pid_t pid);

  pid_t pid() const { return pid_; }
  int fd() const { return pidfd_.get(); }  // poll it for reading
  bool exited() const;                     // does not reap
  // Signals exactly this process, never another with its number. False when it is gone.
  bool signal(int number) const;
  // Waits until it has ended; false at the deadline. Does not reap.
  bool wait(Duration timeout) const;
  // When it is a child of ours that has ended: kills its group and reaps it.
  std::optional<ExitStatus> reap() const { return reap_with_group(pid_); }

 private:
  pid_t pid_ = -1;
  Fd pidfd_;
};

// pidfd_open; empty when the kernel has none or the process is gone.
Fd open_pidfd(pid_t pid);

}  // namespace mobula::process
