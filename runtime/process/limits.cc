#include "runtime/process/limits.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace mobula::process {
namespace {

// 0: raise_descriptor_limit was not called.
std::atomic<std::uint64_t> original_limit{0};

}  // namespace

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return original_descriptor_limit();
  std::uint64_t unset = 0;
  original_limit.compare_exchange_strong(unset, limit.rlim_cur);
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kDescriptorsMax);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  return original_limit.load();
}

std::uint64_t original_descriptor_limit() {
  if (const std::uint64_t found = original_limit.load(); found != 0) return found;
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

bool set_descriptor_limit(std::uint64_t soft) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = std::min<rlim_t>(soft, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

bool set_oom_score(int score) {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const std::string text = std::to_string(std::clamp(score, -1000, 1000));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

bool become_subreaper() {
  return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

}  // namespace mobula::process
