#include "tune/experiment/experiment.h"

#include <cmath>
#include <utility>

#include "runtime/base/check.h"
#include "tune/experiment/names.h"

namespace mobula::tune {
namespace {

ErrorInfo differs(const char* what, const std::string& then, const std::string& now) {
  return make_error(ErrorKind::kInvalid, std::string("the experiment that is to be resumed had another ") + what +
                                             ":\n  then: " + then + "\n  now:  " + now +
                                             "\nGive the same as then, or choose another name for a new experiment");
}

std::string rounded(double value) {
  return Value(std::round(value * 1e6) / 1e6).text();
}

}  // namespace

Status Experiment::compatible(const ExperimentConfig& config, std::span<const JournalEvent> history) {
  const auto total = config.samples * config.space.grid_size();
  if (config.samples == 0 || config.samples > kTrialsMax || total > kTrialsMax) {
    return make_error(ErrorKind::kInvalid,
                      "an experiment has 1 to " + std::to_string(kTrialsMax) + " trials, not " + std::to_string(total));
  }
  if (history.empty()) return {};
  const auto* opened = std::get_if<Opened>(&history.front());
  if (opened == nullptr) {
    return make_error(ErrorKind::kInvalid, "the journal does not begin with the event 'opened': it is no experiment's");
  }
  if (opened->trainable != config.trainable) return differs("function", opened->trainable, config.trainable);
  if (opened->metric != config.metric) return differs("metric", opened->metric, config.metric);
  if (opened->mode != config.mode) {
    const auto name = [](Mode mode) { return mode == Mode::kMax ? "max" : "min"; };
    return differs("mode", name(opened->mode), name(config.mode));
  }
  if (opened->space != config.space.describe()) return differs("space", opened->space, config.space.describe());
  const auto scheduler = describe(config.scheduler);
  if (opened->scheduler != scheduler) return differs("scheduler", opened->scheduler, scheduler);
  if (opened->seed != config.seed) {
    return differs("seed", std::to_string(opened->seed), std::to_string(config.seed));
  }
  std::uint64_t samples = opened->samples;
  for (const auto& event : history) {
    if (const auto* resumed = std::get_if<Resumed>(&event)) samples = resumed->samples;
  }
  if (config.samples < samples) {
    return make_error(ErrorKind::kInvalid, "the experiment that is to be resumed has " + std::to_string(samples) +
                                               " samples already, which can be raised but not lowered to " +
                                               std::to_string(config.samples));
  }
  return {};
}

Experiment::Experiment(ExperimentConfig config, std::span<const JournalEvent> history)
    : config_(std::move(config)), generator_(config_.space, config_.samples, config_.seed),
      scheduler_(config_.scheduler, config_.seed), restored_(!history.empty()) {
  const auto fits = compatible(config_, history);
  MOBULA_CHECK(fits.ok(), fits.ok() ? "" : fits.error().message);
  for (const auto& event : history) {
    std::visit([this](const auto& known) { apply(known); }, event);
  }
  // What ran then runs no longer.
  for (const std::uint32_t trial : active_) {
    trials_[trial].status = TrialStatus::kPending;
    waiting_.insert(trial);
  }
  active_.clear();
}

void Experiment::step(Instant now, std::span<const Event> events, std::vector<Action>& actions) {
  now_ = now;
  actions_ = &actions;
  for (const auto& event : events) {
    if (done_) break;
    std::visit([this](const auto& known) { on(known); }, event);
  }
  if (begun_ && !done_) fill_slots();
  actions_ = nullptr;
}

// ---- events -------------------------------------------------------------------------------------------------------

void Experiment::on(const Begin&) {
  MOBULA_CHECK(!begun_, "an experiment begins once");
  begun_ = true;
  if (restored_) {
    accept(Resumed{config_.samples, config_.retry_errored}, true);
    return;
  }
  Opened opened;
  opened.name = config_.name;
  opened.trainable = config_.trainable;
  opened.metric = config_.metric;
  opened.mode = config_.mode;
  opened.seed = config_.seed;
  opened.samples = config_.samples;
  opened.space = config_.space.describe();
  opened.scheduler = describe(config_.scheduler);
  opened.prefix = config_.prefix;
  opened.session = config_.session;
  accept(std::move(opened), true);
}

void Experiment::on(const Capacity& event) {
  config_.slots = event.slots;
}

void Experiment::on(const TrialStarted& event) {
  if (!current(event.trial, event.attempt)) return;
  accept(TrialLaunched{event.trial, event.attempt, event.place}, false);
  emit(ResetResults{event.trial});
}

void Experiment::on(const Reported& event) {
  if (!current(event.trial, event.attempt)) return;
  TrialState& trial = trials_[event.trial];
  if (trial.status != TrialStatus::kRunning) {
    // It reports although it was told to stop: the answer stays the same.
    emit(AnswerReport{event.trial, event.attempt, true});
    return;
  }
  const Value* metric = event.metrics.find(config_.metric);
  double value = 0;
  if (metric == nullptr || !metric->number(value)) {
    std::string error = "its report has no number named '" + config_.metric +
                        "', the metric of the experiment; it has " +
                        (event.metrics.empty() ? std::string("nothing") : event.metrics.text());
    emit(StopTrial{event.trial, event.attempt});
    on(TrialFailed{event.trial, event.attempt, std::move(error), true});
    return;
  }
  TrialReported report{event.trial, event.attempt, trial.iteration + 1, event.metrics, event.unix_ms, event.elapsed_ms,
                       {}};
  report.verdict = scheduler_.decide(event.trial, report.iteration, sign() * value);
  accept(report, false);
  ++reports_;
  if (sync_due_ == Instant::never()) sync_due_ = now_ + config_.sync_interval;
  emit(WriteResult{report});
  emit(AnswerReport{event.trial, event.attempt, report.verdict.decision != Decision::kContinue});
}

void Experiment::on(const TrialEnded& event) {
  if (!current(event.trial, event.attempt)) return;
  const bool early = trials_[event.trial].verdict.decision == Decision::kStop;
  end(event.trial, early ? TrialStatus::kStopped : TrialStatus::kCompleted, event.has_value);
}

void Experiment::on(const TrialFailed& event) {
  if (!current(event.trial, event.attempt)) return;
  const TrialState& trial = trials_[event.trial];
  const bool again = !event.hopeless && (config_.max_failures < 0 || trial.failures < config_.max_failures);
  accept(TrialBroke{event.trial, event.attempt, true, !again, event.error}, true);
  emit(WriteError{event.trial, event.error});
  if (!again) emit(TrialDone{event.trial, TrialStatus::kError});
}

void Experiment::on(const WorkerLost& event) {
  if (current(event.trial, event.attempt)) lose(event.trial, event.error);
}

void Experiment::on(const NodeLost& event) {
  const std::vector<std::uint32_t> running(active_.begin(), active_.end());
  for (const std::uint32_t trial : running) {
    if (trials_[trial].place.node != event.node || trials_[trial].status == TrialStatus::kPending) continue;
    emit(StopTrial{trial, trials_[trial].attempt});
    lose(trial, "its node " + event.node + " is gone");
  }
}

void Experiment::on(const Tick&) {
  if (sync_due_ > now_) return;
  sync_due_ = Instant::never();
  emit(SyncJournal{});
}

void Experiment::on(const Interrupted&) {
  for (const std::uint32_t trial : active_) emit(StopTrial{trial, trials_[trial].attempt});
  emit(SyncJournal{});
  emit(ExperimentDone{true});
  done_ = true;
  sync_due_ = Instant::never();
}

// ---- what lasts ---------------------------------------------------------------------------------------------------

void Experiment::apply(const Opened& event) {
  config_.prefix = event.prefix;
  config_.session = event.session;
}

void Experiment::apply(const Resumed& event) {
  for (std::uint32_t number = 0; number < trials_.size(); ++number) {
    TrialState& trial = trials_[number];
    if (active_.contains(number)) set_status(number, TrialStatus::kPending);
    if (event.retry_errored && trial.status == TrialStatus::kError) {
      trial.failures = 0;
      trial.restarts = 0;
      set_status(number, TrialStatus::kPending);
    }
  }
}

void Experiment::apply(const TrialCreated& event) {
  MOBULA_CHECK(event.trial == trials_.size(), "trials are made in order");
  TrialState trial;
  trial.params = event.params;
  trial.id = trial_id(config_.prefix, event.trial);
  trial.directory = event.directory;
  trials_.push_back(std::move(trial));
  waiting_.insert(event.trial);
}

void Experiment::apply(const TrialLaunched& event) {
  TrialState& trial = trials_.at(event.trial);
  trial.attempt = event.attempt;
  trial.place = event.place;
  trial.iteration = 0;
  trial.elapsed_ms = 0;
  trial.last = {};
  trial.best.reset();
  trial.verdict = {};
  trial.error.clear();
  set_status(event.trial, TrialStatus::kRunning);
}

void Experiment::apply(const TrialReported& event) {
  TrialState& trial = trials_.at(event.trial);
  trial.iteration = event.iteration;
  trial.elapsed_ms = event.elapsed_ms;
  trial.last = event.metrics;
  double value = 0;
  const Value* metric = event.metrics.find(config_.metric);
  const bool usable = metric != nullptr && metric->number(value) && std::isfinite(value);
  if (usable && (!trial.best || sign() * value > sign() * *trial.best)) trial.best = value;
  if (usable) scheduler_.record(event.trial, event.verdict, sign() * value);
  if (event.verdict.peers > 0 || event.verdict.decision != Decision::kContinue) trial.verdict = event.verdict;
  if (event.verdict.decision != Decision::kContinue) set_status(event.trial, TrialStatus::kStopping);
}

void Experiment::apply(const TrialOver& event) {
  trials_.at(event.trial).has_value = event.has_value;
  set_status(event.trial, event.status);
}

void Experiment::apply(const TrialBroke& event) {
  TrialState& trial = trials_.at(event.trial);
  trial.error = event.error;
  ++(event.by_user_code ? trial.failures : trial.restarts);
  set_status(event.trial, event.final ? TrialStatus::kError : TrialStatus::kPending);
}

void Experiment::apply(const Finished&) {}

void Experiment::accept(JournalEvent event, bool sync) {
  std::visit([this](const auto& known) { apply(known); }, event);
  emit(Append{std::move(event), sync});
  if (sync) sync_due_ = Instant::never();
}

// Which transitions there are: anything else is a bug here or a journal that no experiment wrote.
void Experiment::set_status(std::uint32_t number, TrialStatus status) {
  TrialStatus& held = trials_.at(number).status;
  switch (status) {
    case TrialStatus::kPending: break;  // a death, a failure with attempts left, or a resumed run
    case TrialStatus::kRunning: MOBULA_CHECK(!finished(held), "a trial that is over does not run again"); break;
    case TrialStatus::kStopping:
      MOBULA_CHECK(held == TrialStatus::kRunning, "only a running trial is told to stop");
      break;
    case TrialStatus::kCompleted:
    case TrialStatus::kStopped:
      MOBULA_CHECK(held == TrialStatus::kRunning || held == TrialStatus::kStopping, "only what runs can end");
      break;
    case TrialStatus::kError: MOBULA_CHECK(!finished(held), "a trial ends once"); break;
  }
  held = status;
  waiting_.erase(number);
  active_.erase(number);
  if (status == TrialStatus::kPending) waiting_.insert(number);
  if (status == TrialStatus::kRunning || status == TrialStatus::kStopping) active_.insert(number);
}

// ---- trials -------------------------------------------------------------------------------------------------------

bool Experiment::current(std::uint32_t trial, std::uint32_t attempt) {
  const bool known = active_.contains(trial) && trials_[trial].attempt == attempt;
  if (!known) ++ignored_;
  return known;
}

void Experiment::end(std::uint32_t trial, TrialStatus status, bool has_value) {
  accept(TrialOver{trial, status, has_value}, true);
  emit(TrialDone{trial, status});
}

void Experiment::lose(std::uint32_t number, const std::string& error) {
  const TrialState& trial = trials_[number];
  if (trial.status == TrialStatus::kStopping && trial.verdict.decision == Decision::kStop) {
    // It lost against its peers already: only its value is missing, and nobody will ask for that.
    end(number, TrialStatus::kStopped, false);
    return;
  }
  const bool again = config_.max_restarts < 0 || trial.restarts < config_.max_restarts;
  accept(TrialBroke{number, trial.attempt, false, !again, error}, true);
  ++restarts_;
  if (again) return;
  emit(WriteError{number, error});
  emit(TrialDone{number, TrialStatus::kError});
}

void Experiment::launch(std::uint32_t number) {
  TrialState& trial = trials_[number];
  ++trial.attempt;
  trial.place = {};
  waiting_.erase(number);
  active_.insert(number);
  emit(StartTrial{number, trial.attempt, trial.params});
}

void Experiment::fill_slots() {
  while (active_.size() < config_.slots) {
    if (!waiting_.empty()) {
      launch(*waiting_.begin());
      continue;
    }
    if (trials_.size() >= generator_.total()) break;
    const auto number = static_cast<std::uint32_t>(trials_.size());
    TrialCreated created{number, generator_.params(number), {}};
    created.directory =
        trial_directory(config_.trainable, trial_id(config_.prefix, number), number, created.params, config_.session);
    accept(std::move(created), true);
    emit(WriteParams{number});
    launch(number);
  }
  if (!active_.empty() || !waiting_.empty() || trials_.size() < generator_.total()) return;
  accept(Finished{}, true);
  emit(ExperimentDone{false});
  done_ = true;
}

// ---- what others ask ----------------------------------------------------------------------------------------------

std::optional<std::uint32_t> Experiment::best_trial() const {
  std::optional<std::uint32_t> best;
  double best_value = 0;
  for (std::uint32_t number = 0; number < trials_.size(); ++number) {
    const TrialState& trial = trials_[number];
    if (trial.status == TrialStatus::kError) continue;
    double value = 0;
    if (config_.scope == Scope::kAll) {
      if (!trial.best) continue;
      value = *trial.best;
    } else {
      const Value* last = trial.last.find(config_.metric);
      if (last == nullptr || !last->number(value) || !std::isfinite(value)) continue;
    }
    if (best && sign() * value <= sign() * best_value) continue;
    best = number;
    best_value = value;
  }
  return best;
}

std::string Experiment::explain(std::uint32_t number) const {
  const TrialState& trial = trials_.at(number);
  const Verdict& verdict = trial.verdict;
  const std::string at = " at iteration " + std::to_string(trial.iteration);
  if (trial.status == TrialStatus::kError) return "failed" + at + ": " + trial.error;
  if (trial.status == TrialStatus::kPending) {
    return trial.error.empty() ? "waits for a free slot" : "waits to start again: " + trial.error;
  }
  if (verdict.decision == Decision::kComplete) return "ran to the scheduler's last iteration";
  if (verdict.decision == Decision::kContinue) {
    return finished(trial.status) ? "returned by itself" + at : "runs, iteration " + std::to_string(trial.iteration);
  }
  const Value* metric = trial.last.find(config_.metric);
  const std::string value = metric == nullptr ? "?" : metric->text();
  if (verdict.peers == 0) return "stopped" + at + ": " + config_.metric + " is " + value;
  return "stopped" + at + ": " + config_.metric + " " + value + " is worse than the cutoff " +
         rounded(sign() * verdict.cutoff) + " of " + std::to_string(verdict.peers) + " trials at rung " +
         Value(verdict.milestone).text();
}

ExperimentStats Experiment::stats() const {
  ExperimentStats stats;
  for (const auto& trial : trials_) {
    switch (trial.status) {
      case TrialStatus::kPending: ++stats.pending; break;
      case TrialStatus::kRunning:
      case TrialStatus::kStopping: ++stats.running; break;
      case TrialStatus::kCompleted: ++stats.completed; break;
      case TrialStatus::kStopped: ++stats.stopped; break;
      case TrialStatus::kError: ++stats.errored; break;
    }
  }
  stats.reports = reports_;
  stats.restarts = restarts_;
  stats.ignored = ignored_;
  stats.total = generator_.total();
  return stats;
}

void Experiment::check() const {
  MOBULA_CHECK(trials_.size() <= generator_.total() && trials_.size() <= kTrialsMax);
  for (std::uint32_t number = 0; number < trials_.size(); ++number) {
    const TrialState& trial = trials_[number];
    const bool waits = waiting_.contains(number);
    const bool runs = active_.contains(number);
    MOBULA_CHECK(waits + runs + finished(trial.status) == 1, "a trial waits, runs or is over");
    if (waits) MOBULA_CHECK(trial.status == TrialStatus::kPending);
    if (trial.status == TrialStatus::kRunning || trial.status == TrialStatus::kStopping) MOBULA_CHECK(runs);
    if (trial.status == TrialStatus::kRunning) MOBULA_CHECK(trial.verdict.decision == Decision::kContinue);
    MOBULA_CHECK(trial.iteration > 0 || trial.last.empty(), "no report, no metrics");
    MOBULA_CHECK(trial.params == generator_.params(number), "a trial keeps what was drawn for it");
  }
  MOBULA_CHECK(waiting_.size() + active_.size() <= trials_.size());
  if (done_) MOBULA_CHECK(begun_);
  scheduler_.check();
}

}  // namespace mobula::tune
