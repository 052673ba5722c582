// Starting a program: posix_spawn with everything decided (descriptors, signals, session), because a daemon or driver
// has threads and must never fork itself.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace mobula::process {

struct LaunchSpec {
  std::string path;                      // the program, or "" to run `executable_fd`
  int executable_fd = -1;                // descriptor of the program; a rebuild may have replaced its file
  std::vector<std::string> argv;         // argv[0] included
  std::vector<std::string> environment;  // "NAME=value", complete
  std::string working_dir;               // "": ours
  int in = -1;                           // -1: /dev/null
  int out = -1;                          // -1: /dev/null
  int err = -1;                          // -1: /dev/null
  int extra = -1;                        // becomes descriptor kExtraFd
  bool new_session = true;
};
inline constexpr int kExtraFd = 3;
// Where `executable_fd` lies in the new process, which should close it.
inline constexpr int kExecutableFd = 4;

// Starts it with default signal dispositions, an empty signal mask and no descriptor but those named.
Result<pid_t> launch(const LaunchSpec& spec);

// True for a process that launch() started and reap_with_group() has not reaped: how a sub-reaper tells its own
// children from orphans that the kernel gave it.
bool is_launched(pid_t pid);
void forget_launched(pid_t pid);
// Reaps ended orphans: children that launch() did not start and that are not in `except` (sorted). Returns how many.
std::size_t reap_orphans(const std::vector<pid_t>& except);

// Our environment as "NAME=value", without the worker mark and with `extra` set on top.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& extra);

}  // namespace mobula::process
