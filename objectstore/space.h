// Which bytes of the shared-memory segments are taken. Pure bookkeeping: it never touches the memory.
//
// A segment is one memfd. Its pages are reserved in steps by the daemon (`reserved` grows), and ranges are only handed
// out below that mark, so that writing to a range can never end in SIGBUS. Ranges are best fit, lowest offset first:
// that reuses warm pages, which cost a seventh of cold ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace mobula::objectstore {

// A range of bytes in a segment.
struct Range {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  friend auto operator<=>(const Range&, const Range&) = default;
};

// Everything is a multiple of this; out-of-band buffers inside a payload rely on it.
inline constexpr std::uint64_t kRangeAlignment = 4096;
constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t step) {
  return (size + step - 1) / step * step;
}

class Space {
 public:
  // A new, wholly unreserved segment of `size` bytes.
  void add_segment(std::uint32_t segment, std::uint64_t size);
  // Pages [0, reserved) of the segment are backed from now on. Never shrinks.
  void set_reserved(std::uint32_t segment, std::uint64_t reserved);

  // `size` is rounded up to kRangeAlignment. nullopt: no free range of that size below the reserved marks.
  std::optional<Range> allocate(std::uint64_t size);
  // Gives back any part of what was allocated; joins neighbours.
  void release(const Range& range);

  // The segment whose reservation must grow for `size` bytes, and to what mark; nullopt: no segment has that room.
  std::optional<std::pair<std::uint32_t, std::uint64_t>> growth_for(std::uint64_t size, std::uint64_t step) const;

  std::uint64_t used() const { return used_; }          // bytes handed out
  std::uint64_t reserved() const { return reserved_; }  // bytes backed by pages
  std::uint64_t segment_size(std::uint32_t segment) const;
  std::size_t free_ranges() const { return by_size_.size(); }
  void check() const;

 private:
  struct Segment {
    std::uint64_t size = 0;
    std::uint64_t reserved = 0;
    std::map<std::uint64_t, std::uint64_t> free;  // offset -> size, below `reserved`
  };
  void insert_free(std::uint32_t segment, Segment& state, std::uint64_t offset, std::uint64_t size);
  void erase_free(std::uint32_t segment, Segment& state, std::map<std::uint64_t, std::uint64_t>::iterator entry);

  std::map<std::uint32_t, Segment> segments_;
  std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>> by_size_;  // (size, segment, offset)
  std::uint64_t used_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace mobula::objectstore
