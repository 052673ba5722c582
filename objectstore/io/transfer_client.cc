#include <algorithm>
#include <utility>

#include "objectstore/io/transfer.h"
#include "runtime/wire/codec.h"

namespace mobula::objectstore {

// One object or file on its way.
struct TransferClient::Active {
  FetchRequest request;
  std::uint64_t asked = 0;  // bytes asked for so far
  std::uint64_t received = 0;
  std::uint64_t total = 0;                                                  // 0: not known yet
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> chunks;  // request number -> (offset, length)
  Instant progress;
};

struct TransferClient::Source {
  NodeId node;
  std::shared_ptr<net::Link> link;  // null while it is being opened
  bool opening = false;
  std::map<std::uint64_t, Active> active;         // by fetch number
  std::map<std::uint64_t, std::uint64_t> owners;  // request number -> fetch number
  std::uint64_t next_request = 1;
};

TransferClient::TransferClient(net::Loop& loop, Connect connect) : loop_(loop), connect_(std::move(connect)) {}

TransferClient::~TransferClient() {
  for (auto& [node, source] : sources_) {
    if (source->link) source->link->close();
  }
}

void TransferClient::fetch(FetchRequest request) {
  auto& source = sources_[request.from];
  if (!source) {
    source = std::make_shared<Source>();
    source->node = request.from;
  }
  Active active;
  active.total = request.size;
  active.request = std::move(request);
  active.progress = monotonic_now();
  const std::uint64_t number = next_fetch_++;
  const auto entry = source->active.emplace(number, std::move(active)).first;
  if (source->link) {
    ask(*source, entry->second);
    return;
  }
  if (!source->opening) {
    source->opening = true;
    const std::weak_ptr<Source> weak = source;
    connect_(source->node, [this, weak](Result<std::shared_ptr<net::Link>> link) {
      const auto self = weak.lock();
      if (!self) return;
      self->opening = false;
      if (!link) return fail_all(*self, link.error());
      self->link = *std::move(link);
      begin(self);
    });
  }
}

void TransferClient::begin(const std::shared_ptr<Source>& source) {
  net::LinkHandlers handlers;
  const std::weak_ptr<Source> weak = source;
  handlers.on_frames = [this, weak](std::span<net::Frame> frames) {
    std::vector<Envelope> envelopes;
    for (net::Frame& frame : frames) {
      const auto self = weak.lock();
      if (!self || !self->link) return;
      const bool raw = frame.type == net::FrameType::kRaw;
      if (const Status status = wire::decode(raw ? frame.head : frame.body, envelopes); !status) {
        self->link->close(status.error());
        return;
      }
      for (const Envelope& envelope : envelopes) {
        if (const auto* reply = std::get_if<ChunkReply>(&envelope.message)) on_reply(*self, *reply, frame);
      }
    }
  };
  handlers.on_closed = [this, weak](const ErrorInfo& why) {
    if (const auto self = weak.lock()) {
      self->link.reset();
      fail_all(*self, why);
    }
  };
  handlers.raw_target = [weak](const Bytes& head, std::size_t size) -> net::RawTarget {
    const auto self = weak.lock();
    std::vector<Envelope> envelopes;
    if (!self || !wire::decode(head, envelopes) || envelopes.empty()) return {};
    const auto* reply = std::get_if<ChunkReply>(&envelopes.front().message);
    if (reply == nullptr) return {};
    const auto owner = self->owners.find(reply->request);
    if (owner == self->owners.end()) return {};
    Active& active = self->active.at(owner->second);
    const auto chunk = active.chunks.find(reply->request);
    if (active.request.into == nullptr || chunk == active.chunks.end() || reply->total != active.request.size ||
        size > chunk->second.second) {
      return {};
    }
    return {active.request.into + chunk->second.first, nullptr};
  };
  source->link->start(std::move(handlers));
  for (auto& [number, active] : source->active) ask(*source, active);
  watch_stall(source);
}

void TransferClient::ask(Source& source, Active& active) {
  std::uint64_t fetch = 0;
  for (const auto& [number, one] : source.active) {
    if (&one == &active) fetch = number;
  }
  std::vector<Envelope> envelopes;
  // Until the size is known one chunk is asked for.
  while (active.chunks.size() < kChunksAhead && (active.total == 0 ? active.asked == 0 : active.asked < active.total)) {
    ChunkRequest request;
    request.request = source.next_request++;
    request.object = active.request.object;
    request.content = active.request.content;
    request.offset = active.asked;
    request.length = active.total == 0 ? kChunkSize : std::min(kChunkSize, active.total - active.asked);
    active.asked += request.length;
    active.chunks.emplace(request.request, std::pair{request.offset, request.length});
    source.owners.emplace(request.request, fetch);
    envelopes.push_back(Envelope{{}, {}, 0, 0, std::move(request)});
  }
  if (envelopes.empty()) return;
  auto bytes = wire::encode(envelopes);
  MOBULA_CHECK(bytes.ok(), "chunk messages are small");
  source.link->send(net::Frame{net::FrameType::kMessages, {}, *std::move(bytes), {}});
}

void TransferClient::on_reply(Source& source, const ChunkReply& reply, net::Frame& frame) {
  const auto owner = source.owners.find(reply.request);
  if (owner == source.owners.end()) return;  // of a fetch that has failed
  const std::uint64_t number = owner->second;
  source.owners.erase(owner);
  Active& active = source.active.at(number);
  const auto [offset, length] = active.chunks.at(reply.request);
  active.chunks.erase(reply.request);
  active.progress = monotonic_now();
  FetchOutcome outcome;
  outcome.total = reply.total;
  outcome.owner = reply.owner;
  outcome.job = reply.job;
  if (!reply.found) {
    outcome.missing = true;
    return finish(source, number, std::move(outcome));
  }
  const bool object = active.request.into != nullptr;
  if (object && reply.total != active.request.size) {
    outcome.error = make_error(ErrorKind::kObjectLost, "its copy has another size than its owner says");
    return finish(source, number, std::move(outcome));
  }
  if (reply.length != std::min(length, reply.total - std::min(reply.total, offset)) ||
      frame.body.size() != reply.length) {
    outcome.error = make_error(ErrorKind::kObjectLost, "a chunk came with another length than was asked for");
    return finish(source, number, std::move(outcome));
  }
  if (!object && active.request.on_chunk) active.request.on_chunk(offset, reply.total, frame.body.span());
  active.total = reply.total;
  active.received += reply.length;
  if (active.received >= active.total) return finish(source, number, std::move(outcome));
  ask(source, active);
}

void TransferClient::finish(Source& source, std::uint64_t number, FetchOutcome outcome) {
  const auto found = source.active.find(number);
  Active active = std::move(found->second);
  for (const auto& [request, chunk] : active.chunks) source.owners.erase(request);
  source.active.erase(found);
  // Chunks of a failed fetch may still be written into its room: the link goes with it, so that none can.
  if (!active.chunks.empty() && active.request.into != nullptr && source.link) {
    source.link->close(make_error(ErrorKind::kObjectLost, "a fetch was given up"));
    source.link.reset();
    fail_all(source, make_error(ErrorKind::kUnreachable, "the transfer connection was reset"));
  }
  active.request.done(outcome);
}

void TransferClient::fail_all(Source& source, const ErrorInfo& error) {
  auto failed = std::move(source.active);
  source.active.clear();
  source.owners.clear();
  for (auto& [number, active] : failed) {
    FetchOutcome outcome;
    outcome.error = error;
    active.request.done(outcome);
  }
}

void TransferClient::forget(NodeId node) {
  const auto found = sources_.find(node);
  if (found == sources_.end()) return;
  const auto source = found->second;
  sources_.erase(found);
  if (source->link) source->link->close();
  source->link.reset();
  fail_all(*source, make_error(ErrorKind::kUnreachable, "node " + to_string(node) + " is gone"));
}

void TransferClient::watch_stall(const std::shared_ptr<Source>& source) {
  const std::weak_ptr<Source> weak = source;
  loop_.call_after(kFetchStall / 4, [this, weak] {
    const auto self = weak.lock();
    if (!self || !self->link) return;
    const Instant limit = monotonic_now() - kFetchStall;
    for (const auto& [number, active] : self->active) {
      if (active.progress < limit) {
        self->link->close(make_error(ErrorKind::kUnreachable,
                                     "no data came for " + std::to_string(kFetchStall.count() / 1000000000) + " s"));
        return;
      }
    }
    watch_stall(self);
  });
}

}  // namespace mobula::objectstore
