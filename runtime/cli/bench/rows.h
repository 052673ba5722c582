// What `mobula bench` measures of the running product: programs of the public API, as a user would write them.
#pragma once

#include <span>
#include <string>

namespace mobula::cli {

struct BenchRow {
  const char* name;
  const char* unit;
  const char* limit;  // the limit of the machine that it is set against, measured right before; may be null
  bool named_only;    // takes over 5 s: only when --rows names it
  double (*measure)(double seconds);
};

// They share one cluster and one Runtime, which exist while they run.
std::span<const BenchRow> bench_rows();

// Of a process that has no Runtime yet: from init of a private cluster to the first result, in seconds.
double start_up_once();

// Joins the cluster of `cluster_file` for the rows; leave() before its daemons are stopped.
void join_for_bench(const std::string& cluster_file);
void leave_after_bench();

}  // namespace mobula::cli
