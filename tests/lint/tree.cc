#include <map>

#include "tests/lint/rules.h"

namespace mobula::lint {

std::vector<Finding> check_tree(const std::vector<SourceFile>& files) {
  std::map<std::string, const SourceFile*> by_path;
  for (const SourceFile& file : files) by_path[file.path] = &file;
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    check_text(file, findings);
    if (!is_code(file.path)) continue;
    check_includes(file, findings);
    check_purity(file, findings);
    // A member that a .cc file iterates is declared there or in one of our headers that it includes.
    std::vector<const SourceFile*> headers;
    for (const Include& include : includes_of(file)) {
      const auto found = by_path.find(include.name);
      if (include.quoted && found != by_path.end()) headers.push_back(found->second);
    }
    check_iteration(file, headers, findings);
  }
  return findings;
}

}  // namespace mobula::lint
