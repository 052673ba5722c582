// The commands of the binary: each does one thing and returns its exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/client.h"
#include "runtime/cli/output.h"
#include "runtime/daemon/daemon_main.h"

namespace mobula::cli {

struct StartOptions {
  daemon::DaemonOptions daemon;  // resources, addresses, folders
  std::vector<std::string> resources;
  std::vector<std::string> labels;
  std::string port;  // of the head
  bool head = false;
  bool block = false;
  bool json = false;
};
int start(const StartOptions& options);

struct StopOptions {
  ClusterOptions cluster;
  bool all = false;  // every cluster of this user on this machine
  bool json = false;
};
int stop(const StopOptions& options);

struct BenchOptions {
  std::string rows;    // regular expression; "": all that are quick
  double seconds = 3;  // of a row, all rounds together
  bool json = false;
};
int bench(const BenchOptions& options);
// One measurement that needs a process of its own, for bench(): prints a number.
struct BenchPartOptions {
  std::string limit;
  double seconds = 1;
  bool start_up = false;
};
int bench_part(const BenchPartOptions& options);

int status(const ClusterOptions& cluster, bool json);
int list(const ClusterOptions& cluster, const std::string& what, const TableOptions& options);
int explain(const ClusterOptions& cluster, const std::string& id, bool json);
int kill(const ClusterOptions& cluster, const std::string& id, bool json);
int make_key(const ClusterOptions& cluster, const std::string& role, const std::string& out, bool json);
int doctor(const ClusterOptions& cluster, bool json);

}  // namespace mobula::cli
