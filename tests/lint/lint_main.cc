// lint REPOSITORY: checks every file of the tree, prints what is wrong with its remedy, and ends with 1 if anything is.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/lint/rules.h"

namespace {

namespace fs = std::filesystem;
using mobula::lint::SourceFile;

constexpr std::array<std::string_view, 7> kFolders = {"runtime", "scheduler", "objectstore", "gpu",
                                                      "tune",    "examples",  "tests"};
constexpr std::array<std::string_view, 8> kEndings = {".h", ".cc", ".cu", ".capnp", ".cmake", ".sh", ".txt", ".map"};

bool checked(const fs::path& path) {
  return std::find(kEndings.begin(), kEndings.end(), path.extension().string()) != kEndings.end();
}

SourceFile read(const fs::path& root, const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return mobula::lint::parse_source(path.lexically_relative(root).generic_string(), text);
}

std::vector<SourceFile> read_tree(const fs::path& root) {
  std::vector<fs::path> paths;
  for (const std::string_view folder : kFolders) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const bool data = entry.path().generic_string().find("/corpus/") != std::string::npos;
      if (entry.is_regular_file() && checked(entry.path()) && !data) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  files.reserve(paths.size());
  for (const fs::path& path : paths) files.push_back(read(root, path));
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: lint REPOSITORY\n";
    return 2;
  }
  const std::vector<SourceFile> files = read_tree(argv[1]);
  const auto findings = mobula::lint::check_tree(files);
  for (const auto& finding : findings) {
    std::cout << finding.path << ':' << finding.line << ": " << finding.what << "\n    " << finding.remedy << '\n';
  }
  std::cout << files.size() << " files, " << findings.size() << " findings\n";
  return findings.empty() && !files.empty() ? 0 : 1;
}
