// The machine that runs an experiment: which trial starts when, what a report leads to, what a death leads to.
//
// Everything that lasts changes in apply(JournalEvent) and nowhere else. Live, step() makes the events, appends them
// and applies them; after a restart the constructor applies what the journal holds. So a rebuilt machine cannot differ
// from the one that wrote the journal. What does not last (which attempt runs right now) dies with the process that ran
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobula/tune/scheduler.h>
#include <mobula/tune/space.h>
#include <mobula/tune/status.h>

#include "runtime/base/time.h"
#include "tune/experiment/events.h"
#include "tune/experiment/journal.h"
#include "tune/schedulers/scheduler.h"
#include "tune/search/generator.h"

namespace mobula::tune {

struct ExperimentConfig {
  std::string name;
  std::string trainable;
  std::string metric;
  Mode mode = Mode::kMax;
  Scope scope = Scope::kLast;
  Space space;
  Scheduler scheduler;
  std::uint64_t samples = 1;
  std::uint64_t seed = 0;
  std::uint32_t slots = 1;                           // trials at once, until a Capacity event says otherwise
  std::int32_t max_failures = 0;                     // attempts more, after user code threw; -1: no bound
  std::int32_t max_restarts = 3;                     // attempts more, after a worker or node died; -1: no bound
  bool retry_errored = false;                        // resume: trials in error too
  Duration sync_interval = std::chrono::seconds(1);  // reports may be lost for that long when the machine itself dies
  std::string prefix;                                // see Opened
  std::string session;
};

struct TrialState {
  Params params;
  std::string id;
  std::string directory;
  TrialStatus status = TrialStatus::kPending;
  std::uint32_t attempt = 0;  // the newest; 0: none yet
  std::int32_t failures = 0;
  std::int32_t restarts = 0;
  Place place;
  std::int64_t iteration = 0;
  std::int64_t elapsed_ms = 0;
  Metrics last;                // newest report
  std::optional<double> best;  // best finite value of the metric, of this attempt
  Verdict verdict;             // newest one that compared or stopped
  bool has_value = false;
  std::string error;
  friend bool operator==(const TrialState&, const TrialState&) = default;
};

struct ExperimentStats {
  std::uint64_t pending = 0, running = 0, completed = 0, stopped = 0, errored = 0;
  std::uint64_t reports = 0, restarts = 0, ignored = 0;  // of this life
  std::uint64_t total = 0;                               // trials that the experiment will have
};

class Experiment {
 public:
  static constexpr std::uint64_t kTrialsMax = 1'000'000;

  // Says what a journal and a configuration disagree about, if they cannot be one experiment, and what to change.
  static Status compatible(const ExperimentConfig& config, std::span<const JournalEvent> history);

  // `history`: what the journal held at start, empty for a new experiment; compatible() with the configuration.
  Experiment(ExperimentConfig config, std::span<const JournalEvent> history);

  void step(Instant now, std::span<const Event> events, std::vector<Action>& actions);
  // When a Tick is due.
  Instant next_deadline() const { return sync_due_; }

  bool done() const { return done_; }
  // Trials made so far; their number is their index.
  const std::vector<TrialState>& trials() const { return trials_; }
  // By the configuration's scope; nothing while no trial that counts has a finite value. Ties keep the first.
  std::optional<std::uint32_t> best_trial() const;
  // In words: "stopped at iteration 3: 0.71 is worse than the cutoff 0.73 of 12 trials".
  std::string explain(std::uint32_t trial) const;
  ExperimentStats stats() const;
  void check() const;

 private:
  void on(const Begin&);
  void on(const Capacity&);
  void on(const TrialStarted&);
  void on(const Reported&);
  void on(const TrialEnded&);
  void on(const TrialFailed&);
  void on(const WorkerLost&);
  void on(const NodeLost&);
  void on(const Tick&);
  void on(const Interrupted&);

  void apply(const Opened&);
  void apply(const Resumed&);
  void apply(const TrialCreated&);
  void apply(const TrialLaunched&);
  void apply(const TrialReported&);
  void apply(const TrialOver&);
  void apply(const TrialBroke&);
  void apply(const Finished&);

  template <class A>
  void emit(A action) {
    actions_->emplace_back(std::in_place_type<A>, std::move(action));
  }
  // Appends and applies.
  void accept(JournalEvent event, bool sync);
  void end(std::uint32_t trial, TrialStatus status, bool has_value);
  void lose(std::uint32_t trial, const std::string& error);
  void launch(std::uint32_t trial);
  void fill_slots();
  bool current(std::uint32_t trial, std::uint32_t attempt);
  void set_status(std::uint32_t trial, TrialStatus status);
  double sign() const { return config_.mode == Mode::kMax ? 1.0 : -1.0; }

  ExperimentConfig config_;
  Generator generator_;
  TrialScheduler scheduler_;
  std::vector<TrialState> trials_;   // at most kTrialsMax
  std::set<std::uint32_t> waiting_;  // made, not over, not running
  std::set<std::uint32_t> active_;   // an attempt is on its way or running
  bool restored_ = false;            // the journal was not empty
  bool begun_ = false;
  bool done_ = false;
  Instant now_;
  Instant sync_due_ = Instant::never();
  std::uint64_t reports_ = 0, restarts_ = 0, ignored_ = 0;
  std::vector<Action>* actions_ = nullptr;  // only inside step()
};

}  // namespace mobula::tune
