// Submitted drivers on a node: their files are fetched from the head, their process is started, watched and ended, and
// what they print is kept.
//
// A driver leads a session of its own, in a private folder that goes with it. It joins this node through its socket and
// holds a client leaf, never the cluster key. It ends with its node daemon: when the daemon stops it is told to, when
// the daemon is killed the kernel kills it; the head then says that its node is gone. What it printed outlives both.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "runtime/daemon/node_daemon.h"
#include "runtime/process/content_store.h"
#include "runtime/process/log_capture.h"
#include "runtime/process/pid_watch.h"

namespace mobula::daemon {

class NodeDrivers {
 public:
  static Result<std::unique_ptr<NodeDrivers>> open(NodeDaemon& node);
  ~NodeDrivers();  // ends them
  NodeDrivers(const NodeDrivers&) = delete;
  NodeDrivers& operator=(const NodeDrivers&) = delete;

  void start(const SubmitJob& job);
  void stop(const std::string& submission);
  bool handle(const Message& message);  // a ContentChunk
  bool running(const std::string& submission) const { return drivers_.contains(submission); }
  std::string log_path(const std::string& submission) const { return node_.log_dir() + "/" + submission + ".log"; }

 private:
  struct Driver {
    SubmitJob job;
    std::string folder;
    process::PidWatch process;
    std::unique_ptr<net::Watch> end;
    process::Fd output;  // our end of its pipe
    std::unique_ptr<net::Watch> output_watch;
    process::Fd report;  // says why it could not be started
    std::optional<process::RotatingFile> log;
    std::unique_ptr<process::LineCollector> lines;
    bool stopping = false;
  };
  struct Fetch {
    RequestId request;
    std::uint64_t have = 0;
    Instant asked{};
    Instant progress{};
  };
  NodeDrivers(NodeDaemon& node, process::ContentStore store) : node_(node), store_(std::move(store)) {}
  Status prepare(Driver& driver);
  void fetch(const std::string& hash);
  void ask(const std::string& hash);
  void fetch_failed(const std::string& hash, const std::string& why);
  void watch_fetches();
  void launch(const std::string& submission);
  Result<pid_t> spawn(Driver& driver);
  Status write_leaf(const std::string& path) const;
  bool read_output(Driver& driver, std::size_t bytes_max);
  void on_end(const std::string& submission);
  void finish(const std::string& submission, std::int32_t exit_code, std::string message);
  void remove_later(std::string folder);

  NodeDaemon& node_;
  process::ContentStore store_;
  std::map<std::string, Driver> drivers_;  // not ended; bounded by kDriversMax
  std::map<std::string, Fetch> fetches_;   // by hash; bounded by drivers_
  std::uint64_t next_request_ = 0;
  bool watching_ = false;
  std::deque<std::jthread> removals_;  // bounded by kRemovalsMax
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::daemon
