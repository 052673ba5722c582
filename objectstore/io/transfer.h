// Copies of objects and shipped files between nodes, on connections and a thread of their own, so that bulk data never
// delays control messages or heartbeats.
//
// The reader asks for chunks, several ahead; each comes back as one raw frame whose head is a ChunkReply and whose body
// is received (decrypted) straight into its place: the cipher is the only copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/protocol/message.h"
#include "runtime/base/result.h"
#include "runtime/net/link.h"
#include "runtime/net/loop.h"

namespace mobula::objectstore {

inline constexpr std::uint64_t kChunkSize = 1ULL << 20;            // bytes asked for at a time
inline constexpr std::uint64_t kChunkSizeMax = 4ULL << 20;         // bytes a server gives at a time
inline constexpr std::size_t kChunksAhead = 8;                     // asked for and not here yet, per fetch
inline constexpr Duration kFetchStall = std::chrono::seconds(20);  // a fetch without progress for so long has failed

// What a server reads from; stays valid while `hold` lives.
struct ReadView {
  std::shared_ptr<const void> hold;
  const std::byte* data = nullptr;
  std::uint64_t size = 0;
  ProcessId owner;
  JobId job;
};
// Finds an object and pins it, or says nullopt. The answer may come on any thread.
using ObjectLookup = std::function<void(ObjectId, std::function<void(std::optional<ReadView>)>)>;
// Finds a shipped file by its hash (mapped into memory), or nullopt. Thread-safe.
using ContentLookup = std::function<std::optional<ReadView>(const std::string& hash)>;

// Used on its loop only.
class TransferServer {
 public:
  TransferServer(net::Loop& loop, ObjectLookup objects, ContentLookup content);
  ~TransferServer();
  TransferServer(const TransferServer&) = delete;
  TransferServer& operator=(const TransferServer&) = delete;

  // Answers what arrives on the authenticated, not yet started link until it closes.
  void serve(std::shared_ptr<net::Link> link);

 private:
  struct Session;
  net::Loop& loop_;
  ObjectLookup objects_;
  ContentLookup content_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

struct FetchOutcome {
  bool missing = false;            // the node answered that it has no such object
  std::optional<ErrorInfo> error;  // it could not be asked, or the copy broke off
  std::uint64_t total = 0;
  ProcessId owner;
  JobId job;
};

struct FetchRequest {
  NodeId from;
  ObjectId object;  // or
  std::string content;
  std::uint64_t size = 0;     // expected; content: 0 when unknown
  std::byte* into = nullptr;  // objects: room for `size` bytes, untouched by others until `done`
  // Content: called with each chunk in order instead of `into`.
  std::function<void(std::uint64_t offset, std::uint64_t total, std::span<const std::byte>)> on_chunk;
  std::function<void(const FetchOutcome&)> done;  // exactly once, on the loop
};

// Used on its loop only. One link a node, opened when first needed.
class TransferClient {
 public:
  // Opens an authenticated transfer link to a node; the answer comes on the loop.
  using Connect = std::function<void(NodeId, std::function<void(Result<std::shared_ptr<net::Link>>)>)>;

  TransferClient(net::Loop& loop, Connect connect);
  ~TransferClient();
  TransferClient(const TransferClient&) = delete;
  TransferClient& operator=(const TransferClient&) = delete;

  void fetch(FetchRequest request);
  // Fails what is under way from a node that is gone.
  void forget(NodeId node);

 private:
  struct Source;
  struct Active;
  void begin(const std::shared_ptr<Source>& source);
  void ask(Source& source, Active& active);
  void on_reply(Source& source, const ChunkReply& reply, net::Frame& frame);
  void finish(Source& source, std::uint64_t number, FetchOutcome outcome);
  void fail_all(Source& source, const ErrorInfo& error);
  void watch_stall(const std::shared_ptr<Source>& source);

  net::Loop& loop_;
  Connect connect_;
  std::map<NodeId, std::shared_ptr<Source>> sources_;
  std::uint64_t next_fetch_ = 1;
};

}  // namespace mobula::objectstore
