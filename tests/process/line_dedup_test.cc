#include "runtime/process/line_dedup.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace mobula::process {
namespace {

using Shown = std::vector<std::string>;

Instant at(double seconds) {
  return Instant{static_cast<std::int64_t>(seconds * 1e9)};
}

}  // namespace

TEST_CASE("a line is shown at once, and its repeats by other workers as a count") {
  LineDedup dedup({});
  Shown shown;
  for (std::uint64_t worker = 1; worker <= 8; ++worker) {
    dedup.add(at(0.1), worker, "(worker " + std::to_string(worker) + ") ", "epoch done", shown);
  }
  CHECK(shown == Shown{"(worker 1) epoch done"});
  CHECK(dedup.next_deadline() == at(5.1));
  dedup.tick(at(5), shown);
  CHECK(shown.size() == 1);
  dedup.tick(at(5.1), shown);
  CHECK(shown == Shown{"(worker 1) epoch done", "(worker 8) epoch done [repeated 7x across workers]"});
  CHECK(dedup.next_deadline() == Instant::never());
}

TEST_CASE("one repeat is just shown") {
  LineDedup dedup({});
  Shown shown;
  dedup.add(at(0), 1, "a ", "x", shown);
  dedup.add(at(0), 2, "b ", "x", shown);
  dedup.flush(at(1), shown);
  CHECK(shown == Shown{"a x", "b x"});
}

TEST_CASE("a single worker may repeat itself") {
  LineDedup dedup({});
  Shown shown;
  for (int i = 0; i < 3; ++i) dedup.add(at(0), 1, "", "tick", shown);
  CHECK(shown == Shown{"tick", "tick", "tick"});
  dedup.add(at(0), 2, "", "tick", shown);
  dedup.add(at(0), 1, "", "tick", shown);
  CHECK(shown.size() == 3);
  dedup.flush(at(0), shown);
  CHECK(shown.back() == "tick [repeated 2x across workers]");
}

TEST_CASE("numbers do not make lines different, and the last is shown") {
  CHECK(kind_of_line("loss 0.25 at 12%") == "loss #.# at #%");
  LineDedup dedup({});
  Shown shown;
  dedup.add(at(0), 1, "", "loss 1.5", shown);
  dedup.add(at(0), 2, "", "loss 12.25", shown);
  dedup.add(at(0), 3, "", "loss 0.1", shown);
  dedup.add(at(0), 3, "", "gain 0.1", shown);
  dedup.flush(at(0), shown);
  CHECK(shown == Shown{"loss 1.5", "gain 0.1", "loss 0.1 [repeated 2x across workers]"});
}

TEST_CASE("a new window begins with a line that is shown") {
  LineDedup dedup({});
  Shown shown;
  dedup.add(at(0), 1, "", "x", shown);
  dedup.add(at(6), 2, "", "x", shown);
  CHECK(shown == Shown{"x", "x"});
}

TEST_CASE("kinds are bounded: the oldest is flushed early") {
  LineDedup::Config config;
  config.kinds_max = 2;
  LineDedup dedup(config);
  Shown shown;
  dedup.add(at(0), 1, "", "a", shown);
  dedup.add(at(0), 2, "", "a", shown);
  dedup.add(at(0), 3, "", "a", shown);
  dedup.add(at(1), 1, "", "b", shown);
  dedup.add(at(2), 1, "", "c", shown);
  CHECK(shown == Shown{"a", "b", "a [repeated 2x across workers]", "c"});
}

TEST_CASE("a flood is cut and counted") {
  LineDedup::Config config;
  config.lines_per_second = 10;
  config.burst_lines = 2;
  config.collapse = false;
  LineDedup dedup(config);
  Shown shown;
  for (int i = 0; i < 5; ++i) dedup.add(at(0), 1, "", "x", shown);
  CHECK(shown.size() == 2);
  dedup.add(at(1), 1, "", "y", shown);
  REQUIRE(shown.size() == 4);
  CHECK(shown[2].find("3 lines dropped") != std::string::npos);
  CHECK(shown[3] == "y");
}

}  // namespace mobula::process
