#include "runtime/wire/flat_reader.h"

#include <cstdint>
#include <cstring>
#include <memory>

namespace mobula::wire::detail {

std::optional<std::string> framing_error(const Bytes& payload, std::size_t size_max) {
  const std::size_t size = payload.size();
  if (size > size_max) return std::to_string(size) + " bytes, at most " + std::to_string(size_max) + " are taken";
  if (size < 16 || size % kAlignment != 0) return std::to_string(size) + " bytes is no whole message";
  std::uint32_t table[2];
  std::memcpy(table, payload.data(), sizeof table);
  if (table[0] != 0) return "more than one segment";
  if (table[1] != size / 8 - 1) {
    return "it says " + std::to_string(table[1]) + " words and has " + std::to_string(size / 8 - 1);
  }
  return std::nullopt;
}

Bytes aligned(const Bytes& payload) {
  if (reinterpret_cast<std::uintptr_t>(payload.data()) % kAlignment == 0) return payload;
  auto words = std::make_shared_for_overwrite<std::uint64_t[]>(payload.size() / 8);
  std::memcpy(words.get(), payload.data(), payload.size());
  const auto* start = reinterpret_cast<const std::byte*>(words.get());
  return Bytes(std::move(words), start, payload.size());
}

}  // namespace mobula::wire::detail
