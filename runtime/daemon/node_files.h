// What a node does beside its machine for people: submitted drivers, and the logs of all that ran here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/daemon/log_files.h"
#include "runtime/daemon/node_drivers.h"

namespace mobula::daemon {

class NodeFiles {
 public:
  // Takes over the services of `node`, which must outlive it.
  static Result<std::unique_ptr<NodeFiles>> open(NodeDaemon& node);
  ~NodeFiles();
  NodeFiles(const NodeFiles&) = delete;
  NodeFiles& operator=(const NodeFiles&) = delete;

 private:
  NodeFiles(NodeDaemon& node, std::unique_ptr<NodeDrivers> drivers) : node_(node), drivers_(std::move(drivers)) {}
  bool handle(const Peer& from, const Message& message);

  // Somebody who waits for more of a log.
  struct Follower {
    ReadLog read;
    Instant until{};
  };
  // False when there is nothing to say yet.
  bool answer(const ReadLog& read, bool hold);
  Result<process::LogPiece> read(const ReadLog& read, bool& ended) const;
  void look_again();
  void prune();

  NodeDaemon& node_;
  std::unique_ptr<NodeDrivers> drivers_;
  std::vector<Follower> followers_;  // bounded by kFollowersMax
  bool looking_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::daemon
