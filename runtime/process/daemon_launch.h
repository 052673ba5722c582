// Starting a detached daemon and knowing that it stands: the CLI and `init` start `mobula` itself and wait for one
// line.
//
// Not daemon(3): the starter has threads. The daemon gets a session of its own, its output goes to a log file, and it
// says on a pipe that it is ready or why it cannot be; a starter that hears nothing names the end of the log.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace mobula::process {

struct DaemonSpec {
  std::string binary;                                            // path of `mobula`
  std::vector<std::string> arguments;                            // without argv[0]; "--ready-fd 3" is appended
  std::vector<std::pair<std::string, std::string>> environment;  // on top of ours
  std::string log_path;  // stdout and stderr are appended there (mode 0600); "": /dev/null
  std::string working_dir = "/";
  Duration timeout = std::chrono::seconds(30);
  bool own_session = true;  // false: it ends with our terminal
};

struct DaemonStarted {
  pid_t pid = 0;
  std::string ready;  // the JSON line it sent
};

// A daemon that fails or stays silent is killed before this returns; the error has its own words or the end of its log.
Result<DaemonStarted> spawn_daemon(const DaemonSpec& spec);

// The daemon's side. `json` is an object in one line; the descriptor is closed. False when the starter is gone.
bool announce_ready(int ready_fd, const std::string& json);
// Sends the failure text that spawn_daemon returns as its error.
bool announce_failure(int ready_fd, const ErrorInfo& error);

}  // namespace mobula::process
