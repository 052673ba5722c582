#include "runtime/net/preamble.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace mobula::net {
namespace {

// The line end makes a transport that rewrites text visible.
constexpr std::string_view kMagic = "MOBULA\r\n";

void put(std::byte* at, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) at[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

std::uint64_t get(const std::byte* at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
  return value;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool begins_like(std::string_view text, std::string_view prefix) {
  const std::size_t size = std::min(text.size(), prefix.size());
  return size > 0 && text.substr(0, size) == prefix.substr(0, size);
}

}  // namespace

std::array<std::byte, kPreambleSize> encode_preamble(const Preamble& preamble) {
  std::array<std::byte, kPreambleSize> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(&bytes[8], preamble.version, 2);
  put(&bytes[10], static_cast<std::uint16_t>(preamble.kind), 2);
  put(&bytes[12], preamble.flags, 4);
  put(&bytes[16], preamble.target, 8);
  return bytes;
}

Result<Preamble> decode_preamble(std::span<const std::byte, kPreambleSize> bytes) {
  if (preamble_is_hopeless(bytes)) return make_error(ErrorKind::kInvalid, describe_junk(bytes));
  Preamble preamble;
  preamble.version = static_cast<std::uint16_t>(get(&bytes[8], 2));
  preamble.kind = static_cast<ConnectionKind>(get(&bytes[10], 2));
  preamble.flags = static_cast<std::uint32_t>(get(&bytes[12], 4));
  preamble.target = get(&bytes[16], 8);
  if (preamble.kind == ConnectionKind::kRefusal) return preamble;  // its version is the other end's own
  if (preamble.version != kPreambleVersion) {
    return make_error(ErrorKind::kInvalid, "protocol version " + std::to_string(preamble.version) +
                                               ", this is version " + std::to_string(kPreambleVersion));
  }
  if (preamble.kind < ConnectionKind::kControl || preamble.kind > ConnectionKind::kHeartbeat) {
    return make_error(ErrorKind::kInvalid,
                      "connection kind " + std::to_string(static_cast<int>(preamble.kind)) + ", which does not exist");
  }
  return preamble;
}

bool preamble_is_hopeless(std::span<const std::byte> bytes) {
  return !begins_like(text_of(bytes), kMagic);
}

std::string describe_junk(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  if (text.empty()) return "nothing";
  if (!preamble_is_hopeless(bytes)) return "the beginning of a preamble";
  for (const std::string_view method :
       {"GET ", "POST ", "PUT ", "HEAD ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT ", "PRI * HTTP/2"}) {
    if (text.size() >= 4 && begins_like(text, method)) return "an HTTP request (this port speaks Mobula only)";
  }
  if (text.size() >= 2 && text[0] == '\x16' && text[1] == '\x03') return "a TLS hello without preamble";
  if (text.size() >= 4 && begins_like(text, "SSH-")) return "an SSH greeting";
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : bytes.first(std::min<std::size_t>(bytes.size(), 8))) {
    hex += digits[std::to_integer<unsigned>(byte) >> 4];
    hex += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return "junk that begins with 0x" + hex;
}

Preamble make_refusal(RefusalCode code) {
  Preamble preamble;
  preamble.kind = ConnectionKind::kRefusal;
  preamble.flags = static_cast<std::uint32_t>(code);
  return preamble;
}

}  // namespace mobula::net
