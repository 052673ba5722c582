#include "runtime/cli/bench/self.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "runtime/net/fd.h"

extern char** environ;

namespace mobula::cli {

Result<std::string> run_self(const std::vector<std::string>& arguments) {
  std::string binary = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> texts = arguments;
  std::vector<char*> argv{binary.data()};
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_error(ErrorKind::kInvalid, "cannot make a pipe");
  const net::Fd read_end(ends[0]);
  net::Fd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, binary.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return make_error(ErrorKind::kInvalid, "cannot start " + binary);
  write_end = {};
  std::string output;
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::read(read_end.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    output.append(buffer, static_cast<std::size_t>(size));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return make_error(ErrorKind::kInvalid, "`mobula " + arguments.front() + "` failed: " + output);
  }
  return output;
}

}  // namespace mobula::cli
