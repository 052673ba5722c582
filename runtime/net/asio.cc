// Asio itself, compiled once.

#include "runtime/net/asio.h"

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
#endif

#include <asio/impl/src.hpp>

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
