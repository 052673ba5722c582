#include "runtime/process/host_info.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/spawn_fixture.h"

namespace mobula::process::testing {
namespace {

void put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

// A machine of 8 GiB with 6 GiB available.
HostPaths machine(const ScratchDir& scratch, const std::string& groups) {
  HostPaths paths;
  paths.proc = scratch.path() + "/proc";
  paths.cgroup = scratch.path() + "/cgroup";
  put(paths.proc + "/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\nMemAvailable:    6291456 kB\n");
  put(paths.proc + "/loadavg", "1.25 1.00 0.50 1/100 1234\n");
  put(paths.proc + "/stat", "cpu  100 10 50 800 40 5 5 0 0 0\ncpu0 1 1 1 1\n");
  put(paths.proc + "/self/cgroup", groups);
  return paths;
}

constexpr std::uint64_t kGib = std::uint64_t{1} << 30U;

}  // namespace

TEST_CASE("the real machine has something of everything") {
  const HostInfo info = host_info();
  CHECK(info.cpus > 0);
  CHECK(info.memory_total > 64 * 1024 * 1024);
  CHECK(info.memory_available <= info.memory_total);
  CHECK_FALSE(info.hostname.empty());
  const ProcessUse use = process_use(::getpid());
  CHECK(use.known);
  CHECK(use.resident_bytes > 100'000);
  CHECK(use.threads >= 1);
  CHECK_FALSE(process_use(0x7fffffff).known);
}

TEST_CASE("without limits it is the machine's") {
  ScratchDir scratch;
  const HostPaths paths = machine(scratch, "0::/user.slice\n");
  const HostInfo info = host_info(paths);
  CHECK(info.memory_total == 8 * kGib);
  CHECK(info.memory_used == 2 * kGib);
  CHECK(info.memory_available == 6 * kGib);
  CHECK(info.load_1m == doctest::Approx(1.25));
  const HostUse use = host_use(paths);
  CHECK(use.cpu_total_ticks == 1010);
  CHECK(use.cpu_busy_ticks == 170);
}

TEST_CASE("version 2: the tightest group above us counts") {
  ScratchDir scratch;
  const HostPaths paths = machine(scratch, "0::/a/b\n");
  put(paths.cgroup + "/a/memory.max", "2147483648\n");
  put(paths.cgroup + "/a/memory.current", "1610612736\n");
  put(paths.cgroup + "/a/memory.stat", "anon 1\ninactive_file 536870912\n");
  put(paths.cgroup + "/a/b/memory.max", "max\n");
  put(paths.cgroup + "/a/cpu.max", "max 100000\n");
  put(paths.cgroup + "/a/b/cpu.max", "50000 100000\n");
  const HostInfo info = host_info(paths);
  CHECK(info.cpus == doctest::Approx(0.5));
  CHECK(info.memory_total == 2 * kGib);
  CHECK(info.memory_used == kGib);
  CHECK(info.memory_available == kGib);
}

TEST_CASE("version 1, in a container where only the root of our group is mounted") {
  ScratchDir scratch;
  const HostPaths paths = machine(scratch, "5:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n");
  put(paths.cgroup + "/memory/memory.limit_in_bytes", "1073741824\n");
  put(paths.cgroup + "/memory/memory.usage_in_bytes", "268435456\n");
  put(paths.cgroup + "/cpu,cpuacct/cpu.cfs_quota_us", "25000\n");
  put(paths.cgroup + "/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const HostInfo info = host_info(paths);
  CHECK(info.cpus == doctest::Approx(0.25));
  CHECK(info.memory_total == kGib);
  CHECK(info.memory_available == kGib - kGib / 4);
}

TEST_CASE("version 1 without a limit") {
  ScratchDir scratch;
  const HostPaths paths = machine(scratch, "5:memory:/\n3:cpu:/\n");
  put(paths.cgroup + "/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put(paths.cgroup + "/cpu/cpu.cfs_quota_us", "-1\n");
  put(paths.cgroup + "/cpu/cpu.cfs_period_us", "100000\n");
  const HostInfo info = host_info(paths);
  CHECK(info.cpus >= 1);
  CHECK(info.memory_total == 8 * kGib);
}

}  // namespace mobula::process::testing
