#include "runtime/process/launch.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/process/fd.h"
#include "runtime/process/worker_mode.h"

extern char** environ;

namespace mobula::process {
namespace {

// Held while a process is started, so that reap_orphans never sees one that is not registered yet.
std::mutex& launched_mutex() {
  static std::mutex mutex;
  return mutex;
}
// Bounded by the children this process has.
std::set<pid_t>& launched() {
  static std::set<pid_t> pids;
  return pids;
}

// Sources are first moved above every target, so that no dup2 of the list overwrites a source of a later one.
constexpr int kSafeFd = 16;

class FileActions {
 public:
  FileActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  Status place(int source, int target, int null_flags) {
    int error = 0;
    if (source < 0) {
      error = ::posix_spawn_file_actions_addopen(&actions_, target, "/dev/null", null_flags, 0);
    } else {
      Result<Fd> copy = duplicate(source, kSafeFd);
      if (!copy) return copy.error();
      error = ::posix_spawn_file_actions_adddup2(&actions_, copy->get(), target);
      copies_.push_back(std::move(*copy));
    }
    return error == 0 ? Status() : make_error(ErrorKind::kInvalid, "cannot prepare the descriptors of a new process");
  }
  void close_from(int lowest) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, lowest); }
  void change_dir(const std::string& dir) { ::posix_spawn_file_actions_addchdir_np(&actions_, dir.c_str()); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
  std::vector<Fd> copies_;
};

class Attributes {
 public:
  explicit Attributes(bool new_session) {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (new_session) flags |= POSIX_SPAWN_SETSID;
    ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// Of all our threads; empty when the kernel does not tell.
std::vector<pid_t> children_of_self() {
  std::vector<pid_t> children;
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return children;
  while (const dirent* entry = ::readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream list("/proc/self/task/" + std::string(entry->d_name) + "/children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  ::closedir(tasks);
  return children;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<pid_t> launch(const LaunchSpec& spec) {
  FileActions actions;
  const std::pair<int, int> standard[] = {{spec.in, 0}, {spec.out, 1}, {spec.err, 2}};
  for (const auto& [source, target] : standard) {
    const int null_flags = target == 0 ? O_RDONLY : O_WRONLY;
    if (Status placed = actions.place(source, target, null_flags); !placed) return placed.error();
  }
  int lowest_free = kExtraFd;
  std::string path = spec.path;
  if (spec.extra >= 0) {
    if (Status placed = actions.place(spec.extra, kExtraFd, O_RDWR); !placed) return placed.error();
    lowest_free = kExtraFd + 1;
  }
  if (path.empty()) {
    if (Status placed = actions.place(spec.executable_fd, kExecutableFd, O_RDONLY); !placed) return placed.error();
    lowest_free = kExecutableFd + 1;
    path = "/proc/self/fd/" + std::to_string(kExecutableFd);
  }
  actions.close_from(lowest_free);
  if (!spec.working_dir.empty()) actions.change_dir(spec.working_dir);

  const Attributes attributes(spec.new_session);
  std::vector<std::string> argv = spec.argv;
  std::vector<std::string> environment = spec.environment;
  pid_t pid = -1;
  const std::lock_guard lock(launched_mutex());
  const int error = ::posix_spawn(&pid, path.c_str(), actions.get(), attributes.get(), pointers_to(argv).data(),
                                  pointers_to(environment).data());
  if (error != 0) {
    errno = error;
    return errno_error("start " + (spec.path.empty() ? (argv.empty() ? path : argv.front()) : spec.path));
  }
  launched().insert(pid);
  return pid;
}

bool is_launched(pid_t pid) {
  const std::lock_guard lock(launched_mutex());
  return launched().contains(pid);
}

void forget_launched(pid_t pid) {
  const std::lock_guard lock(launched_mutex());
  launched().erase(pid);
}

std::size_t reap_orphans(const std::vector<pid_t>& except) {
  std::size_t reaped = 0;
  for (const pid_t child : children_of_self()) {
    if (std::binary_search(except.begin(), except.end(), child)) continue;
    const std::lock_guard lock(launched_mutex());
    if (launched().contains(child)) continue;
    if (::waitpid(child, nullptr, WNOHANG) == child) ++reaped;
  }
  return reaped;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::string> result;
  const auto replaced = [&extra](std::string_view name) {
    return name == kWorkerMark || name == kWorkerLibraries || name == kWorkerLibraryDir ||
           std::any_of(extra.begin(), extra.end(), [name](const auto& variable) { return variable.first == name; });
  };
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!replaced(text.substr(0, text.find('=')))) result.emplace_back(text);
  }
  // The last of several settings of one name counts.
  for (std::size_t i = 0; i < extra.size(); ++i) {
    const bool again = std::any_of(extra.begin() + static_cast<std::ptrdiff_t>(i) + 1, extra.end(),
                                   [&](const auto& later) { return later.first == extra[i].first; });
    if (!again) result.push_back(extra[i].first + "=" + extra[i].second);
  }
  return result;
}

}  // namespace mobula::process
