// Random messages. Full: every member differs from its default and no list is empty, so that a forgotten one shows.
// Sparse: each member keeps its default half of the time.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/runtime/wire/members.h"

namespace mobula::test {

// The highest number of each enum; all count from 0 but ErrorKind.
constexpr unsigned last_of(PeerKind) {
  return static_cast<unsigned>(PeerKind::kClient);
}
constexpr unsigned last_of(ErrorKind) {
  return static_cast<unsigned>(ErrorKind::kRuntimeStopped);
}
constexpr unsigned last_of(Role) {
  return static_cast<unsigned>(Role::kViewer);
}
constexpr unsigned last_of(ActorPhase) {
  return static_cast<unsigned>(ActorPhase::kDead);
}
constexpr unsigned last_of(ActorEnd) {
  return static_cast<unsigned>(ActorEnd::kKilled);
}
constexpr unsigned last_of(SubmissionPhase) {
  return static_cast<unsigned>(SubmissionPhase::kStopped);
}
constexpr unsigned last_of(QueryKind) {
  return static_cast<unsigned>(QueryKind::kDoctor);
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed, bool full = true, std::uint64_t list_max = 3)
      : rng_(seed), full_(full), list_max_(list_max) {}

  template <class T>
  T make() {
    T object{};
    fill(object);
    return object;
  }

  template <class T>
  void operator()(const std::string&, T& member) {
    if (full_ || rng_.chance(1, 2)) fill(member);
  }

  template <class T>
  void fill(T& out) {
    if constexpr (std::is_same_v<T, bool>) {
      out = !out;
    } else if constexpr (std::is_enum_v<T>) {
      constexpr unsigned kFirst = std::is_same_v<T, ErrorKind> ? 1 : 0;
      const T old = out;
      while (out == old) out = static_cast<T>(kFirst + rng_.below(last_of(T{}) - kFirst + 1));
    } else if constexpr (std::is_integral_v<T>) {
      const T old = out;
      while (out == old || out == 0) out = static_cast<T>(rng_.next() >> rng_.below(64));
    } else {
      visit_members(out, *this);
    }
  }

  void fill(Quantity& out) {
    const Quantity old = out;
    while (out == old || out.units == 0) out.units = static_cast<std::int64_t>(rng_.next() >> rng_.below(64));
  }
  template <class Tag>
  void fill(Id<Tag>& out) {
    out.value = rng_.id();
  }
  template <class Tag>
  void fill(PairId<Tag>& out) {
    out = {rng_.id(), 1 + rng_.below(1000)};
  }
  void fill(std::string& out) {
    out.clear();
    for (std::uint64_t left = 1 + rng_.below(20); left > 0; --left) out += static_cast<char>(rng_.below(128));
  }
  void fill(Bytes& out) {
    std::string text;
    fill(text);
    out = Bytes::copy_of(text);
  }
  template <class T>
  void fill(std::optional<T>& out) {
    fill(out.emplace());
  }
  template <class T>
  void fill(std::vector<T>& out) {
    out.resize(1 + rng_.below(list_max_));
    for (T& element : out) {
      if (full_ || rng_.chance(1, 2)) fill(element);
    }
    if (rng_.chance(1, 2)) share_owner(out);
  }
  template <class A, class B>
  void fill(std::pair<A, B>& out) {
    fill(out.first);
    fill(out.second);
  }
  template <class... T>
  void fill(std::variant<T...>& out) {
    fill_alternative(out, rng_.below(sizeof...(T)), std::index_sequence_for<T...>());
  }
  void fill(Message& out) { fill(static_cast<AnyMessage&>(out)); }

  // The alternative `index`, filled.
  Message make_message(std::size_t index) {
    Message out;
    fill_alternative(out, index, std::make_index_sequence<std::variant_size_v<AnyMessage>>());
    return out;
  }
  Record make_record(std::size_t index) {
    Record out;
    fill_alternative(out, index, std::make_index_sequence<std::variant_size_v<Record>>());
    return out;
  }

  Rng& rng() { return rng_; }

 private:
  // Half of the lists name things of one owner, as those sent to an owner do.
  template <class T>
  void share_owner(std::vector<T>&) {}
  template <class Tag>
  void share_owner(std::vector<PairId<Tag>>& out) {
    for (auto& id : out) id.maker = out.front().maker;
  }
  void share_owner(std::vector<ObjectLocator>& out) {
    for (ObjectLocator& locator : out) {
      locator = {{out[0].id.maker, locator.id.sequence}, out[0].owner_node, out[0].owner_job};
    }
  }

  template <class Variant, std::size_t... I>
  void fill_alternative(Variant& out, std::size_t index, std::index_sequence<I...>) {
    ((I == index ? fill(out.template emplace<I>()) : void()), ...);
  }

  Rng rng_;
  bool full_;
  std::uint64_t list_max_;
};

}  // namespace mobula::test
