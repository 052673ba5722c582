// Sorts a type into how it is encoded, from what it can do rather than from its name.
//
// Containers are recognised by their members, so <deque>, <map>, <complex>, <filesystem> and their like are never
// included here: a user pays only for what the user includes, and containers of other libraries work too.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <mobula/detail/aggregate.h>

namespace mobula {

class Archive;

// Befriend it to keep serialize(), save() or load() private: `friend struct mobula::Access;`.
struct Access {
  template <class T>
  static auto serialize(T& value, Archive& archive) -> decltype(value.serialize(archive)) {
    return value.serialize(archive);
  }
  template <class T>
  static auto save(const T& value, Archive& archive) -> decltype(value.save(archive)) {
    return value.save(archive);
  }
  template <class T>
  static auto load(T& value, Archive& archive) -> decltype(value.load(archive)) {
    return value.load(archive);
  }
};

}  // namespace mobula

namespace mobula::detail {

// Specialised for Mobula's own types: `kFingerprint`, encode(Encoder&, const T&) and decode(Decoder&, T&).
template <class T>
struct Native;

enum class Category : std::uint8_t {
  kUnsendable,
  kNative,
  kBool,
  kScalar,    // numbers and enums
  kMember,    // serialize(Archive&) of its own
  kSaveLoad,  // save(Archive&) const and load(Archive&)
  kFree,      // serialize(Archive&, T&) beside it
  kText,      // strings
  kPath,
  kBits,  // std::vector<bool>
  kSequence,
  kMap,
  kSet,
  kPair,
  kTuple,
  kFixed,  // std::array and C arrays
  kOptional,
  kVariant,
  kUnique,
  kShared,
  kDuration,
  kTimePoint,
  kComplex,
  kUnit,  // std::monostate
  kAggregate,
};

template <class T>
concept IsNative = requires {
  Native<T>::kFingerprint;
};

template <class T>
concept HasMemberSerialize = requires(T& value, Archive& archive) {
  Access::serialize(value, archive);
};
template <class T>
concept HasSaveLoad = requires(T& value, const T& constant, Archive& archive) {
  Access::save(constant, archive);
  Access::load(value, archive);
};
template <class T>
concept HasFreeSerialize = requires(T& value, Archive& archive) {
  serialize(archive, value);
};

template <class T>
concept TextLike = requires(const T& text) {
  typename T::traits_type;
  typename T::allocator_type;
  text.c_str();
};
template <class T>
concept PathLike = requires(const T& path) {
  typename T::string_type;
  path.native();
  T::preferred_separator;
};
template <class T>
concept SequenceLike = requires(T& container, typename T::value_type& element) {
  container.push_back(std::move(element));
  container.clear();
  container.size();
  container.begin();
  container.end();
};
template <class T>
concept BitsLike = SequenceLike<T> && std::is_same_v<typename T::value_type, bool> && requires {
  typename T::allocator_type;
} && !std::is_same_v<typename T::reference, bool&>;
template <class T>
concept SetLike = requires(T& container, typename T::key_type& key) {
  container.insert(std::move(key));
  container.clear();
  container.size();
  container.begin();
  container.end();
};
template <class T>
concept MapLike = requires(T& container, typename T::key_type& key, typename T::mapped_type& mapped) {
  container.emplace_hint(container.end(), std::move(key), std::move(mapped));
  container.clear();
  container.size();
  container.begin();
};
template <class T>
concept DurationLike = requires(const T& duration) {
  typename T::rep;
  typename T::period;
  T(duration.count());
};
template <class T>
concept TimePointLike = requires(const T& time) {
  typename T::clock;
  typename T::duration;
  T(time.time_since_epoch());
};
template <class T>
concept ComplexLike = std::is_arithmetic_v<typename T::value_type> && requires(const T& number) {
  T(number.real(), number.imag());
  requires sizeof(T) == 2 * sizeof(typename T::value_type);
};

template <class T>
inline constexpr Category kTemplateCategory = Category::kUnsendable;
template <class A, class B>
inline constexpr Category kTemplateCategory<std::pair<A, B>> = Category::kPair;
template <class... Ts>
inline constexpr Category kTemplateCategory<std::tuple<Ts...>> = Category::kTuple;
template <class T, std::size_t Size>
inline constexpr Category kTemplateCategory<std::array<T, Size>> = Category::kFixed;
template <class T, std::size_t Size>
inline constexpr Category kTemplateCategory<T[Size]> = Category::kFixed;
template <class T>
inline constexpr Category kTemplateCategory<std::optional<T>> = Category::kOptional;
template <class... Ts>
inline constexpr Category kTemplateCategory<std::variant<Ts...>> = Category::kVariant;
template <class T, class Deleter>
inline constexpr Category kTemplateCategory<std::unique_ptr<T, Deleter>> = Category::kUnique;
template <class T>
inline constexpr Category kTemplateCategory<std::shared_ptr<T>> = Category::kShared;
template <>
inline constexpr Category kTemplateCategory<std::monostate> = Category::kUnit;

template <class T>
constexpr Category class_category() {
  if constexpr (HasMemberSerialize<T>)
    return Category::kMember;
  else if constexpr (HasSaveLoad<T>)
    return Category::kSaveLoad;
  else if constexpr (kTemplateCategory<T> != Category::kUnsendable)
    return kTemplateCategory<T>;
  else if constexpr (TextLike<T>)
    return Category::kText;
  else if constexpr (PathLike<T>)
    return Category::kPath;
  else if constexpr (BitsLike<T>)
    return Category::kBits;
  else if constexpr (SequenceLike<T>)
    return Category::kSequence;
  else if constexpr (MapLike<T>)
    return Category::kMap;
  else if constexpr (SetLike<T>)
    return Category::kSet;
  else if constexpr (DurationLike<T>)
    return Category::kDuration;
  else if constexpr (TimePointLike<T>)
    return Category::kTimePoint;
  else if constexpr (ComplexLike<T>)
    return Category::kComplex;
  else if constexpr (HasFreeSerialize<T>)
    return Category::kFree;
  else if constexpr (std::is_aggregate_v<T> && !std::is_polymorphic_v<T> && std::is_default_constructible_v<T> &&
                     !AggregateWithBase<T>)
    return Category::kAggregate;
  else
    return Category::kUnsendable;
}

template <class T>
constexpr Category find_category() {
  if constexpr (std::is_same_v<T, bool>)
    return Category::kBool;
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
    return Category::kScalar;
  else if constexpr (std::is_array_v<T>)
    return kTemplateCategory<T>;
  else if constexpr (!std::is_class_v<T>)
    return Category::kUnsendable;
  else if constexpr (IsNative<T>)
    return Category::kNative;
  else
    return class_category<T>();
}

template <class T>
inline constexpr Category kCategory = find_category<T>();

// ---- plain types: those whose encoding is their memory, so that a run of them is one memcpy
// --------------------------

template <class T>
constexpr bool is_plain();

template <class... Fields>
constexpr bool fields_are_plain(FieldList<Fields...>, std::size_t size) {
  return ((!std::is_const_v<Fields> && is_plain<Fields>()) && ...) && (sizeof(Fields) + ... + 0) == size;
}

template <class T>
constexpr bool is_plain() {
  constexpr Category kind = kCategory<T>;
  if constexpr (kind == Category::kScalar) {
    if constexpr (std::is_enum_v<T>)
      return !std::is_same_v<std::underlying_type_t<T>, bool>;
    else
      return true;
  } else if constexpr (kind == Category::kComplex) {
    return true;
  } else if constexpr (kind == Category::kDuration) {
    return is_plain<typename T::rep>() && sizeof(T) == sizeof(typename T::rep);
  } else if constexpr (std::is_array_v<T>) {
    return is_plain<std::remove_extent_t<T>>();
  } else if constexpr (kind == Category::kFixed) {
    if constexpr (std::tuple_size_v<T> == 0)
      return false;
    else
      return is_plain<typename T::value_type>();
  } else if constexpr (kind == Category::kAggregate && std::is_trivially_copyable_v<T>) {
    if constexpr (kFieldCount<T> == 0 || kFieldCount < T >> kFieldsMax)
      return false;
    else
      return fields_are_plain(FieldsOf<T>{}, sizeof(T));
  } else {
    return false;
  }
}

template <class T>
inline constexpr bool kPlain = is_plain<T>();

// ---- why a type cannot be sent --------------------------------------------------------------------------------------

template <class T>
concept CallableLike = requires {
  &T::operator();
};
template <class T>
concept LockLike = requires(T& lock) {
  lock.lock();
  lock.unlock();
};
template <class T>
concept ThreadLike = requires(T& thread) {
  thread.joinable();
};
template <class T>
concept ViewLike = requires(const T& view) {
  view.data();
  view.size();
  view.begin();
};
template <class T>
concept StreamLike = requires(T& stream) {
  stream.rdbuf();
};
template <class T>
concept FutureLike = requires(T& future) {
  future.wait();
};

// Fails to compile where a value would have to be encoded that cannot be; the compiler names T beside the message.
template <class T>
constexpr void explain_unsendable() {
  constexpr bool kNever = !std::is_same_v<T, T>;
  if constexpr (std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>) {
    static_assert(kNever,
                  "mobula: a raw pointer cannot be sent, its target lies in this process. Send the value itself, a "
                  "std::unique_ptr or std::shared_ptr to it, a std::vector, or a mobula::ObjectRef from mobula::put");
  } else if constexpr (std::is_reference_v<T>) {
    static_assert(kNever, "mobula: a reference cannot be sent. Send the value itself or a mobula::ObjectRef");
  } else if constexpr (std::is_union_v<T>) {
    static_assert(kNever, "mobula: a union cannot be sent, nobody knows which member it holds. Use a std::variant");
  } else if constexpr (std::is_array_v<T> || std::is_function_v<T>) {
    static_assert(kNever,
                  "mobula: arrays of unknown size and functions cannot be sent. Use a std::vector, or the "
                  "function as `mobula::remote<f>`");
  } else if constexpr (CallableLike<T>) {
    static_assert(
        kNever,
        "mobula: a function object (a lambda or std::function) cannot be sent, its code has no name elsewhere. "
        "Name the function as `mobula::remote<f>` and pass what a lambda would capture as arguments");
  } else if constexpr (ThreadLike<T> || FutureLike<T>) {
    static_assert(kNever,
                  "mobula: threads, futures and condition variables belong to one process. Start a task with "
                  "mobula::remote and pass its mobula::ObjectRef");
  } else if constexpr (LockLike<T>) {
    static_assert(
        kNever,
        "mobula: a mutex belongs to one process. Keep shared state in an actor (mobula::actor<T>), whose calls "
        "run one at a time");
  } else if constexpr (StreamLike<T>) {
    static_assert(kNever, "mobula: a stream belongs to one process. Send the bytes or the path of the file");
  } else if constexpr (std::is_polymorphic_v<T>) {
    static_assert(
        kNever,
        "mobula: a type with virtual functions is not sent member by member. Give it `void "
        "serialize(mobula::Archive& archive) { archive(a, b); }`, or send a std::variant of the concrete types");
  } else if constexpr (AggregateWithBase<T>) {
    static_assert(kNever,
                  "mobula: an aggregate with a base class needs `void serialize(mobula::Archive& archive) { "
                  "archive(base members, own members); }`; or make the base a member");
  } else if constexpr (std::is_aggregate_v<T>) {
    static_assert(
        kNever,
        "mobula: this aggregate has no default constructor (a reference member, or a member without one), so no "
        "reader can make it. Replace references by values and give members default constructors");
  } else if constexpr (ViewLike<T>) {
    static_assert(kNever,
                  "mobula: a view (std::string_view, std::span) does not own what it shows. Send the std::string or "
                  "std::vector");
  } else {
    static_assert(kNever,
                  "mobula: this class cannot be sent: it has private members and no serialize. Give it `void "
                  "serialize(mobula::Archive& archive) { archive(a_, b_); }` with all that it holds, or make it an "
                  "aggregate");
  }
}

}  // namespace mobula::detail
