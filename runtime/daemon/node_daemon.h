// A node: the thin driver around scheduler::Node and objectstore::Store. It owns the sockets, the worker processes, the
// shared memory and the logs of one node; it decides nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "objectstore/io/arena.h"
#include "objectstore/io/transfer.h"
#include "objectstore/store.h"
#include "runtime/daemon/peer_table.h"
#include "runtime/daemon/programs.h"
#include "runtime/net/acceptor.h"
#include "runtime/net/cluster_file.h"
#include "runtime/net/connector.h"
#include "runtime/net/unix.h"
#include "runtime/net/watch.h"
#include "runtime/process/log_capture.h"
#include "runtime/process/session_dir.h"
#include "runtime/process/spawner.h"
#include "scheduler/node.h"

namespace mobula::daemon {

struct NodeDaemonConfig {
  ClusterId cluster;
  net::Key key = net::Key::random();
  std::uint32_t key_epoch = 1;
  NodeId node;
  net::HostPort head;  // unused with connect_head_local
  std::string listen_host = "127.0.0.1";
  std::string advertised_host;  // "": listen_host
  net::PortRange ports;
  bool listen = true;  // false: a private cluster
  NodeResources total;
  Labels labels;
  std::string log_dir;  // "": <session>/logs, gone with the node
  bool is_head_node = false;
  std::int32_t driver_pid = 0;  // it ends with that driver
  std::function<void(std::string line)> log;
  std::function<void(const ErrorInfo& why, bool restart)> on_stop;
};

// Extensions that answer some messages themselves: submitted jobs, content, logs. Each may be empty.
struct NodeServices {
  std::function<bool(const Peer& from, const Message& message)> handle;
  std::function<void(const SubmitJob& job)> start_driver;
  std::function<void(const std::string& submission)> stop_driver;
};

class NodeDaemon {
 public:
  static Result<std::unique_ptr<NodeDaemon>> start(net::Loop& loop, NodeDaemonConfig config);
  ~NodeDaemon();
  NodeDaemon(const NodeDaemon&) = delete;
  NodeDaemon& operator=(const NodeDaemon&) = delete;

  // The head in this process, instead of a connection.
  void connect_head_local(std::shared_ptr<net::Link> link);

  Endpoint endpoint() const { return endpoint_; }
  const process::SessionDir& session() const { return *session_; }
  const std::string& log_dir() const { return log_dir_; }
  bool registered() const { return head_joined_; }
  void set_on_registered(std::function<void()> fn) { on_registered_ = std::move(fn); }

  // ---- for services ----
  void set_services(NodeServices services) { services_ = std::move(services); }
  void post(scheduler::NodeEvent event) { events_.push_back(std::move(event)); }
  void settle();
  void route(const Peer& to, Message message, const Peer& from = {});
  net::Loop& loop() { return loop_; }
  const NodeDaemonConfig& config() const { return config_; }
  objectstore::TransferClient& transfers() { return *transfer_client_; }
  bool has_worker(ProcessId process) const { return workers_.contains(process); }
  std::string log_tail(ProcessId process) const { return logs_->tail(process); }

 private:
  NodeDaemon(net::Loop& loop, NodeDaemonConfig config);
  Status open();
  Status open_logs_and_workers();

  // node_daemon.cc: links and routing
  void connect_head();
  void head_link(std::shared_ptr<net::Link> link);
  void head_closed(const std::shared_ptr<net::Link>& link, const ErrorInfo& why);
  void accept_process(net::Fd socket);
  void serve(std::shared_ptr<net::Link> link, Peer expected, bool remote);
  void on_frames(const std::shared_ptr<net::Link>& link, Peer& peer, bool remote, std::span<net::Frame> frames);
  bool introduce(const std::shared_ptr<net::Link>& link, Peer& peer, bool remote, const Hello& hello,
                 std::vector<net::Fd>& descriptors);
  void on_closed(const std::shared_ptr<net::Link>& link, const Peer& peer, const ErrorInfo& why);
  void receive(PeerLink& from, Envelope envelope);
  void receive_local(const Peer& from, Message message);
  void accept_remote(const net::Preamble& preamble, std::shared_ptr<net::Link> link);
  void hand_over(const net::Preamble& preamble, net::Fd socket, const std::string& from);
  PeerLink* node_link(NodeId node);
  void perform(scheduler::NodeAction& action);
  void arm_timer();
  void sample();
  void watch_driver();
  void say(std::string line);
  Hello hello() const;

  // node_workers.cc: processes and what they print
  void perform_spawn(const scheduler::Spawn& spawn);
  void start_worker(const scheduler::Spawn& spawn, const process::Executable& executable);
  void kill_process(ProcessId process, const std::string& why);
  void poll_spawner();
  void worker_exited(const process::WorkerExited& event);
  void on_log_line(ProcessId process, process::Stream stream, std::string_view line);
  void flush_log_lines();
  void deliver_log_lines(LogLines lines, NodeId origin);

  // node_store.cc: shared memory and transfers
  void open_store();
  void store_event(objectstore::StoreEvent event);
  void settle_store();
  void perform_store(objectstore::StoreAction& action);
  void send_store_reply(Send& send);
  void look_up(ObjectId object, std::function<void(std::optional<objectstore::ReadView>)> done);

  net::Loop& loop_;
  NodeDaemonConfig config_;
  Endpoint endpoint_;
  std::string log_dir_;
  NodeServices services_;
  std::function<void()> on_registered_;

  std::unique_ptr<process::SessionDir> session_;
  std::unique_ptr<net::FolderLock> lock_;
  std::unique_ptr<net::UnixListener> listener_;
  std::unique_ptr<net::Acceptor> acceptor_;
  PeerTable peers_;
  std::shared_ptr<net::Link> head_;
  bool head_joined_ = false;
  Duration head_retry_ = std::chrono::milliseconds(100);
  std::vector<Envelope> to_head_;  // while the head is away; bounded
  bool any_driver_ = false;
  bool stopping_ = false;

  std::unique_ptr<scheduler::Node> machine_;
  std::vector<scheduler::NodeEvent> events_;
  scheduler::NodeActions actions_;
  bool settling_ = false;
  net::TimerId timer_ = net::TimerId::kNone;
  Instant armed_ = Instant::never();
  Instant last_sample_;
  std::uint64_t busy_ticks_ = 0;
  std::uint64_t total_ticks_ = 0;

  struct Worker {
    scheduler::Spawn spawn;
    net::Fd control;  // our end, until the worker is released
    std::uint64_t pid = 0;
    bool killed = false;
    std::string kill_reason;
    std::vector<std::string> lines[2];  // to the driver at the end of the turn
    std::uint64_t dropped = 0;
  };
  std::map<ProcessId, Worker> workers_;
  std::unique_ptr<process::Spawner> spawner_;
  std::unique_ptr<net::Watch> spawner_watch_;
  std::unique_ptr<process::LogHub> logs_;
  std::unique_ptr<net::Watch> logs_watch_;
  bool lines_waiting_ = false;

  std::unique_ptr<objectstore::Arena> arena_;
  std::unique_ptr<objectstore::Store> store_;
  std::vector<objectstore::StoreEvent> store_events_;
  objectstore::StoreActions store_actions_;
  std::unique_ptr<objectstore::TransferServer> transfer_server_;
  std::unique_ptr<objectstore::TransferClient> transfer_client_;
  std::unique_ptr<Programs> programs_;
  std::map<std::uint64_t, std::function<void(std::optional<objectstore::ReadView>)>> lookups_;
  std::uint64_t next_lookup_ = 1;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mobula::daemon
