// Shows a running experiment: a table that is drawn anew in place on a terminal, lines elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include <mobula/tune/outcome.h>
#include <mobula/tune/run_options.h>

#include "tune/experiment/experiment.h"

namespace mobula::tune {

class Reporter {
 public:
  Reporter(Display display, const ExperimentConfig& config);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // After the machine accepted the event.
  void accepted(const Experiment& experiment, const JournalEvent& event);
  // Draws the table if it is time, or if `now_please`.
  void refresh(const Experiment& experiment, bool now_please = false);
  // The last word.
  void finish(const Experiment& experiment, const Outcome& outcome);
  // A line of its own.
  void say(const std::string& line);

 private:
  std::string describe(const Experiment& experiment, const JournalEvent& event) const;
  void erase_table();

  Display display_;
  const ExperimentConfig& config_;
  std::size_t drawn_ = 0;  // lines of the table on the screen
  bool cursor_hidden_ = false;
  std::string note_;  // the newest event worth a line under the table
  std::chrono::steady_clock::time_point next_draw_{};
};

}  // namespace mobula::tune
