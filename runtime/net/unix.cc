#include "runtime/net/unix.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/net/asio.h"
#include "runtime/net/socket.h"

namespace mobula::net {
namespace {

constexpr int kBacklog = 512;
constexpr int kAcceptsPerTurn = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);  // after the process ran out of descriptors

Result<sockaddr_un> unix_address(const std::string& path) {
  if (path.empty() || path.size() > kUnixPathMax) {
    return make_error(ErrorKind::kInvalid, "the socket path " + path + " has " + std::to_string(path.size()) +
                                               " bytes, above the limit of " + std::to_string(kUnixPathMax) +
                                               ". Set XDG_RUNTIME_DIR to a shorter folder");
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace

Status make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return make_error(ErrorKind::kInvalid, "cannot make the folder " + path + ": " + errno_text(errno));
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return make_error(ErrorKind::kInvalid, "cannot look at the folder " + path + ": " + errno_text(errno));
  }
  if (!S_ISDIR(info.st_mode)) return make_error(ErrorKind::kInvalid, path + " is no folder. Remove it");
  if (info.st_uid != ::geteuid()) {
    return make_error(ErrorKind::kInvalid, "the folder " + path +
                                               " belongs to another user. Remove it, or set "
                                               "XDG_RUNTIME_DIR to a folder of your own");
  }
  if ((info.st_mode & 0077) != 0) {
    return make_error(ErrorKind::kInvalid, "the folder " + path + " is open to other users. Run: chmod 700 " + path);
  }
  return {};
}

Result<FolderLock> FolderLock::acquire(const std::string& file) {
  Fd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return make_error(ErrorKind::kInvalid, "cannot open the lock " + file + ": " + errno_text(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return make_error(ErrorKind::kInvalid, "another process holds the lock " + file + ". Stop it first");
    }
    return make_error(ErrorKind::kInvalid, "cannot lock " + file + ": " + errno_text(errno));
  }
  return FolderLock(std::move(lock));
}

Result<UnixPeer> unix_peer(int descriptor) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return make_error(ErrorKind::kInvalid, "cannot tell who is at the other end of a socket: " + errno_text(errno));
  }
  return UnixPeer{credentials.pid, credentials.uid};
}

struct UnixListener::Impl : std::enable_shared_from_this<UnixListener::Impl> {
  Impl(Loop& loop_, Fd socket_, std::string path_, std::function<void(Fd, UnixPeer)> on_accept_,
       std::function<void(std::string)> on_refused_)
      : loop(loop_), socket(std::move(socket_)), path(std::move(path_)), stream(loop.context(), socket.get()),
        on_accept(std::move(on_accept_)), on_refused(std::move(on_refused_)) {}
  ~Impl() {
    if (!stopped) stream.release();
  }

  Loop& loop;
  Fd socket;
  const std::string path;
  asio::posix::stream_descriptor stream;
  const std::function<void(Fd, UnixPeer)> on_accept;
  const std::function<void(std::string)> on_refused;
  bool stopped = false;

  void arm() {
    stream.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const asio::error_code& error) {
                        if (!error && !self->stopped) self->accept_some();
                      });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn && !stopped; ++i) {
      Fd accepted(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (accepted) {
        admit(std::move(accepted));
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (on_refused) on_refused("cannot accept connections at " + path + " for now: " + errno_text(errno));
        loop.call_after(kAcceptPause, [weak = weak_from_this()] {
          if (const auto self = weak.lock(); self && !self->stopped) self->accept_some();
        });
        return;
      }
    }
    if (!stopped) arm();
  }

  void admit(Fd accepted) {
    const auto peer = unix_peer(accepted.get());
    if (peer && peer->uid == ::geteuid()) return on_accept(std::move(accepted), *peer);
    if (!on_refused) return;
    on_refused(peer ? "refused a connection at " + path + " from process " + std::to_string(peer->pid) + " of user " +
                          std::to_string(peer->uid) + ": only user " + std::to_string(::geteuid()) + " may connect"
                    : peer.error().message);
  }
};

Result<std::unique_ptr<UnixListener>> UnixListener::listen(Loop& loop, const std::string& path, const FolderLock* lock,
                                                           std::function<void(Fd, UnixPeer)> on_accept,
                                                           std::function<void(std::string)> on_refused) {
  const auto address = unix_address(path);
  if (!address) return address.error();
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return make_error(ErrorKind::kInvalid, "cannot make a socket: " + errno_text(errno));
  // Whoever holds the folder's lock knows that no living process listens here.
  if (lock != nullptr) ::unlink(path.c_str());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un)) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return make_error(ErrorKind::kInvalid, "cannot listen at " + path + ": " + errno_text(errno));
  }
  auto impl = std::make_shared<Impl>(loop, std::move(socket), path, std::move(on_accept), std::move(on_refused));
  impl->arm();
  return std::unique_ptr<UnixListener>(new UnixListener(std::move(impl)));
}

UnixListener::UnixListener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

UnixListener::~UnixListener() {
  impl_->stopped = true;
  impl_->stream.release();
  impl_->socket.reset();
  ::unlink(impl_->path.c_str());
}

Result<Fd> connect_unix(const std::string& path, Instant deadline) {
  const auto address = unix_address(path);
  if (!address) return address.error();
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return make_error(ErrorKind::kUnreachable, "cannot make a socket: " + errno_text(errno));
  for (;;) {
    // A full backlog is the only thing connect() waits for on such a socket; SO_SNDTIMEO bounds that.
    const Duration left =
        std::clamp<Duration>(deadline - monotonic_now(), std::chrono::milliseconds(1), std::chrono::hours(1));
    timeval limit{};
    limit.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    limit.tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(left % std::chrono::seconds(1)).count();
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un)) == 0) break;
    if (errno == EINTR && monotonic_now() < deadline) continue;
    const std::string why = errno == EAGAIN ? "it does not accept connections in time" : errno_text(errno);
    return make_error(ErrorKind::kUnreachable, "cannot connect to " + path + ": " + why);
  }
  const auto peer = unix_peer(socket.get());
  if (!peer) return peer.error();
  if (peer->uid != ::geteuid()) {
    return make_error(ErrorKind::kUnauthenticated,
                      path + " is served by another user (" + std::to_string(peer->uid) + ")");
  }
  if (Status status = set_nonblocking(socket.get()); !status) return status.error();
  return socket;
}

}  // namespace mobula::net
