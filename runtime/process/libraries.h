// The shared libraries that a program needs, and how another machine comes to have the same ones.
//
// A program's identity is its executable's and those of the private libraries it runs with: the same executable beside
// a rebuilt library is another program. libmobula.so counts as private wherever it lies, because both ends of a call
// must run the same one. Libraries of the system are only shipped where none of that path is: another build of it will
// do. The C library and the libraries of GPU drivers never travel: they belong to the kernel's side of a machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace mobula::process {

// Of one program or of one call of load_library.
inline constexpr std::size_t kLibrariesMax = 512;

struct Library {
  std::string id;    // build id, or "sha256:" and the hash of the file
  std::string name;  // what asks for it calls it so
  std::string path;  // where the driver found it
  friend bool operator==(const Library&, const Library&) = default;
};

// What load_library loaded, in the environment of a call: lines, who needs a library after it.
inline constexpr const char* kLibrariesVariable = "MOBULA_LIBRARIES";

// In a folder of the system's, and not Mobula's own.
bool is_system_library(const Library& library);

// A line of text, in messages and in the environment of workers; nullopt for what was no such line.
std::string to_line(const Library& library);
std::optional<Library> library_from(std::string_view line);
std::string to_lines(const std::vector<Library>& libraries);
std::vector<Library> libraries_from(std::string_view lines);

// What this process has loaded and another machine may lack, in load order: who needs a library comes before it.
std::vector<Library> libraries_to_ship();

// The identity of an executable together with its private libraries.
std::string program_id(const std::string& executable, const std::vector<Library>& libraries);

}  // namespace mobula::process
