// What a caller can ask for: plain aggregates for designated initialisers, `remote<f>.with({.cpus = 2, .gpus = 1})`.
//
// Fields keep the order in which people write them: what it needs, what it is called, what happens when it fails.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mobula {

// Sizes in bytes: `using namespace mobula::literals;` then 4_GiB.
namespace literals {
constexpr std::uint64_t operator""_KiB(unsigned long long count) {
  return std::uint64_t{count} << 10;
}
constexpr std::uint64_t operator""_MiB(unsigned long long count) {
  return std::uint64_t{count} << 20;
}
constexpr std::uint64_t operator""_GiB(unsigned long long count) {
  return std::uint64_t{count} << 30;
}
}  // namespace literals

// Of a task (`remote<f>.with`), of an actor (`actor<T>.with`) or of one call to an actor (`handle.with`). A field that
// makes no sense for what it is given to is refused with Invalid when it is used.
struct Options {
  // What it needs. A task takes 1 CPU unless told otherwise. An actor takes 1 CPU to be placed and none while it lives,
  // but an explicit `.cpus` is held for life. Fractions are exact to 1/10000.
  std::optional<double> cpus{};
  double gpus = 0;                                            // whole devices, or a share of one below 1
  std::uint64_t gpu_memory = 0;                               // bytes that must be free on each device
  std::uint64_t memory = 0;                                   // bytes
  std::uint64_t object_store_memory = 0;                      // bytes
  std::vector<std::pair<std::string, double>> resources{};    // custom ones: {{"license", 1}}
  std::vector<std::pair<std::string, std::string>> labels{};  // the node must carry them: {{"zone", "a"}}

  // A task's name is for people; an actor's name is how find_actor finds it. Actor names live in a name space; "" is
  // the job's own.
  std::string name{};
  std::string name_space{};

  std::int32_t max_retries = 3;       // tasks: how often it runs again after its worker or node died; -1: always
  std::int32_t max_restarts = 0;      // actors: how often it is made again after it died; -1: always
  std::int32_t max_task_retries = 0;  // actors: how often a call is repeated after a restart; -1: always
  std::uint32_t max_concurrency = 1;  // actors: threads; above 1 the calls of one caller may overlap
  bool retry_exceptions = false;      // tasks: an exception of user code counts as a failure to retry
  bool detached = false;              // actors: outlives the job and every handle, until kill; needs a name
  bool get_if_exists = false;         // actors: an actor of that name is taken instead of a new one; needs a name
  bool exclusive = false;             // actors: never two incarnations at once, not even across a network cut
  bool fail_when_overloaded = false;  // throw Overloaded where the call would wait for room in the queue

  std::vector<std::pair<std::string, std::string>> environment{};  // extra variables of the worker
};

// Of init().
struct InitOptions {
  std::string address{};         // HOST:PORT; "": MOBULA_ADDRESS, and without that a private cluster
  std::string cluster_file{};    // "": MOBULA_CLUSTER_FILE, and without that the default one
  std::optional<double> cpus{};  // this and the next four: of the private cluster's one node
  std::optional<double> gpus{};
  std::optional<std::uint64_t> memory{};
  std::optional<std::uint64_t> object_store_memory{};
  std::vector<std::pair<std::string, double>> resources{};
  std::string name_space{};     // where this job's named actors live; "": one of its own
  std::string job_name{};       // for people; "": the executable's name
  bool log_to_driver = true;    // what workers print appears here, prefixed
  std::size_t queue_bytes = 0;  // bound of the queued tasks; 0: an eighth of the memory
};

// Of wait().
struct WaitOptions {
  std::size_t count = 1;                              // return when so many are ready
  std::optional<std::chrono::nanoseconds> timeout{};  // or after so long; unset: no limit
  bool fetch = true;                                  // ready also means: the value is on this node
};

// Of cancel().
struct CancelOptions {
  bool force = false;     // end the worker process of a task that runs already
  bool recursive = true;  // also the tasks that it started
};

// Of kill().
struct KillOptions {
  bool no_restart = true;  // false: max_restarts still applies, as if the process had crashed
};

}  // namespace mobula
