// Included before every file of a pure layer: the names of the libraries that do I/O cannot even be spoken there.
//
// On Debian all headers share /usr/include, so leaving a library out of a target's include path hides nothing. A
// poisoned identifier does: the compiler refuses the first `namespace asio` that an #include brings in.
#pragma once

#pragma GCC poison asio rocksdb capnp kj SSL_CTX_new EVP_CIPHER_CTX_new cudaMalloc ncclCommInitRank spdlog httplib CLI
