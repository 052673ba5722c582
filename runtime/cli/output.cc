#include "runtime/cli/output.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

namespace mobula::cli {

int exit_code_of(const ErrorInfo& error) {
  switch (error.kind) {
    case ErrorKind::kUnreachable:
    case ErrorKind::kTimeout: return kHeadUnreachable;
    case ErrorKind::kUnauthenticated: return kRefused;
    case ErrorKind::kObjectLost:
    case ErrorKind::kActorDied: return kNotFound;
    default: return kFailed;
  }
}

int report(const ErrorInfo& error, bool json) {
  if (json) {
    std::cout << nlohmann::json{{"error", error.message}, {"kind", name_of(error.kind)}}.dump() << std::endl;
  } else {
    std::cerr << "mobula: " << error.message << std::endl;
  }
  return exit_code_of(error);
}

int print_table(QueryReply reply, const TableOptions& options) {
  const auto column = [&](const std::string& name) {
    const auto found = std::find(reply.columns.begin(), reply.columns.end(), name);
    return static_cast<std::size_t>(found - reply.columns.begin());
  };
  for (const std::string& filter : options.filters) {
    const auto equals = filter.find('=');
    const std::size_t index = column(filter.substr(0, equals));
    if (equals == std::string::npos || index == reply.columns.size()) {
      std::cerr << "mobula: --filter takes COLUMN=VALUE; no such column in: " << filter << std::endl;
      return kUsage;
    }
    const std::string value = filter.substr(equals + 1);
    std::erase_if(reply.rows, [&](const auto& row) { return index >= row.size() || row[index] != value; });
  }
  if (!options.sort.empty()) {
    const std::size_t index = column(options.sort);
    if (index == reply.columns.size()) {
      std::cerr << "mobula: --sort: no column " << options.sort << std::endl;
      return kUsage;
    }
    std::stable_sort(reply.rows.begin(), reply.rows.end(),
                     [index](const auto& a, const auto& b) { return a[index] < b[index]; });
  }
  const std::size_t all = reply.rows.size();
  if (reply.rows.size() > options.limit) reply.rows.resize(options.limit);
  if (options.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& row : reply.rows) {
      nlohmann::json object = nlohmann::json::object();
      for (std::size_t i = 0; i < row.size() && i < reply.columns.size(); ++i) object[reply.columns[i]] = row[i];
      rows.push_back(std::move(object));
    }
    std::cout << nlohmann::json{{"rows", rows}, {"total", all}, {"notes", reply.notes}}.dump() << std::endl;
    return kOk;
  }
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < reply.columns.size(); ++i) {
    widths.push_back(reply.columns[i].size());
    for (const auto& row : reply.rows) {
      if (i < row.size()) widths[i] = std::max(widths[i], row[i].size());
    }
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    std::cout << line << "\n";
  };
  print_row(reply.columns);
  for (const auto& row : reply.rows) print_row(row);
  if (all > options.limit) std::cout << "... " << all - options.limit << " more: raise --limit\n";
  for (const std::string& note : reply.notes) std::cout << note << "\n";
  std::cout.flush();
  return kOk;
}

}  // namespace mobula::cli
