// Looking into the actions of a machine.
#pragma once

#include <variant>
#include <vector>

#include "runtime/base/machine.h"

namespace mobula::testing {

// The messages of type M among `sends` that go to `to`, in order.
template <class M>
std::vector<M> sent_to(const std::vector<Send>& sends, const Peer& to) {
  std::vector<M> found;
  for (const Send& send : sends) {
    if (send.to == to && std::holds_alternative<M>(send.message)) found.push_back(std::get<M>(send.message));
  }
  return found;
}

// Those of `all`, a list of variants, that hold a T.
template <class T, class Variants>
std::vector<T> those(const Variants& all) {
  std::vector<T> found;
  for (const auto& one : all) {
    if (const auto* value = std::get_if<T>(&one)) found.push_back(*value);
  }
  return found;
}

}  // namespace mobula::testing
