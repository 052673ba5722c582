// What this machine (or the container's share of it) has and uses: CPUs, memory, load.
#pragma once

#include <cstdint>
#include <string>

namespace mobula::process {

// Where to look; tests point it at folders of their own.
struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

struct HostInfo {
  std::string hostname;
  double cpus = 1;                 // min of affinity mask and cgroup quota; at least 0.01
  std::uint64_t memory_total = 0;  // bytes: min of the machine's and every cgroup limit above us
  std::uint64_t memory_used = 0;   // of that: machine total less available, or the cgroup's use less its page cache
  std::uint64_t memory_available = 0;
  std::uint64_t shm_total = 0;  // bytes of /dev/shm, 0 when there is none
  double load_1m = 0;
  std::string kernel;  // uname release
};
HostInfo host_info(const HostPaths& paths = {});

// The cheap part, for a sampler.
struct HostUse {
  std::uint64_t memory_used = 0;
  std::uint64_t memory_available = 0;
  double load_1m = 0;
  std::uint64_t cpu_busy_ticks = 0;  // since boot, of all CPUs; two samples give a share
  std::uint64_t cpu_total_ticks = 0;
};
HostUse host_use(const HostPaths& paths = {});

struct ProcessUse {
  std::uint64_t resident_bytes = 0;
  std::uint64_t cpu_ticks = 0;  // user and system, sysconf(_SC_CLK_TCK) a second
  unsigned threads = 0;
  bool known = false;  // false: it is gone
};
ProcessUse process_use(int pid, const HostPaths& paths = {});

}  // namespace mobula::process
