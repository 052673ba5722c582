// A source file as the linter sees it: its lines, and the same lines with comments and literals blanked out.
//
// Rules look for words in `code`, so that a comment may speak of what the code must not do.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::lint {

struct SourceFile {
  std::string path;                // relative to the repository, with '/'
  std::vector<std::string> lines;  // as they stand
  std::vector<std::string> code;   // comments, string and character literals replaced by spaces; same columns
};

// What is wrong, where, and what to do about it.
struct Finding {
  std::string path;
  std::size_t line = 0;  // from 1; 0: the file as a whole
  std::string what;
  std::string remedy;

  friend bool operator==(const Finding&, const Finding&) = default;
};

SourceFile parse_source(std::string path, std::string_view text);

bool is_header(std::string_view path);
// A C++ file: .h, .cc, .cu.
bool is_code(std::string_view path);

bool is_word_character(char c);
// Position of `word` in `text` at or after `from`, not inside a longer identifier; npos when there is none. A word may
// end in '(' or contain "::".
std::size_t find_word(std::string_view text, std::string_view word, std::size_t from = 0);

// One `#include`, with the name between its quotes or angle brackets.
struct Include {
  std::size_t line = 0;
  std::string name;
  bool quoted = false;
};
std::vector<Include> includes_of(const SourceFile& file);

}  // namespace mobula::lint
