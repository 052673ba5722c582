// Archive: how a class with private members says what travels.
//
//   class Model {
//    public:
//     Model() = default;                            // the reader makes an empty one and fills it
//     void serialize(mobula::Archive& archive) { archive(weights_, epoch_); }
//    private:
//     std::vector<float> weights_;
//     int epoch_ = 0;
//   };
//
// One serialize() serves both ways, so it must walk the same members when it writes as when it reads; it may be called
// several times for one value. A pair `void save(Archive&) const` and `void load(Archive&)` does for classes that must
// rebuild something after loading, and a free `void serialize(Archive&, T&)` in T's namespace for classes that cannot
// be changed. `template <class A> void serialize(A& archive)` as written for cereal works as it is. To keep any of
// these private: `friend struct mobula::Access;`. Aggregates (structs of public members) need none of it.
//
// What can be sent: numbers, enums, strings, std containers, std::optional, variant, pair, tuple, array, unique_ptr,
// shared_ptr (sharing and cycles within one value are kept), durations, system_clock times, std::complex,
// std::filesystem::path, mobula::Array, Tensor, ObjectRef and Actor, aggregates and classes as above, each nested in
// others at will (up to 1000 levels of pointers and containers). Anything else fails to compile and says what to do.
#pragma once

#include <type_traits>
#include <utility>

#include <mobula/detail/codec.h>

namespace mobula {

// Writes or reads a value, which of the two being known only at run time. Made by Mobula, used only during the call of
// serialize() that it is given to, by one thread.
class Archive {
 public:
  explicit Archive(detail::Encoder& out) : out_(&out) {}
  explicit Archive(detail::Decoder& in) : in_(&in) {}
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  // True while a value is read: serialize() may then rebuild what it does not send.
  bool loading() const { return in_ != nullptr; }

  // Writes or reads each of `values`, in order.
  template <class... Ts>
  Archive& operator()(Ts&&... values) {
    (walk(values), ...);
    return *this;
  }

 private:
  template <class T>
  static constexpr bool kNamed = requires(T& pair) {
    pair.name;
    requires std::is_reference_v<decltype(T::value)>;
  };

  template <class T>
  void walk(T& value) {
    using Value = std::remove_const_t<T>;
    if constexpr (kNamed<Value>) {  // a name-value pair of cereal: names do not travel
      walk(value.value);
    } else if (in_ == nullptr) {
      detail::encode<Value>(*out_, value);
    } else if constexpr (std::is_const_v<T>) {
      detail::throw_invalid("serialize() gave a const member to an Archive that reads");
    } else {
      detail::decode(*in_, value);
    }
  }

  detail::Encoder* out_ = nullptr;
  detail::Decoder* in_ = nullptr;
};

namespace detail {

// A lead byte, so that a class that sends nothing still takes room: see codec.h.
inline constexpr std::uint8_t kCustomMark = 1;

template <class T>
void encode_custom(Encoder& out, const T& value) {
  out.write_plain(kCustomMark);
  Archive archive(out);
  if constexpr (kCategory<T> == Category::kSaveLoad) {
    Access::save(value, archive);
  } else {
    // One serialize() for both ways cannot be const; an Archive that writes only reads from it.
    T& writable = const_cast<T&>(value);
    if constexpr (kCategory<T> == Category::kMember)
      Access::serialize(writable, archive);
    else
      serialize(archive, writable);
  }
}

template <class T>
void decode_custom(Decoder& in, T& value) {
  if (in.read_byte() != kCustomMark) throw_damaged("a class does not begin where it should");
  Archive archive(in);
  if constexpr (kCategory<T> == Category::kSaveLoad)
    Access::load(value, archive);
  else if constexpr (kCategory<T> == Category::kMember)
    Access::serialize(value, archive);
  else
    serialize(archive, value);
}

}  // namespace detail

}  // namespace mobula
