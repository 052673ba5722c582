// Outbox: gathers the messages of one step so that each peer gets few and large ones.
//
// Peers come out in the order in which they were first written to, messages of a peer in the order they were begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/id_map.h"
#include "runtime/base/machine.h"

namespace mobula {

class Outbox {
 public:
  // The last message to `peer` when it is an M, else a new one after it.
  template <class M>
  M& last(const Peer& peer) {
    std::vector<Message>& messages = to(peer);
    if (messages.empty() || !std::holds_alternative<M>(messages.back())) messages.emplace_back(M{});
    return std::get<M>(messages.back());
  }
  template <class M>
  M& add(const Peer& peer, M message) {
    return std::get<M>(to(peer).emplace_back(std::move(message)));
  }
  // What was gathered for a peer that is gone.
  void drop(const Peer& peer) {
    for (Batch& batch : batches_) {
      if (batch.peer == peer) batch.messages.clear();
    }
  }
  void flush(std::vector<Send>& sends) {
    for (std::size_t i = 0; i < used_; ++i) {
      Batch& batch = batches_[i];
      for (Message& message : batch.messages) sends.push_back(Send{batch.peer, std::move(message), 0});
      batch.messages.clear();
    }
    if (used_ > kLinearMax) index_.clear();
    used_ = 0;
  }
  bool empty() const { return used_ == 0; }

 private:
  // Up to here a scan beats a hash.
  static constexpr std::size_t kLinearMax = 8;
  struct Batch {
    Peer peer;
    std::vector<Message> messages;
  };

  std::vector<Message>& to(const Peer& peer) {
    for (std::size_t i = 0; i < used_ && i < kLinearMax; ++i) {
      if (batches_[i].peer == peer) return batches_[i].messages;
    }
    if (used_ >= kLinearMax) {
      const auto [place, is_new] = index_.emplace(peer);
      if (!is_new) return batches_[place].messages;
      place = static_cast<std::uint32_t>(used_);
    }
    if (used_ == batches_.size()) batches_.emplace_back();
    batches_[used_].peer = peer;
    return batches_[used_++].messages;
  }

  std::vector<Batch> batches_;  // the first `used_` are in use; the others keep their buffers
  std::size_t used_ = 0;
  IdMap<Peer, std::uint32_t> index_;
};

}  // namespace mobula
