// The descriptor limit: daemons and drivers hold a socket per peer and raise it; user code in workers gets back what it
// would have had without Mobula (programs that use select() break above 1024).
#pragma once

#include <cstdint>

namespace mobula::process {

// Raises the soft RLIMIT_NOFILE to the hard one (at most `kDescriptorsMax`) and returns the soft limit from before.
// Called again it changes nothing and returns the same.
std::uint64_t raise_descriptor_limit();
// What raise_descriptor_limit found; the current soft limit when it was never called.
std::uint64_t original_descriptor_limit();
// Sets the soft limit of this process; false when the system refuses.
bool set_descriptor_limit(std::uint64_t soft);

inline constexpr std::uint64_t kDescriptorsMax = 1U << 20U;

// How eagerly the kernel's out-of-memory killer takes this process, -1000..1000. Only raising it needs no privilege.
bool set_oom_score(int score);

// Makes orphans of this process's descendants its own children, so that a daemon can reap what a zygote left.
bool become_subreaper();

}  // namespace mobula::process
