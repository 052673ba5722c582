// The links of one process: to its node's daemon, and directly to the processes it calls or is called by.
//
// The engine's sends are appended here in order, under the runtime's lock; encoding and writing happen afterwards,
// outside it, by one thread per channel at a time. A burst of small messages to one peer is held back for a moment so
// that it leaves as one frame; whoever is about to wait flushes everything first, so a synchronous call never pays for
// that.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/machine.h"
#include "runtime/net/cluster_file.h"
#include "runtime/net/connector.h"
#include "runtime/net/link.h"
#include "runtime/net/loop.h"
#include "runtime/net/unix.h"

namespace mobula::core {

// What a process learned from its node's HelloReply.
struct NodeContext {
  ProcessAddress self;
  Role role = Role::kDriver;
  ClusterId cluster;
  std::string session;
  std::string node_address;          // "host:port" of the node's daemon
  std::optional<net::Key> link_key;  // of links to this process
  std::uint64_t store_capacity = 0;
  std::uint32_t node_cpus = 1;
};

class PeerLinks {
 public:
  struct Handlers {
    // Envelopes of one wake-up from one peer, in order. A frame with descriptors is handed over with them.
    std::function<void(const Peer& from, std::vector<Envelope>& envelopes, std::vector<net::Fd>& descriptors)> received;
    std::function<void(const Peer& peer, const Hello& hello)> joined;
    std::function<void(const Peer& peer, const ErrorInfo& why)> lost;
    // The node's daemon is gone: the process cannot go on.
    std::function<void(const ErrorInfo& why)> node_lost;
  };

  PeerLinks(net::Loop& loop, Handlers handlers);
  ~PeerLinks();
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  // Says Hello over a connected Unix socket to the daemon, waits for its reply (in this thread) and starts to listen
  // for other processes. `executable`: a descriptor that goes along with a driver's hello, or -1.
  Result<NodeContext> join(net::Fd socket, const Hello& hello, int executable, Instant deadline);

  // Where other processes connect. A worker listens before it says hello: then whoever is told of it finds it.
  Status listen(const std::string& session, ProcessId self);
  // What arrived since the hello is delivered from now on. Once, after join.
  void begin();

  const NodeContext& context() const { return context_; }

  // Appends, in order per peer. Cheap; any thread.
  void queue(Send send);
  // `urgent`: everything that is queued leaves now. Otherwise what would be one more tiny frame to a busy peer may
  // wait.
  void flush(bool urgent);
  // Closes all; what is queued to the daemon is written first.
  void close();
  // Closed, and nothing for the daemon is left in our buffers.
  bool drained() const;

  // For messages that the runtime handles itself.
  void on_node_resolved(const NodeResolved& message);
  void on_link_key(const LinkKeyGranted& message);
  void adopt(net::Fd socket, const std::string& from);

 private:
  struct Channel;
  using ChannelPtr = std::shared_ptr<Channel>;

  ChannelPtr channel_of(const Peer& peer);
  void open(const ChannelPtr& channel);
  void connect_remote(const ChannelPtr& channel, const Endpoint& endpoint);
  void attach(const ChannelPtr& channel, std::shared_ptr<net::Link> link, bool say_hello);
  void accept(std::shared_ptr<net::Link> link);
  void on_frames(const ChannelPtr& channel, const std::shared_ptr<net::Link>& link, std::span<net::Frame> frames);
  void on_closed(const ChannelPtr& channel, const std::shared_ptr<net::Link>& link, const ErrorInfo& why);
  void fail(const ChannelPtr& channel, const ErrorInfo& why);
  bool flush_channel(Channel& channel);
  void arm_flush();
  Hello hello() const;

  net::Loop& loop_;
  Handlers handlers_;
  NodeContext context_;
  Hello own_hello_;
  std::unique_ptr<net::UnixListener> listener_;
  std::vector<net::Frame> early_;  // from the daemon, before begin()
  bool begun_ = false;

  mutable std::mutex mutex_;  // channels and their queues
  ChannelPtr node_;
  std::unordered_map<std::uint64_t, ChannelPtr> processes_;  // by process id
  std::vector<ChannelPtr> dirty_;
  std::map<NodeId, std::vector<ChannelPtr>> resolving_;  // waiting for a node's endpoint
  std::map<NodeId, Endpoint> endpoints_;                 // bounded by the nodes of the cluster
  bool flush_armed_ = false;
  bool closed_ = false;
};

}  // namespace mobula::core
