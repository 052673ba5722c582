// ObjectRef<T>: the promise of a T that lives somewhere in the cluster.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <mobula/archive.h>
#include <mobula/detail/core.h>
#include <mobula/ids.h>

namespace mobula {

namespace detail {
struct RefAccess;
}

// Made by remote<f>(...), actor calls and put(); read by get() and wait(); an argument of other tasks, at the top (then
// the task gets the value) or nested in containers and structs (then it gets the ref). The object lives while a ref to
// it lives anywhere in the cluster, also inside other objects and queued tasks. ObjectRef<void> only says that
// something is done.
//
// Copies are cheap and count together. Threads may use different ObjectRefs at will, copies of one another included;
// one ObjectRef is as thread-safe as an int: many may read it, or one may change it. A ref may outlive the Runtime: its
// end then does nothing, and get() on it throws RuntimeStopped.
template <class T>
class ObjectRef {
  static_assert(std::is_same_v<T, std::remove_cvref_t<T>>, "mobula: write ObjectRef<T> with a plain T, no const or &");

 public:
  using value_type = T;

  // Refers to nothing: false, equal to all empty refs; get() throws Invalid.
  ObjectRef() = default;

  explicit operator bool() const { return static_cast<bool>(handle_); }
  // Zero when empty.
  ObjectId id() const { return handle_.id(); }
  // Gives the reference up early.
  void reset() { handle_ = detail::RefHandle(); }

  friend bool operator==(const ObjectRef& a, const ObjectRef& b) { return a.id() == b.id(); }
  friend std::strong_ordering operator<=>(const ObjectRef& a, const ObjectRef& b) { return a.id() <=> b.id(); }

 private:
  explicit ObjectRef(detail::RefHandle handle) : handle_(std::move(handle)) {}
  friend struct detail::RefAccess;

  detail::RefHandle handle_;
};

namespace detail {

struct RefAccess {
  template <class T>
  static const RefHandle& handle(const ObjectRef<T>& ref) {
    return ref.handle_;
  }
  template <class T>
  static RefHandle&& take(ObjectRef<T>&& ref) {
    return std::move(ref.handle_);
  }
  template <class T>
  static ObjectRef<T> make(RefHandle handle) {
    return ObjectRef<T>(std::move(handle));
  }
};

template <class T>
inline constexpr bool kIsObjectRef = false;
template <class T>
inline constexpr bool kIsObjectRef<ObjectRef<T>> = true;

template <class T>
struct Native<ObjectRef<T>> {
  // Not of T: a struct may hold refs to itself, and the object that is read says what it is.
  static constexpr std::uint64_t kFingerprint = hash_text("mobula.ref");
  static void encode(Encoder& out, const ObjectRef<T>& ref) { out.write_ref(RefAccess::handle(ref)); }
  static void decode(Decoder& in, ObjectRef<T>& ref) { ref = RefAccess::make<T>(in.read_ref()); }
};

}  // namespace detail

template <class T>
std::string to_string(const ObjectRef<T>& ref) {
  return to_string(ref.id());
}

}  // namespace mobula

template <class T>
struct std::hash<mobula::ObjectRef<T>> {
  std::size_t operator()(const mobula::ObjectRef<T>& ref) const noexcept {
    return std::hash<mobula::ObjectId>()(ref.id());
  }
};
