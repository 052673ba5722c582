// The functions this program registered before main, and how calls name them across processes.
#pragma once

#include <cstdint>
#include <string>

#include <mobula/detail/core.h>

#include "runtime/base/protocol/call.h"
#include "runtime/base/result.h"

namespace mobula::core {

// The wire's name of a registered function. Cached; thread-safe.
FunctionKey key_of(const detail::FunctionRecord& record);

// The function that a key names in this process. UnknownFunction or SignatureMismatch say what is missing and where.
// `name`: for the message. Thread-safe.
Result<const detail::FunctionRecord*> find_function(const FunctionKey& key, const std::string& name);

}  // namespace mobula::core
