// tune::run's loop: the thin driver around tune::Experiment. It performs the machine's actions in their order and turns
// what comes back from the cluster into events; every decision is the machine's.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>

#include <mobula/tune/run.h>

#include "tune/experiment/experiment.h"
#include "tune/run/files.h"
#include "tune/run/interrupt.h"
#include "tune/run/journal_file.h"
#include "tune/run/places.h"
#include "tune/run/reporter.h"
#include "tune/run/results.h"

namespace mobula::tune::detail {
namespace {

using Ref = ObjectRef<TrialNews>;

constexpr auto kPollEvery = std::chrono::milliseconds(100);  // interrupts, the table, the clock
constexpr auto kCapacityEvery = std::chrono::seconds(2);
constexpr std::size_t kErrorBytesMax = std::size_t{16} << 10;  // of an error's text in the journal
constexpr std::uint32_t kSlotsMax = 10'000;

// A running attempt, as the driver sees it.
struct Running {
  std::uint32_t attempt = 0;
  std::unique_ptr<Attempt> worker;
  Ref result;               // of run()
  std::optional<Ref> news;  // the open exchange
  std::uint64_t sequence = 0;
};

// How often `need` fits into `have`; without a need, as often as one likes.
double times(double have, double need) {
  return need > 0 ? std::floor(have / need + 1e-9) : HUGE_VAL;
}

double room_on(const NodeInfo& node, const mobula::Options& needs) {
  double room = times(node.cpus, needs.cpus.value_or(1));
  if (needs.gpus > 0 && needs.gpus < 1) {
    room = std::min(room, std::floor(node.gpus) * times(1, needs.gpus));
  } else {
    room = std::min(room, times(node.gpus, needs.gpus));
  }
  return std::min(room, times(static_cast<double>(node.memory), static_cast<double>(needs.memory)));
}

// How many trials the cluster has room for.
std::uint32_t slots_of(const mobula::Options& needs) {
  double slots = 0;
  for (const NodeInfo& node : nodes()) {
    if (node.alive) slots += std::min<double>(room_on(node, needs), kSlotsMax);
  }
  return static_cast<std::uint32_t>(std::clamp<double>(slots, 1, kSlotsMax));
}

ExperimentConfig config_of(const RunOptions& options, const std::string& trainable, const ExperimentPlace& place) {
  if (options.metric.empty()) refuse("tune::run needs a .metric: the name of the reported number that counts");
  ExperimentConfig config;
  config.name = place.name;
  config.trainable = trainable;
  config.metric = options.metric;
  config.mode = options.mode;
  config.scope = options.scope;
  config.space = options.space;
  config.scheduler = options.scheduler;
  config.samples = options.num_samples;
  config.seed = options.seed;
  config.max_failures = options.max_failures;
  config.max_restarts = options.max_restarts;
  config.retry_errored = options.retry_errored;
  config.prefix = place.prefix;
  config.session = place.session;
  return config;
}

class Runner {
 public:
  Runner(RunOptions options, const std::string& trainable, const Launch& launch)
      : options_(std::move(options)), launch_(launch), place_(checked_place(options_, trainable)),
        journal_(place_.folder / "journal.jsonl"), files_(place_.folder),
        config_(config_of(options_, trainable, place_)),
        machine_(checked(config_, journal_.history()), journal_.history()), reporter_(options_.display, config_) {
    options_.trial.cpus = options_.trial.cpus.value_or(1);  // held for life, so that trials do not crowd a node
    options_.trial.max_concurrency = 2;                     // run() and exchange()
    options_.trial.max_restarts = 0;                        // the experiment starts trials anew, nobody else
    options_.trial.max_task_retries = 0;
    files_.rebuild(machine_, journal_.history());
  }

  Outcome run() {
    const InterruptGuard guard;
    push(Capacity{slots()});
    push(Begin{});
    while (!machine_.done()) {
      step();
      if (machine_.done()) break;
      await();
      if (InterruptGuard::interrupted() || (options_.interrupted && options_.interrupted())) push(Interrupted{});
      if (machine_.next_deadline() <= monotonic_now()) push(Tick{});
      if (monotonic_now() >= capacity_due_) push(Capacity{slots()});
      reporter_.refresh(machine_);
    }
    Outcome outcome = make_outcome();
    reporter_.finish(machine_, outcome);
    return outcome;
  }

 private:
  // What makes no sense leaves no folder behind.
  static ExperimentPlace checked_place(const RunOptions& options, const std::string& trainable) {
    checked(config_of(options, trainable, {}), {});
    return choose_place(options, trainable);
  }

  static ExperimentConfig checked(const ExperimentConfig& config, std::span<const JournalEvent> history) {
    const auto fits = Experiment::compatible(config, history);
    if (!fits.ok()) refuse(fits.error().message);
    return config;
  }

  void push(Event event) { events_.push_back(std::move(event)); }

  std::uint32_t slots() {
    capacity_due_ = monotonic_now() + kCapacityEvery;
    return options_.max_concurrent > 0 ? options_.max_concurrent : slots_of(options_.trial);
  }

  // Steps until nothing is left to tell: performing an action may make an event.
  void step() {
    while (!events_.empty() && !machine_.done()) {
      const std::vector<Event> events(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
      events_.clear();
      std::vector<Action> actions;
      machine_.step(monotonic_now(), events, actions);
      for (const Action& action : actions) {
        std::visit([this](const auto& known) { perform(known); }, action);
      }
    }
  }

  // ---- actions ----

  void perform(const StartTrial& action) {
    Running running;
    running.attempt = action.attempt;
    try {
      const TrialSetup setup{machine_.trials()[action.trial].id, action.attempt, action.params};
      running.worker = launch_(setup, options_.trial);
      running.result = running.worker->run();
      running.news = running.worker->exchange({});
      running_[action.trial] = std::move(running);
    } catch (const Error& error) {
      fail(action.trial, action.attempt, error);
    }
  }

  void perform(const AnswerReport& action) {
    const auto found = running_.find(action.trial);
    if (found != running_.end() && found->second.attempt == action.attempt) answer(action.trial, action.stop);
  }

  void perform(const StopTrial& action) {
    const auto found = running_.find(action.trial);
    if (found == running_.end() || found->second.attempt != action.attempt) return;
    try {
      found->second.worker->kill();
    } catch (const Error&) {
      // It is gone already, or its node is: that is what was asked for.
    }
    running_.erase(found);
  }

  void perform(const Append& action) {
    journal_.append(action.event, action.sync);
    reporter_.accepted(machine_, action.event);
  }
  void perform(const SyncJournal&) { journal_.sync(); }
  void perform(const WriteParams& action) { files_.write_params(machine_.trials()[action.trial]); }
  void perform(const ResetResults& action) { files_.reset(machine_.trials()[action.trial], action.trial); }
  void perform(const WriteResult& action) {
    files_.add(machine_.trials()[action.report.trial], action.report.trial, action.report);
  }
  void perform(const WriteError& action) { files_.write_error(machine_.trials()[action.trial], action.error); }
  void perform(const TrialDone& action) { files_.close(action.trial); }
  void perform(const ExperimentDone& action) { interrupted_ = action.interrupted; }

  // ---- what comes back ----

  void await() {
    std::vector<Ref> refs;
    for (const auto& [trial, running] : running_) {
      refs.push_back(running.result);
      if (running.news) refs.push_back(*running.news);
    }
    if (!events_.empty() || refs.empty()) return;
    const auto [ready, pending] = wait(std::move(refs), {.count = 1, .timeout = kPollEvery});
    const std::unordered_set<Ref> done(ready.begin(), ready.end());
    if (done.empty()) return;
    std::vector<std::uint32_t> trials;
    for (const auto& [trial, running] : running_) trials.push_back(trial);
    for (const std::uint32_t trial : trials) {
      const Running& running = running_.at(trial);
      if (done.contains(running.result)) {
        end(trial);
      } else if (running.news && done.contains(*running.news)) {
        hear(trial);
      }
    }
  }

  // The open exchange has come back.
  void hear(std::uint32_t trial) {
    Running& running = running_.at(trial);
    try {
      TrialNews news = get(*running.news);
      running.news.reset();
      running.sequence = news.sequence;
      switch (news.kind) {
        case NewsKind::kStarted:
          push(TrialStarted{trial, running.attempt, Place{news.node, news.address, news.host, news.pid}});
          answer(trial, false);
          break;
        case NewsKind::kReport:
          push(Reported{trial, running.attempt, std::move(news.metrics), news.unix_ms, news.elapsed_ms});
          break;
        case NewsKind::kEnded: break;  // the result follows
      }
    } catch (const Error& error) {
      lose(trial, error);
    }
  }

  void answer(std::uint32_t trial, bool stop) {
    Running& running = running_.at(trial);
    try {
      running.news = running.worker->exchange({running.sequence, stop});
    } catch (const Error& error) {
      lose(trial, error);
    }
  }

  // run() has returned, thrown, or lost its worker.
  void end(std::uint32_t trial) {
    Running& running = running_.at(trial);
    const std::uint32_t attempt = running.attempt;
    try {
      const TrialNews news = get(running.result);
      // On this machine's disk before anybody hears of it.
      if (news.has_value) files_.save_value(machine_.trials()[trial], news.value);
      push(TrialEnded{trial, attempt, news.has_value});
      running_.erase(trial);
    } catch (const OutOfDisk&) {
      throw;
    } catch (const Error& error) {
      lose(trial, error);
    }
  }

  void lose(std::uint32_t trial, const Error& error) {
    const std::uint32_t attempt = running_.at(trial).attempt;
    running_.erase(trial);
    fail(trial, attempt, error);
  }

  void fail(std::uint32_t trial, std::uint32_t attempt, const Error& error) {
    // Without the name of the call, which is ours and says nothing to the user.
    ErrorInfo info = error.info();
    info.task.clear();
    const std::string text = std::string(Error(std::move(info)).what()).substr(0, kErrorBytesMax);
    switch (error.kind()) {
      case ErrorKind::kRuntimeStopped: throw error;
      case ErrorKind::kTaskFailed: push(TrialFailed{trial, attempt, text, false}); break;
      // Another attempt would meet the same.
      case ErrorKind::kUnschedulable:
      case ErrorKind::kInvalid:
      case ErrorKind::kSignatureMismatch:
      case ErrorKind::kUnknownFunction:
      case ErrorKind::kUnauthenticated: push(TrialFailed{trial, attempt, text, true}); break;
      default: push(WorkerLost{trial, attempt, text}); break;
    }
  }

  Outcome make_outcome() const {
    Outcome outcome;
    outcome.name = place_.name;
    outcome.folder = place_.folder;
    outcome.interrupted = interrupted_;
    for (std::uint32_t number = 0; number < machine_.trials().size(); ++number) {
      const TrialState& trial = machine_.trials()[number];
      TrialResult result;
      result.id = trial.id;
      result.params = trial.params;
      result.status = trial.status;
      result.iterations = trial.iteration;
      result.last = trial.last;
      result.best = trial.best;
      result.node = trial.place.node;
      result.address = trial.place.address;
      result.attempts = trial.attempt;
      result.why = machine_.explain(number);
      result.folder = files_.folder_of(trial);
      result.has_value = trial.has_value;
      outcome.trials.push_back(std::move(result));
    }
    if (const auto best = machine_.best_trial()) outcome.best = *best;
    return outcome;
  }

  RunOptions options_;
  Launch launch_;
  ExperimentPlace place_;
  JournalFile journal_;
  ResultFiles files_;
  ExperimentConfig config_;
  Experiment machine_;
  Reporter reporter_;
  std::deque<Event> events_;                  // at most a few for each running trial
  std::map<std::uint32_t, Running> running_;  // as many as there are slots
  Instant capacity_due_;
  bool interrupted_ = false;
};

}  // namespace

Outcome run_experiment(RunOptions options, const std::string& trainable, const Launch& launch) {
  return Runner(std::move(options), trainable, launch).run();
}

std::vector<std::byte> load_value(const std::filesystem::path& trial_folder) {
  return ResultFiles::load_value(trial_folder);
}

void throw_no_best(const Outcome& outcome) {
  std::string text = "no trial of the experiment in " + outcome.folder.string() + " has a finite value of the metric";
  std::size_t shown = 0;
  for (const auto& trial : outcome.trials) {
    if (++shown > 5) break;
    text += "\n  " + trial.id + " " + trial.why.substr(0, trial.why.find('\n'));
  }
  refuse(std::move(text));
}

std::string trainable_name(std::string_view spelling) {
  if (spelling.find("lambda") != std::string_view::npos) return "lambda";
  std::string_view name = spelling.substr(0, spelling.find_first_of("(<"));
  // "{anonymous}::train", "(anonymous namespace)::train"
  if (const auto scope = spelling.rfind("::"); scope != std::string_view::npos) name = spelling.substr(scope + 2);
  std::string clean;
  for (const char letter : name) {
    const bool plain = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= 'a' && letter <= 'z') || letter == '_';
    if (!plain) break;
    clean += letter;
  }
  return clean.empty() ? "train" : clean;
}

}  // namespace mobula::tune::detail
