// What this machine allows: the round trips, copies and process starts that every runtime is made of.
//
// They fork, so they never run in a process with threads: `mobula bench` starts itself once for each measurement.
#pragma once

#include <span>
#include <string_view>

#include "runtime/base/result.h"

namespace mobula::cli {

struct Limit {
  const char* name;
  const char* unit;
  double (*measure)(double seconds);  // about so long; 0 when the machine refuses
};

std::span<const Limit> limits();
const Limit* find_limit(std::string_view name);

}  // namespace mobula::cli
