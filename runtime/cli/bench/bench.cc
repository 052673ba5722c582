// `mobula bench`: the running product against the limits of the machine that it runs on.
//
// A machine's speed changes by the minute, so a row is worth something only beside the limit that was measured next to
// it: three rounds of limit, row, limit, row, of which the medians are shown.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include <mobula/error.h>

#include "runtime/cli/bench/limits.h"
#include "runtime/cli/bench/rows.h"
#include "runtime/cli/bench/self.h"
#include "runtime/cli/commands.h"

namespace mobula::cli {
namespace {

constexpr int kRounds = 3;
constexpr const char* kStartUp = "start-up to first result";
constexpr const char* kIdle = "idle memory";
constexpr auto kIdleAfter = std::chrono::seconds(3);

// One line of the result; `measure` gives one sample.
struct Line {
  std::string peer;
  std::string name;
  std::string unit;
  std::string limit;  // the name of the one it is set against
  int rounds = kRounds;
  std::function<double()> measure;
  std::vector<double> samples;

  double value() const {
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

double number_from(const Result<std::string>& output) {
  if (!output) throw_error(output.error());
  return std::strtod(output->c_str(), nullptr);
}

// A cluster of defaults in a private folder, gone with this object.
class BenchCluster {
 public:
  BenchCluster() {
    std::string folder = (std::filesystem::temp_directory_path() / "mobula-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
      throw_error(make_error(ErrorKind::kInvalid, "cannot make a folder in the temporary folder; set TMPDIR"));
    }
    folder_ = folder;
    const auto started = run_self({"start", "--head", "--json", "--cluster-file", file()});
    if (!started) {
      std::filesystem::remove_all(folder_);
      throw_error(started.error());
    }
    const auto ready = nlohmann::json::parse(*started, nullptr, false);
    for (const auto& pid : ready.value("pids", nlohmann::json::array())) daemons_.push_back(pid.get<pid_t>());
  }
  ~BenchCluster() {
    (void)run_self({"stop", "--json", "--cluster-file", file()});
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  BenchCluster(const BenchCluster&) = delete;
  BenchCluster& operator=(const BenchCluster&) = delete;

  std::string file() const { return (folder_ / "cluster.json").string(); }

  // The proportional set size of the daemons and of all that they started, in MiB.
  double memory_mib() const {
    std::map<pid_t, pid_t> parents;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream in(entry.path() / "stat");
      std::string line;
      std::getline(in, line);
      const auto after = line.rfind(')');  // the name before it may hold anything
      if (after == std::string::npos) continue;
      std::istringstream rest(line.substr(after + 1));
      char state = 0;
      pid_t parent = 0;
      if (rest >> state >> parent) parents[std::stoi(name)] = parent;
    }
    double kib = 0;
    for (const auto& [pid, parent] : parents) {
      pid_t at = pid;
      while (at > 1 && std::find(daemons_.begin(), daemons_.end(), at) == daemons_.end()) {
        const auto up = parents.find(at);
        at = up == parents.end() ? 0 : up->second;
      }
      if (at > 1) kib += pss_kib(pid);
    }
    return kib / 1024;
  }

 private:
  static double pss_kib(pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string word; in >> word;) {
      double kib = 0;
      if (word == "Pss:" && in >> kib) return kib;
    }
    return 0;
  }

  std::filesystem::path folder_;
  std::vector<pid_t> daemons_;
};

Line limit_line(const Limit& limit, double seconds) {
  Line line{"limit", limit.name, limit.unit, {}, kRounds, {}, {}};
  line.measure = [name = line.name, seconds] {
    return number_from(run_self({"bench-part", "--limit", name, "--seconds", std::to_string(seconds)}));
  };
  return line;
}

// What is measured, in the order of measuring: each limit before the rows that are set against it.
std::vector<Line> choose(const BenchOptions& options, std::optional<BenchCluster>& cluster) {
  std::optional<std::regex> wanted;
  if (!options.rows.empty()) wanted.emplace(options.rows, std::regex::ECMAScript);
  const auto chosen = [&](const char* name, bool named_only) {
    return wanted ? std::regex_search(name, *wanted) : !named_only;
  };
  const double seconds = options.seconds / kRounds;
  std::vector<Line> rows;
  if (chosen(kIdle, false)) {
    rows.push_back({"mobula", kIdle, "MiB", {}, 1, [&cluster] { return cluster->memory_mib(); }, {}});
  }
  for (const BenchRow& row : bench_rows()) {
    if (!chosen(row.name, row.named_only)) continue;
    const std::string limit = row.limit == nullptr ? "" : row.limit;
    rows.push_back(
        {"mobula", row.name, row.unit, limit, kRounds, [&row, seconds] { return row.measure(seconds); }, {}});
  }
  if (chosen(kStartUp, false)) {
    rows.push_back({"mobula",
                    kStartUp,
                    "s",
                    {},
                    kRounds,
                    [] {
                      return number_from(run_self({"bench-part", "--start-up"}));
                    },
                    {}});
  }
  std::vector<Line> lines;
  std::set<std::string> placed;
  const auto place = [&](const Limit* limit) {
    if (limit != nullptr && chosen(limit->name, false) && placed.insert(limit->name).second) {
      lines.push_back(limit_line(*limit, seconds));
    }
  };
  for (Line& row : rows) {
    place(find_limit(row.limit));
    lines.push_back(std::move(row));
  }
  for (const Limit& limit : limits()) place(&limit);
  return lines;
}

void print_line(const Line& line) {
  nlohmann::ordered_json out{{"peer", line.peer}, {"row", line.name}, {"value", line.value()}, {"unit", line.unit}};
  std::cout << out.dump() << std::endl;
}

void print_result(const std::vector<Line>& lines) {
  std::map<std::string, double> limits;
  for (const Line& line : lines) {
    if (line.peer == "limit") limits[line.name] = line.value();
  }
  std::printf("%-8s %-42s %14s  %-6s %s\n", "PEER", "ROW", "VALUE", "UNIT", "OF ITS LIMIT");
  for (const Line& line : lines) {
    std::string share;
    if (const auto limit = limits.find(line.limit); limit != limits.end() && limit->second > 0 && line.unit != "s") {
      char text[64];
      std::snprintf(text, sizeof text, "%.2f x %s", line.value() / limit->second, line.limit.c_str());
      share = text;
    }
    const int digits = line.value() >= 1000 ? 0 : line.value() >= 10 ? 1 : 4;
    std::printf("%-8s %-42s %14.*f  %-6s %s\n", line.peer.c_str(), line.name.c_str(), digits, line.value(),
                line.unit.c_str(), share.c_str());
  }
  std::fflush(stdout);
}

// All lines round after round, so that what slows the machine for a while slows a limit and its rows alike.
bool measure_all(std::vector<Line>& lines, bool json) {
  bool all = true;
  for (int round = 0; round < kRounds; ++round) {
    for (Line& line : lines) {
      if (round >= line.rounds) continue;
      try {
        const double value = line.measure();
        if (value > 0) line.samples.push_back(value);
      } catch (const Error& error) {
        std::cerr << "mobula bench: " << line.name << ": " << error.what() << std::endl;
      }
    }
  }
  for (const Line& line : lines) {
    if (line.samples.empty()) {
      std::cerr << "mobula bench: " << line.name << " could not be measured" << std::endl;
      all = false;
    } else if (json) {
      print_line(line);
    }
  }
  std::erase_if(lines, [](const Line& line) { return line.samples.empty(); });
  return all;
}

}  // namespace

int bench(const BenchOptions& options) {
  std::optional<BenchCluster> cluster;
  std::vector<Line> lines;
  try {
    lines = choose(options, cluster);
  } catch (const std::regex_error&) {
    std::cerr << "mobula bench: --rows takes an ECMAScript regular expression, which this is not: " << options.rows
              << std::endl;
    return kUsage;
  }
  if (lines.empty()) {
    std::cerr << "mobula bench: no row or limit matches " << options.rows << std::endl;
    return kNotFound;
  }
  bool all = false;
  try {
    const bool product = std::any_of(lines.begin(), lines.end(),
                                     [](const Line& line) { return line.peer == "mobula" && line.name != kStartUp; });
    if (product) {
      cluster.emplace();
      join_for_bench(cluster->file());
      if (std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.name == kIdle; })) {
        std::this_thread::sleep_for(kIdleAfter);
      }
    }
    all = measure_all(lines, options.json);
    leave_after_bench();
  } catch (const Error& error) {
    leave_after_bench();
    return report(error.info(), options.json);
  }
  if (!options.json) print_result(lines);
  return all ? kOk : kFailed;
}

int bench_part(const BenchPartOptions& options) {
  try {
    const Limit* limit = find_limit(options.limit);
    if (!options.start_up && limit == nullptr) return kNotFound;
    std::printf("%.9g\n", options.start_up ? start_up_once() : limit->measure(options.seconds));
    return kOk;
  } catch (const Error& error) {
    return report(error.info(), false);
  }
}

}  // namespace mobula::cli
