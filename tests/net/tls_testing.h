// Ends of TLS connections that are no Mobula: with a certificate, without a key, with a ticket. Blocking, by OpenSSL.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <thread>

#include "runtime/net/fd.h"
#include "runtime/net/preamble.h"

namespace mobula::net::testing {

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
template <class T>
using Ssl = std::unique_ptr<T, SslFree>;

// A TLS server with a self-signed certificate on a port of its own; gives tickets, takes anybody (and reads their
// preamble first).
class CertificateServer {
 public:
  CertificateServer();
  ~CertificateServer();
  std::uint16_t port() const { return port_; }

 private:
  void serve();
  Ssl<SSL_CTX> context_;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// A session ticket as a client of such a server gets one.
Ssl<SSL_SESSION> earn_ticket(std::uint16_t port);

// Says a preamble and then tries a handshake as a stock TLS 1.3 client that checks nothing; `ticket` may be null.
// True when the handshake went through.
bool stock_client_gets_in(const Fd& socket, SSL_SESSION* ticket);

}  // namespace mobula::net::testing
