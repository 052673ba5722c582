// The one door to Asio: every file of this layer includes it through here, so that all agree on how it is compiled.
//
// Asio is compiled once, in asio.cc. Only .cc files include this header: what this layer shows to others names no
// Asio type, because Asio costs seconds a file.
#pragma once

#ifndef ASIO_STANDALONE
#define ASIO_STANDALONE
#endif
#ifndef ASIO_SEPARATE_COMPILATION
#define ASIO_SEPARATE_COMPILATION
#endif
#ifndef ASIO_NO_DEPRECATED
#define ASIO_NO_DEPRECATED
#endif

// Before Asio, always: it looks at macros of the standard library to choose how memory is taken and given back, and
// two files must not choose differently.
#include <cstddef>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
#endif

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
