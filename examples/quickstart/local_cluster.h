// A cluster of its own on this machine: a head with a node beside it, and more nodes, all started with the `mobula`
// command, exactly as one would type it. What it started is stopped when it ends, also after errors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quickstart {

class LocalCluster {
 public:
  // Throws std::runtime_error, with what the command said, when something does not start.
  LocalCluster(int nodes, int cpus_each);
  ~LocalCluster();
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  const std::filesystem::path& cluster_file() const { return cluster_file_; }

 private:
  void stop() noexcept;

  std::string mobula_;            // the command
  std::filesystem::path folder_;  // private, gone at the end
  std::filesystem::path cluster_file_;
};

}  // namespace quickstart
