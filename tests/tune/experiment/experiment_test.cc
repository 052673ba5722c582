#include "tune/experiment/experiment.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "runtime/base/rng.h"

using namespace mobula::tune;
using mobula::Instant;
using mobula::Rng;

namespace {

ExperimentConfig config_of(std::uint64_t samples, std::uint32_t slots) {
  ExperimentConfig config;
  config.name = "exp";
  config.trainable = "train";
  config.metric = "accuracy";
  config.mode = Mode::kMax;
  config.space = Space{{"lr", loguniform(1e-4, 1e-1)}, {"depth", integers(1, 4)}};
  config.scheduler = fifo();
  config.samples = samples;
  config.slots = slots;
  config.seed = 5;
  config.prefix = "18ae7";
  config.session = "2026-01-02_03-04-05";
  return config;
}

// A machine, everything it appended, and the actions of its newest step.
struct Bench {
  explicit Bench(ExperimentConfig config, std::vector<JournalEvent> history = {})
      : machine(std::move(config), history), journal(std::move(history)) {}

  void step(std::vector<Event> events) {
    actions.clear();
    machine.step(Instant{now}, events, actions);
    machine.check();
    for (const auto& action : actions) {
      if (const auto* append = std::get_if<Append>(&action)) journal.push_back(append->event);
    }
  }
  template <class A>
  std::vector<A> all() const {
    std::vector<A> found;
    for (const auto& action : actions) {
      if (const auto* wanted = std::get_if<A>(&action)) found.push_back(*wanted);
    }
    return found;
  }
  void start(std::uint32_t trial, std::uint32_t attempt, const std::string& node = "n1") {
    step({TrialStarted{trial, attempt, Place{node, node + ":1", "host", 10 + trial}}});
  }
  void report(std::uint32_t trial, std::uint32_t attempt, double accuracy) {
    step({Reported{trial, attempt, Metrics{{"accuracy", accuracy}, {"loss", 1 - accuracy}}, 1000, 10}});
  }
  const TrialState& trial(std::uint32_t number) const { return machine.trials()[number]; }

  Experiment machine;
  std::vector<JournalEvent> journal;
  std::vector<Action> actions;
  std::int64_t now = 0;
};

// The position of the first action of a kind that fits, or -1.
template <class A, class Fits>
std::ptrdiff_t position(const Bench& bench, Fits fits) {
  for (std::size_t i = 0; i < bench.actions.size(); ++i) {
    const auto* wanted = std::get_if<A>(&bench.actions[i]);
    if (wanted != nullptr && fits(*wanted)) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("begin: the journal is opened, slots are filled, the rest waits") {
  Bench bench(config_of(3, 2));
  bench.step({Begin{}});
  REQUIRE(bench.actions.size() == 7);
  const auto& opened = std::get<Append>(bench.actions[0]);
  CHECK(std::get<Opened>(opened.event).prefix == "18ae7");
  CHECK(opened.sync);
  CHECK(std::get<TrialCreated>(std::get<Append>(bench.actions[1]).event).trial == 0);
  CHECK(std::get<WriteParams>(bench.actions[2]) == WriteParams{0});
  CHECK(std::get<StartTrial>(bench.actions[3]).trial == 0);
  CHECK(std::get<StartTrial>(bench.actions[3]).attempt == 1);
  CHECK(std::get<StartTrial>(bench.actions[6]).trial == 1);
  CHECK(bench.trial(0).id == "18ae7_00000");
  CHECK(bench.trial(0).directory.rfind("train_18ae7_00000_0_lr=", 0) == 0);
  CHECK(bench.machine.stats().total == 3);
  bench.step({Tick{}});
  CHECK(bench.actions.empty());
}

TEST_CASE("a trial's life: started, reports, ends; the next one takes its slot; the last one ends it all") {
  Bench bench(config_of(2, 1));
  bench.step({Begin{}});
  bench.start(0, 1);
  CHECK(bench.all<ResetResults>() == std::vector<ResetResults>{{0}});
  CHECK(bench.trial(0).status == TrialStatus::kRunning);
  CHECK(bench.trial(0).place.node == "n1");
  bench.report(0, 1, 0.5);
  REQUIRE(bench.actions.size() == 3);
  CHECK_FALSE(std::get<Append>(bench.actions[0]).sync);
  CHECK(std::get<WriteResult>(bench.actions[1]).report.iteration == 1);
  CHECK(std::get<AnswerReport>(bench.actions[2]) == AnswerReport{0, 1, false});
  bench.report(0, 1, 0.6);
  CHECK(bench.trial(0).iteration == 2);
  bench.step({TrialEnded{0, 1, true}});
  CHECK(bench.all<TrialDone>() == std::vector<TrialDone>{{0, TrialStatus::kCompleted}});
  CHECK(bench.trial(0).has_value);
  REQUIRE(bench.all<StartTrial>().size() == 1);
  CHECK(bench.all<StartTrial>()[0].trial == 1);
  // The end is on disk before the next trial starts.
  CHECK(position<Append>(bench, [](const Append& a) { return std::holds_alternative<TrialOver>(a.event) && a.sync; }) <
        position<StartTrial>(bench, [](const StartTrial&) { return true; }));
  bench.start(1, 1);
  bench.report(1, 1, 0.4);
  bench.step({TrialEnded{1, 1, true}});
  CHECK(bench.all<ExperimentDone>() == std::vector<ExperimentDone>{{false}});
  CHECK(std::get<ExperimentDone>(bench.actions.back()) == ExperimentDone{false});
  CHECK(bench.machine.done());
  CHECK(bench.machine.best_trial() == 0U);
  CHECK(std::holds_alternative<Finished>(bench.journal.back()));
  bench.step({Reported{1, 1, {}, 0, 0}});
  CHECK(bench.actions.empty());
}

TEST_CASE("ASHA stops through the machine, for both modes") {
  for (const Mode mode : {Mode::kMax, Mode::kMin}) {
    auto config = config_of(3, 3);
    config.mode = mode;
    config.metric = mode == Mode::kMax ? "accuracy" : "loss";
    config.scheduler = asha({.max_t = 4, .grace_period = 1, .reduction_factor = 2});
    Bench bench(config);
    bench.step({Begin{}});
    for (std::uint32_t trial = 0; trial < 3; ++trial) bench.start(trial, 1);
    bench.report(0, 1, 0.5);
    CHECK(bench.all<AnswerReport>()[0] == AnswerReport{0, 1, false});
    bench.report(1, 1, 0.4);
    CHECK(bench.all<AnswerReport>()[0] == AnswerReport{1, 1, true});
    CHECK(bench.trial(1).status == TrialStatus::kStopping);
    CHECK(bench.machine.explain(1).find("worse than the cutoff 0.5 of 1 trials at rung 1") != std::string::npos);
    // It does not listen: the answer stays, nothing is recorded.
    bench.report(1, 1, 0.9);
    CHECK(bench.all<AnswerReport>()[0] == AnswerReport{1, 1, true});
    CHECK(bench.all<Append>().empty());
    bench.step({TrialEnded{1, 1, true}});
    CHECK(bench.trial(1).status == TrialStatus::kStopped);
    for (int epoch = 0; epoch < 3; ++epoch) bench.report(0, 1, 0.6);
    CHECK(bench.all<AnswerReport>()[0].stop);
    bench.step({TrialEnded{0, 1, true}});
    CHECK(bench.trial(0).status == TrialStatus::kCompleted);
    CHECK(bench.machine.explain(0) == "ran to the scheduler's last iteration");
  }
}

TEST_CASE("a NaN is stopped by ASHA and never the best") {
  auto config = config_of(2, 2);
  config.scheduler = asha({.max_t = 4});
  Bench bench(config);
  bench.step({Begin{}});
  bench.start(0, 1);
  bench.start(1, 1);
  bench.report(0, 1, std::nan(""));
  CHECK(bench.all<AnswerReport>()[0].stop);
  CHECK_FALSE(bench.machine.best_trial());
  CHECK(bench.machine.explain(0) == "stopped at iteration 1: accuracy is nan");
  bench.report(1, 1, 0.1);
  CHECK(bench.machine.best_trial() == 1U);
}

TEST_CASE("the scope decides what best means") {
  for (const Scope scope : {Scope::kLast, Scope::kAll}) {
    auto config = config_of(2, 2);
    config.scope = scope;
    Bench bench(config);
    bench.step({Begin{}});
    bench.start(0, 1);
    bench.start(1, 1);
    bench.report(0, 1, 0.9);
    bench.report(0, 1, 0.2);
    bench.report(1, 1, 0.5);
    CHECK(bench.machine.best_trial() == (scope == Scope::kLast ? 1U : 0U));
  }
}

TEST_CASE("a dead worker's trial starts again, from its beginning, as often as allowed") {
  auto config = config_of(1, 1);
  config.max_restarts = 1;
  Bench bench(config);
  bench.step({Begin{}});
  bench.start(0, 1);
  bench.report(0, 1, 0.5);
  bench.step({WorkerLost{0, 1, "signal 9"}});
  REQUIRE(bench.all<StartTrial>().size() == 1);
  CHECK(bench.all<StartTrial>()[0].attempt == 2);
  CHECK(bench.machine.explain(0).find("waits to start again: signal 9") != std::string::npos);
  CHECK(bench.machine.stats().restarts == 1);
  // Late words of the first attempt change nothing.
  bench.report(0, 1, 0.99);
  bench.step({TrialEnded{0, 1, true}});
  bench.step({WorkerLost{0, 1, "again"}});
  CHECK(bench.actions.empty());
  CHECK(bench.machine.stats().ignored == 3);
  bench.start(0, 2, "n2");
  CHECK(bench.all<ResetResults>().size() == 1);
  CHECK(bench.trial(0).iteration == 0);
  CHECK(bench.trial(0).last.empty());
  bench.report(0, 2, 0.4);
  CHECK(bench.trial(0).iteration == 1);
  bench.step({WorkerLost{0, 2, "signal 11"}});
  CHECK(bench.trial(0).status == TrialStatus::kError);
  CHECK(bench.all<TrialDone>() == std::vector<TrialDone>{{0, TrialStatus::kError}});
  CHECK(bench.all<WriteError>().size() == 1);
  CHECK(bench.machine.done());
  CHECK_FALSE(bench.machine.best_trial());
}

TEST_CASE("a worker that dies before it started counts as well") {
  auto config = config_of(1, 1);
  config.max_restarts = 0;
  Bench bench(config);
  bench.step({Begin{}});
  bench.step({WorkerLost{0, 1, "died at once"}});
  CHECK(bench.trial(0).status == TrialStatus::kError);
}

TEST_CASE("a dead node takes its own trials only") {
  Bench bench(config_of(4, 3));
  bench.step({Begin{}});
  bench.start(0, 1, "n1");
  bench.start(1, 1, "n2");
  bench.step({NodeLost{"n1"}});
  CHECK(bench.all<StopTrial>() == std::vector<StopTrial>{{0, 1}});
  REQUIRE(bench.all<StartTrial>().size() == 1);
  CHECK(bench.all<StartTrial>()[0].trial == 0);
  CHECK(bench.trial(1).status == TrialStatus::kRunning);
  bench.step({NodeLost{"n1"}});
  CHECK(bench.actions.empty());
}

TEST_CASE("losing the worker of a trial that lost already ends it; of one that won, starts it again") {
  auto config = config_of(2, 2);
  config.scheduler = asha({.max_t = 1, .grace_period = 1});
  Bench winner(config);
  winner.step({Begin{}});
  winner.start(0, 1);
  winner.report(0, 1, 0.5);
  CHECK(winner.trial(0).status == TrialStatus::kStopping);
  winner.step({WorkerLost{0, 1, "gone"}});
  CHECK(winner.all<StartTrial>().size() == 1);

  config.scheduler = asha({.max_t = 4, .grace_period = 1});
  Bench loser(config);
  loser.step({Begin{}});
  loser.start(0, 1);
  loser.start(1, 1);
  loser.report(0, 1, 0.5);
  loser.report(1, 1, 0.4);
  loser.step({WorkerLost{1, 1, "gone"}});
  CHECK(loser.trial(1).status == TrialStatus::kStopped);
  CHECK_FALSE(loser.trial(1).has_value);
}

TEST_CASE("user code that throws: no second try by default, max_failures more when allowed") {
  Bench strict(config_of(1, 1));
  strict.step({Begin{}});
  strict.start(0, 1);
  strict.step({TrialFailed{0, 1, "runtime_error: no", false}});
  CHECK(strict.trial(0).status == TrialStatus::kError);
  CHECK(strict.all<WriteError>()[0].error == "runtime_error: no");

  auto config = config_of(1, 1);
  config.max_failures = 1;
  Bench patient(config);
  patient.step({Begin{}});
  patient.start(0, 1);
  patient.step({TrialFailed{0, 1, "no", false}});
  CHECK(patient.all<StartTrial>().size() == 1);
  patient.start(0, 2);
  patient.step({TrialFailed{0, 2, "no", false}});
  CHECK(patient.trial(0).status == TrialStatus::kError);

  Bench hopeless(config);
  hopeless.step({Begin{}});
  hopeless.step({TrialFailed{0, 1, "can never fit", true}});
  CHECK(hopeless.trial(0).status == TrialStatus::kError);
}

TEST_CASE("a report without the metric fails its trial in words") {
  Bench bench(config_of(1, 1));
  bench.step({Begin{}});
  bench.start(0, 1);
  bench.step({Reported{0, 1, Metrics{{"loss", 0.5}}, 0, 0}});
  CHECK(bench.trial(0).status == TrialStatus::kError);
  CHECK(bench.all<StopTrial>().size() == 1);
  CHECK(bench.trial(0).error.find("no number named 'accuracy'") != std::string::npos);
  CHECK(bench.trial(0).error.find("loss=0.5") != std::string::npos);
}

TEST_CASE("capacity grows and shrinks without touching what runs") {
  Bench bench(config_of(4, 1));
  bench.step({Begin{}});
  bench.step({Capacity{3}});
  CHECK(bench.all<StartTrial>().size() == 2);
  bench.start(0, 1);
  bench.step({Capacity{1}});
  bench.step({TrialEnded{0, 1, false}});
  CHECK(bench.all<StartTrial>().empty());
  bench.step({Capacity{0}});
  CHECK_FALSE(bench.machine.done());
}

TEST_CASE("reports are synced by the clock, ends at once") {
  Bench bench(config_of(1, 1));
  bench.step({Begin{}});
  bench.start(0, 1);
  CHECK(bench.machine.next_deadline() == Instant::never());
  bench.now = 5;
  bench.report(0, 1, 0.5);
  CHECK(bench.machine.next_deadline() == Instant{1'000'000'005});
  bench.now = 100;
  bench.report(0, 1, 0.5);
  CHECK(bench.machine.next_deadline() == Instant{1'000'000'005});
  bench.step({Tick{}});
  CHECK(bench.actions.empty());
  bench.now = 1'000'000'005;
  bench.step({Tick{}});
  CHECK(bench.all<SyncJournal>().size() == 1);
  CHECK(bench.machine.next_deadline() == Instant::never());
}

TEST_CASE("an interrupt stops what runs, syncs, and is the last word; the journal resumes it") {
  Bench bench(config_of(3, 2));
  bench.step({Begin{}});
  bench.start(0, 1);
  bench.report(0, 1, 0.7);
  bench.step({TrialEnded{0, 1, true}});
  bench.start(1, 1);
  bench.report(1, 1, 0.5);
  bench.step({Interrupted{}});
  CHECK(bench.all<StopTrial>() == std::vector<StopTrial>{{1, 1}, {2, 1}});
  CHECK(bench.all<SyncJournal>().size() == 1);
  CHECK(std::get<ExperimentDone>(bench.actions.back()) == ExperimentDone{true});
  bench.step({Reported{1, 1, {}, 0, 0}});
  CHECK(bench.actions.empty());

  auto config = config_of(3, 2);
  config.prefix = "other";  // names come from the journal
  Bench resumed(config, bench.journal);
  resumed.machine.check();
  CHECK(resumed.trial(0).status == TrialStatus::kCompleted);
  CHECK(resumed.machine.best_trial() == 0U);
  resumed.step({Begin{}});
  CHECK(std::holds_alternative<Resumed>(std::get<Append>(resumed.actions[0]).event));
  const auto started = resumed.all<StartTrial>();
  REQUIRE(started.size() == 2);
  CHECK(started[0].trial == 1);
  CHECK(started[0].attempt == 2);
  CHECK(started[1].trial == 2);
  CHECK(resumed.trial(2).id == "18ae7_00002");
  // Finished trials are not run again; an attempt that was cut off costs no restart.
  CHECK(resumed.trial(1).restarts == 0);
}

TEST_CASE("a finished experiment resumes to its end, or further with more samples") {
  Bench bench(config_of(1, 1));
  bench.step({Begin{}});
  bench.start(0, 1);
  bench.report(0, 1, 0.7);
  bench.step({TrialEnded{0, 1, true}});
  Bench again(config_of(1, 1), bench.journal);
  again.step({Begin{}});
  CHECK(again.all<StartTrial>().empty());
  CHECK(again.all<ExperimentDone>() == std::vector<ExperimentDone>{{false}});
  Bench more(config_of(3, 1), bench.journal);
  more.step({Begin{}});
  CHECK(more.all<StartTrial>().size() == 1);
  CHECK(more.all<StartTrial>()[0].trial == 1);
}

TEST_CASE("errors stay when resumed, unless they are to be tried again") {
  Bench bench(config_of(1, 1));
  bench.step({Begin{}});
  bench.start(0, 1);
  bench.step({TrialFailed{0, 1, "no", false}});
  Bench skip(config_of(1, 1), bench.journal);
  skip.step({Begin{}});
  CHECK(skip.machine.done());
  auto config = config_of(1, 1);
  config.retry_errored = true;
  Bench retry(config, bench.journal);
  retry.step({Begin{}});
  CHECK(retry.all<StartTrial>().size() == 1);
  Bench after(config_of(1, 1), retry.journal);
  CHECK(after.trial(0).status == TrialStatus::kPending);
}

TEST_CASE("what cannot be the same experiment is refused with then and now") {
  Bench bench(config_of(2, 1));
  bench.step({Begin{}});
  const auto refuse = [&](const char* what, auto change) {
    auto config = config_of(2, 1);
    change(config);
    const auto fits = Experiment::compatible(config, bench.journal);
    REQUIRE_FALSE(fits.ok());
    CHECK(fits.error().message.find(what) != std::string::npos);
  };
  refuse("another space", [](auto& c) { c.space = Space{{"lr", uniform(0, 1)}}; });
  refuse("another metric", [](auto& c) { c.metric = "loss"; });
  refuse("another mode", [](auto& c) { c.mode = Mode::kMin; });
  refuse("another scheduler", [](auto& c) { c.scheduler = asha(); });
  refuse("another seed", [](auto& c) { c.seed = 6; });
  refuse("another function", [](auto& c) { c.trainable = "other"; });
  refuse("raised but not lowered", [](auto& c) { c.samples = 1; });
  refuse("1 to 1000000 trials", [](auto& c) { c.samples = 0; });
  CHECK(Experiment::compatible(config_of(2, 1), bench.journal).ok());
  CHECK_FALSE(Experiment::compatible(config_of(2, 1), std::vector<JournalEvent>{Finished{}}).ok());
}

namespace {

// A whole cluster in a few lines: attempts that start, report, die or throw as the dice say.
struct World {
  explicit World(std::uint64_t seed) : rng(seed) {}

  Event next(const Experiment& machine, const std::map<std::uint32_t, std::uint32_t>& running) {
    auto chosen = running.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(rng.below(running.size())));
    const auto [number, attempt] = *chosen;
    const TrialState& trial = machine.trials()[number];
    const bool started = trial.status == TrialStatus::kRunning || trial.status == TrialStatus::kStopping;
    if (rng.chance(1, 12)) return WorkerLost{number, attempt, "signal 9"};
    if (rng.chance(1, 30)) return TrialFailed{number, attempt, "threw", rng.chance(1, 4)};
    if (rng.chance(1, 40)) return NodeLost{"n" + std::to_string(rng.below(3))};
    if (!started) return TrialStarted{number, attempt, Place{"n" + std::to_string(rng.below(3)), "", "", 1}};
    if (trial.status == TrialStatus::kStopping || rng.chance(1, 20)) return TrialEnded{number, attempt, true};
    const double value = rng.chance(1, 50) ? std::nan("") : rng.unit();
    return Reported{number, attempt, Metrics{{"accuracy", value}}, 1000, 10};
  }
  Rng rng;
};

ExperimentConfig random_config() {
  auto config = config_of(12, 4);
  config.scheduler = asha({.max_t = 9, .grace_period = 1, .reduction_factor = 3, .brackets = 2});
  config.max_restarts = 4;
  config.max_failures = 1;
  return config;
}

void follow(Bench& bench, std::map<std::uint32_t, std::uint32_t>& running) {
  for (const auto& action : bench.actions) {
    if (const auto* start = std::get_if<StartTrial>(&action)) running[start->trial] = start->attempt;
    if (const auto* stop = std::get_if<StopTrial>(&action)) running.erase(stop->trial);
    if (const auto* done = std::get_if<TrialDone>(&action)) running.erase(done->trial);
  }
}

std::vector<JournalEvent> through_text(const std::vector<JournalEvent>& events) {
  std::string text;
  for (std::size_t i = 0; i < events.size(); ++i) text += encode_line(i + 1, events[i]);
  auto journal = decode_journal(text);
  REQUIRE(journal.ok());
  return journal->events;
}

}  // namespace

TEST_CASE("random lives: every one ends, and the journal rebuilds the same machine at every point") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    World world(seed);
    Bench bench(random_config());
    std::map<std::uint32_t, std::uint32_t> running;
    bench.step({Begin{}});
    follow(bench, running);
    int steps = 0;
    while (!bench.machine.done()) {
      REQUIRE(++steps < 5000);
      REQUIRE_FALSE(running.empty());
      CHECK(running.size() <= 4);
      bench.step({world.next(bench.machine, running)});
      follow(bench, running);
      if (steps % 7 != 0) continue;
      const Experiment rebuilt(random_config(), through_text(bench.journal));
      rebuilt.check();
      REQUIRE(rebuilt.trials().size() == bench.machine.trials().size());
      for (std::size_t i = 0; i < rebuilt.trials().size(); ++i) {
        const TrialState& live = bench.machine.trials()[i];
        const TrialState& back = rebuilt.trials()[i];
        CHECK(back.params == live.params);
        CHECK(back.directory == live.directory);
        CHECK(back.failures == live.failures);
        CHECK(back.restarts == live.restarts);
        CHECK(back.error == live.error);
        CHECK(finished(back.status) == finished(live.status));
        CHECK(back.iteration == live.iteration);
        CHECK(back.best == live.best);
        CHECK(back.verdict == live.verdict);
        CHECK(back.last.text() == live.last.text());
      }
      CHECK(rebuilt.best_trial() == bench.machine.best_trial());
    }
    CHECK(bench.machine.trials().size() == 12);
  }
}

TEST_CASE("random deaths of the driver: resumed again and again, it ends with every trial over") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(seed + 100);
    std::vector<JournalEvent> journal;
    bool done = false;
    for (int life = 0; life < 200 && !done; ++life) {
      Bench bench(random_config(), journal);
      std::map<std::uint32_t, std::uint32_t> running;
      bench.step({Begin{}});
      follow(bench, running);
      const auto steps = 20 + world.rng.below(60);
      for (std::uint64_t step = 0; step < steps && !bench.machine.done(); ++step) {
        bench.step({world.next(bench.machine, running)});
        follow(bench, running);
      }
      done = bench.machine.done();
      journal = through_text(bench.journal);
      // An unsynced tail may be lost with the machine it ran on: the last reports.
      while (!done && !journal.empty() && std::holds_alternative<TrialReported>(journal.back())) journal.pop_back();
    }
    CHECK(done);
    std::map<std::uint32_t, int> over;
    for (const auto& event : journal) {
      if (const auto* end = std::get_if<TrialOver>(&event)) ++over[end->trial];
      if (const auto* broke = std::get_if<TrialBroke>(&event); broke != nullptr && broke->final) ++over[broke->trial];
    }
    CHECK(over.size() == 12);
    for (const auto& [trial, times] : over) CHECK(times == 1);
  }
}

TEST_CASE("same events, same actions") {
  std::vector<std::vector<Action>> first;
  for (int run = 0; run < 2; ++run) {
    World world(3);
    Bench bench(random_config());
    std::map<std::uint32_t, std::uint32_t> running;
    std::size_t step = 0;
    bench.step({Begin{}});
    while (true) {
      if (run == 0) first.push_back(bench.actions);
      if (run == 1) {
        REQUIRE(step < first.size());
        CHECK(first[step].size() == bench.actions.size());
        for (std::size_t i = 0; i < bench.actions.size(); ++i) {
          CHECK(first[step][i].index() == bench.actions[i].index());
        }
      }
      ++step;
      follow(bench, running);
      if (bench.machine.done()) break;
      bench.step({world.next(bench.machine, running)});
    }
  }
}
