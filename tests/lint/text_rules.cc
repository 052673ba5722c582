#include <algorithm>
#include <array>
#include <utility>

#include "tests/lint/layers.h"
#include "tests/lint/rules.h"

namespace mobula::lint {
namespace {

constexpr std::size_t kFileLinesMax = 1000;
constexpr std::size_t kFunctionLinesMax = 70;
constexpr std::size_t kLineColumnsMax = 120;

// Characters, not bytes: UTF-8 continuation bytes take no column.
std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void check_lines(const SourceFile& file, std::vector<Finding>& findings) {
  // Written in halves, so that this file passes its own rule.
  static const std::array<std::string, 3> kUnfinished = {std::string("TO") + "DO", std::string("FIX") + "ME",
                                                         std::string("XX") + "X"};
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    const auto report = [&](std::string what, std::string remedy) {
      findings.push_back({file.path, i + 1, std::move(what), std::move(remedy)});
    };
    if (columns(line) > kLineColumnsMax && line.find("://") == std::string::npos) {
      report(std::to_string(columns(line)) + " columns", "break the line at " + std::to_string(kLineColumnsMax));
    }
    if (line.find('\t') != std::string::npos) report("a tab", "indent by two spaces; write \\t in a literal");
    if (!line.empty() && (line.back() == ' ' || line.back() == '\r')) report("white space at the end", "remove it");
    for (const std::string& mark : kUnfinished) {
      if (find_word(line, mark) != std::string::npos) {
        report(mark, "finish it, or open an issue and say in the code what holds today");
      }
    }
  }
}

void check_length(const SourceFile& file, std::vector<Finding>& findings) {
  if (file.lines.size() <= kFileLinesMax) return;
  findings.push_back({file.path, 0, std::to_string(file.lines.size()) + " lines",
                      "a file holds one idea: split it below " + std::to_string(kFileLinesMax)});
}

void check_header(const SourceFile& file, std::vector<Finding>& findings) {
  if (!is_header(file.path)) return;
  const bool guarded = std::find(file.lines.begin(), file.lines.end(), "#pragma once") != file.lines.end();
  if (!guarded) findings.push_back({file.path, 0, "no #pragma once", "write it after the opening comment"});
}

// Follows the braces and tells the lines of each function that stands in a namespace or a class. A heuristic: a brace
// opens a function when what stands before it, since the last statement, ends in a parameter list.
class FunctionLengths {
 public:
  explicit FunctionLengths(const SourceFile& file) : file_(file) {}

  void run(std::vector<Finding>& findings) {
    for (std::size_t line = 0; line < file_.code.size(); ++line) {
      if (file_.lines[line].starts_with("#")) continue;
      for (const char c : file_.code[line]) step(c, line, findings);
      head_ += ' ';
    }
  }

 private:
  enum class Scope { kOuter, kFunction, kInner };

  void step(char c, std::size_t line, std::vector<Finding>& findings) {
    if (c == '{') {
      scopes_.push_back(classify());
      if (scopes_.back() == Scope::kFunction) start_ = line;
      head_.clear();
    } else if (c == '}') {
      if (!scopes_.empty()) {
        if (scopes_.back() == Scope::kFunction) close(line, findings);
        scopes_.pop_back();
      }
      head_.clear();
    } else if (c == ';') {
      head_.clear();
    } else {
      head_ += c;
    }
  }

  Scope classify() const {
    if (!scopes_.empty() && scopes_.back() != Scope::kOuter) return Scope::kInner;
    const bool has_parameters = head_.find('(') != std::string::npos;
    if (find_word(head_, "namespace") != std::string::npos || find_word(head_, "extern") != std::string::npos) {
      return Scope::kOuter;
    }
    const std::size_t last = head_.find_last_not_of(' ');
    if (last != std::string::npos && head_[last] == '=') return Scope::kInner;
    if (has_parameters) return Scope::kFunction;
    for (const std::string_view type : {"class", "struct", "union"}) {
      if (find_word(head_, type) != std::string::npos) return Scope::kOuter;
    }
    return Scope::kInner;
  }

  void close(std::size_t line, std::vector<Finding>& findings) const {
    const std::size_t length = line - start_ + 1;
    if (length <= kFunctionLinesMax || allowed()) return;
    findings.push_back({file_.path, start_ + 1, "a function of " + std::to_string(length) + " lines",
                        "give its parts names of their own, below " + std::to_string(kFunctionLinesMax)});
  }

  // `// long-function: why`, shortly above the brace.
  bool allowed() const {
    for (std::size_t i = start_ < 4 ? 0 : start_ - 4; i <= start_; ++i) {
      if (file_.lines[i].find("long-function:") != std::string::npos) return true;
    }
    return false;
  }

  const SourceFile& file_;
  std::vector<Scope> scopes_;
  std::string head_;
  std::size_t start_ = 0;
};

}  // namespace

void check_text(const SourceFile& file, std::vector<Finding>& findings) {
  check_length(file, findings);
  check_lines(file, findings);
  if (!is_code(file.path)) return;
  check_header(file, findings);
  if (layer_of(file.path) != nullptr) FunctionLengths(file).run(findings);
}

}  // namespace mobula::lint
