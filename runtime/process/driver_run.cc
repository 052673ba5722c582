#include "runtime/process/driver_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/process/archive.h"
#include "runtime/process/fd.h"
#include "runtime/process/limits.h"

namespace mobula::process {
namespace {

constexpr int kDriverOomScore = 400;  // the kernel takes workers first, then drivers, daemons last

int fail(const DriverRun& run, int code, const std::string& why) {
  const std::string line = "mobula: " + why + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return code;  // the log is gone: the daemon is told below
  if (run.report_fd >= 0 && ::write(run.report_fd, why.data(), why.size()) < 0) return code;
  return code;
}

}  // namespace

int run_driver(const DriverRun& run) {
  if (run.report_fd >= 0) set_cloexec(run.report_fd, true);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (run.parent != 0 && ::getppid() != run.parent) return fail(run, kCannotStart, "the node daemon has ended");
  if (run.command.empty()) return fail(run, kCannotStart, "there is no program to run");
  if (!run.archive.empty()) {
    const Fd archive(::open(run.archive.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!archive) return fail(run, kCannotStart, errno_error("open the job's files").message);
    if (Status done = unpack(archive.get(), run.folder); !done) {
      return fail(run, kCannotStart, "the job's files cannot be unpacked: " + done.error().message);
    }
  }
  if (::chdir(run.folder.c_str()) != 0) return fail(run, kCannotStart, errno_error("enter " + run.folder).message);
  if (run.descriptor_limit > 0) set_descriptor_limit(run.descriptor_limit);
  set_oom_score(kDriverOomScore);
  std::vector<char*> argv;
  for (const std::string& argument : run.command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv.front(), argv.data());
  const int error = errno;
  // For a bare name execvp says EACCES when a folder of the PATH may not be searched and no other has it.
  const bool bare = run.command.front().find('/') == std::string::npos;
  std::string why = "cannot start " + run.command.front() + ": " + std::strerror(error);
  if (bare && (error == ENOENT || error == EACCES)) {
    why += ". It is not on the PATH of this node: install it there, or submit it with its path, so that it travels.";
  } else if (error == ENOENT) {
    why += ". The file, or the interpreter or loader that it names, is missing on this node.";
  } else if (error == EACCES) {
    why += ". Is it executable (chmod +x)?";
  }
  return fail(run, error == ENOENT || bare ? kNoSuchProgram : kCannotStart, why);
}

}  // namespace mobula::process
