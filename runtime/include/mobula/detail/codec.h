// encode and decode for every category of type: the one place where a value's structure becomes bytes.
//
// Every value takes at least one byte of the stream, so that a count of elements can be compared with the bytes left.
// Values are decoded in place, which is why they need a default constructor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/category.h>
#include <mobula/detail/fingerprint.h>
#include <mobula/detail/payload.h>

namespace mobula::detail {

template <class T>
void encode(Encoder& out, const T& value);
template <class T>
void decode(Decoder& in, T& value);

template <class T>
void encode_custom(Encoder& out, const T& value);  // archive.h
template <class T>
void decode_custom(Decoder& in, T& value);

template <class T>
inline constexpr char kTypeTag = 0;

// The least a value takes in the stream.
template <class T>
constexpr std::size_t bytes_min() {
  if constexpr (kPlain<T>)
    return sizeof(T);
  else
    return 1;
}

template <class T>
concept ContiguousLike = requires(T& container, std::size_t size) {
  container.data();
  container.resize(size);
};

template <class T>
constexpr void check_default_constructible() {
  static_assert(std::is_default_constructible_v<T>,
                "mobula: a value that is sent needs a default constructor, the reader fills it in place");
}

// ---- containers
// ------------------------------------------------------------------------------------------------------

template <class T>
void encode_sequence(Encoder& out, const T& value) {
  using Element = typename T::value_type;
  out.write_varint(value.size());
  if constexpr (kPlain<Element>) {
    const std::size_t bytes = value.size() * sizeof(Element);
    out.align_run(bytes);
    if constexpr (ContiguousLike<T>) {
      out.write(value.data(), bytes);
      return;
    }
  }
  for (const auto& element : value) encode<Element>(out, element);
}

// A run of plain elements that lies contiguously: one copy, without clearing the memory first where that can be helped.
template <class T>
void decode_run(Decoder& in, T& value, std::size_t count) {
  using Element = typename T::value_type;
  const std::byte* start = in.take(count * sizeof(Element));
  if (reinterpret_cast<std::uintptr_t>(start) % alignof(Element) == 0) {
    const auto* elements = reinterpret_cast<const Element*>(start);
    value.assign(elements, elements + count);
  } else {
    value.resize(count);
    std::memcpy(value.data(), start, count * sizeof(Element));
  }
}

template <class T>
void decode_sequence(Decoder& in, T& value) {
  using Element = typename T::value_type;
  check_default_constructible<Element>();
  const std::size_t count = in.read_count(bytes_min<Element>());
  value.clear();
  if constexpr (kPlain<Element>) {
    in.align_run(count * sizeof(Element));
    if constexpr (ContiguousLike<T>) {
      if (count != 0) decode_run(in, value, count);
      return;
    }
  }
  if constexpr (requires { value.reserve(count); }) {
    value.reserve(std::min(count, in.left() / sizeof(Element) + 1));
  }
  for (std::size_t i = 0; i < count; ++i) {
    Element element{};
    decode(in, element);
    value.push_back(std::move(element));
  }
}

template <class T>
void encode_bits(Encoder& out, const T& value) {
  out.write_varint(value.size());
  std::uint8_t byte = 0;
  std::size_t used = 0;
  for (const bool bit : value) {
    byte = static_cast<std::uint8_t>(byte | (static_cast<unsigned>(bit) << used));
    if (++used == 8) {
      out.write_plain(byte);
      byte = 0;
      used = 0;
    }
  }
  if (used != 0) out.write_plain(byte);
}

template <class T>
void decode_bits(Decoder& in, T& value) {
  const std::uint64_t count = in.read_varint();
  if (count / 8 > in.left()) throw_damaged("more bits than bytes");
  const std::byte* bytes = in.take(static_cast<std::size_t>(count / 8 + (count % 8 != 0 ? 1 : 0)));
  value.clear();
  value.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < count; ++i) value.push_back(((bytes[i / 8] >> (i % 8)) & std::byte{1}) != std::byte{0});
}

template <class T>
void decode_set(Decoder& in, T& value) {
  using Key = typename T::key_type;
  check_default_constructible<Key>();
  const std::size_t count = in.read_count(bytes_min<Key>());
  value.clear();
  for (std::size_t i = 0; i < count; ++i) {
    Key key{};
    decode(in, key);
    value.insert(value.end(), std::move(key));
  }
}

template <class T>
void encode_map(Encoder& out, const T& value) {
  out.write_varint(value.size());
  for (const auto& [key, mapped] : value) {
    encode<typename T::key_type>(out, key);
    encode<typename T::mapped_type>(out, mapped);
  }
}

template <class T>
void decode_map(Decoder& in, T& value) {
  using Key = typename T::key_type;
  using Mapped = typename T::mapped_type;
  check_default_constructible<Key>();
  check_default_constructible<Mapped>();
  const std::size_t count = in.read_count(bytes_min<Key>() + bytes_min<Mapped>());
  value.clear();
  for (std::size_t i = 0; i < count; ++i) {
    Key key{};
    Mapped mapped{};
    decode(in, key);
    decode(in, mapped);
    value.emplace_hint(value.end(), std::move(key), std::move(mapped));
  }
}

// ---- one of several, or none
// -----------------------------------------------------------------------------------------

template <class... Ts>
void encode_variant(Encoder& out, const std::variant<Ts...>& value) {
  if (value.valueless_by_exception()) throw_invalid("a std::variant without a value cannot be sent");
  out.write_varint(value.index());
  std::visit([&out](const auto& held) { encode(out, held); }, value);
}

template <class... Ts, std::size_t... Index>
void decode_variant(Decoder& in, std::variant<Ts...>& value, std::index_sequence<Index...>) {
  (check_default_constructible<Ts>(), ...);
  const std::uint64_t index = in.read_varint();
  if (index >= sizeof...(Ts)) throw_damaged("a variant has no such alternative");
  ((index == Index ? decode(in, value.template emplace<Index>()) : void()), ...);
}

// The element of a smart pointer, checked.
template <class T>
constexpr void check_pointee() {
  static_assert(!std::is_array_v<T>, "mobula: a pointer to an array does not know its size. Send a std::vector");
  static_assert(!std::is_void_v<T>,
                "mobula: a pointer to void cannot be sent. Send a std::variant of the types it may be");
  static_assert(
      !std::is_polymorphic_v<T> || std::is_final_v<T>,
      "mobula: a smart pointer to a base class would lose what its target really is. Send a std::variant of the "
      "concrete types, or mark the class final");
}

template <class T>
inline constexpr bool kUniqueArray = false;
template <class T, class Deleter>
inline constexpr bool kUniqueArray<std::unique_ptr<T[], Deleter>> = true;

// False where the pointer cannot be sent, after an error that says so.
template <class T>
constexpr bool check_unique() {
  using Target = typename T::element_type;
  constexpr bool kOwnDeleter =
      !kUniqueArray<T> && !std::is_same_v<typename T::deleter_type, std::default_delete<Target>>;
  static_assert(!kUniqueArray<T>, "mobula: a pointer to an array does not know its size. Send a std::vector");
  static_assert(
      !kOwnDeleter,
      "mobula: a std::unique_ptr with a deleter of its own owns something of this process. Send what it stands "
      "for");
  check_pointee<Target>();
  return !kUniqueArray<T> && !kOwnDeleter;
}

template <class T>
void encode_unique(Encoder& out, const T& value) {
  using Element = std::remove_const_t<typename T::element_type>;
  if constexpr (check_unique<T>()) {
    const Nested nested(out);
    out.write_plain(static_cast<std::uint8_t>(value != nullptr));
    if (value != nullptr) encode<Element>(out, *value);
  }
}

template <class T>
void decode_unique(Decoder& in, T& value) {
  using Element = std::remove_const_t<typename T::element_type>;
  if constexpr (check_unique<T>()) {
    check_default_constructible<Element>();
    const Nested nested(in);
    value.reset();
    if (in.read_byte() == 0) return;
    auto element = std::make_unique<Element>();
    decode(in, *element);
    value = std::move(element);
  }
}

// Pointers that share a target within one value share it again at the reader: 0 none, 1 first seen, 2 seen as number N.
template <class T>
void encode_shared(Encoder& out, const std::shared_ptr<T>& value) {
  using Element = std::remove_const_t<T>;
  check_pointee<T>();
  const Nested nested(out);
  if (value == nullptr) return out.write_plain(std::uint8_t{0});
  const std::uint64_t number = out.seen_before(value.get(), &kTypeTag<Element>);
  out.write_plain(static_cast<std::uint8_t>(number == 0 ? 1 : 2));
  if (number != 0) return out.write_varint(number);
  encode<Element>(out, *value);
}

template <class T>
void decode_shared(Decoder& in, std::shared_ptr<T>& value) {
  using Element = std::remove_const_t<T>;
  check_default_constructible<Element>();
  const Nested nested(in);
  value.reset();
  switch (in.read_byte()) {
    case 0: return;
    case 1: {
      auto element = std::make_shared<Element>();
      in.add_shared(element, &kTypeTag<Element>);
      decode(in, *element);
      value = std::move(element);
      return;
    }
    case 2: value = std::static_pointer_cast<Element>(in.shared(in.read_varint(), &kTypeTag<Element>)); return;
    default: throw_damaged("a shared pointer is none of null, new and seen");
  }
}

template <class T>
void decode_optional(Decoder& in, T& value) {
  check_default_constructible<typename T::value_type>();
  value.reset();
  if (in.read_byte() != 0) decode(in, value.emplace());
}

// ---- members
// ---------------------------------------------------------------------------------------------------------

template <class... Fields>
constexpr void check_fields(FieldList<Fields...>) {
  static_assert((!std::is_const_v<Fields> && ...),
                "mobula: an aggregate with a const member cannot be filled by a reader. Remove the const, or give it "
                "`void serialize(mobula::Archive& archive)`");
}

struct EncodeEach {
  Encoder& out;
  template <class... Ts>
  void operator()(const Ts&... values) const {
    if constexpr (sizeof...(Ts) == 0) out.write_plain(std::uint8_t{0});
    (encode(out, values), ...);
  }
};

struct DecodeEach {
  Decoder& in;
  template <class... Ts>
  void operator()(Ts&... values) const {
    if constexpr (sizeof...(Ts) == 0) in.read_byte();
    (decode(in, values), ...);
  }
};

template <class T>
void encode_fixed(Encoder& out, const T& value) {
  if constexpr (!std::is_array_v<T>) {
    if constexpr (std::tuple_size_v<T> == 0) out.write_plain(std::uint8_t{0});
  }
  for (const auto& element : value) encode(out, element);
}

template <class T>
void decode_fixed(Decoder& in, T& value) {
  if constexpr (!std::is_array_v<T>) {
    if constexpr (std::tuple_size_v<T> == 0) in.read_byte();
  }
  for (auto& element : value) decode(in, element);
}

// ---- what has a plain stand-in
// ---------------------------------------------------------------------------------------

template <class T>
constexpr void check_clock() {
  static_assert(!T::clock::is_steady,
                "mobula: a time of a steady clock means nothing in another process. Send a duration, or a time of "
                "std::chrono::system_clock");
}

template <class T>
void decode_complex(Decoder& in, T& value) {
  typename T::value_type parts[2] = {};
  in.read_plain(parts);
  value = T(parts[0], parts[1]);
}

template <class T>
void encode_complex(Encoder& out, const T& value) {
  const typename T::value_type parts[2] = {value.real(), value.imag()};
  out.write_plain(parts);
}

inline void decode_bool(Decoder& in, bool& value) {
  const std::uint8_t byte = in.read_byte();
  if (byte > 1) throw_damaged("a bool is neither false nor true");
  value = byte != 0;
}

// ---- dispatch
// --------------------------------------------------------------------------------------------------------

template <class T>
void encode_class(Encoder& out, const T& value) {
  constexpr Category kind = kCategory<T>;
  if constexpr (kind == Category::kMember || kind == Category::kSaveLoad || kind == Category::kFree) {
    const Nested nested(out);
    encode_custom(out, value);
  } else if constexpr (kind == Category::kText || kind == Category::kSequence) {
    const Nested nested(out);
    encode_sequence(out, value);
  } else if constexpr (kind == Category::kMap) {
    const Nested nested(out);
    encode_map(out, value);
  } else if constexpr (kind == Category::kSet) {
    const Nested nested(out);
    out.write_varint(value.size());
    for (const auto& key : value) encode<typename T::key_type>(out, key);
  } else if constexpr (kind == Category::kPath) {
    encode_sequence(out, value.native());
  } else if constexpr (kind == Category::kBits) {
    encode_bits(out, value);
  } else if constexpr (kind == Category::kVariant) {
    encode_variant(out, value);
  } else if constexpr (kind == Category::kUnique) {
    encode_unique(out, value);
  } else if constexpr (kind == Category::kShared) {
    encode_shared(out, value);
  } else if constexpr (kind == Category::kOptional) {
    out.write_plain(static_cast<std::uint8_t>(value.has_value()));
    if (value.has_value()) encode<typename T::value_type>(out, *value);
  } else if constexpr (kind == Category::kTimePoint) {
    check_clock<T>();
    encode(out, value.time_since_epoch());
  } else if constexpr (kind == Category::kDuration) {
    encode(out, value.count());
  } else if constexpr (kind == Category::kComplex) {
    encode_complex(out, value);
  } else if constexpr (kind == Category::kUnit) {
    out.write_plain(std::uint8_t{0});
  } else if constexpr (kind == Category::kPair) {
    EncodeEach{out}(value.first, value.second);
  } else if constexpr (kind == Category::kTuple) {
    std::apply(EncodeEach{out}, value);
  } else if constexpr (kind == Category::kAggregate) {
    check_fields(FieldsOf<T>{});
    visit_fields(value, EncodeEach{out});
  } else {
    explain_unsendable<T>();
  }
}

template <class T>
void decode_class(Decoder& in, T& value) {
  constexpr Category kind = kCategory<T>;
  if constexpr (kind == Category::kMember || kind == Category::kSaveLoad || kind == Category::kFree) {
    const Nested nested(in);
    decode_custom(in, value);
  } else if constexpr (kind == Category::kText || kind == Category::kSequence) {
    const Nested nested(in);
    decode_sequence(in, value);
  } else if constexpr (kind == Category::kMap) {
    const Nested nested(in);
    decode_map(in, value);
  } else if constexpr (kind == Category::kSet) {
    const Nested nested(in);
    decode_set(in, value);
  } else if constexpr (kind == Category::kPath) {
    typename T::string_type text;
    decode_sequence(in, text);
    value = T(std::move(text));
  } else if constexpr (kind == Category::kBits) {
    decode_bits(in, value);
  } else if constexpr (kind == Category::kVariant) {
    decode_variant(in, value, std::make_index_sequence<std::variant_size_v<T>>{});
  } else if constexpr (kind == Category::kUnique) {
    decode_unique(in, value);
  } else if constexpr (kind == Category::kShared) {
    decode_shared(in, value);
  } else if constexpr (kind == Category::kOptional) {
    decode_optional(in, value);
  } else if constexpr (kind == Category::kTimePoint) {
    typename T::duration since{};
    decode(in, since);
    value = T(since);
  } else if constexpr (kind == Category::kDuration) {
    typename T::rep count{};
    decode(in, count);
    value = T(count);
  } else if constexpr (kind == Category::kComplex) {
    decode_complex(in, value);
  } else if constexpr (kind == Category::kUnit) {
    in.read_byte();
  } else if constexpr (kind == Category::kPair) {
    DecodeEach{in}(value.first, value.second);
  } else if constexpr (kind == Category::kTuple) {
    std::apply(DecodeEach{in}, value);
  } else if constexpr (kind == Category::kAggregate) {
    check_fields(FieldsOf<T>{});
    visit_fields(value, DecodeEach{in});
  } else {
    explain_unsendable<T>();
  }
}

template <class T>
void encode(Encoder& out, const T& value) {
  constexpr Category kind = kCategory<T>;
  if constexpr (kPlain<T>) {
    out.write(&value, sizeof(T));
  } else if constexpr (kind == Category::kNative) {
    Native<T>::encode(out, value);
  } else if constexpr (kind == Category::kBool) {
    out.write_plain(static_cast<std::uint8_t>(value));
  } else if constexpr (kind == Category::kScalar) {
    out.write_plain(value);
  } else if constexpr (kind == Category::kFixed) {
    encode_fixed(out, value);
  } else {
    encode_class(out, value);
  }
}

template <class T>
void decode(Decoder& in, T& value) {
  constexpr Category kind = kCategory<T>;
  if constexpr (kPlain<T>) {
    in.read(&value, sizeof(T));
  } else if constexpr (kind == Category::kNative) {
    Native<T>::decode(in, value);
  } else if constexpr (kind == Category::kBool) {
    decode_bool(in, value);
  } else if constexpr (kind == Category::kScalar) {
    // An enum over bool: its values are checked like a bool's.
    bool flag = false;
    decode_bool(in, flag);
    value = static_cast<T>(flag);
  } else if constexpr (kind == Category::kFixed) {
    decode_fixed(in, value);
  } else {
    decode_class(in, value);
  }
}

// ---- whole payloads
// --------------------------------------------------------------------------------------------------

// Encodes into what `make_room(bytes)` gives, a span of exactly so many bytes. Returns the references inside.
template <class T, class MakeRoom>
std::vector<RefHandle> encode_into(const T& value, MakeRoom&& make_room) {
  Encoder encoder;
  encode(encoder, value);
  encoder.begin_writing(make_room(encoder.bytes()), kFingerprint<T>);
  encode(encoder, value);
  return encoder.finish();
}

template <class T>
OutPayload encode_payload(const T& value) {
  OutPayload payload;
  payload.refs = encode_into(value, [&payload](std::size_t bytes) {
    payload.bytes.resize(bytes);
    return std::span<std::byte>(payload.bytes);
  });
  return payload;
}

template <class T>
void decode_payload(const InPayload& payload, T& value) {
  Decoder decoder(payload, kFingerprint<T>, type_text<T>());
  decode(decoder, value);
  decoder.finish();
}

}  // namespace mobula::detail
