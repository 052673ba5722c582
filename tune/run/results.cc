#include "tune/run/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <optional>

#include <mobula/error.h>
#include <nlohmann/json.hpp>

#include "tune/experiment/names.h"
#include "tune/run/files.h"

namespace mobula::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<char, 8> kValueMagic = {'M', 'O', 'B', 'V', 'A', 'L', '1', '\n'};
constexpr std::size_t kValueHeaderSize = kValueMagic.size() + 2 * sizeof(std::uint64_t);

std::string local_date(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H-%M-%S", &parts);
  return text;
}

std::string host_part(const std::string& address) {
  const auto colon = address.rfind(':');
  return colon == std::string::npos ? address : address.substr(0, colon);
}

Json to_json(const Value& value) {
  return std::visit([](const auto& held) -> Json { return held; }, value.data());  // a NaN is dumped as null
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char letter : text) {
    if (letter == '"') cell += '"';
    cell += letter;
  }
  return cell + '"';
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_cell(cells[i]);
  }
  return line + '\n';
}

// FNV-1a: tells a whole file from a broken one; the disk's own checksums do the rest.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  return hash;
}

}  // namespace

Row make_row(const TrialState& trial, std::uint32_t number, const TrialReported& report,
             std::int64_t previous_elapsed_ms) {
  Row row;
  row.params = trial.params;
  const bool done = report.verdict.decision != Decision::kContinue;
  const double total = static_cast<double>(report.elapsed_ms) / 1000;
  const auto add = [&row](const char* name, Value value) { row.cells.emplace_back(name, std::move(value)); };
  for (const auto& metric : report.metrics) row.cells.push_back(metric);
  add("done", done);
  add("training_iteration", report.iteration);
  add("trial_id", trial.id);
  add("date", local_date(report.unix_ms));
  add("timestamp", report.unix_ms / 1000);
  add("time_this_iter_s", static_cast<double>(report.elapsed_ms - previous_elapsed_ms) / 1000);
  add("time_total_s", total);
  add("pid", trial.place.pid);
  add("hostname", trial.place.host);
  add("node_ip", host_part(trial.place.address));
  add("node_id", trial.place.node);
  add("time_since_restore", total);
  add("iterations_since_restore", report.iteration);
  if (done) add("experiment_tag", experiment_tag(number, trial.params));
  return row;
}

std::string to_json_line(const Row& row) {
  Json json = Json::object();
  for (const auto& [name, value] : row.cells) {
    if (!json.contains(name)) json[name] = to_json(value);
    if (name == "node_id") {
      Json& config = json["config"] = Json::object();
      for (const auto& [key, parameter] : row.params) config[key] = to_json(parameter);
    }
  }
  return dump(json, -1) + "\n";
}

std::string params_json(const Params& params) {
  std::vector<NamedValues::Entry> sorted(params.begin(), params.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json json = Json::object();
  for (const auto& [name, value] : sorted) json[name] = to_json(value);
  return dump(json, 2) + "\n";
}

std::string Table::add(const Row& row, std::string_view text_so_far, bool& rewrite) {
  const std::size_t known = columns_.size();
  for (const auto& [name, value] : row.cells) {
    // Only the last row has it, and it would be empty in all others.
    if (name == "experiment_tag") continue;
    if (std::find(columns_.begin(), columns_.end(), name) == columns_.end()) columns_.push_back(name);
  }
  std::vector<std::string> cells;
  for (const auto& column : columns_) {
    const auto cell = std::find_if(row.cells.begin(), row.cells.end(),
                                   [&column](const auto& entry) { return entry.first == column; });
    cells.push_back(cell == row.cells.end() ? std::string() : cell->second.text());
  }
  rewrite = known != columns_.size();
  if (!rewrite) return csv_line(cells);
  // The header anew, then the old rows with empty cells at their ends. A line break inside quotes ends no row.
  std::string text = csv_line(columns_);
  const std::string filler(columns_.size() - known, ',');
  bool quoted = false;
  bool in_header = known > 0;
  for (const char letter : text_so_far) {
    if (letter == '"') quoted = !quoted;
    const bool row_ends = letter == '\n' && !quoted;
    if (!in_header) {
      if (row_ends) text += filler;
      text += letter;
    }
    if (row_ends) in_header = false;
  }
  return text + csv_line(cells);
}

void ResultFiles::write_params(const TrialState& trial) {
  make_folders(folder_of(trial));
  replace_file(folder_of(trial) / "params.json", params_json(trial.params), false);
}

void ResultFiles::reset(const TrialState& trial, std::uint32_t number) {
  const auto folder = folder_of(trial);
  make_folders(folder);
  for (const char* name : {"result.json", "progress.csv"}) replace_file(folder / name, "", false);
  std::error_code ignored;
  for (const char* name : {"error.txt", "value.bin"}) std::filesystem::remove(folder / name, ignored);
  open_[number] = Open{};
}

void ResultFiles::add(const TrialState& trial, std::uint32_t number, const TrialReported& report) {
  Open& open = open_[number];
  const Row row = make_row(trial, number, report, open.elapsed_ms);
  open.elapsed_ms = report.elapsed_ms;
  const auto folder = folder_of(trial);
  append_file(folder / "result.json", to_json_line(row));
  const auto csv = folder / "progress.csv";
  bool rewrite = false;
  Table before = open.table;
  const std::string line = open.table.add(row, {}, rewrite);
  if (!rewrite) return append_file(csv, line);
  open.table = before;
  const std::string old = before.has_columns() ? read_file(csv) : std::string();
  replace_file(csv, open.table.add(row, old, rewrite), false);
}

void ResultFiles::write_error(const TrialState& trial, const std::string& error) {
  make_folders(folder_of(trial));
  replace_file(folder_of(trial) / "error.txt", error + "\n", false);
}

void ResultFiles::rebuild(const Experiment& experiment, std::span<const JournalEvent> history) {
  struct Texts {
    std::string json;
    std::string csv;
    Open open;
    Place place;
  };
  const auto& trials = experiment.trials();
  std::vector<Texts> texts(trials.size());
  for (const auto& event : history) {
    if (const auto* launched = std::get_if<TrialLaunched>(&event)) {
      texts[launched->trial] = Texts{};
      texts[launched->trial].place = launched->place;
    }
    const auto* report = std::get_if<TrialReported>(&event);
    if (report == nullptr) continue;
    Texts& text = texts[report->trial];
    TrialState then = trials[report->trial];
    then.place = text.place;
    const Row row = make_row(then, report->trial, *report, text.open.elapsed_ms);
    text.open.elapsed_ms = report->elapsed_ms;
    text.json += to_json_line(row);
    bool rewrite = false;
    std::string csv = text.open.table.add(row, text.csv, rewrite);
    if (rewrite) {
      text.csv = std::move(csv);
    } else {
      text.csv += csv;
    }
  }
  for (std::size_t number = 0; number < trials.size(); ++number) {
    const TrialState& trial = trials[number];
    write_params(trial);
    replace_file(folder_of(trial) / "result.json", texts[number].json, false);
    replace_file(folder_of(trial) / "progress.csv", texts[number].csv, false);
    if (trial.status == TrialStatus::kError) write_error(trial, trial.error);
  }
}

void ResultFiles::save_value(const TrialState& trial, std::span<const std::byte> bytes) {
  std::string content(kValueMagic.begin(), kValueMagic.end());
  for (std::uint64_t word : {static_cast<std::uint64_t>(bytes.size()), checksum(bytes)}) {
    for (int byte = 0; byte < 8; ++byte, word >>= 8) content += static_cast<char>(word & 0xff);
  }
  content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  make_folders(folder_of(trial));
  replace_file(folder_of(trial) / "value.bin", content, true);
}

std::vector<std::byte> ResultFiles::load_value(const std::filesystem::path& trial_folder) {
  const auto path = trial_folder / "value.bin";
  if (!std::filesystem::exists(path)) refuse("the trial in " + trial_folder.string() + " returned no value");
  const std::string content = read_file(path);
  const auto word = [&content](std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t byte = 8; byte-- > 0;) value = value << 8 | static_cast<unsigned char>(content[at + byte]);
    return value;
  };
  const bool framed = content.size() >= kValueHeaderSize &&
                      std::equal(kValueMagic.begin(), kValueMagic.end(), content.begin()) &&
                      word(kValueMagic.size()) == content.size() - kValueHeaderSize;
  if (!framed) refuse(path.string() + " is damaged: take a copy from elsewhere or run the trial again");
  std::vector<std::byte> bytes(content.size() - kValueHeaderSize);
  if (!bytes.empty()) std::memcpy(bytes.data(), content.data() + kValueHeaderSize, bytes.size());
  if (checksum(bytes) != word(kValueMagic.size() + 8)) {
    refuse(path.string() + " is damaged: take a copy from elsewhere or run the trial again");
  }
  return bytes;
}

}  // namespace mobula::tune
