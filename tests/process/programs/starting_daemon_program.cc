// A daemon for the tests of spawn_daemon. Arguments: a mode, then `--ready-fd N`.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/process/daemon_launch.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string mode = argv[1];
  const int ready_fd = std::atoi(argv[3]);
  std::fprintf(stderr, "the daemon says hello\n");
  if (mode == "ready") {
    mobula::process::announce_ready(ready_fd, "{\"port\":" + std::to_string(::getsid(0) == ::getpid()) + "}");
  } else if (mode == "failure") {
    mobula::process::announce_failure(
        ready_fd, mobula::make_error(mobula::ErrorKind::kUnauthenticated, "the key is wrong:\nuse the other one"));
    return 1;
  } else if (mode == "exit") {
    return 5;
  }
  for (;;) ::pause();
}
