// A stand-in for a node daemon, for tests that kill it. Arguments: the worker program, then `--ready-fd N`.
// It starts two workers, lets them start a child each, announces all their pids, and then does nothing for ever.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "runtime/process/daemon_launch.h"
#include "runtime/process/spawner.h"

namespace {

using namespace mobula;
using namespace mobula::process;

std::string ask(int control, const std::string& question) {
  const std::string line = question + "\n";
  if (::send(control, line.data(), line.size(), MSG_NOSIGNAL) < 0) std::exit(4);
  std::string answer;
  for (char c = 0; ::read(control, &c, 1) == 1 && c != '\n';) answer += c;
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int ready_fd = std::atoi(argv[3]);
  auto spawner = Spawner::create({});
  if (!spawner) return 3;
  Executable executable;
  executable.id = executable.name = "workers";
  executable.path = argv[1];
  std::vector<Fd> controls;
  for (std::uint64_t id = 1; id <= 2; ++id) {
    auto pair = make_socket_pair(SOCK_STREAM);
    SpawnRequest request;
    request.worker = ProcessId{id};
    request.control = std::move(pair->theirs);
    request.out = std::move(*duplicate(STDERR_FILENO));
    request.err = std::move(*duplicate(STDERR_FILENO));
    if (!(*spawner)->spawn(executable, std::move(request))) return 3;
    controls.push_back(std::move(pair->ours));
  }
  std::string pids;
  for (std::size_t started = 0; started < controls.size();) {
    pollfd entry{(*spawner)->fd(), POLLIN, 0};
    ::poll(&entry, 1, -1);
    std::vector<SpawnEvent> events;
    (*spawner)->poll(events);
    for (const SpawnEvent& event : events) {
      if (const auto* failed = std::get_if<WorkerSpawnFailed>(&event)) {
        announce_failure(ready_fd, failed->error);
        return 3;
      }
      if (const auto* worker = std::get_if<WorkerStarted>(&event)) {
        pids += std::to_string(worker->pid) + " ";
        ++started;
      }
    }
  }
  for (const Fd& control : controls) {
    release_worker(control.get());
    pids += ask(control.get(), "child") + " " + ask(control.get(), "child-in-own-group") + " ";
  }
  announce_ready(ready_fd, pids);
  for (;;) ::pause();
}
