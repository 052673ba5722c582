#include "tune/run/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

namespace mobula::tune {
namespace {

constexpr std::size_t kParameterWidthMin = 12;
constexpr std::size_t kMetricColumnsMax = 3;

bool starts_letter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_letter));
}

std::string pad(const std::string& text, std::size_t width) {
  const std::size_t used = width_of(text);
  return used >= width ? text : text + std::string(width - used, ' ');
}

std::optional<double> metric_of(const TrialState& trial, const std::string& metric) {
  const Value* value = trial.last.find(metric);
  double number = 0;
  if (value == nullptr || !value->number(number) || std::isnan(number)) return std::nullopt;
  return number;
}

// The first other numbers that trials report, then the metric itself.
std::vector<std::string> metric_columns(const Experiment& experiment, const std::string& metric) {
  std::vector<std::string> names;
  for (const auto& trial : experiment.trials()) {
    for (const auto& [name, value] : trial.last) {
      double number = 0;
      if (names.size() + 1 >= kMetricColumnsMax || name == metric || !value.number(number)) continue;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  names.push_back(metric);
  return names;
}

int group_of(TrialStatus status) {
  switch (status) {
    case TrialStatus::kRunning:
    case TrialStatus::kStopping: return 0;
    case TrialStatus::kPending: return 1;
    case TrialStatus::kCompleted:
    case TrialStatus::kStopped: return 2;
    case TrialStatus::kError: return 3;
  }
  return 4;
}

std::vector<std::uint32_t> order_of(const Experiment& experiment, const ExperimentConfig& config) {
  const auto& trials = experiment.trials();
  std::vector<std::uint32_t> order(trials.size());
  for (std::uint32_t number = 0; number < order.size(); ++number) order[number] = number;
  const double sign = config.mode == Mode::kMax ? 1 : -1;
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int group_a = group_of(trials[a].status);
    const int group_b = group_of(trials[b].status);
    if (group_a != group_b || group_a != 2) return group_a < group_b;
    const auto value_a = metric_of(trials[a], config.metric);
    const auto value_b = metric_of(trials[b], config.metric);
    if (!value_a || !value_b) return value_a.has_value() && !value_b.has_value();
    return sign * *value_a > sign * *value_b;
  });
  return order;
}

using Cells = std::vector<std::string>;

Cells cells_of(const TrialState& trial, const Space& space, const std::vector<std::string>& metrics) {
  Cells cells{trial.id, node_name(trial.place), short_params(space, trial.params),
              trial.iteration == 0 ? "" : std::to_string(trial.iteration)};
  for (const auto& name : metrics) {
    const Value* value = trial.last.find(name);
    cells.push_back(value == nullptr ? "" : short_text(*value));
  }
  cells.emplace_back(name_of(trial.status));
  return cells;
}

}  // namespace

std::string short_text(const Value& value) {
  if (!value.is_double() || !std::isfinite(value.as<double>())) return value.text();
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value.as<double>());
  return buffer;
}

std::string short_text(const NamedValues& values) {
  std::string text;
  for (const auto& [name, value] : values) text += (text.empty() ? "" : ",") + name + "=" + short_text(value);
  return text;
}

std::string short_params(const Space& space, const Params& params) {
  NamedValues varied;
  for (const auto& entry : space.entries()) {
    const Value* value = params.find(entry.name);
    if (value != nullptr && !std::holds_alternative<Value>(entry.domain)) varied.set(entry.name, *value);
  }
  return short_text(varied);
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string fit(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return text;
  const std::size_t keep = width > 3 ? width - 3 : 0;
  std::size_t letters = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    if (starts_letter(text[end]) && letters++ == keep) break;
    ++end;
  }
  return text.substr(0, end) + std::string("...").substr(0, std::min<std::size_t>(3, width));
}

std::string node_name(const Place& place) {
  return place.address.empty() ? place.node.substr(0, 8) : place.address;
}

std::string render_counts(const Experiment& experiment) {
  const ExperimentStats stats = experiment.stats();
  std::string text = std::to_string(stats.total) + " trials:";
  const std::array<std::pair<std::uint64_t, const char*>, 5> parts{{{stats.running, "running"},
                                                                    {stats.completed, "completed"},
                                                                    {stats.stopped, "stopped early"},
                                                                    {stats.errored, "failed"},
                                                                    {stats.restarts, "restarted"}}};
  bool any = false;
  for (const auto& [count, name] : parts) {
    if (count == 0) continue;
    text += (any ? ", " : " ") + std::to_string(count) + " " + name;
    any = true;
  }
  return any ? text : text + " none has begun";
}

std::string render_nodes(const Experiment& experiment) {
  std::map<std::string, std::size_t> counts;
  for (const auto& trial : experiment.trials()) {
    if (trial.attempt > 0 && !node_name(trial.place).empty()) ++counts[node_name(trial.place)];
  }
  std::string text = std::to_string(counts.size()) + (counts.size() == 1 ? " node" : " nodes") + " ran trials:";
  const char* separator = " ";
  for (const auto& [name, count] : counts) {
    text += separator + name + " (" + std::to_string(count) + ")";
    separator = ", ";
  }
  return text;
}

std::vector<std::string> render_table(const Experiment& experiment, const ExperimentConfig& config, std::size_t width,
                                      std::size_t height) {
  std::vector<std::string> lines{fit(render_counts(experiment), width)};
  if (height < 3) return lines;
  const auto metrics = metric_columns(experiment, config.metric);
  std::vector<Cells> rows{{"trial", "node", "parameters", "epoch"}};
  rows[0].insert(rows[0].end(), metrics.begin(), metrics.end());
  rows[0].emplace_back("state");
  const auto order = order_of(experiment, config);
  const std::size_t room = height - 2;
  const std::size_t shown = order.size() <= room ? order.size() : room - 1;
  for (std::size_t i = 0; i < shown; ++i)
    rows.push_back(cells_of(experiment.trials()[order[i]], config.space, metrics));

  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
  }
  // The parameters give way first.
  std::size_t others = 2 * (widths.size() - 1);
  for (std::size_t column = 0; column < widths.size(); ++column) others += column == 2 ? 0 : widths[column];
  const std::size_t left = width > others ? width - others : 0;
  widths[2] = std::min(widths[2], std::max(left, kParameterWidthMin));
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += pad(fit(row[column], widths[column]), widths[column]);
      if (column + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(fit(line, width));
  }
  if (shown < order.size()) lines.push_back(fit("... and " + std::to_string(order.size() - shown) + " more", width));
  return lines;
}

}  // namespace mobula::tune
