// Runtime and init: a program joins a cluster, and leaves it.
#pragma once

#include <string>
#include <utility>

#include <mobula/detail/core.h>
#include <mobula/options.h>

namespace mobula {

// This process's membership in a cluster, from init(). At most one exists; it moves but is not copied.
//
// When it leaves scope (or at stop()): waits for nothing. Tasks of this job that are queued or running are cancelled,
// actors that are not detached end, objects that this process owns are freed, and what it put is gone for others too; a
// private cluster stops. Detached actors, and objects that they own, live on. get() and the like in other threads throw
// RuntimeStopped; ObjectRefs, Actors and arrays from get() may outlive it: destroying them then does nothing, and array
// views stay readable while they live. Results that matter are therefore fetched before. All of it takes at most a few
// seconds, and never throws.
class [[nodiscard]] Runtime {
 public:
  Runtime(Runtime&& other) noexcept : live_(std::exchange(other.live_, false)) {}
  Runtime& operator=(Runtime&& other) noexcept {
    if (this != &other) {
      stop();
      live_ = std::exchange(other.live_, false);
    }
    return *this;
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() { stop(); }

  // Leaves the cluster early. A later init() may join again.
  void stop() noexcept {
    if (std::exchange(live_, false)) detail::stop();
  }

 private:
  Runtime() = default;
  friend Runtime init(int argc, char** argv, const InitOptions& options);

  bool live_ = true;
};

// Joins the cluster at `.address` or MOBULA_ADDRESS; without either starts a private cluster of one node on this
// machine, which ends with the Runtime. The arguments are handed to the workers' `main`-less start as they are; none is
// removed. Throws Unreachable, Unauthenticated, or Invalid when a Runtime exists already.
inline Runtime init(int argc, char** argv, const InitOptions& options) {
  detail::start(argc, argv, options);
  return Runtime();
}
inline Runtime init(int argc, char** argv) {
  return init(argc, argv, InitOptions{});
}
inline Runtime init(const InitOptions& options = {}) {
  return init(0, nullptr, options);
}

// Is there a Runtime? In a worker: always.
inline bool running() noexcept {
  return detail::running();
}

// Runs `function` in every worker process after it was forked and before any task, to start threads or seed generators.
// To be called before main, since workers never enter it:
//   static const bool hooked = mobula::on_worker_start(+[] { seed_generators(); });
inline bool on_worker_start(void (*function)()) {
  detail::on_worker_start(function);
  return true;
}

// Ships the shared library at `path` to the nodes that lack it and loads it here and in this job's workers, so that its
// functions and actors can run there. Invalid when it cannot be loaded.
inline void load_library(const std::string& path) {
  detail::load_library(path);
}

}  // namespace mobula
