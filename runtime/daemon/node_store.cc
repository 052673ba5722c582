// The node's shared memory: the store machine's driver, descriptors for processes, copies from and for other nodes.

#include <utility>

#include "runtime/daemon/node_daemon.h"
#include "runtime/process/host_info.h"

namespace mobula::daemon {
namespace {

constexpr Duration kTransferConnectTimeout = std::chrono::seconds(5);

}  // namespace

void NodeDaemon::open_store() {
  arena_ = std::make_unique<objectstore::Arena>([] { return process::host_use().memory_available; });
  objectstore::StoreConfig config;
  config.node = config_.node;
  config.capacity = config_.total.store_memory;
  store_ = std::make_unique<objectstore::Store>(config);
  transfer_server_ = std::make_unique<objectstore::TransferServer>(
      loop_,
      [this](ObjectId object, std::function<void(std::optional<objectstore::ReadView>)> done) {
        look_up(object, std::move(done));
      },
      [this](const std::string& name) { return programs_->content(name); });
  transfer_client_ = std::make_unique<objectstore::TransferClient>(
      loop_, [this](NodeId node, std::function<void(Result<std::shared_ptr<net::Link>>)> done) {
        const NodeDescription* description = machine_->find_node(node);
        if (description == nullptr) {
          loop_.post([done = std::move(done), node] {
            done(make_error(ErrorKind::kUnreachable, "node " + to_string(node) + " is gone"));
          });
          return;
        }
        net::Preamble preamble;
        preamble.kind = net::ConnectionKind::kTransfer;
        preamble.target = node.value;
        const net::Leaf leaf =
            net::make_leaf(config_.key, net::Identity{config_.key_epoch, net::Role::kNode, {}, config_.node.value});
        net::connect(loop_, {description->endpoint.host, description->endpoint.port}, leaf, preamble,
                     monotonic_now() + kTransferConnectTimeout, std::move(done));
      });
  programs_ = std::make_unique<Programs>(loop_, config_.node, session_->path() + "/programs", *transfer_client_);
}

void NodeDaemon::store_event(objectstore::StoreEvent event) {
  store_events_.push_back(std::move(event));
}

void NodeDaemon::settle_store() {
  while (!store_events_.empty()) {
    std::vector<objectstore::StoreEvent> events;
    events.swap(store_events_);
    store_->step(monotonic_now(), events, store_actions_);
    objectstore::StoreActions actions;
    actions.swap(store_actions_);
    for (objectstore::StoreAction& action : actions) perform_store(action);
  }
}

void NodeDaemon::perform_store(objectstore::StoreAction& action) {
  if (auto* send = std::get_if<Send>(&action)) {
    send_store_reply(*send);
  } else if (auto* create = std::get_if<objectstore::CreateSegment>(&action)) {
    if (const Status status = arena_->create_segment(create->segment, create->size); !status) {
      say("shared memory: " + status.error().message);  // the growth that follows fails with it
    }
  } else if (auto* grow = std::get_if<objectstore::Grow>(&action)) {
    objectstore::Grown grown{grow->segment, grow->reserved, std::nullopt};
    if (arena_->writable_descriptor(grow->segment) < 0) {
      grown.error = make_error(ErrorKind::kStoreFull, "shared memory could not be made");
    } else if (const Status status = arena_->grow(grow->segment, grow->reserved); !status) {
      grown.error = status.error();
    }
    store_event(std::move(grown));
  } else if (auto* pull = std::get_if<objectstore::Pull>(&action)) {
    objectstore::FetchRequest request;
    request.from = pull->from;
    request.object = pull->object;
    request.size = pull->size;
    request.into = arena_->address(pull->into);
    request.done = [this, object = pull->object, from = pull->from](const objectstore::FetchOutcome& outcome) {
      store_event(objectstore::Pulled{object, from, outcome.owner, outcome.job, outcome.missing, outcome.error});
      settle();
    };
    transfer_client_->fetch(std::move(request));
  } else if (auto* read = std::get_if<objectstore::ReadStarts>(&action)) {
    const auto found = lookups_.find(read->token);
    if (found == lookups_.end()) return;
    auto done = std::move(found->second);
    lookups_.erase(found);
    if (!read->found) return done(std::nullopt);
    objectstore::ReadView view;
    view.data = arena_->address(read->range);
    view.size = read->range.size;
    view.owner = read->owner;
    view.job = read->job;
    // The last holder of the view gives the pin back.
    view.hold = std::shared_ptr<const void>(
        static_cast<const void*>(this), [this, alive = std::weak_ptr<bool>(alive_), token = read->token](const void*) {
          loop_.post([this, alive, token] {
            if (!alive.lock()) return;
            store_event(objectstore::ReadDone{token});
            settle();
          });
        });
    done(std::move(view));
  }
}

// The first answer about a segment carries its descriptor: writable for slabs, read-only for objects.
void NodeDaemon::send_store_reply(Send& send) {
  PeerLink* process = peers_.find(send.to);
  if (process == nullptr) return;
  int descriptor = -1;
  if (const auto* granted = std::get_if<SlabGranted>(&send.message)) {
    if (!granted->error && process->writable.insert(granted->segment).second) {
      descriptor = arena_->writable_descriptor(granted->segment);
    }
  } else if (const auto* pinned = std::get_if<ObjectPinned>(&send.message)) {
    if (!pinned->error && pinned->mapped && process->readable.insert(pinned->segment).second) {
      descriptor = arena_->readable_descriptor(pinned->segment);
    }
  }
  Envelope envelope{{}, {}, 0, 0, std::move(send.message)};
  if (descriptor >= 0) {
    peers_.queue_with_descriptor(*process, std::move(envelope), descriptor);
  } else {
    peers_.queue(*process, std::move(envelope));
  }
}

void NodeDaemon::look_up(ObjectId object, std::function<void(std::optional<objectstore::ReadView>)> done) {
  const std::uint64_t token = next_lookup_++;
  lookups_.emplace(token, std::move(done));
  store_event(objectstore::ReadWanted{token, object});
  settle();
}

}  // namespace mobula::daemon
