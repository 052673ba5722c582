#include "runtime/process/find_binary.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "runtime/process/build_id.h"

namespace mobula::process {
namespace {

bool is_program(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::string resolved(const std::string& path) {
  std::array<char, PATH_MAX> real{};
  return ::realpath(path.c_str(), real.data()) != nullptr ? std::string(real.data()) : path;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// The file this function was linked into.
std::string own_file() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&find_mobula_binary), &info) == 0 || info.dli_fname == nullptr) return {};
  // The executable is named as it was started, which may be a bare name.
  return std::string_view(info.dli_fname).find('/') == std::string_view::npos ? executable_path() : info.dli_fname;
}

}  // namespace

Result<std::string> find_mobula_binary() {
  if (const char* named = std::getenv("MOBULA_BIN"); named != nullptr && *named != '\0') {
    if (is_program(named)) return std::string(named);
    return make_error(ErrorKind::kInvalid, "MOBULA_BIN is set to " + std::string(named) +
                                               ", which is no program that can be run: correct or unset it");
  }
  // The library may be a symbolic link into the folder where it really is.
  const std::string beside = resolved(folder_of(resolved(own_file())) + "/../bin") + "/mobula";
  if (is_program(beside)) return beside;

  const char* variable = std::getenv("PATH");
  std::string_view path = variable != nullptr ? variable : "";
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    const std::string folder(path.substr(0, colon));
    path = colon == std::string_view::npos ? std::string_view() : path.substr(colon + 1);
    const std::string candidate = folder + "/mobula";
    if (!folder.empty() && is_program(candidate)) return candidate;
  }
  return make_error(ErrorKind::kInvalid,
                    "cannot find the program `mobula` that runs a node: MOBULA_BIN is not set, " + beside +
                        " (beside the library) does not exist, and no folder of PATH has it. Set MOBULA_BIN, install " +
                        "Mobula, or add its bin folder to PATH");
}

}  // namespace mobula::process
