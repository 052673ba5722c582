// Where an experiment lives: its name, its folder, the parts of its trials' names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <mobula/tune/run_options.h>

namespace mobula::tune {

struct ExperimentPlace {
  std::string name;
  std::filesystem::path folder;
  std::string prefix;   // of trial ids, fresh
  std::string session;  // now, as YYYY-MM-DD_HH-MM-SS
};

// Throws Invalid when the name is unusable, when there is nothing to resume, or when a new experiment would take the
// folder of an old one.
ExperimentPlace choose_place(const RunOptions& options, const std::string& trainable);

}  // namespace mobula::tune
