#include <algorithm>

#include "tests/lint/layers.h"
#include "tests/lint/rules.h"

namespace mobula::lint {
namespace {

bool contains(const std::vector<std::string_view>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string joined(const std::vector<std::string_view>& list) {
  std::string text;
  for (const std::string_view name : list) text += (text.empty() ? "" : ", ") + std::string(name);
  return text.empty() ? "none" : text;
}

// Where a public header lies, so that its layer is found.
std::string public_path(std::string_view name) {
  if (name.starts_with("mobula/tune") || name.starts_with("mobula/train")) return "tune/include/" + std::string(name);
  if (name == "mobula/gpu.h" || name == "mobula/collective.h") return "gpu/include/" + std::string(name);
  return "runtime/include/" + std::string(name);
}

void check_one(const SourceFile& file, const Layer& from, const Include& include, std::vector<Finding>& findings) {
  const auto report = [&](std::string what, std::string remedy) {
    findings.push_back({file.path, include.line, std::move(what), std::move(remedy)});
  };
  const std::string from_name(from.name);
  if (const std::string_view library = library_of(include.name); !library.empty()) {
    if (!contains(from.libraries, library)) {
      report("layer " + from_name + " includes <" + include.name + "> of " + std::string(library),
             "move that code to a layer that may use " + std::string(library) +
                 ", behind a type of ours; this one may use: " + joined(from.libraries));
    }
    return;
  }
  const bool is_public = include.name.starts_with("mobula/");
  if (is_public && include.quoted) {
    return report("\"" + include.name + "\" is a public header", "write <" + include.name + ">");
  }
  if (!is_public && !include.quoted) return;  // the standard library, the system
  const Layer* to = layer_of(is_public ? public_path(include.name) : include.name);
  if (from.name == "examples" && to == nullptr) to = &from;  // examples/ is the root of what an example includes
  if (to == nullptr) {
    return report("\"" + include.name + "\" is in no layer",
                  "write the path from the repository's root; product code includes nothing of tests/");
  }
  if (to->name != from.name && !contains(from.layers, to->name)) {
    report("layer " + from_name + " includes " + include.name + " of layer " + std::string(to->name),
           from_name + " may include: " + joined(from.layers) +
               "; turn the dependence round, or put what both need into runtime/base");
  }
}

}  // namespace

void check_includes(const SourceFile& file, std::vector<Finding>& findings) {
  const Layer* from = layer_of(file.path);
  if (from == nullptr || !is_code(file.path)) return;
  for (const Include& include : includes_of(file)) check_one(file, *from, include, findings);
}

}  // namespace mobula::lint
