// MOBULA_CHECK: for what cannot happen. Kept on in release; ends the process with file, line and message.
#pragma once

#include <string_view>

namespace mobula {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

}  // namespace mobula

#define MOBULA_CHECK(condition, ...)                                                           \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::mobula::check_failed(__FILE__, __LINE__, #condition, ::std::string_view{__VA_ARGS__}); \
  } while (false)
