// get: the values behind refs, here and now.
#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/detail/codec.h>
#include <mobula/object_ref.h>
#include <mobula/outcome.h>

namespace mobula {

namespace detail {

template <class T>
T decode_result(const InPayload& payload) {
  if constexpr (std::is_void_v<T>) {
    Decoder(payload, kFingerprint<void>, "void").finish();
  } else {
    check_default_constructible<T>();
    T value{};
    decode_payload(payload, value);
    return value;
  }
}

template <class T>
const RefHandle& checked_handle(const ObjectRef<T>& ref) {
  if (!ref) throw_invalid("get or wait of an empty ObjectRef");
  return RefAccess::handle(ref);
}

template <class T>
std::vector<RefHandle> handles_of(std::span<const ObjectRef<T>> refs) {
  std::vector<RefHandle> handles;
  handles.reserve(refs.size());
  for (const ObjectRef<T>& ref : refs) handles.push_back(checked_handle(ref));
  return handles;
}

template <class T>
mobula::Outcome<T> to_outcome(Outcome found) {
  if (found.error.has_value()) return mobula::Outcome<T>(std::move(*found.error));
  if constexpr (std::is_void_v<T>) {
    decode_result<void>(found.payload);
    return mobula::Outcome<void>();
  } else {
    return mobula::Outcome<T>(decode_result<T>(found.payload));
  }
}

template <class T>
using ManyOf = std::conditional_t<std::is_void_v<T>, void, std::vector<std::conditional_t<std::is_void_v<T>, int, T>>>;

template <class T>
ManyOf<T> get_many(std::span<const ObjectRef<T>> refs, Timeout timeout) {
  std::vector<Outcome> found = get(handles_of(refs), timeout);
  for (Outcome& each : found) {
    if (each.error.has_value()) throw_error(std::move(*each.error));
  }
  if constexpr (!std::is_void_v<T>) {
    std::vector<T> values;
    values.reserve(found.size());
    for (const Outcome& each : found) values.push_back(decode_result<T>(each.payload));
    return values;
  }
}

// A void ref has this place in a tuple of values.
template <class T>
using TupleValue = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
TupleValue<T> decode_for_tuple(const InPayload& payload) {
  if constexpr (std::is_void_v<T>) {
    decode_result<void>(payload);
    return {};
  } else {
    return decode_result<T>(payload);
  }
}

template <class... Ts, std::size_t... Index>
std::tuple<TupleValue<Ts>...> get_tuple(const std::tuple<ObjectRef<Ts>...>& refs, Timeout timeout,
                                        std::index_sequence<Index...>) {
  const std::vector<RefHandle> handles{checked_handle(std::get<Index>(refs))...};
  std::vector<Outcome> found = get(handles, timeout);
  for (Outcome& each : found) {
    if (each.error.has_value()) throw_error(std::move(*each.error));
  }
  return std::tuple<TupleValue<Ts>...>{decode_for_tuple<Ts>(found[Index].payload)...};
}

inline Timeout no_limit() {
  return std::nullopt;
}
template <class Rep, class Period>
Timeout limit(std::chrono::duration<Rep, Period> timeout) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(timeout);
}

}  // namespace detail

// Waits for the value of `ref` and returns a copy of it; arrays and tensors in it are views of the shared pages. Throws
// what the object holds instead of a value: TaskFailed with the user's exception, WorkerDied, Cancelled, ObjectLost,
// ...; RuntimeStopped when there is no Runtime, Invalid when the ref is empty. Each call decodes anew: keep the value.
// A worker that waits here gives its CPUs back meanwhile.
template <class T>
T get(const ObjectRef<T>& ref) {
  return detail::decode_result<T>(detail::get_one(detail::checked_handle(ref), detail::no_limit()));
}
// Likewise, Timeout after that long.
template <class T, class Rep, class Period>
T get(const ObjectRef<T>& ref, std::chrono::duration<Rep, Period> timeout) {
  return detail::decode_result<T>(detail::get_one(detail::checked_handle(ref), detail::limit(timeout)));
}

// All values, in the order of the refs (void for refs of void). Waits for all of them, then throws the first error in
// that order; get_all() gives each its own.
template <class T>
detail::ManyOf<T> get(const std::vector<ObjectRef<T>>& refs) {
  return detail::get_many<T>(refs, detail::no_limit());
}
// Timeout when not all are there after that long.
template <class T, class Rep, class Period>
detail::ManyOf<T> get(const std::vector<ObjectRef<T>>& refs, std::chrono::duration<Rep, Period> timeout) {
  return detail::get_many<T>(refs, detail::limit(timeout));
}
// get({a, b}).
template <class T>
detail::ManyOf<T> get(std::initializer_list<ObjectRef<T>> refs) {
  return detail::get_many<T>(std::span<const ObjectRef<T>>(refs), detail::no_limit());
}

// What a function that returns a std::tuple gave: a tuple of values (std::monostate for void).
template <class... Ts>
std::tuple<detail::TupleValue<Ts>...> get(const std::tuple<ObjectRef<Ts>...>& refs) {
  return detail::get_tuple(refs, detail::no_limit(), std::index_sequence_for<Ts...>{});
}
template <class... Ts, class Rep, class Period>
std::tuple<detail::TupleValue<Ts>...> get(const std::tuple<ObjectRef<Ts>...>& refs,
                                          std::chrono::duration<Rep, Period> timeout) {
  return detail::get_tuple(refs, detail::limit(timeout), std::index_sequence_for<Ts...>{});
}
// auto [a, b] = get(ref_a, ref_b): refs of different types at once.
template <class A, class B, class... Ts>
std::tuple<detail::TupleValue<A>, detail::TupleValue<B>, detail::TupleValue<Ts>...> get(const ObjectRef<A>& a,
                                                                                        const ObjectRef<B>& b,
                                                                                        const ObjectRef<Ts>&... rest) {
  return get(std::tuple<ObjectRef<A>, ObjectRef<B>, ObjectRef<Ts>...>(a, b, rest...));
}

// A value or an error for each ref, in order; never throws for what an object holds.
template <class T>
std::vector<Outcome<T>> get_all(const std::vector<ObjectRef<T>>& refs, detail::Timeout timeout = std::nullopt) {
  std::vector<Outcome<T>> outcomes;
  outcomes.reserve(refs.size());
  for (detail::Outcome& found : detail::get(detail::handles_of<T>(refs), timeout)) {
    outcomes.push_back(detail::to_outcome<T>(std::move(found)));
  }
  return outcomes;
}
// Likewise for one.
template <class T>
Outcome<T> try_get(const ObjectRef<T>& ref, detail::Timeout timeout = std::nullopt) {
  const detail::RefHandle handles[] = {detail::checked_handle(ref)};
  return detail::to_outcome<T>(std::move(detail::get(handles, timeout).at(0)));
}

}  // namespace mobula
