#include "tests/lint/layers.h"

#include <array>
#include <utility>

namespace mobula::lint {
namespace {

// "public" is the public headers; "values" those of them that are plain values, which everybody may use.
const std::vector<Layer>& table() {
  static const std::vector<Layer> layers = {
      {"values", "runtime/include/mobula/ids.h", true, {"values"}, {}},
      {"values", "runtime/include/mobula/error.h", true, {"values"}, {}},
      {"values", "runtime/include/mobula/detail/export.h", true, {}, {}},
      {"base", "runtime/base", true, {"values"}, {"fmt"}},

      {"scheduler", "scheduler", true, {"values", "base"}, {"fmt"}},
      {"objectstore", "objectstore", true, {"values", "base"}, {"fmt"}},
      {"gpu", "gpu", true, {"values", "base", "gpu-public"}, {"fmt"}},
      {"tune-core", "tune", true, {"values", "base", "tune-public"}, {"json", "fmt"}},

      {"wire", "runtime/wire", false, {"values", "base"}, {"capnp", "fmt"}},

      {"process", "runtime/process", false, {"values", "base"}, {"openssl", "spdlog", "fmt", "json", "zlib"}},
      {"net", "runtime/net", false, {"values", "base", "wire"}, {"asio", "openssl", "fmt", "json"}},
      {"storage", "runtime/storage", false, {"values", "base", "wire", "scheduler"}, {"rocksdb", "fmt"}},
      {"objectstore-io",
       "objectstore/io",
       false,
       {"values", "base", "objectstore", "wire", "net", "process"},
       {"asio", "zstd", "openssl", "fmt"}},
      {"gpu-io", "gpu/nvml", false, {"values", "base", "gpu"}, {"fmt"}},
      {"gpu-io", "gpu/cuda", false, {"values", "base", "gpu"}, {"cuda", "fmt"}},
      {"gpu-io", "gpu/nccl", false, {"values", "base", "gpu"}, {"cuda", "nccl", "fmt"}},
      {"gpu-io", "gpu/host", false, {"values", "base", "gpu", "net"}, {"asio", "fmt"}},
      {"driver",
       "runtime",
       false,
       {"values", "base", "scheduler", "objectstore", "gpu", "wire", "net", "process"},
       {"asio", "fmt"}},

      {"engine", "runtime/core/engine", true, {"values", "base", "scheduler", "objectstore"}, {"fmt"}},
      {"core",
       "runtime/core",
       false,
       {"values", "public", "base", "scheduler", "objectstore", "engine", "wire", "net", "process", "objectstore-io",
        "driver"},
       {"asio", "openssl", "spdlog", "fmt", "json", "zlib"}},
      {"daemon",
       "runtime/daemon",
       false,
       {"values", "base", "scheduler", "objectstore", "gpu", "wire", "net", "process", "storage", "objectstore-io",
        "gpu-io", "driver"},
       {"asio", "openssl", "spdlog", "fmt", "json", "httplib", "zlib", "zstd"}},
      {"cli",
       "runtime/cli",
       false,
       {"values", "public", "base", "scheduler", "objectstore", "gpu", "wire", "net", "process", "storage",
        "objectstore-io", "driver", "core", "daemon", "dashboard"},
       {"asio", "openssl", "fmt", "json", "cli11", "httplib", "zlib", "zstd"}},
      {"dashboard",
       "runtime/dashboard",
       false,
       {"values", "base", "wire", "net", "driver", "daemon"},
       {"asio", "fmt", "json", "httplib"}},

      {"public", "runtime/include", false, {"values"}, {}},
      {"gpu-public", "gpu/include", false, {"values", "public"}, {}},
      {"tune-public", "tune/include", false, {"values", "public"}, {}},

      {"tune-run", "tune/run", false, {"values", "public", "tune-public", "tune-core", "base"}, {"json", "fmt"}},
      {"tune-train", "tune/train", false, {"values", "public", "tune-public", "gpu-public"}, {"json", "fmt"}},
      {"examples", "examples", false, {"values", "public", "tune-public", "gpu-public"}, {"eigen", "zlib"}},
  };
  return layers;
}

bool holds(std::string_view folder, std::string_view path) {
  return path == folder || (path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/');
}

}  // namespace

const Layer* layer_of(std::string_view path) {
  const Layer* best = nullptr;
  for (const Layer& layer : table()) {
    if (holds(layer.folder, path) && (best == nullptr || layer.folder.size() > best->folder.size())) best = &layer;
  }
  return best;
}

std::string_view library_of(std::string_view header) {
  if (header.ends_with(".capnp.h")) return "capnp";
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kFamilies = {{
      {"asio.hpp", "asio"},    {"asio/", "asio"},       {"boost/", "boost"},
      {"openssl/", "openssl"}, {"capnp/", "capnp"},     {"kj/", "capnp"},
      {"rocksdb/", "rocksdb"}, {"spdlog/", "spdlog"},   {"fmt/", "fmt"},
      {"CLI/", "cli11"},       {"nlohmann/", "json"},   {"httplib.h", "httplib"},
      {"zstd.h", "zstd"},      {"zlib.h", "zlib"},      {"Eigen/", "eigen"},
      {"cereal/", "cereal"},   {"cuda", "cuda"},        {"nvml", "cuda"},
      {"nccl", "nccl"},        {"doctest/", "doctest"}, {"rapidcheck", "rapidcheck"},
      {"torch/", "torch"},
  }};
  for (const auto& [prefix, family] : kFamilies) {
    if (header.starts_with(prefix)) return family;
  }
  return {};
}

}  // namespace mobula::lint
