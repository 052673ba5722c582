// tune::run from end to end over a cluster in this process: real encoding, real files, real deaths.
#include <mobula/tune.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <map>
#include <set>
#include <stdexcept>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/tune/run/folder.h"
#include "tests/tune/run/threaded_core.h"
#include "tune/experiment/journal.h"
#include "tune/run/files.h"

using namespace mobula::tune;
namespace testing = mobula::tune::testing;
using testing::Folder;

namespace {

template <class Result>
concept HasValues = requires(const Result& result) {
  result.best_value();
};
static_assert(HasValues<RunResult<int>> && !HasValues<RunResult<void>>);

std::atomic<int> ends_of_train = 0;

// Its best accuracy is at x = 0.3; grows with the epochs.
std::vector<double> train(Trial& trial, const std::vector<double>& data, int factor) {
  const double x = trial.get<double>("x");
  double accuracy = 0;
  for (int epoch = 1; epoch <= 9; ++epoch) {
    accuracy = (1 - std::abs(x - 0.3)) * (1 - 1.0 / (epoch + 1));
    if (!trial.report({{"loss", 1 - accuracy}, {"accuracy", accuracy}})) break;
  }
  ++ends_of_train;
  return {x, accuracy, data.at(0) * factor};
}

void no_value(Trial& trial) {
  (void)trial.report({{"accuracy", 1}});
}

RunOptions options_of(const Folder& folder) {
  RunOptions options;
  options.space = Space{{"x", uniform(0, 1)}};
  options.metric = "accuracy";
  options.num_samples = 12;
  options.scheduler = asha({.max_t = 9, .reduction_factor = 3});
  options.name = "exp";
  options.storage = folder.path();
  options.display = Display::kSilent;
  options.seed = 4;
  return options;
}

std::vector<JournalEvent> journal_in(const Folder& folder) {
  const auto journal = decode_journal(read_file(folder.path() / "exp" / "journal.jsonl"));
  REQUIRE(journal.ok());
  return journal->events;
}

}  // namespace

TEST_CASE("a whole run: trials on every node, stopped early, values back, files whole") {
  testing::start_cluster(3, 1);
  const Folder folder;
  const auto data = mobula::put(std::vector<double>{21});
  const auto result = run<train>(options_of(folder), data, 2);
  CHECK_FALSE(result.interrupted);
  REQUIRE(result.trials.size() == 12);
  std::set<std::string> nodes;
  std::size_t stopped = 0;
  double best = -1;
  for (const auto& trial : result.trials) {
    CHECK(finished(trial.status));
    CHECK(trial.has_value);
    nodes.insert(trial.node);
    stopped += trial.status == TrialStatus::kStopped;
    const auto value = result.value(trial);
    CHECK(value[0] == trial.params.get<double>("x"));
    CHECK(value[1] == trial.last.get<double>("accuracy"));
    CHECK(value[2] == 42);
    best = std::max(best, value[1]);
    const auto lines = read_file(trial.folder / "result.json");
    CHECK(std::count(lines.begin(), lines.end(), '\n') == trial.iterations);
    const auto csv = read_file(trial.folder / "progress.csv");
    CHECK(std::count(csv.begin(), csv.end(), '\n') == trial.iterations + 1);
    const auto params = nlohmann::json::parse(read_file(trial.folder / "params.json"));
    CHECK(params["x"].get<double>() == trial.params.get<double>("x"));
  }
  CHECK(nodes.size() == 3);
  CHECK(stopped > 0);
  CHECK(stopped < 12);
  CHECK(result.best_value()[1] == best);
  CHECK(testing::actors_alive() == 0);
  CHECK(testing::actors_on_node_max() == 1);
  CHECK(std::holds_alternative<Finished>(journal_in(folder).back()));
}

TEST_CASE("same seed, same parameters; FIFO runs everything to its end") {
  testing::start_cluster(2, 2);
  const Folder a;
  const Folder b;
  auto options = options_of(a);
  options.scheduler = fifo();
  const auto one = run<train>(options, std::vector<double>{1}, 1);
  options.storage = b.path();
  options.max_concurrent = 1;
  const auto two = run<train>(options, std::vector<double>{1}, 1);
  CHECK(testing::actors_on_node_max() == 2);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(one.trials[i].params == two.trials[i].params);
    CHECK(one.trials[i].last == two.trials[i].last);
    CHECK(one.trials[i].iterations == 9);
  }
}

namespace {

std::atomic<bool> killed = false;

double dies_with_its_node(Trial& trial) {
  for (int epoch = 1; epoch <= 6; ++epoch) {
    if (epoch == 3 && mobula::current().node == mobula::NodeId{1} && !killed.exchange(true)) testing::kill_node(0);
    if (!trial.report({{"accuracy", 0.1 * epoch}})) break;
  }
  return trial.attempt();
}

}  // namespace

TEST_CASE("a node dies in the middle: its trials start again elsewhere, and nothing is lost") {
  testing::start_cluster(3, 2);
  const Folder folder;
  killed = false;
  auto options = options_of(folder);
  options.scheduler = fifo();
  options.num_samples = 10;
  const auto result = run<dies_with_its_node>(options);
  CHECK(killed);
  std::size_t again = 0;
  for (const auto& trial : result.trials) {
    CHECK(trial.status == TrialStatus::kCompleted);
    CHECK(trial.iterations == 6);
    CHECK(result.value(trial) == trial.attempts);
    again += trial.attempts > 1;
    if (trial.attempts > 1) CHECK(trial.node != to_string(mobula::NodeId{1}));
    // The rows of the lost attempt are gone from the files, not from the journal.
    const auto lines = read_file(trial.folder / "result.json");
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 6);
  }
  CHECK(again >= 1);
  CHECK(again <= 2);
}

namespace {

int throws_sometimes(Trial& trial) {
  (void)trial.report({{"accuracy", 0.5}});
  if (trial.get<int>("n") == 2) throw std::runtime_error("n must not be 2");
  return trial.get<int>("n");
}

}  // namespace

TEST_CASE("user code that throws fails its trial only; its words are kept") {
  testing::start_cluster(1, 2);
  const Folder folder;
  auto options = options_of(folder);
  options.space = Space{{"n", grid({1, 2, 3})}};
  options.num_samples = 1;
  options.scheduler = fifo();
  const auto result = run<throws_sometimes>(options);
  REQUIRE(result.trials.size() == 3);
  CHECK(result.trials[1].status == TrialStatus::kError);
  CHECK(result.trials[1].attempts == 1);
  CHECK(result.trials[1].why.find("n must not be 2") != std::string::npos);
  CHECK(read_file(result.trials[1].folder / "error.txt").find("n must not be 2") != std::string::npos);
  CHECK_THROWS_AS(result.value(result.trials[1]), mobula::Invalid);
  CHECK(result.value(result.trials[2]) == 3);
  CHECK(result.best_trial().params.get<int>("n") == 1);
  // Again, with more patience, from where it stands.
  options.resume = true;
  options.retry_errored = true;
  options.max_failures = 2;
  const auto again = run<throws_sometimes>(options);
  CHECK(again.trials[1].status == TrialStatus::kError);
  CHECK(again.trials[1].attempts == 4);
  CHECK(again.trials[0].attempts == 1);
}

namespace {

int does_not_listen(Trial& trial) {
  for (int epoch = 0; epoch < 100; ++epoch) (void)trial.report({{"accuracy", trial.get<double>("x")}});
  return 1;
}

}  // namespace

TEST_CASE("a trial that goes on after it was told to stop is ended by its next report") {
  testing::start_cluster(1, 1);
  const Folder folder;
  auto options = options_of(folder);
  options.num_samples = 4;
  const auto result = run<does_not_listen>(options);
  for (const auto& trial : result.trials) {
    CHECK(finished(trial.status));
    CHECK(trial.status != TrialStatus::kError);
    CHECK_FALSE(trial.has_value);
    CHECK(trial.iterations <= 9);
  }
}

TEST_CASE("interrupted and resumed: finished trials do not run again, and the end is as if nothing had been") {
  testing::start_cluster(2, 1);
  const Folder folder;
  auto options = options_of(folder);
  const Folder whole;
  auto reference = options;
  reference.storage = whole.path();
  reference.scheduler = options.scheduler = fifo();
  const auto unbroken = run<train>(reference, std::vector<double>{1}, 1);

  std::size_t done = 0;
  std::size_t lives = 0;
  for (bool over = false; !over; ++lives) {
    REQUIRE(lives < 30);
    // Two run at once, so of three that ended one is over and counts.
    ends_of_train = 0;
    options.interrupted = [] { return ends_of_train >= 3; };
    options.resume = lives > 0;
    const auto part = run<train>(options, std::vector<double>{1}, 1);
    over = !part.interrupted;
    const auto finished_now = static_cast<std::size_t>(
        std::count_if(part.trials.begin(), part.trials.end(), [](const auto& t) { return finished(t.status); }));
    CHECK(finished_now >= done);
    done = finished_now;
    CHECK(testing::actors_alive() == 0);
    if (!over) continue;
    REQUIRE(part.trials.size() == 12);
    for (std::size_t i = 0; i < 12; ++i) {
      CHECK(part.trials[i].params == unbroken.trials[i].params);
      CHECK(part.trials[i].last == unbroken.trials[i].last);
      CHECK(part.value(part.trials[i]) == unbroken.value(unbroken.trials[i]));
      const auto lines = read_file(part.trials[i].folder / "result.json");
      CHECK(std::count(lines.begin(), lines.end(), '\n') == 9);
    }
  }
  CHECK(lives > 1);
  std::map<std::uint32_t, int> over;
  for (const auto& event : journal_in(folder)) {
    if (const auto* end = std::get_if<TrialOver>(&event)) ++over[end->trial];
  }
  for (const auto& [trial, times] : over) CHECK(times == 1);
}

TEST_CASE("Ctrl-C ends a run well where the program has no handler of its own") {
  testing::start_cluster(1, 1);
  const Folder folder;
  auto options = options_of(folder);
  options.scheduler = fifo();
  options.interrupted = [] {
    std::raise(SIGINT);
    return false;
  };
  // The test's own framework has a handler.
  struct sigaction plain {};
  struct sigaction before {};
  plain.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(SIGINT, &plain, &before) == 0);
  const auto result = run<train>(options, std::vector<double>{1}, 1);
  struct sigaction now {};
  ::sigaction(SIGINT, &before, &now);
  CHECK(result.interrupted);
  CHECK(bool(now.sa_handler == SIG_DFL));
}

TEST_CASE("a torn journal resumes from its last whole line") {
  testing::start_cluster(2, 1);
  const Folder folder;
  auto options = options_of(folder);
  options.num_samples = 3;
  (void)run<train>(options, std::vector<double>{1}, 1);
  const auto path = folder.path() / "exp" / "journal.jsonl";
  const std::string text = read_file(path);
  replace_file(path, text.substr(0, text.size() * 2 / 3), false);
  options.resume = true;
  const auto result = run<train>(options, std::vector<double>{1}, 1);
  CHECK(result.trials.size() == 3);
  for (const auto& trial : result.trials) CHECK(finished(trial.status));
}

TEST_CASE("what can never run fails at once, in words") {
  testing::start_cluster(1, 1);
  testing::refuse_actors(true);
  const Folder folder;
  auto options = options_of(folder);
  options.num_samples = 2;
  const auto result = run<train>(options, std::vector<double>{1}, 1);
  for (const auto& trial : result.trials) CHECK(trial.status == TrialStatus::kError);
  CHECK_THROWS_WITH_AS(result.best_trial(), doctest::Contains("no node has so many CPUs"), mobula::Invalid);
}

TEST_CASE("functions without a value, and without data") {
  testing::start_cluster(1, 1);
  const Folder folder;
  auto options = options_of(folder);
  options.num_samples = 1;
  const auto result = run<no_value>(options);
  CHECK(result.trials[0].status == TrialStatus::kCompleted);
  CHECK_FALSE(result.trials[0].has_value);
}

TEST_CASE("options that make no sense are refused before anything runs") {
  testing::start_cluster(1, 1);
  const Folder folder;
  const auto refuse = [&](const char* words, auto change) {
    auto options = options_of(folder);
    change(options);
    CHECK_THROWS_WITH_AS(run<no_value>(options), doctest::Contains(words), mobula::Invalid);
  };
  refuse("needs a .metric", [](auto& o) { o.metric = ""; });
  refuse("no name for a folder", [](auto& o) { o.name = "a/b"; });
  refuse("to resume", [](auto& o) { o.resume = true; });
  refuse("1 to 1000000 trials", [](auto& o) { o.num_samples = 0; });
  CHECK(testing::actors_made() == 0);
  auto options = options_of(folder);
  options.name = "taken";
  options.num_samples = 1;
  (void)run<no_value>(options);
  CHECK_THROWS_WITH_AS(run<no_value>(options), doctest::Contains("already"), mobula::Invalid);
  options.resume = true;
  options.metric = "loss";
  CHECK_THROWS_WITH_AS(run<no_value>(options), doctest::Contains("another metric"), mobula::Invalid);
}

TEST_CASE("resume without a name takes the newest run of the function") {
  testing::start_cluster(1, 1);
  const Folder folder;
  auto options = options_of(folder);
  options.num_samples = 1;
  options.name = "";
  const auto first = run<no_value>(options);
  CHECK(first.name.rfind("no_value_20", 0) == 0);
  const auto second = run<no_value>(options);
  CHECK(second.name != first.name);
  options.resume = true;
  const auto resumed = run<no_value>(options);
  CHECK(resumed.name == second.name);
}

TEST_CASE("functions are named after themselves") {
  CHECK(detail::trainable_name("train") == "train");
  CHECK(detail::trainable_name("{anonymous}::train") == "train");
  CHECK(detail::trainable_name("(anonymous namespace)::train") == "train");
  CHECK(detail::trainable_name("my::deep::fit_model") == "fit_model");
  CHECK(detail::trainable_name("<lambda()>") == "lambda");
}
