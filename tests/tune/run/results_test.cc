#include "tune/run/results.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include <doctest/doctest.h>

#include <mobula/error.h>
#include <nlohmann/json.hpp>

#include "tests/tune/run/folder.h"
#include "tune/run/files.h"

using namespace mobula::tune;
using mobula::tune::testing::Folder;

namespace {

TrialState trial_of() {
  TrialState trial;
  trial.params = Params{{"lr", 0.5}, {"depth", 3}, {"activation", "relu"}};
  trial.id = "18ae7_00002";
  trial.directory = "train_18ae7_00002";
  trial.place = Place{"00ff", "10.0.0.1:4000", "box", 42};
  return trial;
}

TrialReported report_of(std::int64_t iteration, Metrics metrics, Decision decision = Decision::kContinue) {
  TrialReported report{2, 1, iteration, std::move(metrics), 1'700'000'000'500 + iteration * 1000, iteration * 1500, {}};
  report.verdict.decision = decision;
  return report;
}

}  // namespace

TEST_CASE("params.json is sorted and indented as Ray writes it") {
  CHECK(params_json(trial_of().params) == "{\n  \"activation\": \"relu\",\n  \"depth\": 3,\n  \"lr\": 0.5\n}\n");
}

TEST_CASE("a row has the keys of Ray in Ray's order") {
  const Row row = make_row(trial_of(), 2, report_of(2, {{"loss", 0.25}, {"accuracy", 0.5}}, Decision::kStop), 1500);
  const auto json = nlohmann::ordered_json::parse(to_json_line(row));
  std::string keys;
  for (const auto& [key, value] : json.items()) keys += key + " ";
  CHECK(keys ==
        "loss accuracy done training_iteration trial_id date timestamp time_this_iter_s time_total_s pid hostname "
        "node_ip node_id config time_since_restore iterations_since_restore experiment_tag ");
  CHECK(json["done"] == true);
  CHECK(json["training_iteration"] == 2);
  CHECK(json["timestamp"] == 1'700'000'002);
  CHECK(json["time_this_iter_s"] == 1.5);
  CHECK(json["time_total_s"] == 3.0);
  CHECK(json["node_ip"] == "10.0.0.1");
  CHECK(json["config"]["activation"] == "relu");
  CHECK(json["experiment_tag"] == "2_lr=0.5000,depth=3,activation=relu");
}

TEST_CASE("result.json stays strict JSON when a metric is not finite; progress.csv says what it was") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Row row = make_row(trial_of(), 2, report_of(1, {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}}), 0);
  const auto json = nlohmann::json::parse(to_json_line(row));
  CHECK(json["a"].is_null());
  CHECK(json["b"].is_null());
  Table table;
  bool rewrite = false;
  const std::string text = table.add(row, "", rewrite);
  CHECK(text.find("\nnan,inf,-inf,false,1,") != std::string::npos);
}

TEST_CASE("a key that appears later gets its column, and no row loses anything") {
  Table table;
  const auto row_of = [](std::vector<std::pair<std::string, Value>> cells) { return Row{std::move(cells), {}}; };
  bool rewrite = false;
  std::string text = table.add(row_of({{"loss", 0.5}, {"note", "a,\"b\"\nc"}}), "", rewrite);
  CHECK(rewrite);
  text += table.add(row_of({{"note", "x"}, {"loss", 0.25}}), text, rewrite);
  CHECK_FALSE(rewrite);
  text = table.add(row_of({{"loss", 0.125}, {"acc", 0.9}, {"f1", 1}}), text, rewrite);
  CHECK(rewrite);
  CHECK(text == "loss,note,acc,f1\n0.5,\"a,\"\"b\"\"\nc\",,\n0.25,x,,\n0.125,,0.9,1\n");
  text += table.add(row_of({{"acc", 0.95}}), text, rewrite);
  CHECK(text.substr(text.size() - 8) == ",,0.95,\n");
}

TEST_CASE("files of a trial: written, grown, begun anew") {
  const Folder folder;
  ResultFiles files(folder.path());
  const TrialState trial = trial_of();
  files.write_params(trial);
  files.reset(trial, 2);
  files.add(trial, 2, report_of(1, {{"loss", 0.5}}));
  files.add(trial, 2, report_of(2, {{"loss", 0.25}, {"extra", 7}}));
  files.add(trial, 2, report_of(3, {{"loss", 0.125}}, Decision::kComplete));
  const auto at = folder.path() / trial.directory;
  const std::string csv = read_file(at / "progress.csv");
  CHECK(csv.substr(0, 5) == "loss,");
  CHECK(csv.substr(0, csv.find('\n')).find(",extra") != std::string::npos);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);
  const std::string json = read_file(at / "result.json");
  CHECK(std::count(json.begin(), json.end(), '\n') == 3);
  files.write_error(trial, "it threw");
  CHECK(read_file(at / "error.txt") == "it threw\n");
  files.reset(trial, 2);
  CHECK(read_file(at / "result.json").empty());
  CHECK_FALSE(std::filesystem::exists(at / "error.txt"));
}

TEST_CASE("values come back as they were; missing and damaged ones are refused") {
  const Folder folder;
  ResultFiles files(folder.path());
  const TrialState trial = trial_of();
  const auto at = folder.path() / trial.directory;
  std::filesystem::create_directories(at);
  CHECK_THROWS_WITH_AS(ResultFiles::load_value(at), doctest::Contains("returned no value"), mobula::Invalid);
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  files.save_value(trial, bytes);
  CHECK(ResultFiles::load_value(at) == bytes);
  files.save_value(trial, {});
  CHECK(ResultFiles::load_value(at).empty());
  files.save_value(trial, bytes);
  const std::string whole = read_file(at / "value.bin");
  for (const std::size_t position : {std::size_t{0}, std::size_t{9}, std::size_t{17}, std::size_t{500}}) {
    std::string broken = whole;
    broken[position] = static_cast<char>(broken[position] ^ 1);
    replace_file(at / "value.bin", broken, false);
    CHECK_THROWS_WITH_AS(ResultFiles::load_value(at), doctest::Contains("damaged"), mobula::Invalid);
  }
  replace_file(at / "value.bin", whole.substr(0, 20), false);
  CHECK_THROWS_AS(ResultFiles::load_value(at), mobula::Invalid);
}

TEST_CASE("a resumed run rebuilds the very same files from the journal") {
  const Folder live;
  const Folder again;
  ExperimentConfig config;
  config.metric = "loss";
  config.mode = Mode::kMin;
  config.trainable = "train";
  config.space = Space{{"lr", uniform(0, 1)}};
  config.samples = 2;
  config.slots = 2;
  config.prefix = "18ae7";
  config.session = "S";
  Experiment machine(config, {});
  ResultFiles files(live.path());
  std::vector<JournalEvent> journal;
  const auto step = [&](std::vector<Event> events) {
    std::vector<Action> actions;
    machine.step({}, events, actions);
    for (const auto& action : actions) {
      if (const auto* append = std::get_if<Append>(&action)) journal.push_back(append->event);
      if (const auto* write = std::get_if<WriteParams>(&action)) files.write_params(machine.trials()[write->trial]);
      if (const auto* reset = std::get_if<ResetResults>(&action)) {
        files.reset(machine.trials()[reset->trial], reset->trial);
      }
      if (const auto* write = std::get_if<WriteResult>(&action)) {
        files.add(machine.trials()[write->report.trial], write->report.trial, write->report);
      }
    }
  };
  step({Begin{}});
  step({TrialStarted{0, 1, Place{"a", "h:1", "box", 1}}, TrialStarted{1, 1, Place{"b", "h:2", "box", 2}}});
  for (int i = 1; i <= 3; ++i) {
    step({Reported{0, 1, {{"loss", 1.0 / i}}, 1'700'000'000'000 + i, i * 10}});
    step({Reported{1, 1, {{"loss", 2.0 / i}}, 1'700'000'000'000 + i, i * 20}});
  }
  step({WorkerLost{1, 1, "gone"}});
  step({TrialStarted{1, 2, Place{"a", "h:1", "box", 3}}});
  step({Reported{1, 2, {{"loss", 0.5}, {"late", true}}, 1'700'000'000'999, 7}});
  step({Reported{1, 2, {{"loss", 0.25}}, 1'700'000'001'999, 9}});
  const Experiment rebuilt(config, journal);
  ResultFiles(again.path()).rebuild(rebuilt, journal);
  for (const auto& trial : machine.trials()) {
    for (const char* name : {"params.json", "result.json", "progress.csv"}) {
      CHECK(read_file(live.path() / trial.directory / name) == read_file(again.path() / trial.directory / name));
    }
  }
}
