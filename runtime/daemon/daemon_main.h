// Wiring: what one daemon process is made of. See "Processes" in ARCHITECTURE.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace mobula::daemon {

struct DaemonOptions {
  enum class Kind : std::uint8_t { kNode, kHead, kPrivate };
  Kind kind = Kind::kNode;
  std::string cluster_file;     // head and node
  std::string address;          // of the head, when not the file's
  std::string node_ip_address;  // where to listen; "": loopback (a node: the address it reaches the head from)
  std::string advertise;        // what others are told instead
  std::string port_range;       // "A-B" or "P"; "": chosen by the kernel
  std::string store;            // head: folder
  std::optional<double> cpus;
  std::optional<double> gpus;
  std::optional<std::uint64_t> memory;               // bytes
  std::optional<std::uint64_t> object_store_memory;  // bytes
  std::vector<std::pair<std::string, double>> resources;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string log_dir;
  std::string spill_dir;
  std::int32_t driver_pid = 0;  // ends with that driver
  bool is_head_node = false;
  bool insecure = false;
  int ready_fd = -1;  // announces readiness or failure there
};

// Runs the daemon until it is told to stop; the result is the exit status.
int run_daemon(const DaemonOptions& options);

}  // namespace mobula::daemon
