// What tune::run is asked to do: plain data for designated initialisers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <mobula/options.h>
#include <mobula/tune/scheduler.h>
#include <mobula/tune/space.h>
#include <mobula/tune/status.h>

namespace mobula::tune {

enum class Display : std::uint8_t {
  kAuto,  // a live table on a terminal, lines elsewhere
  kLines,
  kTable,
  kSilent,
};

struct RunOptions {
  Space space{};
  std::string metric{};  // the reported number that counts
  Mode mode = Mode::kMax;
  std::uint64_t num_samples = 1;  // times the space is drawn from, each with the whole grid
  Scheduler scheduler = fifo();
  std::uint32_t max_concurrent = 0;  // trials at once; 0: what the cluster has room for
  std::uint64_t seed = 0;            // same seed, same parameters
  Scope scope = Scope::kLast;        // which of a trial's reports counts for "best"

  mobula::Options trial{};        // what a trial needs; 1 CPU unless .cpus says otherwise
  std::int32_t max_failures = 0;  // new attempts after the function threw; -1: always
  std::int32_t max_restarts = 3;  // new attempts after the worker or node died; -1: always

  std::string name{};               // of the experiment's folder; "": <function>_<date>
  std::filesystem::path storage{};  // "": $MOBULA_RESULTS, else ~/mobula_results
  bool resume = false;              // go on with `name`, or with the newest of this function when that is ""
  bool retry_errored = false;       // with resume: run the trials that failed once more
  Display display = Display::kAuto;
  std::function<bool()> interrupted{};  // asked several times a second; true ends the run as Ctrl-C does
};

}  // namespace mobula::tune
