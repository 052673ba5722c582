// The first messages on every link, after it is authenticated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mobula/error.h>
#include <mobula/ids.h>

#include "runtime/base/protocol/peer.h"

namespace mobula {

inline constexpr std::uint32_t kProtocolMajor = 1;

// What the connecting side is. Which messages it may then send is in protocol/roles.h.
enum class Role : std::uint8_t {
  kHead = 0,
  kNode = 1,
  kDriver = 2,  // a process that submits a job
  kWorker = 3,  // a process started by a node daemon
  kClient = 4,  // the command line
  kViewer = 5,  // the command line, read only
};

struct Hello {
  std::uint32_t protocol = kProtocolMajor;
  Role role = Role::kClient;
  Peer from;          // who it is
  ClusterId cluster;  // zero: "whatever you are"
  JobId job;          // drivers and workers
  std::uint64_t pid = 0;
  std::string build;                  // version text
  std::vector<std::string> features;  // named abilities, sorted
  std::string executable;             // drivers: the program's identity, of executable and private libraries
  std::string executable_path;        // drivers: for people
  std::string name;                   // drivers: job name; nodes: host name
  bool log_to_driver = true;
  std::vector<std::string> libraries;  // drivers: what it loaded, a line each (process/libraries.h)
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct HelloReply {
  std::uint32_t protocol = kProtocolMajor;
  std::optional<ErrorInfo> error;  // refused: the link closes after this
  Peer from;
  ClusterId cluster;
  std::uint64_t epoch = 0;  // of the head, as far as known
  std::string build;
  std::vector<std::string> features;
  NodeId node;                         // processes: the node they are on
  Endpoint endpoint;                   // of the answering daemon
  std::string session;                 // processes: the node's session folder
  std::vector<std::uint8_t> link_key;  // processes: the 32-byte key of links to it
  std::uint64_t store_capacity = 0;    // bytes
  std::uint32_t node_cpus = 0;         // whole CPUs of the node, rounded up
  friend bool operator==(const HelloReply&, const HelloReply&) = default;
};

}  // namespace mobula
