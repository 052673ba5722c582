#include "runtime/daemon/node_daemon.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "runtime/base/protocol/roles.h"
#include "runtime/base/rng.h"
#include "runtime/daemon/wall_clock.h"
#include "runtime/process/host_info.h"
#include "runtime/process/limits.h"

namespace mobula::daemon {
namespace {

constexpr Duration kProcessHelloTimeout = std::chrono::seconds(30);  // a worker's program may initialise for long
constexpr Duration kHeadRetryMax = std::chrono::seconds(1);
constexpr Duration kConnectTimeout = std::chrono::seconds(5);
constexpr Duration kSampleInterval = std::chrono::seconds(1);
constexpr Duration kDriverWait = std::chrono::seconds(30);  // for the driver that started us to join
constexpr std::size_t kToHeadMax = 100000;                  // messages kept while the head is away

net::HostPort to_host_port(const Endpoint& endpoint) {
  return {endpoint.host, endpoint.port};
}

// Messages of a process that its node's store answers.
bool is_for_store(const Message& message) {
  return std::holds_alternative<RequestSlab>(message) || std::holds_alternative<SealObject>(message) ||
         std::holds_alternative<ReturnSlab>(message) || std::holds_alternative<PinObject>(message) ||
         std::holds_alternative<UnpinObjects>(message) || std::holds_alternative<FreeObjects>(message);
}

}  // namespace

Result<std::unique_ptr<NodeDaemon>> NodeDaemon::start(net::Loop& loop, NodeDaemonConfig config) {
  std::unique_ptr<NodeDaemon> node(new NodeDaemon(loop, std::move(config)));
  if (Status status = node->open(); !status) return status.error();
  return node;
}

NodeDaemon::NodeDaemon(net::Loop& loop, NodeDaemonConfig config) : loop_(loop), config_(std::move(config)) {}

NodeDaemon::~NodeDaemon() {
  *alive_ = false;
  stopping_ = true;
  loop_.cancel(timer_);
  if (spawner_) spawner_->stop();
  const ErrorInfo why = make_error(ErrorKind::kUnreachable, "the node daemon has stopped");
  peers_.for_each([&](PeerLink& peer) {
    if (peer.link) peer.link->close(why);
  });
  if (head_) head_->close_when_flushed(why);
}

Status NodeDaemon::open() {
  process::become_subreaper();
  process::remove_stale_sessions();
  auto session = process::SessionDir::create(config_.cluster, config_.node);
  if (!session) return session.error();
  session_ = std::make_unique<process::SessionDir>(*std::move(session));
  log_dir_ = config_.log_dir.empty() ? session_->path() + "/logs" : config_.log_dir;
  std::error_code made;
  std::filesystem::create_directories(log_dir_, made);
  if (made) {
    return make_error(ErrorKind::kInvalid, "cannot make the log folder " + log_dir_ + ": " + made.message() +
                                               ". Name another with --log-dir.");
  }
  if (config_.listen) {
    net::AcceptHandlers handlers;
    handlers.lookup = net::cluster_key_lookup(config_.key, config_.key_epoch, {net::Role::kNode});
    handlers.on_link = [this](const net::Preamble& preamble, std::shared_ptr<net::Link> link) {
      accept_remote(preamble, std::move(link));
    };
    handlers.on_hand_over = [this](const net::Preamble& preamble, net::Fd socket, const std::string& from) {
      hand_over(preamble, std::move(socket), from);
    };
    handlers.log = [this](std::string_view line) { say(std::string(line)); };
    auto acceptor = net::Acceptor::listen(loop_, config_.listen_host, config_.ports, std::move(handlers));
    if (!acceptor) return acceptor.error();
    acceptor_ = *std::move(acceptor);
    endpoint_ = {config_.advertised_host.empty() ? config_.listen_host : config_.advertised_host, acceptor_->port()};
  }
  auto listener =
      net::UnixListener::listen(loop_, session_->node_socket(), nullptr,
                                [this](net::Fd socket, net::UnixPeer) { accept_process(std::move(socket)); });
  if (!listener) return listener.error();
  listener_ = *std::move(listener);

  scheduler::NodeConfig machine;
  machine.self.node = config_.node;
  machine.self.endpoint = endpoint_;
  const process::HostInfo host = process::host_info();
  machine.self.host_name = host.hostname;
  machine.self.pid = static_cast<std::uint64_t>(::getpid());
  machine.self.build = kBuild;
  machine.self.total = config_.total;
  machine.self.labels = config_.labels;
  machine.self.is_head_node = config_.is_head_node;
  machine.wall_offset_ms = wall_offset_ms();
  machine_ = std::make_unique<scheduler::Node>(machine, Rng(random_seed()), scheduler::NodeSnapshot{});
  open_store();
  if (Status status = open_logs_and_workers(); !status) return status;
  post(Tick{});
  settle();
  sample();
  if (config_.head.port != 0) connect_head();
  if (config_.driver_pid != 0) {
    loop_.call_after(kDriverWait, [this] { watch_driver(); });
  }
  process::NodeRecord record;
  record.cluster = config_.cluster;
  record.node = config_.node;
  record.pid = ::getpid();
  record.endpoint = net::to_string(to_host_port(endpoint_));
  record.head_endpoint = net::to_string(config_.head);
  record.version = kBuild;
  record.log_dir = log_dir_;
  record.private_cluster = !config_.listen;
  return session_->publish(record);
}

void NodeDaemon::say(std::string line) {
  if (config_.log) config_.log(std::move(line));
}

Hello NodeDaemon::hello() const {
  Hello hello;
  hello.role = Role::kNode;
  hello.from = Peer::of(config_.node);
  hello.cluster = config_.cluster;
  hello.pid = static_cast<std::uint64_t>(::getpid());
  hello.build = kBuild;
  return hello;
}

// A node that serves one driver has no reason to live without it.
void NodeDaemon::watch_driver() {
  if (!any_driver_ && config_.on_stop) {
    config_.on_stop(make_error(ErrorKind::kTimeout, "the driver that started this node never joined it"), false);
  }
}

// ---- the head
// ------------------------------------------------------------------------------------------------------------

void NodeDaemon::connect_head() {
  if (stopping_) return;
  const net::Leaf leaf =
      net::make_leaf(config_.key, net::Identity{config_.key_epoch, net::Role::kNode, {}, config_.node.value});
  const std::weak_ptr<bool> alive = alive_;
  net::connect(loop_, config_.head, leaf, net::Preamble{}, monotonic_now() + kConnectTimeout,
               [this, alive](Result<std::shared_ptr<net::Link>> link) {
                 if (!alive.lock()) return;
                 if (link) return head_link(*std::move(link));
                 if (head_retry_ <= std::chrono::milliseconds(100))
                   say("cannot reach the head: " + link.error().message);
                 if (link.error().kind == ErrorKind::kUnauthenticated && config_.on_stop) {
                   return config_.on_stop(link.error(), false);
                 }
                 head_retry_ = std::min(head_retry_ * 2, kHeadRetryMax);
                 loop_.call_after(head_retry_, [this, alive] {
                   if (alive.lock()) connect_head();
                 });
               });
}

void NodeDaemon::connect_head_local(std::shared_ptr<net::Link> link) {
  head_link(std::move(link));
}

void NodeDaemon::head_link(std::shared_ptr<net::Link> link) {
  head_ = link;
  auto introduced = std::make_shared<bool>(false);
  net::LinkHandlers handlers;
  handlers.on_frames = [this, link, introduced](std::span<net::Frame> frames) {
    std::vector<Envelope> envelopes;
    for (const net::Frame& frame : frames) {
      if (!decode_frame(*link, frame, envelopes)) break;
      for (Envelope& envelope : envelopes) {
        if (*introduced) {
          if (envelope.to.kind == PeerKind::kProcess) {
            route(envelope.to, std::move(envelope.message), Peer::head());
          } else if (!services_.handle || !services_.handle(Peer::head(), envelope.message)) {
            post(Received{Peer::head(), std::move(envelope.message)});
          }
          continue;
        }
        const auto* reply = std::get_if<HelloReply>(&envelope.message);
        if (reply == nullptr || reply->error) {
          const ErrorInfo why =
              reply != nullptr ? *reply->error : make_error(ErrorKind::kInvalid, "the head said no hello");
          say("the head refuses this node: " + why.message);
          link->close(why);
          if (config_.on_stop) config_.on_stop(why, false);
          return;
        }
        *introduced = true;
        head_joined_ = true;
        head_retry_ = std::chrono::milliseconds(100);
        Hello head;
        head.role = Role::kHead;
        head.from = Peer::head();
        post(PeerJoined{Peer::head(), head});
      }
    }
    settle();
    if (*introduced && on_registered_) std::exchange(on_registered_, nullptr)();
  };
  handlers.on_closed = [this, link](const ErrorInfo& why) { head_closed(link, why); };
  link->start(std::move(handlers));
  send_hello(*link, hello());
}

void NodeDaemon::head_closed(const std::shared_ptr<net::Link>& link, const ErrorInfo& why) {
  if (head_ != link || stopping_) return;
  head_.reset();
  if (std::exchange(head_joined_, false)) {
    say("lost the head: " + why.message);
    post(PeerLost{Peer::head(), why});
    settle();
  }
  if (config_.head.port == 0) {
    if (config_.on_stop) config_.on_stop(why, false);
    return;
  }
  const std::weak_ptr<bool> alive = alive_;
  loop_.call_after(head_retry_, [this, alive] {
    if (alive.lock()) connect_head();
  });
}

// ---- processes and other nodes
// -----------------------------------------------------------------------------------------------

void NodeDaemon::accept_process(net::Fd socket) {
  serve(net::Link::plain(loop_, std::move(socket), "a process of this machine"), {}, false);
}

void NodeDaemon::accept_remote(const net::Preamble& preamble, std::shared_ptr<net::Link> link) {
  if (preamble.target != config_.node.value) {
    link->start({});
    link->close(make_error(ErrorKind::kInvalid, "this is another node than the one that was asked for"));
    return;
  }
  if (preamble.kind == net::ConnectionKind::kTransfer) return transfer_server_->serve(std::move(link));
  serve(std::move(link), {}, true);
}

void NodeDaemon::hand_over(const net::Preamble& preamble, net::Fd socket, const std::string& from) {
  PeerLink* process = peers_.find(Peer::of(ProcessId{preamble.target}, config_.node));
  if (process == nullptr || !process->joined) {
    return net::refuse_socket(std::move(socket), net::RefusalCode::kUnknownTarget);
  }
  peers_.queue_with_descriptor(*process, Envelope{{}, {}, 0, 0, LinkAccepted{from}}, socket.get());
}

void NodeDaemon::serve(std::shared_ptr<net::Link> link, Peer expected, bool remote) {
  auto peer = std::make_shared<Peer>();
  net::LinkHandlers handlers;
  handlers.on_frames = [this, link, peer, remote](std::span<net::Frame> frames) {
    on_frames(link, *peer, remote, frames);
  };
  handlers.on_closed = [this, link, peer, expected](const ErrorInfo& why) {
    on_closed(link, peer->kind == PeerKind::kNone ? expected : *peer, why);
  };
  if (expected.kind == PeerKind::kNone) {
    const std::weak_ptr<net::Link> weak = link;
    loop_.call_after(kProcessHelloTimeout, [weak, peer] {
      if (const auto open = weak.lock(); open && peer->kind == PeerKind::kNone) {
        open->close(make_error(ErrorKind::kTimeout, "no hello came"));
      }
    });
  }
  link->start(std::move(handlers));
}

void NodeDaemon::on_frames(const std::shared_ptr<net::Link>& link, Peer& peer, bool remote,
                           std::span<net::Frame> frames) {
  std::vector<Envelope> envelopes;
  for (net::Frame& frame : frames) {
    if (!decode_frame(*link, frame, envelopes)) {
      say("closed " + link->peer() + ": it sent a frame that cannot be read");
      break;
    }
    for (Envelope& envelope : envelopes) {
      if (peer.kind != PeerKind::kNone) {
        PeerLink* from = peers_.find(peer);
        if (from == nullptr) return;
        receive(*from, std::move(envelope));
        continue;
      }
      if (const auto* reply = std::get_if<HelloReply>(&envelope.message)) {
        (void)reply;  // of a node that we connected to: its entry exists already
        continue;
      }
      const auto* said = std::get_if<Hello>(&envelope.message);
      if (said == nullptr || !introduce(link, peer, remote, *said, frame.descriptors)) {
        if (said == nullptr) link->close(make_error(ErrorKind::kInvalid, "the first message must be a hello"));
        return;
      }
    }
  }
  settle();
}

bool NodeDaemon::introduce(const std::shared_ptr<net::Link>& link, Peer& peer, bool remote, const Hello& said,
                           std::vector<net::Fd>& descriptors) {
  HelloReply reply;
  reply.from = Peer::of(config_.node);
  reply.cluster = config_.cluster;
  reply.build = kBuild;
  reply.node = config_.node;
  reply.endpoint = endpoint_;
  reply.error = check_protocol(said.protocol, said.build);
  const bool process = said.role == Role::kDriver || said.role == Role::kWorker;
  if (!reply.error && remote != (said.role == Role::kNode)) {
    reply.error = make_error(ErrorKind::kUnauthenticated, "such a peer may not connect here");
  }
  if (!reply.error && !remote && (!process || !said.from.process() || !said.job)) {
    reply.error = make_error(ErrorKind::kInvalid, "a process must introduce itself with its id and job");
  }
  if (!reply.error && remote && link->identity() && link->identity()->holder != said.from.id) {
    reply.error = make_error(ErrorKind::kUnauthenticated, "the node's id is not the one of its key");
  }
  if (reply.error) {
    send_hello_reply(*link, reply);
    link->close_when_flushed(*reply.error);
    return false;
  }
  peer = remote ? Peer::of(NodeId{said.from.id}) : Peer::of(said.from.process(), config_.node);
  PeerLink& entry = peers_.entry(peer);
  if (!entry.link || entry.link->closed())
    entry.link = link;  // nodes may connect to each other at once: either will do
  entry.peer = peer;
  entry.role = said.role;
  entry.job = said.job;
  entry.joined = true;
  if (process) {
    reply.session = session_->path();
    const net::Key key = net::process_link_key(config_.key, said.from.process());
    for (const std::byte byte : key.bytes()) reply.link_key.push_back(std::to_integer<std::uint8_t>(byte));
    reply.store_capacity = config_.total.store_memory;
    reply.node_cpus = static_cast<std::uint32_t>((config_.total.cpus.units + Quantity::kOne - 1) / Quantity::kOne);
    if (said.role == Role::kDriver) {
      any_driver_ = true;
      if (!descriptors.empty()) programs_->remember(said, process::Fd(descriptors.front().release()));
    }
  }
  send_hello_reply(*link, reply);
  Hello named = said;
  named.from = peer;
  post(PeerJoined{peer, named});
  peers_.flush_peer(entry);
  return true;
}

void NodeDaemon::on_closed(const std::shared_ptr<net::Link>& link, const Peer& peer, const ErrorInfo& why) {
  PeerLink* entry = peer.kind == PeerKind::kNone ? nullptr : peers_.find(peer);
  if (entry == nullptr || entry->link != link || stopping_) return;
  const bool driver = entry->role == Role::kDriver;
  peers_.erase(peer);
  post(PeerLost{peer, why});
  store_event(PeerLost{peer, why});
  if (peer.kind == PeerKind::kNode) transfer_client_->forget(NodeId{peer.id});
  settle();
  if (driver && config_.driver_pid != 0 && config_.on_stop) {
    config_.on_stop(make_error(ErrorKind::kRuntimeStopped, "its driver has ended"), false);
  }
}

// Opens the link to another node when it is first needed.
PeerLink* NodeDaemon::node_link(NodeId node) {
  const Peer peer = Peer::of(node);
  PeerLink* known = peers_.find(peer);
  if (known != nullptr) return known;
  const NodeDescription* description = machine_->find_node(node);
  if (description == nullptr) return nullptr;
  PeerLink& entry = peers_.entry(peer);
  entry.role = Role::kNode;
  const net::Leaf leaf =
      net::make_leaf(config_.key, net::Identity{config_.key_epoch, net::Role::kNode, {}, config_.node.value});
  net::Preamble preamble;
  preamble.target = node.value;
  const std::weak_ptr<bool> alive = alive_;
  net::connect(loop_, to_host_port(description->endpoint), leaf, preamble, monotonic_now() + kConnectTimeout,
               [this, alive, peer](Result<std::shared_ptr<net::Link>> link) {
                 if (!alive.lock()) return;
                 PeerLink* waiting = peers_.find(peer);
                 if (waiting == nullptr) return;
                 if (!link) {
                   if (waiting->link) return;  // it connected to us meanwhile
                   peers_.erase(peer);
                   post(PeerLost{peer, link.error()});
                   settle();
                   return;
                 }
                 if (!waiting->link) waiting->link = *link;
                 waiting->joined = true;
                 auto self = std::make_shared<Peer>(peer);
                 net::LinkHandlers handlers;
                 handlers.on_frames = [this, link = *link, self](std::span<net::Frame> frames) {
                   on_frames(link, *self, true, frames);
                 };
                 handlers.on_closed = [this, link = *link, self](const ErrorInfo& why) { on_closed(link, *self, why); };
                 (*link)->start(std::move(handlers));
                 send_hello(**link, hello());
                 Hello theirs;
                 theirs.role = Role::kNode;
                 theirs.from = peer;
                 post(PeerJoined{peer, theirs});
                 settle();
                 peers_.flush_peer(*peers_.find(peer));
               });
  return &entry;
}

// ---- messages
// --------------------------------------------------------------------------------------------------------------

void NodeDaemon::receive(PeerLink& from, Envelope envelope) {
  if (std::holds_alternative<HelloReply>(envelope.message)) return;
  const bool process = from.peer.kind == PeerKind::kProcess;
  if (!may_pass(from.role, from.peer, Receiver::kNode, envelope)) {
    const std::string why = std::string("a ") + net::name_of(from.role) + " may not send " + name_of(envelope.message);
    say("closed " + to_string(from.peer) + ": " + why);
    if (from.link) from.link->close(make_error(ErrorKind::kUnauthenticated, why));
    return;
  }
  if (!process) {
    Peer sender = from.peer;
    if (envelope.from.kind == PeerKind::kProcess) {
      sender = envelope.from;
      sender.node = NodeId{from.peer.id};
    }
    if (envelope.to.kind == PeerKind::kProcess) {
      route(Peer::of(envelope.to.process(), config_.node), std::move(envelope.message), sender);
    } else {
      receive_local(sender, std::move(envelope.message));
    }
    return;
  }
  const bool lease =
      std::holds_alternative<RequestLease>(envelope.message) || std::holds_alternative<ReturnLease>(envelope.message);
  const bool elsewhere = envelope.to.kind != PeerKind::kNone && envelope.to != Peer::of(config_.node);
  if (elsewhere && !lease) {
    route(envelope.to, std::move(envelope.message), from.peer);
  } else {
    receive_local(from.peer, std::move(envelope.message));
  }
}

void NodeDaemon::receive_local(const Peer& from, Message message) {
  if (is_for_store(message)) {
    store_event(Received{from, std::move(message)});
    return;
  }
  if (services_.handle && services_.handle(from, message)) return;
  if (auto* lines = std::get_if<LogLines>(&message)) return deliver_log_lines(std::move(*lines), {});
  if (const auto* read = std::get_if<ReadLog>(&message)) {
    // A worker asks for its own last lines, to attach them to an error.
    logs_->poll(monotonic_now());
    LogChunk chunk;
    chunk.request = read->request;
    chunk.bytes = Bytes::copy_of(logs_->tail(from.process()));
    chunk.end = true;
    route(from, std::move(chunk));
    return;
  }
  if (const auto* key = std::get_if<RequestLinkKey>(&message)) {
    const PeerLink* asker = peers_.find(from);
    if (asker == nullptr) return;
    LinkKeyGranted granted;
    granted.process = key->process;
    const net::Leaf leaf = net::make_link_leaf(net::process_link_key(config_.key, key->process), config_.key_epoch,
                                               asker->job, from.process());
    for (const std::byte byte : leaf.key.bytes()) granted.key.push_back(std::to_integer<std::uint8_t>(byte));
    route(from, std::move(granted));
    return;
  }
  post(Received{from, std::move(message)});
}

// Brings a message on its way; `from` is named to the receiver when it is not us.
void NodeDaemon::route(const Peer& to, Message message, const Peer& from) {
  Envelope envelope;
  envelope.from = from;
  envelope.epoch = machine_->epoch();
  if (to.kind == PeerKind::kHead) {
    envelope.message = std::move(message);
    if (!head_ || !head_joined_) {
      // What the machine itself says to the head it repeats when the head is back; what processes ask is kept.
      if (from.kind == PeerKind::kProcess && to_head_.size() < kToHeadMax) to_head_.push_back(std::move(envelope));
      return;
    }
    to_head_.push_back(std::move(envelope));
    return;
  }
  PeerLink* link = nullptr;
  if (to.kind == PeerKind::kProcess) {
    link = peers_.find(to);
    if (link == nullptr && to.node && to.node != config_.node) {
      link = node_link(to.node);
      envelope.to = to;
    }
  } else if (to.kind == PeerKind::kNode) {
    if (to.id == config_.node.value) {
      receive_local(from.kind == PeerKind::kNone ? Peer::of(config_.node) : from, std::move(message));
      return;
    }
    link = node_link(NodeId{to.id});
  }
  if (link == nullptr) return;  // gone: whoever waits probes or hears of it by the directory
  envelope.message = std::move(message);
  peers_.queue(*link, std::move(envelope));
}

// ---- the machine
// -------------------------------------------------------------------------------------------------------------

void NodeDaemon::settle() {
  if (settling_ || stopping_) return;
  settling_ = true;
  while (!events_.empty() || !store_events_.empty()) {
    settle_store();
    if (events_.empty()) continue;
    std::vector<scheduler::NodeEvent> events;
    events.swap(events_);
    machine_->step(monotonic_now(), events, actions_);
    scheduler::NodeActions actions;
    actions.swap(actions_);
    for (scheduler::NodeAction& action : actions) perform(action);
  }
  settling_ = false;
  flush_log_lines();
  if (head_ && head_joined_ && !to_head_.empty()) {
    PeerLink head;
    head.link = head_;
    head.joined = true;
    head.out = std::move(to_head_);
    to_head_.clear();
    peers_.flush_peer(head);
  }
  peers_.flush();
  arm_timer();
}

void NodeDaemon::perform(scheduler::NodeAction& action) {
  if (auto* send = std::get_if<Send>(&action)) {
    route(send->to, std::move(send->message));
  } else if (auto* spawn = std::get_if<scheduler::Spawn>(&action)) {
    perform_spawn(*spawn);
  } else if (auto* kill = std::get_if<scheduler::KillProcess>(&action)) {
    kill_process(kill->process, kill->why);
  } else if (auto* owned = std::get_if<scheduler::FreeOwned>(&action)) {
    store_event(objectstore::OwnerGone{owned->process});
  } else if (auto* job = std::get_if<scheduler::FreeJob>(&action)) {
    store_event(objectstore::JobGone{job->job});
  } else if (auto* driver = std::get_if<scheduler::StartDriverProcess>(&action)) {
    if (services_.start_driver) services_.start_driver(driver->job);
  } else if (auto* stop = std::get_if<scheduler::StopDriverProcess>(&action)) {
    if (services_.stop_driver) services_.stop_driver(stop->submission);
  } else if (auto* end = std::get_if<scheduler::StopNode>(&action)) {
    if (config_.on_stop) {
      loop_.post([this, alive = std::weak_ptr<bool>(alive_), why = end->why, restart = end->restart] {
        if (alive.lock()) config_.on_stop(why, restart);
      });
    }
  }
}

void NodeDaemon::arm_timer() {
  const Instant deadline = std::min(machine_->next_deadline(), store_->next_deadline());
  if (deadline == armed_) return;
  loop_.cancel(timer_);
  armed_ = deadline;
  if (deadline == Instant::never()) return;
  timer_ = loop_.call_at(deadline, [this] {
    armed_ = Instant::never();
    timer_ = net::TimerId::kNone;
    post(Tick{});
    store_event(Tick{});
    settle();
  });
}

void NodeDaemon::sample() {
  const Instant now = monotonic_now();
  scheduler::HostSampled sampled;
  sampled.store_used = store_->stats().used;
  if (last_sample_.nanoseconds != 0) {
    const Duration late = now - last_sample_ - kSampleInterval;
    sampled.loop_lag_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, late.count()));
  }
  const process::HostUse use = process::host_use();
  const std::uint64_t total = use.cpu_total_ticks - total_ticks_;
  if (total_ticks_ != 0 && total > 0) {
    sampled.load_permille = static_cast<std::uint32_t>(1000 * (use.cpu_busy_ticks - busy_ticks_) / total);
  }
  busy_ticks_ = use.cpu_busy_ticks;
  total_ticks_ = use.cpu_total_ticks;
  last_sample_ = now;
  post(sampled);
  settle();
  loop_.call_after(kSampleInterval, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.lock()) sample();
  });
}

}  // namespace mobula::daemon
