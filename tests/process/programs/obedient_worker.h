// The worker of this folder's test programs: does what its daemon's end of the control socket says, one line at a time.
//
//   exit N | abort | segfault | throw   end that way
//   pid | ppid | session | title | dir | descriptors | limit    answer with a line
//   env NAME                            answer with its value, or "(unset)"
//   inits                               how often the program's static initialiser ran
//   print TEXT                          to standard output, flushed; answers "ok"
//   child | child-in-own-group          start a `sleep`; answer with its pid
#pragma once

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "runtime/process/worker_mode.h"

extern char** environ;

namespace mobula::process::testing {
inline int initialisations = 0;

inline bool read_line(int fd, std::string& line) {
  line.clear();
  for (char c = 0;;) {
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1) return false;
    if (c == '\n') return true;
    line += c;
  }
}

inline void answer(int fd, const std::string& text) {
  const std::string line = text + "\n";
  if (::send(fd, line.data(), line.size(), MSG_NOSIGNAL) < 0) std::exit(0);
}

inline std::string start_child(bool own_group) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, own_group ? POSIX_SPAWN_SETPGROUP : 0);
  char name[] = "sleep";
  char seconds[] = "300";
  char* argv[] = {name, seconds, nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, "sleep", nullptr, &attributes, argv, environ);
  ::posix_spawnattr_destroy(&attributes);
  return error == 0 ? std::to_string(pid) : "failed";
}

inline std::string open_descriptors() {
  std::string text;
  DIR* dir = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name[0] != '.' && name != std::to_string(::dirfd(dir))) text += name + " ";
  }
  ::closedir(dir);
  return text;
}

inline std::string title() {
  char name[17] = {};
  ::prctl(PR_GET_NAME, name, 0, 0, 0);
  return name;
}

inline std::string working_dir() {
  char buffer[4096];
  return ::getcwd(buffer, sizeof buffer) != nullptr ? buffer : "";
}

inline std::string descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::to_string(limit.rlim_cur);
}

inline std::string respond(const std::string& verb, const std::string& rest) {
  if (verb == "pid") return std::to_string(::getpid());
  if (verb == "ppid") return std::to_string(::getppid());
  if (verb == "session") return std::to_string(::getsid(0));
  if (verb == "title") return title();
  if (verb == "dir") return working_dir();
  if (verb == "descriptors") return open_descriptors();
  if (verb == "limit") return descriptor_limit();
  if (verb == "inits") return std::to_string(initialisations);
  if (verb == "child") return start_child(false);
  if (verb == "child-in-own-group") return start_child(true);
  if (verb == "env") {
    const char* value = std::getenv(rest.c_str());
    return value != nullptr ? value : "(unset)";
  }
  if (verb == "print") {
    std::puts(rest.c_str());
    std::fflush(stdout);
    return "ok";
  }
  return "what?";
}

inline void note_initialised() {
  ++initialisations;
}

inline int obey(int control_fd) {
  for (std::string line; read_line(control_fd, line);) {
    const std::size_t space = line.find(' ');
    const std::string verb = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (verb == "exit") return std::atoi(rest.c_str());
    if (verb == "abort") std::abort();
    if (verb == "segfault") ::raise(SIGSEGV);
    if (verb == "throw") throw std::runtime_error("thrown by the worker");
    answer(control_fd, respond(verb, rest));
  }
  return 0;
}

inline const bool registered = (set_worker_main(&obey), true);

}  // namespace mobula::process::testing
