// How the library finds the `mobula` binary when it must start a node.
#pragma once

#include <string>

#include "runtime/base/result.h"

namespace mobula::process {

// MOBULA_BIN, else ../bin/mobula beside the library this code is in (or beside the executable itself), else PATH; else
// an error that names all three. A MOBULA_BIN that is set and wrong is an error, never passed over.
Result<std::string> find_mobula_binary();

}  // namespace mobula::process
