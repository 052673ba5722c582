// The table of ARCHITECTURE.md "who may include whom", as data: one row for each layer.
//
// CMake enforces the same with include paths (runtime/cmake/MobulaLayers.cmake). This table also covers what shares
// /usr/include, and says which rule was broken.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mobula::lint {

struct Layer {
  std::string_view name;
  std::string_view folder;                  // a file belongs to the layer with the longest folder that holds it
  bool pure = false;                        // a machine: no thread, lock, socket, file, clock or random device
  std::vector<std::string_view> layers;     // whom it may include, beside itself
  std::vector<std::string_view> libraries;  // which families of third-party headers it may include
};

// Null for a file outside every layer.
const Layer* layer_of(std::string_view path);

// The family of a third-party header such as "asio" for <asio/ip/tcp.hpp>; empty for the standard library's and the
// system's.
std::string_view library_of(std::string_view header);

}  // namespace mobula::lint
