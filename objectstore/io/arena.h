// The shared memory of one node's store: a memfd a segment, pages reserved in steps, descriptors for processes.
//
// Only the daemon changes a segment. Its size is sealed (SHRINK and GROW), and pages are reserved by fallocate only
// after the machine and the cgroup were seen to have room: reserving past a cgroup's limit is answered by the kernel's
// killer, not by an error. Anonymous memfds leave nothing behind: no name in /dev/shm, gone with the last process that
// maps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "objectstore/space.h"
#include "runtime/base/result.h"

namespace mobula::objectstore {

class Arena {
 public:
  // `room`: bytes that the machine (and cgroup) can still give without hurting others; asked before each growth.
  explicit Arena(std::function<std::uint64_t()> room);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Status create_segment(std::uint32_t segment, std::uint64_t size);
  // Reserves pages [current, reserved). StoreFull when the machine has no room.
  Status grow(std::uint32_t segment, std::uint64_t reserved);

  // Descriptors owned by the arena: duplicate or send, do not close. -1: no such segment.
  int writable_descriptor(std::uint32_t segment) const;
  int readable_descriptor(std::uint32_t segment) const;

  // The daemon's own view, for transfers. Valid for the arena's life; only reserved bytes may be touched.
  std::byte* address(const Range& range) const;

  // Left alone when the machine has less than this after a growth.
  static constexpr std::uint64_t kHeadroom = 256ULL << 20;

 private:
  struct Segment {
    int writable = -1;
    int readable = -1;
    std::byte* base = nullptr;
    std::uint64_t size = 0;
    std::uint64_t reserved = 0;
  };
  std::function<std::uint64_t()> room_;
  std::map<std::uint32_t, Segment> segments_;
};

}  // namespace mobula::objectstore
