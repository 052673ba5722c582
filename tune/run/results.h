// The result folder, in the layout that Ray Tune gives and pandas users know:
//
//   <storage>/<experiment>/journal.jsonl
//   <storage>/<experiment>/<trial>/params.json      the parameters
//                                  result.json      one JSON object a report and line; NaN and infinities are null
//                                  progress.csv     the same as a table; they are nan, inf, -inf there
//                                  error.txt        why it failed
//                                  value.bin        what its function returned
//
// Rows are a rendering of the journal's events: a resumed run writes the files anew from it, so they are never ahead of
// or behind it. Ray fixes the columns of progress.csv by the first report and drops what comes later; here a new key
// adds its column at the end and the rows before get an empty cell.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobula/tune/value.h>

#include "tune/experiment/experiment.h"

namespace mobula::tune {

// A row of a trial's results: what the files show.
struct Row {
  std::vector<std::pair<std::string, Value>> cells;  // in the order of Ray's columns
  Params params;
};

// `previous_elapsed_ms`: of the report before in the same attempt, 0 for the first.
Row make_row(const TrialState& trial, std::uint32_t number, const TrialReported& report,
             std::int64_t previous_elapsed_ms);

std::string to_json_line(const Row& row);
std::string params_json(const Params& params);

// A CSV table that grows columns.
class Table {
 public:
  // The text to add to the file for `row`; `rewrite` is set when the whole text changed because of new columns.
  std::string add(const Row& row, std::string_view text_so_far, bool& rewrite);
  bool has_columns() const { return !columns_.empty(); }

 private:
  std::vector<std::string> columns_;
};

class ResultFiles {
 public:
  explicit ResultFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_of(const TrialState& trial) const { return folder_ / trial.directory; }
  void write_params(const TrialState& trial);
  void reset(const TrialState& trial, std::uint32_t number);
  void add(const TrialState& trial, std::uint32_t number, const TrialReported& report);
  void write_error(const TrialState& trial, const std::string& error);
  // No more rows will come.
  void close(std::uint32_t number) { open_.erase(number); }
  // Writes everything anew, as the history says.
  void rebuild(const Experiment& experiment, std::span<const JournalEvent> history);

  // What a trial's function returned, as bytes. The file is on the disk when save_value returns.
  void save_value(const TrialState& trial, std::span<const std::byte> bytes);
  // Throws Invalid when there is none or it is damaged.
  static std::vector<std::byte> load_value(const std::filesystem::path& trial_folder);

 private:
  struct Open {
    Table table;
    std::int64_t elapsed_ms = 0;
  };

  std::filesystem::path folder_;
  std::map<std::uint32_t, Open> open_;  // trials that run: as many as there are slots
};

}  // namespace mobula::tune
