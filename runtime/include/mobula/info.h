// What a program can ask about itself and its cluster, as plain data. See current() and nodes().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mobula/ids.h>

namespace mobula {

// A GPU, or a share of one, that this task or actor holds.
struct AssignedDevice {
  std::string uuid{};
  double share = 0;          // 1: the whole device
  std::uint64_t memory = 0;  // bytes of it
};

// Where the calling thread's code runs and what it was given.
struct Current {
  JobId job{};
  NodeId node{};
  ProcessId process{};
  TaskId task{};              // zero in a driver
  ActorId actor{};            // zero outside actors
  std::uint32_t attempt = 0;  // 0: the first try
  std::string task_name{};
  std::string node_address{};
  double cpus = 0;
  std::uint64_t memory = 0;
  std::vector<AssignedDevice> devices{};
  std::vector<std::pair<std::string, double>> custom{};
  bool cancelled = false;  // somebody asked this task to stop: return early
  bool restarted = false;  // this actor has been made again after a death
};

// A node of the cluster, as the head last heard of it.
struct NodeInfo {
  NodeId id{};
  std::string address{};
  bool alive = true;
  double cpus = 0;
  double cpus_free = 0;
  std::uint64_t memory = 0;
  double gpus = 0;
  std::vector<std::pair<std::string, std::string>> labels{};
};

}  // namespace mobula
