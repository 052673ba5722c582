// A map that forgets its oldest entries: memory of what ended (tombstones, last answers) that late and repeated
// messages are judged by. Bounded because peers decide how much there is to remember.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace mobula::scheduler {

template <class Key, class Value>
class BoundedMemory {
 public:
  explicit BoundedMemory(std::size_t capacity) : capacity_(capacity) {}

  // Overwrites, and makes the entry the newest. Returns the key that was forgotten to make room.
  std::optional<Key> put(const Key& key, Value value) {
    erase(key);
    const std::uint64_t turn = next_turn_++;
    entries_.emplace(key, Entry{turn, std::move(value)});
    order_.emplace(turn, key);
    if (entries_.size() <= capacity_) return std::nullopt;
    const Key oldest = order_.begin()->second;
    erase(oldest);
    return oldest;
  }
  const Value* find(const Key& key) const {
    const auto at = entries_.find(key);
    return at == entries_.end() ? nullptr : &at->second.value;
  }
  Value* find(const Key& key) {
    const auto at = entries_.find(key);
    return at == entries_.end() ? nullptr : &at->second.value;
  }
  bool contains(const Key& key) const { return entries_.contains(key); }
  void erase(const Key& key) {
    const auto at = entries_.find(key);
    if (at == entries_.end()) return;
    order_.erase(at->second.turn);
    entries_.erase(at);
  }
  // Oldest first.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [turn, key] : order_) visit(key, entries_.at(key).value);
  }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t turn = 0;
    Value value;
  };
  std::size_t capacity_;
  std::uint64_t next_turn_ = 1;
  std::map<Key, Entry> entries_;
  std::map<std::uint64_t, Key> order_;
};

}  // namespace mobula::scheduler
