// This process's view of its node's shared memory: pages mapped for reading, and slabs to write new objects into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/base/protocol/message.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/net/fd.h"
#include "runtime/net/loop.h"

namespace mobula::core {

// Room for one object, writable.
struct SlabRoom {
  std::byte* data = nullptr;
  std::uint64_t size = 0;
  std::uint64_t slab = 0;
  std::uint64_t offset = 0;       // in the slab
  bool last = false;              // the slab has no further use: return it after sealing
  std::shared_ptr<void> mapping;  // keeps `data` mapped
};

// Thread-safe.
class SharedPages {
 public:
  // `send`: to the node's daemon, in order, flushed.
  SharedPages(net::Loop& loop, std::function<void(Message)> send);
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  // Waits for the daemon when no slab has room. StoreFull, or RuntimeStopped.
  Result<SlabRoom> allocate(std::uint64_t size);
  // Announces the object to the daemon. `room` must not be written any more.
  void seal(const SlabRoom& room, ObjectId object, JobId job, std::uint64_t size);
  // The room was not needed after all.
  void give_back(const SlabRoom& room);

  // Messages from the daemon, in the loop. `descriptor` may be empty when the segment is known.
  void on_granted(const SlabGranted& message, net::Fd descriptor);
  void learn_segment(std::uint32_t segment, std::uint64_t size, net::Fd descriptor);

  // Bytes of a pinned object. The result keeps nothing alive by itself: pages stay mapped for the process's life.
  Result<const std::byte*> readable(std::uint32_t segment, std::uint64_t offset, std::uint64_t size);

  void stop();

 private:
  struct Mapping;
  struct Open {  // the slab that small objects share
    std::uint64_t slab = 0;
    std::uint64_t used = 0;
    std::uint64_t size = 0;
    std::shared_ptr<Mapping> mapping;
  };
  Result<std::shared_ptr<Mapping>> map_slab(const SlabGranted& granted);

  static constexpr std::uint64_t kSharedSlab = 4ULL << 20;  // asked for when small objects need one
  static constexpr std::uint64_t kSharedMax = 1ULL << 20;   // larger objects get a slab of their own
  static constexpr std::size_t kMappingsKept = 4;  // of past slabs: the daemon likes to give the same pages again

  net::Loop& loop_;
  std::function<void(Message)> send_;
  std::mutex allocating_;  // one thread at a time asks for the shared slab
  std::mutex mutex_;
  std::uint64_t next_request_ = 1;
  std::map<std::uint64_t, SlabGranted> granted_;  // answers not picked up yet
  std::map<std::uint32_t, net::Fd> writable_;
  struct Readable {
    net::Fd descriptor;
    const std::byte* base = nullptr;
    std::uint64_t size = 0;
  };
  std::map<std::uint32_t, Readable> readable_;
  Open open_;
  std::deque<std::shared_ptr<Mapping>> kept_;
  bool stopped_ = false;
};

}  // namespace mobula::core
