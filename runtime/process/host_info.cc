#include "runtime/process/host_info.h"

#include <sched.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace mobula::process {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The file's first word as a number; "max" and what is no number give no value.
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// The value after `key` in lines of "key value", 0 when there is none.
std::uint64_t value_of(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

struct Memory {
  std::uint64_t total = 0;
  std::uint64_t available = 0;
};

Memory machine_memory(const HostPaths& paths) {
  const std::string text = read_text(paths.proc + "/meminfo");
  constexpr std::uint64_t kKibi = 1024;
  return Memory{value_of(text, "MemTotal:") * kKibi, value_of(text, "MemAvailable:") * kKibi};
}

// `dir` and the folders above it down to `root`.
std::vector<std::string> chain(const std::string& root, std::string path) {
  std::vector<std::string> dirs;
  while (!path.empty() && path != "/") {
    dirs.push_back(root + path);
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  dirs.push_back(root);  // in a container the group's own folder is mounted here
  return dirs;
}

// The folders of this process's group for a version 1 controller, or of the one hierarchy of version 2 for "".
std::vector<std::string> group_folders(const HostPaths& paths, std::string_view controller) {
  std::istringstream lines(read_text(paths.proc + "/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controller.empty() && names.empty()) return chain(paths.cgroup, group);
    if (controller.empty()) continue;
    std::istringstream each(names);
    for (std::string name; std::getline(each, name, ',');) {
      if (name != controller) continue;
      std::vector<std::string> dirs = chain(paths.cgroup + "/" + names, group);
      const std::vector<std::string> alone = chain(paths.cgroup + "/" + name, group);
      dirs.insert(dirs.end(), alone.begin(), alone.end());
      return dirs;
    }
  }
  return {};
}

struct GroupMemory {
  std::uint64_t limit = kNoLimit;
  std::uint64_t used = 0;  // of the group whose limit it is
};

// The tightest limit of this process's groups; page cache that can go does not count as used.
GroupMemory group_memory(const HostPaths& paths) {
  GroupMemory tightest;
  const auto consider = [&tightest](const std::string& dir, const char* limit_name, const char* use_name,
                                    const char* cache_key) {
    const std::optional<std::uint64_t> limit = read_number(dir + "/" + limit_name);
    if (!limit || *limit >= tightest.limit) return;
    const std::uint64_t use = read_number(dir + "/" + use_name).value_or(0);
    const std::uint64_t cache = value_of(read_text(dir + "/memory.stat"), cache_key);
    tightest = GroupMemory{*limit, use > cache ? use - cache : 0};
  };
  for (const std::string& dir : group_folders(paths, "")) {
    consider(dir, "memory.max", "memory.current", "inactive_file");
  }
  for (const std::string& dir : group_folders(paths, "memory")) {
    consider(dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  }
  return tightest;
}

double affinity_cpus() {
  // A machine may have more CPUs than cpu_set_t holds: the kernel then refuses the smaller set.
  for (std::size_t cpus = 1024; cpus <= 64 * 1024; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    const bool known = ::sched_getaffinity(0, size, set) == 0;
    const int count = known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (known && count > 0) return count;
  }
  return std::max(1.0, static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

double quota_cpus(const HostPaths& paths) {
  double cpus = std::numeric_limits<double>::infinity();
  for (const std::string& dir : group_folders(paths, "")) {
    std::istringstream words(read_text(dir + "/cpu.max"));
    double quota = 0;
    double period = 0;
    if (words >> quota >> period && quota > 0 && period > 0) cpus = std::min(cpus, quota / period);
  }
  for (const std::string& dir : group_folders(paths, "cpu")) {
    const std::optional<std::uint64_t> period = read_number(dir + "/cpu.cfs_period_us");
    std::ifstream file(dir + "/cpu.cfs_quota_us");
    double quota = -1;  // -1 is the kernel's word for none
    if (file >> quota && quota > 0 && period && *period > 0) {
      cpus = std::min(cpus, quota / static_cast<double>(*period));
    }
  }
  return cpus;
}

void fill_memory(const HostPaths& paths, std::uint64_t& total, std::uint64_t& used, std::uint64_t& available) {
  const Memory machine = machine_memory(paths);
  const GroupMemory group = group_memory(paths);
  total = machine.total;
  available = machine.available;
  used = machine.total > machine.available ? machine.total - machine.available : 0;
  if (group.limit >= machine.total) return;
  total = group.limit;
  used = group.used;
  available = std::min(machine.available, group.limit > group.used ? group.limit - group.used : 0);
}

double load_of(const HostPaths& paths) {
  std::ifstream file(paths.proc + "/loadavg");
  double load = 0;
  file >> load;
  return load;
}

}  // namespace

HostInfo host_info(const HostPaths& paths) {
  HostInfo info;
  info.cpus = std::max(0.01, std::min(affinity_cpus(), quota_cpus(paths)));
  fill_memory(paths, info.memory_total, info.memory_used, info.memory_available);
  info.load_1m = load_of(paths);
  utsname names{};
  if (::uname(&names) == 0) {
    info.hostname = names.nodename;
    info.kernel = names.release;
  }
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) info.shm_total = std::uint64_t{shm.f_blocks} * shm.f_frsize;
  return info;
}

HostUse host_use(const HostPaths& paths) {
  HostUse use;
  std::uint64_t total = 0;
  fill_memory(paths, total, use.memory_used, use.memory_available);
  use.load_1m = load_of(paths);
  // "cpu user nice system idle iowait irq softirq steal ..."
  std::ifstream file(paths.proc + "/stat");
  std::string label;
  file >> label;
  std::uint64_t ticks = 0;
  constexpr int kIdle = 3;
  constexpr int kIoWait = 4;
  constexpr int kFields = 8;
  for (int field = 0; field < kFields && file >> ticks; ++field) {
    use.cpu_total_ticks += ticks;
    if (field != kIdle && field != kIoWait) use.cpu_busy_ticks += ticks;
  }
  return use;
}

ProcessUse process_use(int pid, const HostPaths& paths) {
  ProcessUse use;
  const std::string text = read_text(paths.proc + "/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return use;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  fields >> state;
  // Fields 4 to 24 of proc(5): user time is 14, system time 15, threads 20, resident pages 24.
  constexpr int kUserTime = 14;
  constexpr int kSystemTime = 15;
  constexpr int kThreads = 20;
  constexpr int kResidentPages = 24;
  std::int64_t value = 0;
  for (int field = 4; field <= kResidentPages && fields >> value; ++field) {
    const auto number = static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    if (field == kUserTime || field == kSystemTime) use.cpu_ticks += number;
    if (field == kThreads) use.threads = static_cast<unsigned>(number);
    if (field == kResidentPages) use.resident_bytes = number * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  use.known = true;
  return use;
}

}  // namespace mobula::process
