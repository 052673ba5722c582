#include "objectstore/space.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/check.h"

namespace mobula::objectstore {

void Space::add_segment(std::uint32_t segment, std::uint64_t size) {
  const bool fresh = segments_.emplace(segment, Segment{size, 0, {}}).second;
  MOBULA_CHECK(fresh, "segment added twice");
}

void Space::set_reserved(std::uint32_t segment, std::uint64_t reserved) {
  const auto found = segments_.find(segment);
  MOBULA_CHECK(found != segments_.end() && reserved <= found->second.size);
  Segment& state = found->second;
  if (reserved <= state.reserved) return;
  const std::uint64_t from = state.reserved;
  state.reserved = reserved;
  reserved_ += reserved - from;
  insert_free(segment, state, from, reserved - from);
}

std::optional<Range> Space::allocate(std::uint64_t size) {
  size = round_up(std::max<std::uint64_t>(size, 1), kRangeAlignment);
  const auto best = by_size_.lower_bound({size, 0, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [free_size, segment, offset] = *best;
  Segment& state = segments_.at(segment);
  erase_free(segment, state, state.free.find(offset));
  if (free_size > size) insert_free(segment, state, offset + size, free_size - size);
  used_ += size;
  return Range{segment, offset, size};
}

void Space::release(const Range& range) {
  const std::uint64_t size = round_up(range.size, kRangeAlignment);
  if (size == 0) return;
  const auto found = segments_.find(range.segment);
  MOBULA_CHECK(found != segments_.end() && range.offset + size <= found->second.reserved && used_ >= size);
  used_ -= size;
  insert_free(range.segment, found->second, range.offset, size);
}

void Space::insert_free(std::uint32_t segment, Segment& state, std::uint64_t offset, std::uint64_t size) {
  auto next = state.free.lower_bound(offset);
  MOBULA_CHECK(next == state.free.end() || offset + size <= next->first, "range given back twice");
  if (next != state.free.end() && next->first == offset + size) {
    size += next->second;
    erase_free(segment, state, next);
    next = state.free.lower_bound(offset);
  }
  if (next != state.free.begin()) {
    const auto before = std::prev(next);
    MOBULA_CHECK(before->first + before->second <= offset, "range given back twice");
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      erase_free(segment, state, before);
    }
  }
  state.free.emplace(offset, size);
  by_size_.emplace(size, segment, offset);
}

void Space::erase_free(std::uint32_t segment, Segment& state, std::map<std::uint64_t, std::uint64_t>::iterator entry) {
  MOBULA_CHECK(entry != state.free.end());
  by_size_.erase({entry->second, segment, entry->first});
  state.free.erase(entry);
}

std::optional<std::pair<std::uint32_t, std::uint64_t>> Space::growth_for(std::uint64_t size, std::uint64_t step) const {
  size = round_up(std::max<std::uint64_t>(size, 1), kRangeAlignment);
  for (const auto& [segment, state] : segments_) {
    // A free range that ends at the mark counts towards what is needed.
    std::uint64_t tail = 0;
    if (!state.free.empty()) {
      const auto& [offset, length] = *state.free.rbegin();
      if (offset + length == state.reserved) tail = length;
    }
    const std::uint64_t needed = state.reserved + (size > tail ? size - tail : 0);
    if (needed > state.size) continue;
    return std::pair{segment, std::min(state.size, std::max(needed, round_up(needed, step)))};
  }
  return std::nullopt;
}

std::uint64_t Space::segment_size(std::uint32_t segment) const {
  const auto found = segments_.find(segment);
  return found == segments_.end() ? 0 : found->second.size;
}

void Space::check() const {
  std::uint64_t reserved = 0;
  std::uint64_t free_bytes = 0;
  std::size_t ranges = 0;
  for (const auto& [segment, state] : segments_) {
    MOBULA_CHECK(state.reserved <= state.size);
    reserved += state.reserved;
    std::uint64_t end = 0;
    bool first = true;
    for (const auto& [offset, size] : state.free) {
      MOBULA_CHECK(size > 0 && offset + size <= state.reserved);
      MOBULA_CHECK(first || offset > end, "neighbouring free ranges must be one");
      MOBULA_CHECK(by_size_.contains({size, segment, offset}));
      first = false;
      end = offset + size;
      free_bytes += size;
      ++ranges;
    }
  }
  MOBULA_CHECK(reserved == reserved_ && used_ + free_bytes == reserved_ && ranges == by_size_.size());
}

}  // namespace mobula::objectstore
