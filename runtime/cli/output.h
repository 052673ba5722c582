// What commands print: aligned tables for people, JSON for programs; and what they exit with.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/protocol/cluster.h"
#include "runtime/base/result.h"

namespace mobula::cli {

// Documented in `mobula --help`.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kHeadUnreachable = 3,
  kRefused = 4,
  kNotFound = 5,
  kStopped = 6,   // the job was stopped
  kNotEnded = 7,  // the job has not ended in time
};

int exit_code_of(const ErrorInfo& error);
// "mobula: ..." on the error stream, or {"error": ...} with `json`; returns the exit code.
int report(const ErrorInfo& error, bool json);

struct TableOptions {
  std::vector<std::string> filters;  // k=v
  std::string sort;                  // column
  std::size_t limit = 100;
  bool json = false;
};
// Filters, sorts and cuts the rows, then prints them. Usage error for an unknown column.
int print_table(QueryReply reply, const TableOptions& options);

}  // namespace mobula::cli
