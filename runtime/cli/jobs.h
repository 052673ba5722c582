// Submitted jobs and logs, from the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/client.h"

namespace CLI {
class App;
}

namespace mobula::cli {

struct SubmitOptions {
  ClusterOptions cluster;
  std::string working_dir;
  std::vector<std::string> environment;  // NAME=VALUE
  std::vector<std::string> exclude;      // globs
  double cpus = 0;
  std::uint64_t memory = 0;  // bytes
  bool no_wait = false;
  bool json = false;
  std::vector<std::string> command;
};
int submit(const SubmitOptions& options);

struct JobOptions {
  ClusterOptions cluster;
  std::string id;                 // of a submission, or of the job that it became
  std::optional<double> timeout;  // seconds; wait
  bool json = false;
};
int job_status(const JobOptions& options);
int job_wait(const JobOptions& options);
int job_stop(const JobOptions& options);

struct LogOptions {
  ClusterOptions cluster;
  std::string id;
  std::optional<std::size_t> tail;  // lines
  bool follow = false;
  bool json = false;
};
int logs(const LogOptions& options);

// `submit`, `job ...` and `logs` with all they take; the command that is run leaves its exit code in `code`.
void add_job_commands(CLI::App& app, int& code);
// --address and --cluster-file.
void add_cluster_options(CLI::App* app, ClusterOptions& cluster);

}  // namespace mobula::cli
