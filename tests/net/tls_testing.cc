#include "tests/net/tls_testing.h"

#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "runtime/net/socket.h"
#include "tests/net/net_testing.h"

namespace mobula::net::testing {
namespace {

void give_certificate(SSL_CTX* context) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("rogue"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

void read_preamble(int descriptor) {
  std::array<std::byte, kPreambleSize> bytes{};
  static_cast<void>(::recv(descriptor, bytes.data(), bytes.size(), MSG_WAITALL));
}

}  // namespace

CertificateServer::CertificateServer() : context_(SSL_CTX_new(TLS_server_method())) {
  give_certificate(context_.get());
  listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::listen(listener_.get(), 8);
  port_ = local_port(listener_.get());
  thread_ = std::thread([this] { serve(); });
}

CertificateServer::~CertificateServer() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
}

void CertificateServer::serve() {
  for (;;) {
    const Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    read_preamble(socket.get());
    const Ssl<SSL> ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), socket.get());
    if (SSL_accept(ssl.get()) != 1) continue;
    SSL_write(ssl.get(), "hello", 5);
    char buffer[16];
    static_cast<void>(SSL_read(ssl.get(), buffer, sizeof buffer));
  }
}

Ssl<SSL_SESSION> earn_ticket(std::uint16_t port) {
  const Fd socket = dial({"127.0.0.1", port});
  const auto preamble = encode_preamble({});
  static_cast<void>(::send(socket.get(), preamble.data(), preamble.size(), MSG_NOSIGNAL));
  const Ssl<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  const Ssl<SSL> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket.get());
  if (SSL_connect(ssl.get()) != 1) return nullptr;
  char buffer[16];
  static_cast<void>(SSL_read(ssl.get(), buffer, sizeof buffer));  // the ticket comes in front of it
  Ssl<SSL_SESSION> session(SSL_get1_session(ssl.get()));
  SSL_shutdown(ssl.get());
  return session;
}

bool stock_client_gets_in(const Fd& socket, SSL_SESSION* ticket) {
  const auto preamble = encode_preamble({});
  static_cast<void>(::send(socket.get(), preamble.data(), preamble.size(), MSG_NOSIGNAL));
  const Ssl<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  const Ssl<SSL> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket.get());
  if (ticket != nullptr) SSL_set_session(ssl.get(), ticket);
  return SSL_connect(ssl.get()) == 1;
}

}  // namespace mobula::net::testing
