#include <algorithm>
#include <set>

#include "tests/lint/layers.h"
#include "tests/lint/rules.h"

namespace mobula::lint {
namespace {

constexpr std::string_view kAllowed = "order-free:";

// The code of a file as one text, so that a declaration may span lines.
std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

// The position after the bracket that closes the one at `open`.
std::size_t after_closing(std::string_view text, std::size_t open, char opening, char closing) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opening) ++depth;
    if (text[i] == closing && --depth == 0) return i + 1;
  }
  return text.size();
}

std::string identifier_at(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '&')) ++at;
  std::size_t end = at;
  while (end < text.size() && is_word_character(text[end])) ++end;
  return std::string(text.substr(at, end - at));
}

// The last identifier of an expression such as `state.leases_` or `leases()`.
std::string last_identifier(std::string_view expression) {
  std::size_t end = expression.size();
  while (end > 0 && !is_word_character(expression[end - 1])) --end;
  std::size_t start = end;
  while (start > 0 && is_word_character(expression[start - 1])) --start;
  return std::string(expression.substr(start, end - start));
}

// Adds the names of variables whose type is `type`, which ends in '<' for a template.
void collect_names(std::string_view text, std::string_view type, std::set<std::string>& names,
                   std::set<std::string>& aliases) {
  for (std::size_t at = find_word(text, type); at != std::string_view::npos; at = find_word(text, type, at + 1)) {
    const bool is_template = type.back() == '<';
    const std::size_t end = is_template ? after_closing(text, at + type.size() - 1, '<', '>') : at + type.size();
    const std::string name = identifier_at(text, end);
    if (!name.empty() && name != "const") names.insert(name);
    const std::size_t statement = std::min(text.find_last_of(";{}", at) + 1, at);
    const std::string_view head = text.substr(statement, at - statement);
    if (const std::size_t start = find_word(head, "using"); start != std::string_view::npos) {
      aliases.insert(identifier_at(head, start + 5));
    }
  }
}

std::set<std::string> unordered_names(const SourceFile& file, const std::vector<const SourceFile*>& headers) {
  std::set<std::string> names;
  std::set<std::string> aliases;
  std::vector<std::string> texts = {joined(file.code)};
  for (const SourceFile* header : headers) texts.push_back(joined(header->code));
  for (const std::string& text : texts) {
    for (const std::string_view type :
         {"unordered_map<", "unordered_set<", "unordered_multimap<", "unordered_multiset<"}) {
      collect_names(text, type, names, aliases);
    }
  }
  for (const std::string& alias : std::set<std::string>(aliases)) {
    for (const std::string& text : texts) collect_names(text, alias, names, aliases);
  }
  return names;
}

// The range of a `for (declaration : range)` that starts at `open`; empty for other loops.
std::string_view loop_range(std::string_view text, std::size_t open) {
  const std::size_t close = after_closing(text, open, '(', ')');
  int depth = 0;
  for (std::size_t i = open + 1; i + 1 < close; ++i) {
    if (text[i] == '(' || text[i] == '{' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == '}' || text[i] == ']') --depth;
    if (text[i] == ';' && depth == 0) return {};
    const bool single = text[i] == ':' && text[i - 1] != ':' && text[i + 1] != ':';
    if (single && depth == 0) return text.substr(i + 1, close - i - 2);
  }
  return {};
}

bool allowed(const SourceFile& file, std::size_t line) {
  const auto says = [&](std::size_t i) { return file.lines[i].find(kAllowed) != std::string::npos; };
  return says(line) || (line > 0 && says(line - 1));
}

}  // namespace

void check_iteration(const SourceFile& file, const std::vector<const SourceFile*>& headers,
                     std::vector<Finding>& findings) {
  const Layer* layer = layer_of(file.path);
  if (layer == nullptr || !layer->pure || !is_code(file.path)) return;
  const std::set<std::string> names = unordered_names(file, headers);
  if (names.empty()) return;
  const std::string text = joined(file.code);
  const auto report = [&](std::size_t at, const std::string& name) {
    const auto line =
        static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    if (allowed(file, line)) return;
    findings.push_back({file.path, line + 1, "iterates the unordered container " + name,
                        "use std::map or a sorted vector; if the order cannot matter, say `// order-free: why`"});
  };
  for (std::size_t at = find_word(text, "for"); at != std::string::npos; at = find_word(text, "for", at + 1)) {
    const std::size_t open = text.find_first_not_of(" \n", at + 3);
    if (open == std::string::npos || text[open] != '(') continue;
    const std::string name = last_identifier(loop_range(text, open));
    if (names.contains(name)) report(at, name);
  }
  for (const std::string& name : names) {
    for (const std::string_view begin : {".begin()", ".cbegin()"}) {
      const std::string call = name + std::string(begin);
      for (std::size_t at = find_word(text, call); at != std::string::npos; at = find_word(text, call, at + 1)) {
        report(at, name);
      }
    }
  }
}

}  // namespace mobula::lint
