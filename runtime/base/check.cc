#include "runtime/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace mobula {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "mobula: CHECK failed at %s:%d: %s %.*s\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace mobula
