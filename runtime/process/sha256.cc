#include "runtime/process/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/process/fd.h"

namespace mobula::process {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  MOBULA_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
               "OpenSSL has no SHA-256");
}
Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> data) {
  EVP_DigestUpdate(state_->context, data.data(), data.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> data) {
  Sha256 hash;
  hash.add(data);
  return hash.hex();
}

Result<std::string> sha256_of_fd(int fd) {
  constexpr std::size_t kPiece = 256 * 1024;
  std::vector<std::byte> piece(kPiece);
  Sha256 hash;
  for (off_t offset = 0;;) {
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("read a file to hash it");
    if (got == 0) return hash.hex();
    hash.add(std::span(piece).first(static_cast<std::size_t>(got)));
    offset += got;
  }
}

Result<std::string> sha256_of_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error("open " + path);
  return sha256_of_fd(file.get());
}

}  // namespace mobula::process
