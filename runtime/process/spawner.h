// Spawner: the daemon's side of worker start. Keeps one zygote per executable and load-time environment, asks it for
// workers, watches them end, and kills them.
//
// A zygote costs one exec; each worker after it a fork of about a millisecond. What cannot be forked safely (threads
// before main, a sanitizer) is executed once per worker instead; callers see no difference but time. The spawner has
// one descriptor to watch and returns what happened as data, so that a driver can hand it to the node's machine in
// order. Not thread-safe; use it from one thread that lives as long as the daemon (the kernel ends executed workers
// when the thread that started them ends).
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <mobula/ids.h>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/process/fd.h"
#include "runtime/process/pid_watch.h"
#include "runtime/process/process_group.h"
#include "runtime/process/spawn_protocol.h"

namespace mobula::process {

// A program as workers are made of it.
struct Executable {
  std::string id;                      // content hash or build id: equal ids are the same program
  std::string name;                    // for people and `ps`
  std::shared_ptr<const Fd> file;      // its descriptor; or, when null,
  std::string path;                    // its path
  std::vector<std::string> libraries;  // paths to load before workers start, in this order
  std::string library_dir;             // where its libraries are looked for first; "": where they always are
};

// What makes two workers come from the same zygote.
struct RuntimeKey {
  std::string executable;
  std::vector<std::string> libraries;
  Environment load_environment;  // sorted by name
  friend auto operator<=>(const RuntimeKey&, const RuntimeKey&) = default;
  friend bool operator==(const RuntimeKey&, const RuntimeKey&) = default;
};
// True for the variables that libraries read when they are loaded (OMP_*, OPENBLAS_*, MALLOC_*, LD_*, GOMP_*, ...).
bool is_load_variable(std::string_view name);
RuntimeKey runtime_key(const Executable& executable, const Environment& environment);

struct SpawnerConfig {
  std::string log_dir;      // zygotes' own output goes to zygote-<pid>.log there; "": to our stderr
  Environment environment;  // for all workers, on top of the daemon's own
  Duration idle_timeout = std::chrono::seconds(60);    // a zygote without workers ends after it
  Duration start_timeout = std::chrono::seconds(120);  // from exec to hello: libraries load and initialise in it
};

// The worker runs its setup and waits for release_worker(control socket).
struct WorkerStarted {
  ProcessId worker;
  pid_t pid = 0;
};
struct WorkerSpawnFailed {
  ProcessId worker;
  ErrorInfo error;
};
// Exactly once for each WorkerStarted. Its process group is already killed.
struct WorkerExited {
  ProcessId worker;
  pid_t pid = 0;
  ExitStatus status;
};
// For the log.
struct SpawnNotice {
  bool warning = false;
  std::string text;
};
using SpawnEvent = std::variant<WorkerStarted, WorkerSpawnFailed, WorkerExited, SpawnNotice>;

// Lets a started worker go on to user code: writes the go byte on the daemon's end of its control socket.
bool release_worker(int control_socket);

class Spawner {
 public:
  // Requests that wait for one zygote; above it spawn() says Overloaded.
  static constexpr std::size_t kWaitingMax = 4096;
  // Requests sent to a zygote and not answered.
  static constexpr std::size_t kInFlightMax = 16;
  // Programs remembered without a process (to know which cannot be forked).
  static constexpr std::size_t kProgramsMax = 256;

  static Result<std::unique_ptr<Spawner>> create(SpawnerConfig config);
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // Readable when poll() has something to do, deadlines included. Owned by the spawner.
  int fd() const { return epoll_.get(); }
  // Never blocks. Appends what happened, in order.
  void poll(std::vector<SpawnEvent>& events);

  // Asks for a worker: WorkerStarted or WorkerSpawnFailed follows from poll(). An error here means that nothing
  // follows.
  Status spawn(const Executable& executable, SpawnRequest request);
  // Starts the zygote before the first worker is asked for.
  Status prepare(const Executable& executable, const Environment& environment);

  // To the worker alone; SIGKILL takes its whole process group with it. False when it is not (or no longer) known.
  bool signal(ProcessId worker, int number);
  // Kills all workers and zygotes and waits for their ends, at most `timeout`; nothing is reported after it.
  void stop(Duration timeout = std::chrono::seconds(5));

  std::size_t worker_count() const { return workers_.size(); }
  std::size_t zygote_count() const { return zygotes_.size(); }
  // Daemon-wide pid look-up; 0 when unknown.
  pid_t pid_of(ProcessId worker) const;

 private:
  struct Program;
  struct Zygote;
  struct Worker;
  explicit Spawner(SpawnerConfig config);

  // spawner_zygote.cc: processes that serve, or become one worker.
  Program& program_of(const Executable& executable, const Environment& environment);
  Status start_process(Program& program, const Environment& extra, std::unique_ptr<SpawnRequest> only_for);
  void send_waiting(Zygote& zygote);
  void on_zygote_packets(std::uint64_t token);
  void on_hello(Zygote& zygote, const SpawnHello& hello);
  void on_forked(Zygote& zygote, SpawnForked forked);
  void on_zygote_ended(std::uint64_t token);
  void fail_requests(Zygote& zygote, const std::string& why, bool waiting_too);
  void end_zygote(Zygote& zygote);
  void start_waiting_alone(Program& program);
  void drop_unused_programs();

  // spawner.cc: workers, time, the loop.
  void add_worker(ProcessId worker, PidWatch watch, std::uint64_t zygote);
  void on_worker_ended(std::uint64_t token);
  void adopt_workers_of(std::uint64_t zygote);
  void finish_worker(std::uint64_t token, const ExitStatus& status);
  void run_deadlines(Instant now);
  Instant next_deadline() const;
  void arm_timer();
  Status watch(int fd, std::uint64_t token);
  void forget_fd(int fd);

  SpawnerConfig config_;
  Fd epoll_;
  Fd timer_;
  std::uint64_t next_token_ = 1;
  std::map<RuntimeKey, std::unique_ptr<Program>> programs_;
  std::map<std::uint64_t, std::unique_ptr<Zygote>> zygotes_;  // by token; their sockets have it with kSocketBit
  std::map<std::uint64_t, std::unique_ptr<Worker>> workers_;  // by token
  std::map<ProcessId, std::uint64_t> worker_tokens_;
  std::vector<SpawnEvent> events_;  // until the next poll(); bounded by the requests and workers there are
  // Workers that have ended and whose zygote has not said how, oldest first.
  std::deque<std::pair<Instant, std::uint64_t>> unreported_;
  Instant next_orphan_reap_ = Instant::never();
  bool stopping_ = false;
  SessionSweeper sweeper_;
};

}  // namespace mobula::process
