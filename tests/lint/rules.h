// The rules that a commit must keep, each a function from files to findings. tests/lint/lint_main.cc runs them all.
#pragma once

#include <string>
#include <vector>

#include "tests/lint/source_file.h"

namespace mobula::lint {

// Who may include whom, and which library's headers (layers.cc). Includes are written from the repository's root.
void check_includes(const SourceFile& file, std::vector<Finding>& findings);

// Pure layers: no threads, locks, I/O, clocks or random devices; nothing keyed by pointer.
void check_purity(const SourceFile& file, std::vector<Finding>& findings);

// Pure layers: no loop over an unordered container, whose order differs between runs. `headers` are those in which the
// file's containers may be declared. `// order-free: why` on the line, or on the one above, allows a loop whose result
// does not depend on the order.
void check_iteration(const SourceFile& file, const std::vector<const SourceFile*>& headers,
                     std::vector<Finding>& findings);

// Lengths of files, functions and lines; tabs; #pragma once; marks of unfinished work. A function that is a table may
// be long: `// long-function: why` just above it.
void check_text(const SourceFile& file, std::vector<Finding>& findings);

// All of them over a whole tree.
std::vector<Finding> check_tree(const std::vector<SourceFile>& files);

}  // namespace mobula::lint
