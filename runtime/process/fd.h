// Fd: the owner of one file descriptor, and the few ways this product makes descriptors.
//
// Every descriptor is made with CLOEXEC: daemons and drivers start other programs from several threads, and one
// descriptor that leaks into a child keeps a lock held or a pipe open for as long as that child lives.
#pragma once

#include <string_view>
#include <utility>

#include "runtime/base/result.h"

namespace mobula::process {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);  // closes what it held

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};

struct SocketPair {
  Fd ours;
  Fd theirs;
};

Result<Pipe> make_pipe();
// `type` is SOCK_STREAM or SOCK_SEQPACKET.
Result<SocketPair> make_socket_pair(int type);
// A copy whose number is at least `lowest`.
Result<Fd> duplicate(int fd, int lowest = 0);
Status set_nonblocking(int fd);
void set_cloexec(int fd, bool on);

// "cannot <what>: <strerror(errno)>".
ErrorInfo errno_error(std::string_view what, ErrorKind kind = ErrorKind::kInvalid);

}  // namespace mobula::process
