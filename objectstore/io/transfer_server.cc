#include <algorithm>
#include <utility>

#include "objectstore/io/transfer.h"
#include "runtime/wire/codec.h"

namespace mobula::objectstore {
namespace {

Bytes encode_one(Message message) {
  const Envelope envelope{{}, {}, 0, 0, std::move(message)};
  auto bytes = wire::encode({&envelope, 1});
  MOBULA_CHECK(bytes.ok(), "chunk messages are small");
  return *std::move(bytes);
}

}  // namespace

// One link of one reading node. Pins an object from its first chunk to its last, or to the end of the link.
struct TransferServer::Session : std::enable_shared_from_this<TransferServer::Session> {
  static constexpr std::size_t kViewsMax = 64;           // objects read at a time over one link
  static constexpr std::size_t kQueuedMax = 32U << 20U;  // bytes; above it chunks wait for the socket

  TransferServer* server = nullptr;
  net::Loop* loop = nullptr;
  std::shared_ptr<net::Link> link;
  std::map<ObjectId, ReadView> objects;
  std::map<std::string, ReadView> contents;
  std::map<ObjectId, std::vector<ChunkRequest>> looking;  // while the object is looked up
  std::vector<ChunkRequest> waiting;                      // for the socket

  void on_request(const ChunkRequest& request) {
    if (!request.content.empty()) {
      auto found = contents.find(request.content);
      if (found == contents.end()) {
        auto view = server->content_(request.content);
        if (!view) return refuse(request);
        if (contents.size() >= kViewsMax) contents.erase(contents.begin());
        found = contents.emplace(request.content, *std::move(view)).first;
      }
      return answer(request, found->second);
    }
    if (const auto found = objects.find(request.object); found != objects.end()) return answer(request, found->second);
    auto& queue = looking[request.object];
    queue.push_back(request);
    if (queue.size() > 1) return;
    const std::weak_ptr<Session> weak = weak_from_this();
    const ObjectId object = request.object;
    server->objects_(object, [weak, object, to = loop](std::optional<ReadView> view) {
      to->post([weak, object, view = std::move(view)]() mutable {
        if (const auto self = weak.lock()) self->on_view(object, std::move(view));
      });
    });
  }

  void on_view(ObjectId object, std::optional<ReadView> view) {
    const std::vector<ChunkRequest> requests = std::move(looking[object]);
    looking.erase(object);
    if (!view) {
      for (const ChunkRequest& request : requests) refuse(request);
      return;
    }
    // A reader that asks for more objects at once than the bound pays with a new look-up.
    if (objects.size() >= kViewsMax) objects.erase(objects.begin());
    const ReadView& kept = objects.emplace(object, *std::move(view)).first->second;
    const ReadView copy = kept;
    for (const ChunkRequest& request : requests) answer(request, copy);
  }

  void refuse(const ChunkRequest& request) {
    ChunkReply reply;
    reply.request = request.request;
    link->send(net::Frame{net::FrameType::kMessages, {}, encode_one(reply), {}});
  }

  void answer(const ChunkRequest& request, const ReadView& view) {
    if (link->queued_bytes() > kQueuedMax) {
      waiting.push_back(request);  // bounded by what the reader asks ahead
      return;
    }
    const std::uint64_t offset = std::min(request.offset, view.size);
    const std::uint64_t length = std::min({request.length, kChunkSizeMax, view.size - offset});
    ChunkReply reply;
    reply.request = request.request;
    reply.found = true;
    reply.total = view.size;
    reply.owner = view.owner;
    reply.job = view.job;
    reply.length = length;
    net::Frame frame;
    frame.type = net::FrameType::kRaw;
    frame.head = encode_one(reply);
    frame.body = Bytes(view.hold, view.data + offset, length);
    link->send(std::move(frame));
    // The frame keeps its own hold: the pin goes once the last chunk is on its way.
    if (offset + length == view.size && request.content.empty()) objects.erase(request.object);
  }

  void on_drained() {
    const std::vector<ChunkRequest> requests = std::move(waiting);
    waiting.clear();
    for (const ChunkRequest& request : requests) on_request(request);
  }
};

TransferServer::TransferServer(net::Loop& loop, ObjectLookup objects, ContentLookup content)
    : loop_(loop), objects_(std::move(objects)), content_(std::move(content)) {}

TransferServer::~TransferServer() {
  for (const auto& weak : sessions_) {
    if (const auto session = weak.lock()) session->link->close();
  }
}

void TransferServer::serve(std::shared_ptr<net::Link> link) {
  std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
  const auto session = std::make_shared<Session>();
  session->server = this;
  session->loop = &loop_;
  session->link = link;
  sessions_.push_back(session);
  net::LinkHandlers handlers;
  handlers.on_frames = [session](std::span<net::Frame> frames) {
    std::vector<Envelope> envelopes;
    for (const net::Frame& frame : frames) {
      if (const Status status = wire::decode(frame.body, envelopes); !status) {
        session->link->close(status.error());
        return;
      }
      for (const Envelope& envelope : envelopes) {
        if (const auto* request = std::get_if<ChunkRequest>(&envelope.message)) session->on_request(*request);
      }
    }
  };
  handlers.on_closed = [session](const ErrorInfo&) {
    session->objects.clear();
    session->contents.clear();
  };
  handlers.on_drained = [session] { session->on_drained(); };
  link->start(std::move(handlers));
}

}  // namespace mobula::objectstore
