#include "runtime/process/fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace mobula::process {

void Fd::reset(int fd) {
  const int old = std::exchange(fd_, fd);
  // Linux closes even when close() says EINTR; trying again could close somebody else's descriptor.
  if (old >= 0) ::close(old);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("make a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<SocketPair> make_socket_pair(int type) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) return errno_error("make a pair of sockets");
  return SocketPair{Fd(ends[0]), Fd(ends[1])};
}

Result<Fd> duplicate(int fd, int lowest) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, lowest);
  if (copy < 0) return errno_error("duplicate a descriptor");
  return Fd(copy);
}

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return errno_error("make a descriptor non-blocking");
  return {};
}

void set_cloexec(int fd, bool on) {
  ::fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0);
}

ErrorInfo errno_error(std::string_view what, ErrorKind kind) {
  const int code = errno;
  std::string text = "cannot ";
  text += what;
  text += ": ";
  text += std::strerror(code);
  if (code == EMFILE || code == ENFILE) text += " (raise the limit of open files: ulimit -n)";
  return make_error(kind, std::move(text));
}

}  // namespace mobula::process
