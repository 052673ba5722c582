// `mobula` run by itself: for what needs a process of its own.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace mobula::cli {

// Runs this binary with `arguments`, waits for it and returns what it printed on its standard output; its errors go
// where ours go. An error when it does not exit with 0.
Result<std::string> run_self(const std::vector<std::string>& arguments);

}  // namespace mobula::cli
