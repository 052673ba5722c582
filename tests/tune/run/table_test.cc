#include "tune/run/table.h"

#include <algorithm>

#include <doctest/doctest.h>

using namespace mobula::tune;

namespace {

struct Running {
  explicit Running(std::uint64_t trials) : machine(make_config(trials), {}), config(make_config(trials)) {
    step({Begin{}});
  }
  static ExperimentConfig make_config(std::uint64_t trials) {
    ExperimentConfig config;
    config.trainable = "train";
    config.metric = "accuracy";
    config.space = Space{{"lr", loguniform(1e-4, 1e-1)}, {"depth", integers(1, 4)},
                         {"optimizer", choice({"adam"})}, {"classes", 10}};
    config.samples = trials;
    config.slots = 100;
    config.prefix = "18ae7";
    return config;
  }
  void step(std::vector<Event> events) {
    std::vector<Action> actions;
    machine.step({}, events, actions);
  }
  void start(std::uint32_t trial, const std::string& address) {
    step({TrialStarted{trial, 1, Place{"0123456789abcdef", address, "box", 1}}});
  }
  void report(std::uint32_t trial, double accuracy) {
    step({Reported{trial, 1, {{"loss", 1 - accuracy}, {"accuracy", accuracy}}, 0, 0}});
  }
  Experiment machine;
  ExperimentConfig config;
};

std::size_t letters(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

TEST_CASE("text is cut between letters, and says that it was cut") {
  CHECK(fit("abcdef", 6) == "abcdef");
  CHECK(fit("abcdefg", 6) == "abc...");
  CHECK(fit("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 4) == "\xc3\xa4...");
  CHECK(fit("abc", 2) == "..");
  CHECK(first_line("a\nb") == "a");
  CHECK(short_text(Value(0.0123456)) == "0.01235");
  CHECK(short_text(Value(64)) == "64");
  CHECK(node_name(Place{"0123456789abcdef", "", "", 0}) == "01234567");
}

TEST_CASE("the table shows trial, node, parameters, epoch, loss, accuracy and state") {
  Running running(3);
  running.start(0, "127.0.0.1:4000");
  running.start(1, "127.0.0.1:4001");
  running.report(0, 0.5);
  const auto lines = render_table(running.machine, running.config, 200, 20);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "3 trials: 2 running");
  std::string header = lines[1];
  header.erase(std::unique(header.begin(), header.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
               header.end());
  CHECK(header == "trial node parameters epoch loss accuracy state");
  CHECK(lines[2].find("18ae7_00000  127.0.0.1:4000  lr=") == 0);
  CHECK(lines[2].find("optimizer=adam") != std::string::npos);
  CHECK(lines[2].find("classes") == std::string::npos);
  CHECK(lines[2].find("0.5") != std::string::npos);
  CHECK(lines[2].find("RUNNING") != std::string::npos);
  CHECK(lines[4].find("PENDING") != std::string::npos);
}

TEST_CASE("it fits any width and height") {
  Running running(30);
  for (std::uint32_t trial = 0; trial < 30; ++trial) {
    running.start(trial, "[2001:db8::1]:65535");
    running.report(trial, 0.01 * trial);
  }
  for (const std::size_t width : {std::size_t{20}, std::size_t{60}, std::size_t{80}, std::size_t{132}}) {
    for (const std::size_t height : {std::size_t{1}, std::size_t{3}, std::size_t{10}, std::size_t{100}}) {
      const auto lines = render_table(running.machine, running.config, width, height);
      CHECK(lines.size() <= height);
      for (const auto& line : lines) CHECK(letters(line) <= width);
    }
  }
  const auto lines = render_table(running.machine, running.config, 120, 10);
  CHECK(lines.back() == "... and 23 more");
}

TEST_CASE("what runs comes first, then what is over, best first") {
  Running running(4);
  for (std::uint32_t trial = 0; trial < 4; ++trial) {
    running.start(trial, "n:1");
    running.report(trial, 0.1 * trial);
  }
  running.step({TrialEnded{0, 1, true}, TrialEnded{2, 1, true}, TrialFailed{3, 1, "no\nstack", false}});
  const auto lines = render_table(running.machine, running.config, 200, 20);
  CHECK(lines[2].find("18ae7_00001") == 0);
  CHECK(lines[3].find("18ae7_00002") == 0);
  CHECK(lines[4].find("18ae7_00000") == 0);
  CHECK(lines[5].find("18ae7_00003") == 0);
  CHECK(lines[0] == "4 trials: 1 running, 2 completed, 1 failed");
  CHECK(render_nodes(running.machine) == "1 node ran trials: n:1 (4)");
}
