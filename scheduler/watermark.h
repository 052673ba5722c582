// The lowest task of this process that is not settled yet: executors forget the answers of all below it.
//
// Sequences arrive nearly in order. Those that never come (the submission was refused) count as settled once 64 later
// ones have come, so that one gap does not hold the mark for ever.
#pragma once

#include <cstdint>
#include <deque>

#include "runtime/base/check.h"

namespace mobula::scheduler {

class Watermark {
 public:
  static constexpr std::uint64_t kDisorderMax = 64;

  void submitted(std::uint64_t sequence) {
    if (sequence < base_) return;
    while (base_ + states_.size() <= sequence) states_.push_back(State::kUnknown);
    states_[sequence - base_] = State::kOpen;
  }
  void settled(std::uint64_t sequence) {
    if (sequence < base_) return;
    states_[sequence - base_] = State::kSettled;
    advance();
  }
  // Every smaller sequence is settled.
  std::uint64_t value() const { return base_; }

 private:
  enum class State : std::uint8_t { kUnknown, kOpen, kSettled };

  void advance() {
    while (states_.size() > kDisorderMax && states_.front() != State::kOpen) {
      states_.pop_front();
      ++base_;
    }
  }

  std::uint64_t base_ = 1;
  std::deque<State> states_;
};

}  // namespace mobula::scheduler
