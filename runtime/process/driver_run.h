// The first moments of a submitted program, in a process of its own: unpack its files, take on its limits, become it.
//
// The node daemon starts `mobula run-driver`, which does this and then executes the program in its own place. So an
// archive from outside is never read by the daemon, a large one does not hold it up, and the process id that the
// daemon watches is the program's from the start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mobula::process {

struct DriverRun {
  std::string archive;  // "": no files
  std::string folder;   // where they go; the program's working folder
  std::uint64_t descriptor_limit = 0;
  std::int32_t parent = 0;  // the daemon: the program ends with it
  int report_fd = -1;       // why it could not be started goes there
  std::vector<std::string> command;
};

// What a shell returns as well.
inline constexpr int kCannotStart = 126;
inline constexpr int kNoSuchProgram = 127;

// Returns only when the program could not be started.
int run_driver(const DriverRun& run);

}  // namespace mobula::process
