#include "runtime/net/keys.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "runtime/base/check.h"

namespace mobula::net {
namespace {

constexpr std::string_view kIdentityVersion = "1";
constexpr char kDigits[] = "0123456789abcdef";

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<Role> role_named(std::string_view text) {
  for (const Role role : {Role::kHead, Role::kNode, Role::kDriver, Role::kClient, Role::kViewer, Role::kWorker}) {
    if (text == name_of(role)) return role;
  }
  return std::nullopt;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t bar = text.find('|');
    parts.push_back(text.substr(0, bar));
    if (bar == std::string_view::npos || parts.size() > 8) return parts;
    text.remove_prefix(bar + 1);
  }
}

}  // namespace

Key::Key(std::span<const std::byte, kSize> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

Key::~Key() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Key Key::random() {
  Key key;
  const int drawn = RAND_bytes(reinterpret_cast<unsigned char*>(key.bytes_.data()), static_cast<int>(kSize));
  MOBULA_CHECK(drawn == 1, "the system gives no random bytes");
  return key;
}

Key Key::insecure() {
  return derive_key(Key(), "insecure");
}

Result<Key> Key::from_hex(std::string_view hex) {
  if (hex.size() != 2 * kSize) return make_error(ErrorKind::kInvalid, "a key is 64 hex digits");
  Key key;
  for (std::size_t i = 0; i < kSize; ++i) {
    const int high = digit_value(hex[2 * i]);
    const int low = digit_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return make_error(ErrorKind::kInvalid, "a key is 64 hex digits");
    key.bytes_[i] = static_cast<std::byte>(high * 16 + low);
  }
  return key;
}

std::string Key::reveal_hex() const {
  std::string text;
  text.reserve(2 * kSize);
  for (const std::byte byte : bytes_) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

bool operator==(const Key& a, const Key& b) {
  return CRYPTO_memcmp(a.bytes_.data(), b.bytes_.data(), Key::kSize) == 0;
}

const char* name_of(Role role) {
  switch (role) {
    case Role::kHead: return "head";
    case Role::kNode: return "node";
    case Role::kDriver: return "driver";
    case Role::kClient: return "client";
    case Role::kViewer: return "viewer";
    case Role::kWorker: return "worker";
  }
  return "unknown";
}

std::string to_string(const Identity& identity) {
  return std::string(kIdentityVersion) + "|" + std::to_string(identity.epoch) + "|" + name_of(identity.role) + "|" +
         to_string(identity.job) + "|" + to_string_hex(identity.holder);
}

Result<Identity> parse_identity(std::string_view text) {
  Identity identity;
  const auto parts = split(text);
  if (parts.size() == 5 && parts[0] == kIdentityVersion) {
    const auto [end, error] = std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), identity.epoch);
    const auto role = role_named(parts[2]);
    if (error == std::errc() && end == parts[1].data() + parts[1].size() && role && parse_id(parts[3], identity.job) &&
        parse_hex(parts[4], identity.holder)) {
      identity.role = *role;
      if (to_string(identity) == text) return identity;
    }
  }
  return make_error(ErrorKind::kUnauthenticated, "the identity has not the form of this version");
}

Key derive_key(const Key& parent, std::string_view label) {
  std::array<std::byte, Key::kSize> derived;
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
  EVP_KDF_free(kdf);
  MOBULA_CHECK(context != nullptr, "OpenSSL has no HKDF");
  char digest[] = "SHA256";
  char salt[] = "mobula";
  std::string info(label);
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(parent.bytes().data()), Key::kSize),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt - 1),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end(),
  };
  const int done = EVP_KDF_derive(context, reinterpret_cast<unsigned char*>(derived.data()), derived.size(), params);
  EVP_KDF_CTX_free(context);
  MOBULA_CHECK(done == 1, "HKDF failed");
  const Key key{std::span<const std::byte, Key::kSize>(derived)};
  OPENSSL_cleanse(derived.data(), derived.size());
  return key;
}

Key process_link_key(const Key& cluster_key, ProcessId process) {
  return derive_key(cluster_key, "link|" + to_string(process));
}

Key identity_key(const Key& cluster_key, const Identity& identity) {
  return derive_key(cluster_key, to_string(identity));
}

Leaf make_leaf(const Key& cluster_key, const Identity& identity) {
  return {identity, identity_key(cluster_key, identity)};
}

Leaf make_link_leaf(const Key& link_key, std::uint32_t epoch, JobId job, ProcessId holder) {
  const Identity identity{epoch, Role::kWorker, job, holder.value};
  return {identity, derive_key(link_key, to_string(identity))};
}

KeyLookup cluster_key_lookup(Key cluster_key, std::uint32_t epoch, std::initializer_list<Role> roles) {
  return [cluster_key, epoch, roles = std::vector<Role>(roles)](const Identity& identity) -> Result<Key> {
    if (identity.epoch != epoch) {
      return make_error(ErrorKind::kUnauthenticated, "its key is of epoch " + std::to_string(identity.epoch) +
                                                         ", this cluster is at epoch " + std::to_string(epoch));
    }
    for (const Role role : roles) {
      if (identity.role == role) return identity_key(cluster_key, identity);
    }
    return make_error(ErrorKind::kUnauthenticated,
                      "the role " + std::string(name_of(identity.role)) + " may not connect here");
  };
}

KeyLookup link_key_lookup(Key link_key, std::uint32_t epoch) {
  return [link_key, epoch](const Identity& identity) -> Result<Key> {
    if (identity.role != Role::kWorker || identity.epoch != epoch) {
      return make_error(ErrorKind::kUnauthenticated, "only processes of jobs may connect here");
    }
    return derive_key(link_key, to_string(identity));
  };
}

}  // namespace mobula::net
