// Timers: deadlines of a machine, as a heap of small records.
//
// A timer is never taken back: who gets one checks whether its cause still stands. That makes setting one cheap enough
// to do per call; the owner keeps a flag so that one thing has at most one timer.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/base/time.h"

namespace mobula {

template <class Kind>
class Timers {
 public:
  struct Timer {
    Instant at;
    std::uint64_t order = 0;  // among equal instants: first set, first fired
    Kind kind{};
    std::uint64_t maker = 0;
    std::uint64_t id = 0;
    friend bool operator>(const Timer& a, const Timer& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };

  void set(Instant at, Kind kind, std::uint64_t id, std::uint64_t maker = 0) {
    heap_.push_back(Timer{at, next_order_++, kind, maker, id});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }
  std::optional<Timer> pop_due(Instant now) {
    if (heap_.empty() || heap_.front().at > now) return std::nullopt;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
    const Timer due = heap_.back();
    heap_.pop_back();
    return due;
  }
  Instant next() const { return heap_.empty() ? Instant::never() : heap_.front().at; }
  std::size_t size() const { return heap_.size(); }

 private:
  std::vector<Timer> heap_;
  std::uint64_t next_order_ = 0;
};

}  // namespace mobula
