#include "runtime/process/libraries.h"

#include <limits.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <span>

#include "runtime/process/build_id.h"
#include "runtime/process/sha256.h"

namespace mobula::process {
namespace {

constexpr std::size_t kProgramIdDigits = 32;

bool begins_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [text](std::string_view prefix) { return text.starts_with(prefix); });
}

bool is_mobula(std::string_view name) {
  return name.starts_with("libmobula.so");
}

// They go with the kernel, its loader or its drivers.
bool never_travels(std::string_view name) {
  static constexpr std::array<std::string_view, 15> kNames{
      "ld-linux", "libc.so",   "libm.so",    "libmvec.so", "libpthread.so", "libdl.so",    "librt.so", "libresolv.so",
      "libnss_",  "libanl.so", "libutil.so", "libcuda.so", "libnvidia",     "libnvcuvid.", "libGLX"};
  return begins_with_any(name, kNames);
}

// The folder without symbolic links (one into /usr/lib is the system's); the name is kept.
std::string absolute(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  std::array<char, PATH_MAX> real{};
  if (::realpath(folder.c_str(), real.data()) == nullptr) return path;
  return std::string(real.data()) + "/" + path.substr(slash == std::string::npos ? 0 : slash + 1);
}

}  // namespace

bool is_system_library(const Library& library) {
  static constexpr std::array<std::string_view, 6> kFolders{"/lib/",     "/lib64/",     "/lib32/",
                                                            "/usr/lib/", "/usr/lib64/", "/usr/lib32/"};
  return begins_with_any(library.path, kFolders) && !is_mobula(library.name);
}

std::string to_line(const Library& library) {
  return library.id + "\t" + library.name + "\t" + library.path;
}

std::optional<Library> library_from(std::string_view line) {
  const std::size_t first = line.find('\t');
  const std::size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  Library library{std::string(line.substr(0, first)), std::string(line.substr(first + 1, second - first - 1)),
                  std::string(line.substr(second + 1))};
  // The name becomes a file's in a folder of ours.
  const bool sane = !library.id.empty() && !library.name.empty() && library.name.front() != '.' &&
                    library.name.find('/') == std::string::npos && library.path.starts_with('/');
  return sane ? std::optional(std::move(library)) : std::nullopt;
}

std::string to_lines(const std::vector<Library>& libraries) {
  std::string lines;
  for (const Library& library : libraries) lines += to_line(library) + "\n";
  return lines;
}

std::vector<Library> libraries_from(std::string_view lines) {
  std::vector<Library> libraries;
  while (!lines.empty() && libraries.size() < kLibrariesMax) {
    const std::size_t end = lines.find('\n');
    if (auto library = library_from(lines.substr(0, end))) libraries.push_back(*std::move(library));
    lines = end == std::string_view::npos ? std::string_view() : lines.substr(end + 1);
  }
  return libraries;
}

std::vector<Library> libraries_to_ship() {
  std::vector<Library> libraries;
  for (const Module& module : loaded_modules()) {
    if (module.main) continue;
    Library library;
    library.path = absolute(module.path);
    library.name = library.path.substr(library.path.rfind('/') + 1);
    if (never_travels(library.name)) continue;
    library.id = module.id;
    if (library.id.empty()) {
      auto id = file_id(library.path);
      if (!id) continue;  // its file is gone: it cannot be shipped, and who needs it will say so
      library.id = *std::move(id);
    }
    // A path with a line's end in it has no place in a line.
    if (library.path.find_first_of("\t\n") == std::string::npos) libraries.push_back(std::move(library));
  }
  return libraries;
}

std::string program_id(const std::string& executable, const std::vector<Library>& libraries) {
  std::string text = executable + "\n";
  for (const Library& library : libraries) {
    if (!is_system_library(library)) text += library.name + "\t" + library.id + "\n";
  }
  return sha256_hex(std::as_bytes(std::span(text))).substr(0, kProgramIdDigits);
}

}  // namespace mobula::process
