// Worker mode: how a node daemon runs the user's own executable as a worker without ever entering its `main`.
//
// The daemon starts the executable with one environment variable, the worker mark. libmobula.so interposes
// __libc_start_main (takeover/start_main.cc) and, when the mark was there, passes the C library a `main` of its own;
// the executable's static initialisers run as always, which is where tasks and actors register themselves. Refused
// alternatives: a registration macro with a generated main (the user's main would have to cooperate), and a check
// inside `init` (everything in the user's main before `init` would run in each worker).
#pragma once

namespace mobula::process {

// Value "<fd>": a SOCK_SEQPACKET socket over which the daemon asks for workers (spawn_protocol.h), or "<fd>:<fd>",
// where the second is the descriptor of the executable that the kernel needed and that is closed at once.
inline constexpr const char* kWorkerMark = "MOBULA_WORKER_MODE";
// Paths, separated by ':', of libraries to load before workers are forked.
inline constexpr const char* kWorkerLibraries = "MOBULA_WORKER_LIBRARIES";

// The folder that stands first in LD_LIBRARY_PATH so that the dynamic linker finds the program's own libraries. It has
// read that variable when we run, so the folder leaves it again, and no program that user code starts sees it.
inline constexpr const char* kWorkerLibraryDir = "MOBULA_WORKER_LIBRARY_DIR";
inline constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";

// The second of the two arguments a zygote is started with, and what a worker makes of it, for people who read `ps`.
inline constexpr const char* kZygoteArgument = "mobula-zygote";
inline constexpr const char* kWorkerArgument = "mobula-worker";

// Runs one worker over the stream socket `control_fd`, which it owns, until it ends; the result is the exit status.
// Called in the worker's first thread, after the daemon's go.
using WorkerMain = int (*)(int control_fd);

// The core runtime calls this during its own static initialisation.
void set_worker_main(WorkerMain worker_main) noexcept;
WorkerMain worker_main() noexcept;

// Reads the mark and takes it out of the environment, with its descriptors made CLOEXEC, so that no child of this
// process ever inherits worker mode. Called by takeover/start_main.cc, before any static initialiser of user code; a
// second call finds nothing.
void adopt_worker_mark() noexcept;

// True in a process that was started with the mark. A `main` that runs nevertheless means that the takeover did not
// happen (the executable bound __libc_start_main elsewhere); `init` must refuse then, else each worker would start
// drivers of its own.
bool started_as_worker() noexcept;

// The `main` of a process with the mark: serves as zygote; returns only in a worker, with its exit status.
int worker_process_main(int argc, char** argv) noexcept;

// True in a forked (or executed) worker from the moment its setup is done.
bool is_worker() noexcept;

}  // namespace mobula::process
