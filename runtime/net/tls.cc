#include "runtime/net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/net/socket.h"

namespace mobula::net {
namespace {

constexpr char kSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kSuiteId[] = {0x13, 0x01};
constexpr std::size_t kRecordMax = 16384;
constexpr std::size_t kTlsWriteMax = 16 * kRecordMax;  // so that a reader of the same link is not kept out for long
constexpr std::size_t kIdentityTextMax = 128;

enum class Side { kClient, kServer };

std::string openssl_error_text() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown TLS error";
}

class Session;
int session_index();
BIO_METHOD* bio_method();
SSL_CTX* context(Side side);

class Session final : public TlsSession {
 public:
  Session(Fd socket, Side side) : side_(side), socket_(std::move(socket)), ssl_(SSL_new(context(side))) {
    MOBULA_CHECK(ssl_ != nullptr, "OpenSSL gives no session");
    SSL_set_ex_data(ssl_, session_index(), this);
    BIO* bio = BIO_new(bio_method());
    MOBULA_CHECK(bio != nullptr);
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    if (side == Side::kClient) {
      SSL_set_connect_state(ssl_);
    } else {
      SSL_set_accept_state(ssl_);
    }
    peer_ = peer_address_text(socket_.get());
    if (peer_.empty()) peer_ = "the other end";
  }
  ~Session() override { SSL_free(ssl_); }

  // --- Handshake
  Progress handshake() override;
  ErrorInfo failure() const override { return failure_; }
  std::optional<Preamble> refusal() const override { return refusal_; }
  bool closed_unheard() const override { return ended_ && bytes_read_ == 0; }

  // --- Transport
  int descriptor() const override { return socket_.get(); }
  bool carries_descriptors() const override { return false; }
  std::optional<Identity> peer_identity() const override { return peer_identity_; }
  bool has_buffered() const override {
    const std::lock_guard lock(mutex_);
    return SSL_has_pending(ssl_) != 0;
  }
  IoResult read(std::span<std::byte> into, std::vector<Fd>& descriptors) override;
  IoResult write(std::span<const iovec> parts, std::span<const Fd> descriptors) override;
  void shutdown() override {
    const std::lock_guard lock(mutex_);
    if (!authenticated_ || broken_) return;
    ERR_clear_error();
    SSL_shutdown(ssl_);
    ERR_clear_error();
  }

  // --- Called by OpenSSL
  int bio_read(BIO* bio, char* data, int size);
  int bio_write(BIO* bio, const char* data, int size);
  int offer_key(const unsigned char** id, std::size_t* id_size, SSL_SESSION** session);
  int find_key(const unsigned char* id, std::size_t id_size, SSL_SESSION** session);

  std::optional<Leaf> leaf_;                         // client
  std::string identity_text_;                        // client: what OpenSSL is shown
  KeyLookup lookup_;                                 // server
  std::array<std::byte, kPreambleSize> preamble_{};  // client: what is still to go out in front
  std::size_t preamble_left_ = 0;

 private:
  Progress fail(int ssl_error);
  void explain(std::string what);
  bool key_was_used() const;
  bool read_refusal(const char* data, std::size_t size);
  IoResult io_failure(int result);
  SSL_SESSION* make_session(const Key& key) const;

  const Side side_;
  Fd socket_;
  SSL* ssl_;
  std::string peer_;
  mutable std::mutex mutex_;  // an SSL object stands one thread at a time
  bool authenticated_ = false;
  bool broken_ = false;  // after a fatal error nothing more is said
  bool key_offered_or_found_ = false;
  std::optional<Identity> claimed_;  // server: what the client says it is
  std::optional<Identity> peer_identity_;
  std::string refused_because_;  // server: from the look-up
  std::size_t bytes_read_ = 0;   // before authentication
  bool over_limit_ = false;
  bool ended_ = false;  // end of file
  int socket_error_ = 0;
  std::optional<Preamble> refusal_;
  ErrorInfo failure_;
};

Session* session_of(SSL* ssl) {
  return static_cast<Session*>(SSL_get_ex_data(ssl, session_index()));
}

int session_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// OpenSSL's own socket BIO raises SIGPIPE, which belongs to the user's program, and counts nothing.
BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "mobula socket");
    MOBULA_CHECK(made != nullptr);
    BIO_meth_set_read(made, [](BIO* bio, char* data, int size) {
      return static_cast<Session*>(BIO_get_data(bio))->bio_read(bio, data, size);
    });
    BIO_meth_set_write(made, [](BIO* bio, const char* data, int size) {
      return static_cast<Session*>(BIO_get_data(bio))->bio_write(bio, data, size);
    });
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1L : 0L; });
    return made;
  }();
  return method;
}

SSL_CTX* make_context(Side side) {
  SSL_CTX* made = SSL_CTX_new(side == Side::kClient ? TLS_client_method() : TLS_server_method());
  MOBULA_CHECK(made != nullptr, "OpenSSL cannot be used");
  bool good = SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) == 1;
  good = good && SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) == 1;
  good = good && SSL_CTX_set_ciphersuites(made, kSuite) == 1;
  good = good && SSL_CTX_set_num_tickets(made, 0) == 1;
  good = good && SSL_CTX_set_max_early_data(made, 0) == 1;
  MOBULA_CHECK(good, "OpenSSL lacks TLS 1.3 with TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_options(made, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (side == Side::kClient) {
    // The store of trusted certificates stays empty, so every certificate is refused.
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_psk_use_session_callback(
        made, [](SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* size, SSL_SESSION** session) {
          return session_of(ssl)->offer_key(id, size, session);
        });
  } else {
    SSL_CTX_set_psk_find_session_callback(
        made, [](SSL* ssl, const unsigned char* id, std::size_t size, SSL_SESSION** session) {
          return session_of(ssl)->find_key(id, size, session);
        });
  }
  return made;
}

// One of each a process, never freed: connections may outlive any order of destruction at exit.
SSL_CTX* context(Side side) {
  static SSL_CTX* const client = make_context(Side::kClient);
  static SSL_CTX* const server = make_context(Side::kServer);
  return side == Side::kClient ? client : server;
}

SSL_SESSION* Session::make_session(const Key& key) const {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl_, kSuiteId);
  SSL_SESSION* session = SSL_SESSION_new();
  MOBULA_CHECK(cipher != nullptr && session != nullptr);
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.bytes().data());
  const bool good = SSL_SESSION_set1_master_key(session, bytes, Key::kSize) == 1 &&
                    SSL_SESSION_set_cipher(session, cipher) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  MOBULA_CHECK(good);
  return session;
}

int Session::offer_key(const unsigned char** id, std::size_t* id_size, SSL_SESSION** session) {
  identity_text_ = to_string(leaf_->identity);
  *id = reinterpret_cast<const unsigned char*>(identity_text_.data());
  *id_size = identity_text_.size();
  *session = make_session(leaf_->key);
  key_offered_or_found_ = true;
  return 1;
}

// Returns 0, which ends the handshake, for whatever is no identity: a resumption ticket too.
int Session::find_key(const unsigned char* id, std::size_t id_size, SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view text(reinterpret_cast<const char*>(id), id_size);
  auto identity = id_size <= kIdentityTextMax ? parse_identity(text)
                                              : Result<Identity>(make_error(ErrorKind::kUnauthenticated, {}));
  if (!identity) {
    refused_because_ = "it offered a resumption ticket or an identity of another form, not a Mobula identity";
    return 0;
  }
  auto key = lookup_(*identity);
  if (!key) {
    refused_because_ = "as " + to_string(*identity) + ": " + key.error().message;
    return 0;
  }
  claimed_ = *identity;
  *session = make_session(*key);
  key_offered_or_found_ = true;
  return 1;
}

int Session::bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  std::size_t wanted = static_cast<std::size_t>(std::max(size, 0));
  if (!authenticated_) {
    wanted = std::min(wanted, kHandshakeBytesMax - bytes_read_);
    if (wanted == 0) {
      over_limit_ = true;
      return -1;
    }
  }
  const ssize_t got = ::recv(socket_.get(), data, wanted, MSG_DONTWAIT);
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      BIO_set_retry_read(bio);
    } else {
      socket_error_ = errno;
    }
    return -1;
  }
  if (got == 0) {
    ended_ = true;
    return 0;
  }
  const bool first = bytes_read_ == 0;
  if (!authenticated_) bytes_read_ += static_cast<std::size_t>(got);
  if (first && side_ == Side::kClient && !authenticated_ && read_refusal(data, static_cast<std::size_t>(got))) {
    return -1;
  }
  return static_cast<int>(got);
}

// An acceptor that refuses in the clear sends 24 bytes at once, where TLS would begin otherwise.
bool Session::read_refusal(const char* data, std::size_t size) {
  std::array<std::byte, kPreambleSize> bytes{};
  size = std::min(size, bytes.size());
  std::memcpy(bytes.data(), data, size);
  if (preamble_is_hopeless(std::span(bytes).first(size))) return false;
  const ssize_t rest = ::recv(socket_.get(), bytes.data() + size, bytes.size() - size, MSG_DONTWAIT);
  if (rest == static_cast<ssize_t>(bytes.size() - size)) {
    if (auto preamble = decode_preamble(bytes)) refusal_ = *preamble;
  }
  return true;
}

int Session::bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const std::size_t length = static_cast<std::size_t>(std::max(size, 0));
  std::array<iovec, 2> parts{iovec{preamble_.data() + (preamble_.size() - preamble_left_), preamble_left_},
                             iovec{const_cast<char*>(data), length}};
  msghdr message{};
  message.msg_iov = preamble_left_ > 0 ? parts.data() : parts.data() + 1;
  message.msg_iovlen = preamble_left_ > 0 ? 2 : 1;
  const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      BIO_set_retry_write(bio);
    } else {
      socket_error_ = errno;
    }
    return -1;
  }
  const std::size_t of_preamble = std::min(preamble_left_, static_cast<std::size_t>(sent));
  preamble_left_ -= of_preamble;
  const std::size_t rest = static_cast<std::size_t>(sent) - of_preamble;
  if (rest == 0 && length > 0) {
    BIO_set_retry_write(bio);
    return -1;
  }
  return static_cast<int>(rest);
}

bool Session::key_was_used() const {
  const SSL_CIPHER* cipher = SSL_get_current_cipher(ssl_);
  return key_offered_or_found_ && SSL_session_reused(ssl_) == 1 && SSL_get0_peer_certificate(ssl_) == nullptr &&
         SSL_version(ssl_) == TLS1_3_VERSION && cipher != nullptr &&
         std::strcmp(SSL_CIPHER_get_name(cipher), kSuite) == 0;
}

TlsSession::Progress Session::handshake() {
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result != 1) {
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ) return Progress::kWantsRead;
    if (error == SSL_ERROR_WANT_WRITE) return Progress::kWantsWrite;
    return fail(error);
  }
  if (!key_was_used()) {
    broken_ = true;
    explain("the other end did not use the cluster's key");
    return Progress::kFailed;
  }
  authenticated_ = true;
  peer_identity_ = claimed_;
  SSL_set_read_ahead(ssl_, 1);  // only now: nothing beyond the handshake is read before it succeeds
  return Progress::kDone;
}

TlsSession::Progress Session::fail(int ssl_error) {
  broken_ = true;
  const unsigned long code = ERR_peek_error();
  const std::string text = ssl_error == SSL_ERROR_SSL ? openssl_error_text() : std::string();
  ERR_clear_error();
  if (over_limit_) {
    explain("more than " + std::to_string(kHandshakeBytesMax) + " bytes came before it was authenticated");
  } else if (!refused_because_.empty()) {
    explain(refused_because_);
  } else if (socket_error_ != 0) {
    failure_ = make_error(ErrorKind::kUnreachable,
                          "the connection to " + peer_ + " broke while it was set up: " + errno_text(socket_error_));
    if (socket_error_ == ECONNRESET || socket_error_ == EPIPE) ended_ = true;
  } else if (ended_) {
    failure_ = make_error(ErrorKind::kUnreachable, peer_ + " closed the connection while it was set up");
  } else if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_BINDER_DOES_NOT_VERIFY) {
    explain("as " + (claimed_ ? to_string(*claimed_) : std::string("?")) + ": it holds another key than this cluster");
  } else if (side_ == Side::kServer && !key_offered_or_found_) {
    explain("it offered no key (" + text + ")");
  } else if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    explain("it showed a certificate instead of proving that it knows the key");
  } else if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET) {
    explain(side_ == Side::kClient ? "it refused ours" : "it gave up: " + text);
  } else {
    explain(text);
  }
  return Progress::kFailed;
}

// The client's words are for a user who has to mend something, the server's for the log.
void Session::explain(std::string what) {
  if (side_ == Side::kServer) {
    failure_ = make_error(ErrorKind::kUnauthenticated, std::move(what));
    return;
  }
  failure_ = make_error(
      ErrorKind::kUnauthenticated,
      peer_ + " and this process do not share a key (" + what + ", as " + name_of(leaf_->identity.role) +
          "): the cluster file belongs to another cluster, is outdated, or gives a role that may not connect here. "
          "Copy the cluster file from the machine of the head again");
}

IoResult Session::io_failure(int result) {
  const int error = SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {IoResult::State::kWouldBlock, 0, {}};
  broken_ = true;
  if (error == SSL_ERROR_ZERO_RETURN || (ended_ && socket_error_ == 0)) {
    ERR_clear_error();
    return {IoResult::State::kEnd, 0, {}};
  }
  if (socket_error_ != 0) {
    ERR_clear_error();
    return {IoResult::State::kError, 0, errno_text(socket_error_)};
  }
  return {IoResult::State::kError, 0, "TLS: " + openssl_error_text()};
}

IoResult Session::read(std::span<std::byte> into, std::vector<Fd>&) {
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  std::size_t size = 0;
  const int result = SSL_read_ex(ssl_, into.data(), into.size(), &size);
  if (result == 1) return {IoResult::State::kDone, size, {}};
  return io_failure(result);
}

IoResult Session::write(std::span<const iovec> parts, std::span<const Fd>) {
  MOBULA_CHECK(!parts.empty());
  // Small parts go into one record: a record each would cost a cipher call and 22 bytes. After a short write the same
  // bytes come again in front, as OpenSSL demands.
  std::array<std::byte, kRecordMax> record;
  const void* data = parts[0].iov_base;
  std::size_t size = std::min(parts[0].iov_len, kTlsWriteMax);
  if (parts.size() > 1 && size < kRecordMax) {
    size = 0;
    for (const iovec& part : parts) {
      const std::size_t fits = std::min(part.iov_len, record.size() - size);
      std::memcpy(record.data() + size, part.iov_base, fits);
      size += fits;
      if (size == record.size()) break;
    }
    data = record.data();
  }
  const std::lock_guard lock(mutex_);
  std::size_t total = 0;
  while (total < size) {  // OpenSSL takes one record a call
    ERR_clear_error();
    std::size_t written = 0;
    const int result = SSL_write_ex(ssl_, static_cast<const std::byte*>(data) + total, size - total, &written);
    total += written;
    if (result == 1) continue;
    if (total > 0) break;  // the next write meets the same state again
    return io_failure(result);
  }
  return {IoResult::State::kDone, total, {}};
}

}  // namespace

std::unique_ptr<TlsSession> TlsSession::client(Fd socket, Leaf leaf, const Preamble& preamble) {
  auto session = std::make_unique<Session>(std::move(socket), Side::kClient);
  session->leaf_ = std::move(leaf);
  session->preamble_ = encode_preamble(preamble);
  session->preamble_left_ = session->preamble_.size();
  return session;
}

std::unique_ptr<TlsSession> TlsSession::server(Fd socket, KeyLookup lookup) {
  auto session = std::make_unique<Session>(std::move(socket), Side::kServer);
  session->lookup_ = std::move(lookup);
  return session;
}

}  // namespace mobula::net
