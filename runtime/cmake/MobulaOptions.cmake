# Compiler, linker, build types and warnings: what holds for every target of ours.
option(MOBULA_WERROR "Warnings in Mobula's own code are errors" ON)
option(MOBULA_TESTS "Build the tests" ON)
option(MOBULA_KERNELS_V3 "Compile *_kernels.cc a second time for x86-64-v3, chosen at run time" ON)
option(MOBULA_FUZZER "Link tests/fuzz with libFuzzer (clang); they run until stopped" OFF)
option(MOBULA_JOIN_FILES "Compile several files of a folder as one (CMake's unity builds); off, each file alone" ON)
set(MOBULA_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
# MOBULA_CHECK stays on in every build; -DNDEBUG concerns only the libraries we use.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -D_GLIBCXX_ASSERTIONS")

find_program(MOBULA_CCACHE ccache)
if(MOBULA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MOBULA_CCACHE}")
endif()

include(CheckCXXSourceCompiles)
find_program(MOBULA_MOLD mold)
if(MOBULA_MOLD)
  set(CMAKE_REQUIRED_LINK_OPTIONS -fuse-ld=mold)
  check_cxx_source_compiles("int main() { return 0; }" MOBULA_MOLD_WORKS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(MOBULA_MOLD_WORKS)
    add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
  endif()
endif()

# The build id is half of a function's identity (runtime/core), so every module must have one.
add_link_options($<$<LINK_LANGUAGE:CXX>:-Wl,--build-id>)

if(MOBULA_FUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(MOBULA_SANITIZE)
  add_compile_options(-fsanitize=${MOBULA_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MOBULA_SANITIZE})
  if(MOBULA_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# Paths in messages (MOBULA_CHECK, logs) are the repository's own, whichever folder it was built in.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")

add_library(mobula_warnings INTERFACE)
target_compile_options(mobula_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast>
  # Aggregates with defaults are initialised by naming what differs; that is the point of them.
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MOBULA_WERROR}>>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees overlaps and overflows inside std::string and std::variant that are not there (GCC bugs 105651, 105562,
  # 107852); they stay visible as warnings elsewhere and are no errors here.
  target_compile_options(mobula_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow
    -Wno-error=stringop-overread -Wno-error=array-bounds>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # clang 14 calls a designated initialiser that leaves the rest to its defaults "missing".
  target_compile_options(mobula_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-braces>)
endif()

# mobula_cold(<target> <level>): what is compiled far more often than it costs time to run is optimised less in Release.
function(mobula_cold target level)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${level}>)
endfunction()

# mobula_join_files(<target>): most of a file's compile time is its headers and the templates that its neighbours need
# too, so a layer's files are compiled several at a time. Measured on two cores: see CONTRIBUTING.md.
function(mobula_join_files target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MOBULA_JOIN_FILES} UNITY_BUILD_BATCH_SIZE 14)
  if(MOBULA_JOIN_FILES AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # To the compiler a joined file looks like a header, whose types should use no anonymous namespace.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()
