// Small things about files and refusals that tune/run's parts share.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace mobula::tune {

// Throws Invalid.
[[noreturn]] void refuse(std::string message);
// Throws OutOfDisk when `code` says that, else Invalid: "cannot <what> <path>: <reason>".
[[noreturn]] void throw_file_error(const char* what, const std::filesystem::path& path, int code);

std::string read_file(const std::filesystem::path& path);
// Adds to the end.
void append_file(const std::filesystem::path& path, std::string_view text);
// Readers see the old content or the new one, never a part. `sync`: it is on the disk on return.
void replace_file(const std::filesystem::path& path, std::string_view content, bool sync);
void make_folders(const std::filesystem::path& path);
// A new or renamed entry of a folder lasts only once the folder is synced.
void sync_folder(const std::filesystem::path& path);

}  // namespace mobula::tune
