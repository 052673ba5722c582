#include "runtime/net/unix.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/net/net_testing.h"

namespace mobula::net {
namespace {

using testing::kLong;
using testing::RunningLoop;

struct Folder {
  Folder() {
    char name[] = "/tmp/mobula-unix-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

std::unique_ptr<UnixListener> listen_in_loop(RunningLoop& loop, const std::string& path, const FolderLock* lock,
                                             std::function<void(Fd, UnixPeer)> on_accept, ErrorInfo* error = nullptr) {
  std::unique_ptr<UnixListener> listener;
  loop.run([&] {
    auto made = UnixListener::listen(*loop, path, lock, std::move(on_accept));
    if (made) {
      listener = std::move(made).value();
    } else if (error != nullptr) {
      *error = made.error();
    }
  });
  return listener;
}

TEST_CASE("connects, tells who connected, and removes its file") {
  RunningLoop loop;
  const Folder folder;
  const std::string path = folder.path + "/node.sock";
  std::atomic<pid_t> pid = 0;
  auto listener = listen_in_loop(loop, path, nullptr, [&](Fd, UnixPeer peer) {
    CHECK(peer.uid == ::geteuid());
    pid = peer.pid;
    loop->notify();
  });
  REQUIRE(listener);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const auto socket = connect_unix(path, monotonic_now() + kLong);
  REQUIRE(socket.ok());
  CHECK(loop.wait([&] { return pid == ::getpid(); }));
  loop.run([&] { listener.reset(); });
  CHECK_FALSE(std::filesystem::exists(path));
  const auto gone = connect_unix(path, monotonic_now() + kLong);
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().kind == ErrorKind::kUnreachable);
}

TEST_CASE("a stale socket file goes only when the folder's lock is held") {
  RunningLoop loop;
  const Folder folder;
  const std::string path = folder.path + "/node.sock";
  {
    // What a killed process leaves behind.
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    REQUIRE(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  ErrorInfo error;
  CHECK_FALSE(listen_in_loop(
      loop, path, nullptr, [](Fd, UnixPeer) {}, &error));
  CHECK(error.message.find(path) != std::string::npos);
  auto lock = FolderLock::acquire(folder.path + "/lock");
  REQUIRE(lock.ok());
  const auto second = FolderLock::acquire(folder.path + "/lock");
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message.find("another process holds") != std::string::npos);
  auto listener = listen_in_loop(loop, path, &*lock, [](Fd, UnixPeer) {});
  CHECK(listener);
  CHECK(connect_unix(path, monotonic_now() + kLong).ok());
  loop.run([&] { listener.reset(); });
}

TEST_CASE("long paths and open folders are refused with the remedy") {
  RunningLoop loop;
  const Folder folder;
  const std::string path = folder.path + "/" + std::string(100, 'x');
  ErrorInfo error;
  CHECK_FALSE(listen_in_loop(
      loop, path, nullptr, [](Fd, UnixPeer) {}, &error));
  CHECK(error.message.find("XDG_RUNTIME_DIR") != std::string::npos);
  CHECK_FALSE(connect_unix(path, monotonic_now() + kLong).ok());

  const std::string inner = folder.path + "/private";
  CHECK(make_private_folder(inner).ok());
  CHECK(make_private_folder(inner).ok());
  REQUIRE(::chmod(inner.c_str(), 0750) == 0);
  const Status open = make_private_folder(inner);
  REQUIRE_FALSE(open.ok());
  CHECK(open.error().message.find("chmod 700") != std::string::npos);
  const std::string link = folder.path + "/link";
  REQUIRE(::symlink(inner.c_str(), link.c_str()) == 0);
  CHECK_FALSE(make_private_folder(link).ok());
}

TEST_CASE("a process of another user is refused") {
  if (::geteuid() != 0) return;
  RunningLoop loop;
  const Folder folder;
  const std::string path = folder.path + "/node.sock";
  std::atomic<bool> refused = false;
  std::atomic<bool> accepted = false;
  std::unique_ptr<UnixListener> listener;
  loop.run([&] {
    auto made = UnixListener::listen(
        *loop, path, nullptr, [&](Fd, UnixPeer) { accepted = true; },
        [&](const std::string& line) {
          CHECK(line.find("of user 65534") != std::string::npos);
          refused = true;
          loop->notify();
        });
    listener = std::move(made).value();
  });
  REQUIRE(::chmod(folder.path.c_str(), 0755) == 0);
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(1);
    const Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(2);
    char byte = 0;
    ::_exit(::read(socket.get(), &byte, 1) == 0 ? 0 : 3);
  }
  CHECK(loop.wait([&] { return refused.load(); }));
  CHECK_FALSE(accepted);
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  loop.run([&] { listener.reset(); });
}

}  // namespace
}  // namespace mobula::net
