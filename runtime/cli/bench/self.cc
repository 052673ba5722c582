#include "runtime/cli/bench/self.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/net/fd.h"
#include "runtime/process/build_id.h"
#include "runtime/process/launch.h"

namespace mobula::cli {

Result<std::string> run_self(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_error(ErrorKind::kInvalid, "cannot make a pipe");
  const net::Fd read_end(ends[0]);
  net::Fd write_end(ends[1]);
  process::LaunchSpec spec;
  spec.path = process::executable_path();
  spec.argv = arguments;
  spec.argv.insert(spec.argv.begin(), spec.path);
  spec.environment = process::environment_with({});
  spec.out = write_end.get();
  spec.err = STDERR_FILENO;
  spec.new_session = false;
  const Result<pid_t> child = process::launch(spec);
  if (!child) return child.error();
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
  ::waitpid(*child, &status, 0);
  process::forget_launched(*child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return make_error(ErrorKind::kInvalid, "`mobula " + arguments.front() + "` failed: " + output);
  }
  return output;
}

}  // namespace mobula::cli
