#include "tests/lint/source_file.h"

#include <algorithm>
#include <cctype>

namespace mobula::lint {
namespace {

// Walks the text once and blanks what is not code. Raw strings end at their own delimiter.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), code_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (starts("//")) {
        blank_until("\n", 0);
      } else if (starts("/*")) {
        blank_until("*/", 2);
      } else if (starts("R\"") && (at_ == 0 || !is_word_character(text_[at_ - 1]))) {
        blank_raw_string();
      } else if (text_[at_] == '"') {
        blank_literal('"');
      } else if (text_[at_] == '\'' && (at_ == 0 || !is_word_character(text_[at_ - 1]))) {
        blank_literal('\'');  // not the separator in 1'000
      } else {
        ++at_;
      }
    }
    return std::move(code_);
  }

 private:
  bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  void blank_to(std::size_t end) {
    for (end = std::min(end, text_.size()); at_ < end; ++at_) {
      if (code_[at_] != '\n') code_[at_] = ' ';
    }
  }
  void blank_until(std::string_view stop, std::size_t extra) {
    const std::size_t found = text_.find(stop, at_ + extra);
    blank_to(found == std::string_view::npos ? text_.size() : found + extra);
  }
  void blank_raw_string() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return blank_to(text_.size());
    const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    const std::size_t end = text_.find(close, open);
    blank_to(end == std::string_view::npos ? text_.size() : end + close.size());
  }
  // Keeps the quotes, so that `""` still looks like a value.
  void blank_literal(char quote) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      blank_to(at_ + (text_[at_] == '\\' ? 2 : 1));
    }
    ++at_;
  }

  std::string_view text_;
  std::string code_;
  std::size_t at_ = 0;
};

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_header(std::string_view path) {
  return path.ends_with(".h");
}
bool is_code(std::string_view path) {
  return is_header(path) || path.ends_with(".cc") || path.ends_with(".cu");
}

SourceFile parse_source(std::string path, std::string_view text) {
  SourceFile file;
  file.path = std::move(path);
  file.lines = split_lines(text);
  if (is_code(file.path)) file.code = split_lines(Blanker(text).run());
  return file;
}

std::size_t find_word(std::string_view text, std::string_view word, std::size_t from) {
  for (std::size_t at = text.find(word, from); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !is_word_character(text[at - 1]) || !is_word_character(word.front());
    const std::size_t end = at + word.size();
    const bool ends = end >= text.size() || !is_word_character(text[end]) || !is_word_character(word.back());
    if (starts && ends) return at;
  }
  return std::string_view::npos;
}

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> includes;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    // A directive in a comment or a raw string is none: its '#' is blanked.
    const std::size_t hash = file.lines[i].find_first_not_of(" \t");
    if (hash == std::string::npos || file.lines[i][hash] != '#' || file.code[i].size() <= hash) continue;
    if (file.code[i][hash] != '#' || find_word(file.code[i], "include") == std::string::npos) continue;
    const std::size_t open = file.lines[i].find_first_of("\"<", hash);
    if (open == std::string::npos) continue;
    const bool quoted = file.lines[i][open] == '"';
    const std::size_t close = file.lines[i].find(quoted ? '"' : '>', open + 1);
    if (close == std::string::npos) continue;
    includes.push_back({i + 1, file.lines[i].substr(open + 1, close - open - 1), quoted});
  }
  return includes;
}

}  // namespace mobula::lint
