// The head: a thin driver around scheduler::Head. It owns the port, the links of nodes and clients, and the store; it
// decides nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/daemon/peer_table.h"
#include "runtime/net/acceptor.h"
#include "runtime/net/cluster_file.h"
#include "runtime/storage/record_store.h"
#include "scheduler/head.h"

namespace mobula::daemon {

struct HeadDaemonConfig {
  ClusterId cluster;
  net::Key key = net::Key::random();
  std::uint32_t key_epoch = 1;
  std::string listen_host = "127.0.0.1";
  net::PortRange ports;
  std::string advertised_host;  // "": listen_host
  bool listen = true;           // false: a private cluster, whose node comes by connect_local
  std::function<void(std::string line)> log;
  // The head ends: last sends are out.
  std::function<void(std::string why)> on_stop;
};

// Requests that are answered by the driver, not by the machine: shipped content and logs. May be empty.
struct HeadServices {
  // True when it took the message; answers go through `reply`.
  std::function<bool(const Peer& from, const Message& message)> handle;
};

class HeadDaemon {
 public:
  // `store` must not have been loaded yet.
  static Result<std::unique_ptr<HeadDaemon>> start(net::Loop& loop, HeadDaemonConfig config,
                                                   std::unique_ptr<storage::RecordStore> store);
  ~HeadDaemon();
  HeadDaemon(const HeadDaemon&) = delete;
  HeadDaemon& operator=(const HeadDaemon&) = delete;

  // Where nodes reach it.
  Endpoint endpoint() const { return advertised_; }
  // The other end of a link inside this process.
  void connect_local(std::shared_ptr<net::Link> link);

  // ---- for services ----
  void set_services(HeadServices services) { services_ = std::move(services); }
  void send(const Peer& to, Message message);  // no persistence to wait for
  const scheduler::Head& machine() const { return *machine_; }
  void flush() { peers_.flush(); }

 private:
  HeadDaemon(net::Loop& loop, HeadDaemonConfig config, std::unique_ptr<storage::RecordStore> store);
  Status open();
  void accept(const net::Preamble& preamble, std::shared_ptr<net::Link> link);
  void serve(std::shared_ptr<net::Link> link, Role role);
  void on_frames(const std::shared_ptr<net::Link>& link, Peer& peer, Role role, std::span<net::Frame> frames);
  bool introduce(const std::shared_ptr<net::Link>& link, Peer& peer, Role role, const Envelope& envelope);
  void on_closed(const std::shared_ptr<net::Link>& link, const Peer& peer, const ErrorInfo& why);
  void receive(PeerLink& from, Role role, Envelope envelope);
  void post(scheduler::HeadEvent event);
  void settle();
  void perform(scheduler::HeadAction& action);
  void deliver(const Peer& to, Message message);
  void release_held();
  void arm_timer();
  void say(std::string line);

  net::Loop& loop_;
  HeadDaemonConfig config_;
  std::unique_ptr<storage::RecordStore> store_;
  std::unique_ptr<net::Acceptor> acceptor_;
  Endpoint listen_;
  Endpoint advertised_;
  std::unique_ptr<scheduler::Head> machine_;
  HeadServices services_;
  PeerTable peers_;
  std::uint64_t next_client_ = 1;

  std::vector<scheduler::HeadEvent> events_;
  scheduler::HeadActions actions_;
  bool settling_ = false;
  // Sends that wait for a write, in order; later ones to the same peer wait behind them.
  std::map<Peer, std::deque<Send>> held_;
  std::uint64_t persisted_ = 0;
  net::TimerId timer_ = net::TimerId::kNone;
  Instant armed_ = Instant::never();
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for callbacks of the writer thread
};

}  // namespace mobula::daemon
