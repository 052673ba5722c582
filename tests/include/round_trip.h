// Sends a value through a payload, as a put and a get in another process would.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <mobula/archive.h>

namespace test {

// A payload that arrived: on the heap at an address that is `shift` modulo 64.
inline mobula::detail::InPayload arrived(mobula::detail::OutPayload sent, std::size_t shift = 0) {
  const std::size_t size = sent.bytes.size();
  auto* memory = static_cast<std::byte*>(::operator new(size + 64, std::align_val_t(64)));
  std::shared_ptr<std::byte> owner(memory, [](std::byte* old) { ::operator delete(old, std::align_val_t(64)); });
  if (size != 0) std::memcpy(memory + shift, sent.bytes.data(), size);
  return {owner, memory + shift, size, std::move(sent.refs)};
}

template <class T>
T round_trip(const T& value, std::size_t shift = 0) {
  const mobula::detail::InPayload payload = arrived(mobula::detail::encode_payload(value), shift);
  T copy{};
  mobula::detail::decode_payload(payload, copy);
  return copy;
}

}  // namespace test
