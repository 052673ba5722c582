# The libraries Mobula stands on, by the names of Debian 12. examples/setup.sh installs them.
#
# A user's process loads libmobula.so beside whatever libraries it uses itself. So fmt and spdlog are header-only and
# hidden inside it, Asio is compiled into it once, and OpenSSL, Cap'n Proto and zstd are the system's shared ones.
function(mobula_require package hint)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR
      "Mobula needs ${package}, which was not found. Run ./examples/setup.sh, or: apt install ${hint}")
  endif()
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 QUIET COMPONENTS SSL Crypto)
mobula_require(OpenSSL libssl-dev)
find_package(CapnProto QUIET CONFIG)
mobula_require(CapnProto "capnproto libcapnp-dev")
find_package(RocksDB QUIET CONFIG)
mobula_require(RocksDB librocksdb-dev)
find_package(fmt QUIET CONFIG)
mobula_require(fmt libfmt-dev)
find_package(spdlog QUIET CONFIG)
mobula_require(spdlog libspdlog-dev)
find_package(CLI11 QUIET CONFIG)
mobula_require(CLI11 libcli11-dev)
find_package(nlohmann_json QUIET CONFIG)
mobula_require(nlohmann_json nlohmann-json3-dev)
find_package(zstd QUIET CONFIG)
mobula_require(zstd libzstd-dev)
find_package(ZLIB QUIET)
mobula_require(ZLIB zlib1g-dev)
find_package(Eigen3 QUIET CONFIG)
mobula_require(Eigen3 libeigen3-dev)
find_package(Asio QUIET)
mobula_require(Asio libasio-dev)

# Asio, standalone, compiled once: in runtime/net/asio.cc.
add_library(mobula_asio INTERFACE)
target_link_libraries(mobula_asio INTERFACE Asio::Asio Threads::Threads)
target_compile_definitions(mobula_asio INTERFACE ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED)

# Debian's spdlog targets pull in the shared fmt; we want both header-only. Include it in one file.
add_library(mobula_spdlog INTERFACE)
target_link_libraries(mobula_spdlog INTERFACE fmt::fmt-header-only Threads::Threads)
target_compile_definitions(mobula_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)

# cpp-httplib is known to pkg-config only.
find_package(PkgConfig QUIET)
mobula_require(PkgConfig pkg-config)
pkg_check_modules(MOBULA_HTTPLIB QUIET IMPORTED_TARGET cpp-httplib)
mobula_require(MOBULA_HTTPLIB libcpp-httplib-dev)
add_library(mobula_httplib INTERFACE)
target_link_libraries(mobula_httplib INTERFACE PkgConfig::MOBULA_HTTPLIB Threads::Threads)
