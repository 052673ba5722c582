#include "runtime/daemon/head_daemon.h"

#include <chrono>
#include <utility>

#include "runtime/base/protocol/roles.h"
#include "runtime/base/rng.h"
#include "runtime/daemon/wall_clock.h"

namespace mobula::daemon {
namespace {

constexpr Duration kPeerHelloTimeout = std::chrono::seconds(5);

}  // namespace

Result<std::unique_ptr<HeadDaemon>> HeadDaemon::start(net::Loop& loop, HeadDaemonConfig config,
                                                      std::unique_ptr<storage::RecordStore> store) {
  std::unique_ptr<HeadDaemon> head(new HeadDaemon(loop, std::move(config), std::move(store)));
  if (Status status = head->open(); !status) return status.error();
  return head;
}

HeadDaemon::HeadDaemon(net::Loop& loop, HeadDaemonConfig config, std::unique_ptr<storage::RecordStore> store)
    : loop_(loop), config_(std::move(config)), store_(std::move(store)) {}

HeadDaemon::~HeadDaemon() {
  *alive_ = false;
  loop_.cancel(timer_);
  peers_.for_each([](PeerLink& peer) {
    if (peer.link) peer.link->close_when_flushed(make_error(ErrorKind::kUnreachable, "the head has stopped"));
  });
}

Status HeadDaemon::open() {
  auto records = store_->load();
  if (!records) return records.error();
  net::PortRange ports = config_.ports;
  for (const Record& record : *records) {
    const auto* known = std::get_if<ClusterRecord>(&record);
    if (known == nullptr) continue;
    if (known->cluster != config_.cluster) {
      return make_error(ErrorKind::kInvalid, "this store belongs to cluster " + to_string(known->cluster) +
                                                 ", the cluster file to " + to_string(config_.cluster) +
                                                 ". Use the files that belong together, or name another --store.");
    }
    // The address is taken again, so that nodes and drivers find a restarted head.
    if (ports.first == 0 && known->listen.port != 0) ports = {known->listen.port, known->listen.port};
  }
  if (config_.listen) {
    net::AcceptHandlers handlers;
    handlers.lookup = net::cluster_key_lookup(
        config_.key, config_.key_epoch, {net::Role::kNode, net::Role::kDriver, net::Role::kClient, net::Role::kViewer});
    handlers.on_link = [this](const net::Preamble& preamble, std::shared_ptr<net::Link> link) {
      accept(preamble, std::move(link));
    };
    handlers.log = [this](std::string_view line) { say(std::string(line)); };
    auto acceptor = net::Acceptor::listen(loop_, config_.listen_host, ports, std::move(handlers));
    if (!acceptor) return acceptor.error();
    acceptor_ = *std::move(acceptor);
    listen_ = {config_.listen_host, acceptor_->port()};
  }
  advertised_ = {config_.advertised_host.empty() ? config_.listen_host : config_.advertised_host, listen_.port};

  scheduler::HeadConfig machine;
  machine.cluster = config_.cluster;
  machine.listen = listen_;
  machine.advertised = advertised_;
  machine.build = kBuild;
  machine.wall_offset_ms = wall_offset_ms();
  machine_ = std::make_unique<scheduler::Head>(machine, Rng(random_seed()), *records);
  const std::weak_ptr<bool> alive = alive_;
  store_->set_callbacks(
      [this, alive](std::uint64_t sequence) {
        loop_.post([this, alive, sequence] {
          if (!alive.lock()) return;
          persisted_ = std::max(persisted_, sequence);
          post(scheduler::Persisted{sequence});
          release_held();
          settle();
        });
      },
      [this, alive](const ErrorInfo& error) {
        loop_.post([this, alive, error] {
          if (alive.lock() && config_.on_stop) config_.on_stop(error.message);
        });
      });
  post(Tick{});
  settle();
  return {};
}

void HeadDaemon::say(std::string line) {
  if (config_.log) config_.log(std::move(line));
}

// ---- links
// ---------------------------------------------------------------------------------------------------------------

void HeadDaemon::accept(const net::Preamble& preamble, std::shared_ptr<net::Link> link) {
  if (preamble.kind != net::ConnectionKind::kControl || preamble.target != 0) {
    say("refused " + link->peer() + ": this is the head, it has only control connections");
    link->start({});
    link->close(make_error(ErrorKind::kInvalid, "the head has only control connections"));
    return;
  }
  const Role role = link->identity()->role;
  serve(std::move(link), role);
}

void HeadDaemon::connect_local(std::shared_ptr<net::Link> link) {
  serve(std::move(link), Role::kNode);
}

void HeadDaemon::serve(std::shared_ptr<net::Link> link, Role role) {
  auto peer = std::make_shared<Peer>();
  net::LinkHandlers handlers;
  handlers.on_frames = [this, link, peer, role](std::span<net::Frame> frames) { on_frames(link, *peer, role, frames); };
  handlers.on_closed = [this, link, peer](const ErrorInfo& why) { on_closed(link, *peer, why); };
  const std::weak_ptr<net::Link> weak = link;
  loop_.call_after(kPeerHelloTimeout, [weak, peer] {
    if (const auto open = weak.lock(); open && peer->kind == PeerKind::kNone) {
      open->close(make_error(ErrorKind::kTimeout, "no hello came"));
    }
  });
  link->start(std::move(handlers));
}

bool HeadDaemon::introduce(const std::shared_ptr<net::Link>& link, Peer& peer, Role role, const Envelope& envelope) {
  const auto* hello = std::get_if<Hello>(&envelope.message);
  HelloReply reply;
  reply.from = Peer::head();
  reply.cluster = config_.cluster;
  reply.epoch = machine_->epoch();
  reply.build = kBuild;
  reply.endpoint = advertised_;
  if (hello == nullptr) {
    reply.error = make_error(ErrorKind::kInvalid, "the first message must be a hello");
  } else if (auto error = check_protocol(hello->protocol, hello->build)) {
    reply.error = std::move(error);
  } else if (hello->cluster && hello->cluster != config_.cluster) {
    reply.error =
        make_error(ErrorKind::kInvalid, "this is cluster " + to_string(config_.cluster) + ", not " +
                                            to_string(hello->cluster) + ": check --address and --cluster-file");
  } else if (hello->role == Role::kNode && role != Role::kNode) {
    reply.error = make_error(ErrorKind::kUnauthenticated, "this key may not join as a node: use the cluster file");
  } else if (hello->role == Role::kNode && link->identity() && link->identity()->holder != hello->from.id) {
    reply.error = make_error(ErrorKind::kUnauthenticated, "the node's id is not the one of its key");
  }
  if (reply.error) {
    say("refused " + link->peer() + ": " + reply.error->message);
    send_hello_reply(*link, reply);
    link->close_when_flushed(*reply.error);
    return false;
  }
  peer = hello->role == Role::kNode ? Peer::of(NodeId{hello->from.id}) : Peer::client(next_client_++);
  PeerLink& entry = peers_.entry(peer);
  if (entry.link && entry.link != link) {
    // The same node came back on a new connection before the old one was seen to break.
    const auto old = std::exchange(entry.link, nullptr);
    post(PeerLost{peer, make_error(ErrorKind::kUnreachable, "replaced by a new connection")});
    old->close();
    entry.out.clear();
    held_.erase(peer);
  }
  entry.peer = peer;
  entry.role = hello->role == Role::kNode ? Role::kNode : role;
  entry.link = link;
  entry.joined = true;
  send_hello_reply(*link, reply);
  post(PeerJoined{peer, *hello});
  return true;
}

void HeadDaemon::on_frames(const std::shared_ptr<net::Link>& link, Peer& peer, Role role,
                           std::span<net::Frame> frames) {
  std::vector<Envelope> envelopes;
  for (const net::Frame& frame : frames) {
    if (!decode_frame(*link, frame, envelopes)) {
      say("closed " + link->peer() + ": it sent a frame that cannot be read");
      break;
    }
    for (Envelope& envelope : envelopes) {
      if (peer.kind == PeerKind::kNone) {
        if (!introduce(link, peer, role, envelope)) return;
        continue;
      }
      PeerLink* from = peers_.find(peer);
      if (from == nullptr || from->link != link) return;
      receive(*from, from->role, std::move(envelope));
    }
  }
  settle();
}

void HeadDaemon::receive(PeerLink& from, Role role, Envelope envelope) {
  if (!may_pass(role, from.peer, Receiver::kHead, envelope)) {
    const std::string why = std::string("a ") + net::name_of(role) + " may not send " + name_of(envelope.message);
    say("closed " + from.link->peer() + ": " + why);
    from.link->close_when_flushed(make_error(ErrorKind::kUnauthenticated, why));
    return;
  }
  Peer sender = from.peer;
  if (role == Role::kNode && envelope.from.kind == PeerKind::kProcess) {
    sender = envelope.from;
    sender.node = from.peer.node;
  }
  if (services_.handle && services_.handle(sender, envelope.message)) return;
  post(Received{sender, std::move(envelope.message)});
}

void HeadDaemon::on_closed(const std::shared_ptr<net::Link>& link, const Peer& peer, const ErrorInfo& why) {
  PeerLink* entry = peer.kind == PeerKind::kNone ? nullptr : peers_.find(peer);
  if (entry == nullptr || entry->link != link) return;
  held_.erase(peer);
  peers_.erase(peer);
  post(PeerLost{peer, why});
  settle();
}

// ---- the machine
// -----------------------------------------------------------------------------------------------------------

void HeadDaemon::post(scheduler::HeadEvent event) {
  events_.push_back(std::move(event));
}

void HeadDaemon::settle() {
  if (settling_) return;
  settling_ = true;
  while (!events_.empty()) {
    std::vector<scheduler::HeadEvent> events;
    events.swap(events_);
    machine_->step(monotonic_now(), events, actions_);
    scheduler::HeadActions actions;
    actions.swap(actions_);
    for (scheduler::HeadAction& action : actions) perform(action);
  }
  settling_ = false;
  peers_.flush();
  arm_timer();
}

void HeadDaemon::perform(scheduler::HeadAction& action) {
  if (auto* send = std::get_if<Send>(&action)) {
    const Peer link = send->to.kind == PeerKind::kProcess ? Peer::of(send->to.node) : send->to;
    const auto waiting = held_.find(link);
    if (send->after > persisted_ || waiting != held_.end()) {
      held_[link].push_back(std::move(*send));
    } else {
      deliver(send->to, std::move(send->message));
    }
  } else if (auto* persist = std::get_if<scheduler::Persist>(&action)) {
    store_->write(persist->seq, persist->synced, persist->writes);
  } else if (auto* stop = std::get_if<scheduler::StopHead>(&action)) {
    peers_.flush();
    if (config_.on_stop)
      loop_.call_after(std::chrono::milliseconds(50), [this, why = stop->why] { config_.on_stop(why); });
  }
}

void HeadDaemon::release_held() {
  for (auto entry = held_.begin(); entry != held_.end();) {
    std::deque<Send>& queue = entry->second;
    while (!queue.empty() && queue.front().after <= persisted_) {
      deliver(queue.front().to, std::move(queue.front().message));
      queue.pop_front();
    }
    entry = queue.empty() ? held_.erase(entry) : std::next(entry);
  }
}

void HeadDaemon::deliver(const Peer& to, Message message) {
  Envelope envelope;
  PeerLink* link = nullptr;
  if (to.kind == PeerKind::kProcess) {
    link = peers_.find(Peer::of(to.node));
    envelope.to = to;
  } else {
    link = peers_.find(to);
  }
  if (link == nullptr || !link->link) return;  // PeerLost was or will be said
  envelope.epoch = machine_->epoch();
  envelope.message = std::move(message);
  peers_.queue(*link, std::move(envelope));
}

void HeadDaemon::send(const Peer& to, Message message) {
  deliver(to, std::move(message));
}

void HeadDaemon::arm_timer() {
  const Instant deadline = machine_->next_deadline();
  if (deadline == armed_) return;
  loop_.cancel(timer_);
  armed_ = deadline;
  if (deadline == Instant::never()) return;
  timer_ = loop_.call_at(deadline, [this] {
    armed_ = Instant::never();
    timer_ = net::TimerId::kNone;
    post(Tick{});
    settle();
  });
}

}  // namespace mobula::daemon
