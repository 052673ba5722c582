// Unix sockets of one node: private folders, peer credentials, and no guessing whether a socket file is stale.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/net/fd.h"
#include "runtime/net/loop.h"

namespace mobula::net {

inline constexpr std::size_t kUnixPathMax = 99;  // sun_path holds 107; the rest is a margin for odd systems

// Makes the folder with mode 0700, or checks that the one there is a real folder of this user that nobody else can
// enter. Its parent must exist.
Status make_private_folder(const std::string& path);

// Holds an flock on a file as long as it lives: whoever has it owns the folder that the file is in.
class FolderLock {
 public:
  // `file` is made when missing. kInvalid with a readable message when another process holds it.
  static Result<FolderLock> acquire(const std::string& file);

 private:
  explicit FolderLock(Fd file) : file_(std::move(file)) {}
  Fd file_;
};

struct UnixPeer {
  pid_t pid = 0;
  uid_t uid = 0;
};

// Used and destroyed where the token is held (or before the loop runs). Destroying it removes the socket file.
class UnixListener {
 public:
  // `on_accept` gets non-blocking sockets of processes of this user only; others are closed and named to `on_refused`
  // (may be empty). With `lock` (a lock on the folder of `path`) a socket file left by a dead predecessor is replaced;
  // without it an existing file is an error.
  static Result<std::unique_ptr<UnixListener>> listen(Loop& loop, const std::string& path, const FolderLock* lock,
                                                      std::function<void(Fd, UnixPeer)> on_accept,
                                                      std::function<void(std::string)> on_refused = {});
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

 private:
  struct Impl;
  explicit UnixListener(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// Connects, waiting until `deadline` only while the listener's backlog is full; checks that the other end runs as this
// user. Non-blocking socket. kUnreachable when nobody listens.
Result<Fd> connect_unix(const std::string& path, Instant deadline);

Result<UnixPeer> unix_peer(int descriptor);

}  // namespace mobula::net
