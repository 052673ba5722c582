// The simulator: `sim --nodes 4 --workers 2 --seed 7 --minutes 1`. Exit 1 when something was violated; the same
// arguments always give the same run.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/sim/world.h"

namespace {

using namespace mobula::sim;

const World* running = nullptr;  // for the story of a failed check

// A machine has found itself in a state that cannot be.
void on_abort(int) {
  if (running != nullptr) {
    std::fprintf(stderr, "a check failed at %.6f s\n%sreplay: %s\n",
                 static_cast<double>(running->now().nanoseconds) / 1e9, running->story().c_str(),
                 running->options.replay.c_str());
  }
  std::_Exit(1);
}

// "all", "none" or a list of names; false when a name is unknown.
template <class Known>
bool parse_list(const std::string& text, const Known& known, std::set<std::string>& chosen) {
  if (text == "all") chosen.insert(known.begin(), known.end());
  if (text == "all" || text == "none") return true;
  std::stringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::fprintf(stderr, "sim: \"%s\" is unknown; there are: all, none", name.c_str());
      for (const char* each : known) std::fprintf(stderr, ", %s", each);
      std::fprintf(stderr, "\n");
      return false;
    }
    chosen.insert(name);
  }
  return true;
}

Outcome run(const Options& options) {
  World world(options);
  running = &world;
  const Outcome outcome = world.run();
  running = nullptr;
  return outcome;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

void print(const Options& options, const Outcome& outcome, double wall_s, bool json) {
  if (!json) {
    std::printf(
        "seed %llu: %.1f virtual s in %.1f s, %llu events, %llu messages, %llu calls, %llu of them ended in an "
        "error, %llu faults, %llu violations, trace %s\n",
        static_cast<unsigned long long>(options.seed), outcome.virtual_s, wall_s,
        static_cast<unsigned long long>(outcome.events), static_cast<unsigned long long>(outcome.messages),
        static_cast<unsigned long long>(outcome.calls), static_cast<unsigned long long>(outcome.errors),
        static_cast<unsigned long long>(outcome.faults), static_cast<unsigned long long>(outcome.violations),
        hex(outcome.trace).c_str());
    return;
  }
  const nlohmann::ordered_json line{{"seed", options.seed},       {"nodes", options.nodes},
                                    {"events", outcome.events},   {"virtual_s", outcome.virtual_s},
                                    {"wall_s", wall_s},           {"violations", outcome.violations},
                                    {"trace", hex(outcome.trace)}};
  std::printf("%s\n", line.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string faults = "all";
  std::string workloads = "all";
  bool json = false;
  bool verify = false;
  CLI::App app{
      "Runs a whole cluster of the real machines in virtual time. Example: sim --nodes 4 --workers 2 --seed 7"};
  app.add_option("--nodes", options.nodes, "Nodes")->check(CLI::Range(1, 10000));
  app.add_option("--workers", options.workers, "Workers (CPUs) of each node")->check(CLI::Range(1, 256));
  app.add_option("--seed", options.seed, "Of all that is random");
  app.add_option("--minutes", options.minutes, "Virtual minutes of work under faults")->check(CLI::Range(1, 10000));
  app.add_option("--faults", faults, "all, none or a list of: worker,node,link,cut,delay");
  app.add_option("--workload", workloads, "all or a list of: fanout,nested,jobs,ring,churn");
  app.add_flag("--json", json, "One JSON line at the end");
  app.add_flag("--verify", verify, "Run twice and compare the traces");
  CLI11_PARSE(app, argc, argv);
  if (!parse_list(faults, kFaults, options.faults) || !parse_list(workloads, kWorkloads, options.workloads)) return 2;
  // Large clusters: structs instead of frames, and checks of all machines once a second.
  options.codec = options.nodes <= 200;
  options.check_each = options.nodes <= 32;
  options.replay = "build/bin/tests/sim --nodes " + std::to_string(options.nodes) + " --workers " +
                   std::to_string(options.workers) + " --seed " + std::to_string(options.seed) + " --minutes " +
                   std::to_string(options.minutes) + " --faults " + faults + " --workload " + workloads;
  std::signal(SIGABRT, on_abort);
  const auto started = std::chrono::steady_clock::now();
  Outcome outcome = run(options);
  if (verify && run(options).trace != outcome.trace) {
    std::fprintf(stderr, "violation: the same seed gave another trace\nreplay: %s --verify\n", options.replay.c_str());
    ++outcome.violations;
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
  print(options, outcome, wall.count(), json);
  return outcome.violations == 0 ? 0 : 1;
}
