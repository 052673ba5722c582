// IdMap: a hash map for the hot tables of the machines, keyed by ids.
//
// Why not std::unordered_map: it allocates for every entry, and it invites iteration in an order that depends on the
// library. Here entries live in a deque and are reused (references stay valid until the entry is erased), and the only
// way through all of them is `sorted_keys`, so that nothing can be ordered by a hash. Open addressing with linear
// probing and backward-shift deletion (Knuth, TAOCP 3, 6.4, algorithm R).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/base/check.h"

namespace mobula {

template <class Key, class T>
class IdMap {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  T* find(const Key& key) {
    const std::size_t slot = locate(key);
    return slot == kNowhere ? nullptr : &nodes_[slots_[slot] - 1].value;
  }
  const T* find(const Key& key) const { return const_cast<IdMap*>(this)->find(key); }
  bool contains(const Key& key) const { return locate(key) != kNowhere; }

  T& at(const Key& key) {
    T* found = find(key);
    MOBULA_CHECK(found != nullptr, "no such entry");
    return *found;
  }
  const T& at(const Key& key) const { return const_cast<IdMap*>(this)->at(key); }

  // The entry of `key`, made when there is none; `second` says that it was made.
  std::pair<T&, bool> emplace(const Key& key) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    std::size_t slot = home(key);
    while (slots_[slot] != 0) {
      Node& node = nodes_[slots_[slot] - 1];
      if (node.key == key) return {node.value, false};
      slot = (slot + 1) & mask();
    }
    std::uint32_t index = 0;
    if (free_.empty()) {
      nodes_.emplace_back();
      index = static_cast<std::uint32_t>(nodes_.size());
    } else {
      index = free_.back();
      free_.pop_back();
    }
    nodes_[index - 1].key = key;
    slots_[slot] = index;
    ++size_;
    return {nodes_[index - 1].value, true};
  }
  T& operator[](const Key& key) { return emplace(key).first; }

  bool erase(const Key& key) {
    std::size_t slot = locate(key);
    if (slot == kNowhere) return false;
    const std::uint32_t index = slots_[slot];
    nodes_[index - 1].value = T{};
    free_.push_back(index);
    --size_;
    for (std::size_t next = (slot + 1) & mask(); slots_[next] != 0; next = (next + 1) & mask()) {
      const std::size_t wanted = home(nodes_[slots_[next] - 1].key);
      // Moves back unless its home lies cyclically in (slot, next].
      if (((next - wanted) & mask()) >= ((next - slot) & mask())) {
        slots_[slot] = slots_[next];
        slot = next;
      }
    }
    slots_[slot] = 0;
    return true;
  }

  void clear() { *this = IdMap(); }

  // All keys in order. Costs a sort: for rare events and checks.
  std::vector<Key> sorted_keys() const {
    std::vector<Key> keys;
    keys.reserve(size_);
    for (const std::uint32_t index : slots_) {
      if (index != 0) keys.push_back(nodes_[index - 1].key);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  struct Node {
    Key key{};
    T value{};
  };

  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t home(const Key& key) const { return spread(std::hash<Key>{}(key)) & mask(); }
  // Ids are sequences, and std::hash of an integer is itself.
  static std::size_t spread(std::size_t hash) { return (hash * 0x9e3779b97f4a7c15U) >> 20; }

  std::size_t locate(const Key& key) const {
    if (slots_.empty()) return kNowhere;
    for (std::size_t slot = home(key); slots_[slot] != 0; slot = (slot + 1) & mask()) {
      if (nodes_[slots_[slot] - 1].key == key) return slot;
    }
    return kNowhere;
  }
  void grow() {
    std::vector<std::uint32_t> old = std::move(slots_);
    slots_.assign(std::max<std::size_t>(16, old.size() * 2), 0);
    for (const std::uint32_t index : old) {
      if (index == 0) continue;
      std::size_t slot = home(nodes_[index - 1].key);
      while (slots_[slot] != 0) slot = (slot + 1) & mask();
      slots_[slot] = index;
    }
  }

  std::deque<Node> nodes_;
  std::vector<std::uint32_t> slots_;  // index of a node plus one; 0: empty
  std::vector<std::uint32_t> free_;
  std::size_t size_ = 0;
};

}  // namespace mobula
