#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/lint/layers.h"
#include "tests/lint/rules.h"

namespace mobula::lint {
namespace {

std::vector<Finding> lint(std::string path, std::string_view text) {
  return check_tree({parse_source(std::move(path), text)});
}

bool finds(const std::vector<Finding>& findings, std::size_t line, std::string_view what) {
  for (const Finding& finding : findings) {
    if (finding.line == line && finding.what.find(what) != std::string::npos && !finding.remedy.empty()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("comments and literals are not code") {
  const SourceFile file =
      parse_source("a.cc", "int a; // std::thread\nauto b = \"std::mutex \\\" x\"; /* c\nd */ int e;\n");
  CHECK(file.code[0].find("thread") == std::string::npos);
  CHECK(file.code[1].find("mutex") == std::string::npos);
  CHECK(file.code[2].find('d') == std::string::npos);
  CHECK(file.code[2].find("int e;") != std::string::npos);
  CHECK(file.code[1].size() == file.lines[1].size());
  CHECK(parse_source("a.cc", "auto r = R\"x(\" std::mutex)x\"; int z = 1'000;").code[0].ends_with("; int z = 1'000;"));
}

TEST_CASE("the layer of a file is the one of its longest folder") {
  CHECK(layer_of("objectstore/owner.h")->name == "objectstore");
  CHECK(layer_of("objectstore/io/arena.h")->name == "objectstore-io");
  CHECK(layer_of("runtime/driver.h")->name == "driver");
  CHECK(layer_of("runtime/include/mobula/ids.h")->name == "values");
  CHECK(layer_of("runtime/include/mobula/mobula.h")->name == "public");
  CHECK(layer_of("schedulers/x.h") == nullptr);
  CHECK(layer_of("tests/scheduler/head_test.cc") == nullptr);
}

TEST_CASE("a machine may not include another, a driver or a library") {
  CHECK(finds(lint("scheduler/a.cc", "#include \"objectstore/owner.h\"\n"), 1, "of layer objectstore"));
  CHECK(finds(lint("scheduler/a.cc", "#include \"runtime/net/link.h\"\n"), 1, "of layer net"));
  CHECK(finds(lint("scheduler/a.cc", "#include <asio.hpp>\n"), 1, "of asio"));
  CHECK(finds(lint("scheduler/a.cc", "#include <mobula/mobula.h>\n"), 1, "of layer public"));
  CHECK(finds(lint("scheduler/a.cc", "#include <mutex>\n"), 1, "<mutex>"));
  CHECK(finds(lint("runtime/net/a.cc", "#include <rocksdb/db.h>\n"), 1, "of rocksdb"));
  CHECK(
      finds(lint("runtime/include/mobula/mobula.h", "#pragma once\n#include \"runtime/core/x.h\"\n"), 2, "layer core"));
  CHECK(finds(lint("examples/a.cc", "#include \"runtime/base/ids.h\"\n"), 1, "layer base"));
  CHECK(finds(lint("scheduler/a.cc", "#include \"tests/skip.h\"\n"), 1, "in no layer"));
  CHECK(lint("scheduler/a.cc", "#include \"scheduler/b.h\"\n#include <mobula/ids.h>\n#include \"runtime/base/rng.h\"\n")
            .empty());
  CHECK(lint("scheduler/a.cc", "// #include <mutex>\n").empty());
}

TEST_CASE("a machine may not read clocks, random devices or files, nor be threaded") {
  CHECK(finds(lint("objectstore/a.cc", "auto t = std::chrono::steady_clock::now();\n"), 1, "steady_clock"));
  CHECK(finds(lint("tune/search/a.cc", "std::mt19937 engine;\n"), 1, "mt19937"));
  CHECK(finds(lint("gpu/a.cc", "std::mutex lock;\n"), 1, "std::mutex"));
  CHECK(finds(lint("gpu/a.cc", "std::map<Node*, int> nodes;\n"), 1, "keyed by pointer"));
  CHECK(lint("gpu/a.cc", "std::map<NodeId, Node*> nodes;\n").empty());
  CHECK(lint("runtime/net/a.cc", "std::mutex lock;\n").empty());
}

TEST_CASE("a loop over an unordered container is found, wherever the container is declared") {
  const std::string_view member = "#pragma once\nstd::unordered_map<int,\n   std::vector<int>> leases_;\n";
  const std::string_view loop =
      "#include \"scheduler/a.h\"\nvoid f() {\n  for (const auto& [id, lease] : leases_) {}\n}\n";
  CHECK(finds(check_tree({parse_source("scheduler/a.h", member), parse_source("scheduler/a.cc", loop)}), 3, "leases_"));
  CHECK(finds(lint("scheduler/a.cc", "std::unordered_set<int> s;\nauto i = s.begin();\n"), 2, "s"));
  CHECK(finds(lint("scheduler/a.cc",
                   "using Table = std::unordered_map<int, int>;\nTable t;\nvoid f() {\n  for (auto x : t) {}\n}\n"),
              4, "t"));
  CHECK(lint("scheduler/a.cc", "std::unordered_set<int> s;\n// order-free: a sum\nauto i = s.begin();\n").empty());
  CHECK(lint("scheduler/a.cc", "std::map<int, int> s;\nvoid f() {\n  for (auto x : s) {}\n}\n").empty());
}

TEST_CASE("text: lengths, tabs, guards, marks of unfinished work") {
  CHECK(finds(lint("scheduler/a.cc", std::string(121, '/') + "\n"), 1, "121 columns"));
  CHECK(finds(lint("scheduler/a.cc", "\tint a;\n"), 1, "tab"));
  CHECK(finds(lint("scheduler/a.h", "int a;\n"), 0, "#pragma once"));
  CHECK(finds(lint("scheduler/a.cc",
                   "// TO"
                   "DO: later\n"),
              1,
              "TO"
              "DO"));
  std::string text = "namespace m {\nint f(int a) {\n";
  for (int i = 0; i < 70; ++i) text += "  ++a;\n";
  text += "  return a;\n}\n}\n";
  CHECK(finds(lint("scheduler/a.cc", text), 2, "a function of 73 lines"));
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "int a;\n";
  CHECK(finds(lint("scheduler/a.cc", many), 0, "1001 lines"));
}

}  // namespace mobula::lint
