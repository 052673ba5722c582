// ContentStore: files named by the SHA-256 of what is in them, in one private folder: working folders on their way from
// `mobula submit` through the head to a node.
//
// A name that is a hash makes every operation safe to repeat: two clients that put the same content help each other, an
// interrupted put is taken up where it stopped, and nothing has to be invalidated. What arrives is written beside,
// checked against its name, flushed, and only then given it, so a file that has its name is whole. Bounded by item, in
// total and in number; what was not used for longest goes first, but never what `in_use` keeps. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/bytes.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/process/fd.h"
#include "runtime/process/sha256.h"

namespace mobula::process {

// Of one piece on the wire.
inline constexpr std::size_t kContentChunkBytes = std::size_t{1} << 20;
// Of one item: a program with its files, not a data set.
inline constexpr std::uint64_t kContentBytesMax = std::uint64_t{512} << 20;

struct ContentLimits {
  std::uint64_t item_bytes_max = kContentBytesMax;
  std::uint64_t total_bytes_max = std::uint64_t{4} << 30;  // with what is being put
  std::size_t items_max = 1000;
  std::size_t puts_max = 16;                      // at once
  Duration put_idle = std::chrono::seconds(300);  // an unfinished put without a piece for so long may be dropped
};

// 64 lower-case hex digits.
bool is_content_hash(std::string_view text);

class ContentStore {
 public:
  struct Piece {
    std::uint64_t total = 0;
    Bytes bytes;
  };

  // Makes the folder (0700), takes over what an earlier run left in it, and removes unfinished puts.
  static Result<ContentStore> open(std::string folder, ContentLimits limits);
  ContentStore(ContentStore&&) = default;
  ContentStore& operator=(ContentStore&&) = default;

  void set_in_use(std::function<bool(const std::string& hash)> in_use) { in_use_ = std::move(in_use); }

  // One piece, in order. Returns how much is there: `total` once it is whole. A piece that is there already, or that
  // leaves a gap, changes nothing: the answer says where to go on. An empty first piece asks.
  Result<std::uint64_t> put(const std::string& hash, std::uint64_t total, std::uint64_t offset,
                            std::span<const std::byte> bytes, Instant now);
  // kObjectLost when it is not here.
  Result<Piece> read(const std::string& hash, std::uint64_t offset, std::size_t bytes_max);
  bool has(const std::string& hash) const { return items_.contains(hash); }
  std::string path_of(const std::string& hash) const { return folder_ + "/" + hash; }
  void touch(const std::string& hash);
  void drop(const std::string& hash);

  std::uint64_t total_bytes() const { return item_bytes_ + put_bytes_; }
  std::size_t size() const { return items_.size(); }

 private:
  struct Item {
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;  // a counter of uses
  };
  struct Put {
    Fd file;
    std::string path;
    std::uint64_t total = 0;
    std::uint64_t have = 0;
    std::unique_ptr<Sha256> hash;
    Instant touched{};
  };
  ContentStore(std::string folder, ContentLimits limits) : folder_(std::move(folder)), limits_(limits) {}
  Status load();
  Status begin(const std::string& hash, std::uint64_t total, Instant now);
  Status finish(const std::string& hash);
  void abandon(const std::string& hash);
  bool make_room(std::uint64_t bytes);

  std::string folder_;
  ContentLimits limits_;
  std::function<bool(const std::string&)> in_use_;
  std::map<std::string, Item> items_;
  std::map<std::string, Put> puts_;  // what is not whole yet
  std::uint64_t item_bytes_ = 0;
  std::uint64_t put_bytes_ = 0;  // reserved: the totals of puts_
  std::uint64_t uses_ = 0;
  std::uint64_t next_put_ = 0;
};

}  // namespace mobula::process
