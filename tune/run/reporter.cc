#include "tune/run/reporter.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tune/run/table.h"

namespace mobula::tune {
namespace {

constexpr auto kDrawEvery = std::chrono::milliseconds(200);

struct Screen {
  std::size_t width = 80;
  std::size_t height = 24;
};

Screen screen_size() {
  winsize size{};
  Screen screen;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) screen.width = size.ws_col;
    if (size.ws_row > 0) screen.height = size.ws_row;
  }
  return screen;
}

void put_text(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Reporter::Reporter(Display display, const ExperimentConfig& config) : display_(display), config_(config) {
  if (display_ == Display::kAuto) display_ = ::isatty(STDOUT_FILENO) != 0 ? Display::kTable : Display::kLines;
}

Reporter::~Reporter() {
  if (cursor_hidden_) put_text("\x1b[?25h");
}

void Reporter::say(const std::string& line) {
  if (display_ == Display::kSilent) return;
  erase_table();
  put_text(line + "\n");
}

std::string Reporter::describe(const Experiment& experiment, const JournalEvent& event) const {
  const auto name = [&experiment](std::uint32_t trial) { return "trial " + experiment.trials()[trial].id; };
  if (const auto* e = std::get_if<TrialLaunched>(&event)) {
    return name(e->trial) + " started on " + node_name(e->place) + ": " +
           short_params(config_.space, experiment.trials()[e->trial].params);
  }
  if (const auto* e = std::get_if<TrialReported>(&event)) {
    return name(e->trial) + " epoch " + std::to_string(e->iteration) + ": " + short_text(e->metrics) + " on " +
           node_name(experiment.trials()[e->trial].place);
  }
  if (const auto* e = std::get_if<TrialOver>(&event)) {
    const bool stopped = e->status == TrialStatus::kStopped;
    const auto& trial = experiment.trials()[e->trial];
    return name(e->trial) + " " +
           (stopped ? experiment.explain(e->trial)
                    : "completed after " + std::to_string(trial.iteration) + " epochs: " + short_text(trial.last));
  }
  if (const auto* e = std::get_if<TrialBroke>(&event)) {
    const std::string what = e->by_user_code ? " failed: " : " lost its worker: ";
    return name(e->trial) + what + first_line(e->error) + (e->final ? "; no further attempt" : "; it starts again");
  }
  return {};
}

void Reporter::accepted(const Experiment& experiment, const JournalEvent& event) {
  if (display_ == Display::kSilent) return;
  const std::string line = describe(experiment, event);
  if (line.empty()) return;
  if (display_ == Display::kLines) {
    put_text(line + "\n");
  } else if (!std::holds_alternative<TrialReported>(event)) {
    note_ = line;
  }
}

void Reporter::erase_table() {
  if (drawn_ == 0) return;
  // Up over the table, then clear to the end of the screen.
  put_text("\x1b[" + std::to_string(drawn_) + "A\r\x1b[J");
  drawn_ = 0;
}

void Reporter::refresh(const Experiment& experiment, bool now_please) {
  const auto now = std::chrono::steady_clock::now();
  if (display_ != Display::kTable || (now < next_draw_ && !now_please)) return;
  next_draw_ = now + kDrawEvery;
  const Screen screen = screen_size();
  // One letter and one line less than there are: a full line would wrap, a full screen scroll.
  const std::size_t width = std::max<std::size_t>(screen.width, 21) - 1;
  const std::size_t height = std::max<std::size_t>(screen.height, 5) - 3;
  auto lines = render_table(experiment, config_, width, height);
  if (!note_.empty()) lines.push_back(fit(note_, width));
  std::string text = cursor_hidden_ ? "" : "\x1b[?25l";
  cursor_hidden_ = true;
  if (drawn_ > 0) text += "\x1b[" + std::to_string(drawn_) + "A\r";
  for (const auto& line : lines) text += "\x1b[2K" + line + "\n";
  text += "\x1b[J";
  drawn_ = lines.size();
  put_text(text);
}

void Reporter::finish(const Experiment& experiment, const Outcome& outcome) {
  if (display_ == Display::kSilent) return;
  note_.clear();
  refresh(experiment, true);
  drawn_ = 0;  // the last table stays
  if (cursor_hidden_) put_text("\x1b[?25h");
  cursor_hidden_ = false;
  std::string text = display_ == Display::kTable ? "\n" : render_counts(experiment) + "\n";
  text += render_nodes(experiment) + "\n";
  if (outcome.interrupted) text += "interrupted: what is finished is kept, the rest goes on with resume\n";
  if (outcome.best) {
    const TrialResult& best = outcome.trials[*outcome.best];
    text += "best trial " + best.id + ": " + short_text(best.last) + " after " + std::to_string(best.iterations) +
            " epochs\n  " + short_text(best.params) + "\n";
  } else {
    text += "no trial has a finite value of '" + config_.metric + "' yet\n";
  }
  text += "results: " + outcome.folder.string() + "\n";
  put_text(text);
}

}  // namespace mobula::tune
