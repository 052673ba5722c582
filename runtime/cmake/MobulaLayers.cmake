# Layers: how a folder becomes a library, and how the link graph becomes the include rule.
#
# All our includes are written from the repository's root ("runtime/base/ids.h"), yet the root is on no layer's include
# path: with it, anybody could include anything. Each layer gets a root of its own under build/layers/<layer>, made of
# links to exactly its headers, and hands it to those that link the layer. An include that the graph does not allow
# ends in "No such file". (Refused: the root on the path and a lint test alone; it tells too late and nobody's editor.)

# mobula_glob(<variable> <pattern>... FOLDERS <folder>... [RECURSE]): files, relative to the repository.
function(mobula_glob variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RECURSE" "" "PATTERNS;FOLDERS")
  set(mode GLOB)
  if(arg_RECURSE)
    set(mode GLOB_RECURSE)
  endif()
  set(globs "")
  foreach(folder IN LISTS arg_FOLDERS)
    foreach(pattern IN LISTS arg_PATTERNS)
      list(APPEND globs "${PROJECT_SOURCE_DIR}/${folder}/${pattern}")
    endforeach()
  endforeach()
  file(${mode} found RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS ${globs})
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# Links `headers` into build/layers/<layer>, and removes links whose header is gone.
function(mobula_link_headers layer headers)
  set(root "${PROJECT_BINARY_DIR}/layers/${layer}")
  file(GLOB_RECURSE stale RELATIVE "${root}" "${root}/*")
  foreach(header IN LISTS headers)
    if(NOT IS_SYMLINK "${root}/${header}")
      get_filename_component(folder "${root}/${header}" DIRECTORY)
      file(MAKE_DIRECTORY "${folder}")
      file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${header}" "${root}/${header}" SYMBOLIC)
    endif()
    list(REMOVE_ITEM stale "${header}")
  endforeach()
  foreach(link IN LISTS stale)
    file(REMOVE "${root}/${link}")
  endforeach()
endfunction()

# mobula_add_layer(<name> FOLDERS <folder>... [RECURSE] [PURE] [EXCLUDE <file>...] [LAYERS <layer>...]
#                  [LINKS <library>...] [PRIVATE_LINKS <library>...] [PUBLIC_INCLUDES <folder>...])
# A static library of all .cc files of the folders (with RECURSE, of those below them too). A folder may still be
# empty: then the layer is a library of headers. LAYERS and LINKS are seen by those that link it, PRIVATE_LINKS are not.
function(mobula_add_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PURE;RECURSE" ""
    "FOLDERS;EXCLUDE;LAYERS;LINKS;PRIVATE_LINKS;PUBLIC_INCLUDES")
  set(recurse "")
  if(arg_RECURSE)
    set(recurse RECURSE)
  endif()
  mobula_glob(sources PATTERNS *.cc FOLDERS ${arg_FOLDERS} ${recurse})
  mobula_glob(headers PATTERNS *.h FOLDERS ${arg_FOLDERS} ${recurse})
  if(arg_EXCLUDE)
    list(REMOVE_ITEM sources ${arg_EXCLUDE})
  endif()
  mobula_link_headers(${name} "${headers}")
  set(roots "${PROJECT_BINARY_DIR}/layers/${name}")
  foreach(folder IN LISTS arg_PUBLIC_INCLUDES)
    list(APPEND roots "${PROJECT_SOURCE_DIR}/${folder}")
  endforeach()

  if(NOT sources)
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${roots})
    target_link_libraries(${name} INTERFACE ${arg_LAYERS} ${arg_LINKS} ${arg_PRIVATE_LINKS})
    return()
  endif()
  list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/")
  add_library(${name} STATIC ${sources})
  set_property(GLOBAL APPEND PROPERTY MOBULA_COMPILED_LAYERS ${name})
  target_include_directories(${name} PUBLIC ${roots})
  target_link_libraries(${name} PUBLIC ${arg_LAYERS} ${arg_LINKS} Threads::Threads
    PRIVATE mobula_warnings ${arg_PRIVATE_LINKS})
  target_compile_definitions(${name} PRIVATE MOBULA_VERSION="${PROJECT_VERSION}")
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_BINARY_DIR}/layers/=>")
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  mobula_join_files(${name})
  if(arg_PURE)
    target_compile_options(${name} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/runtime/cmake/pure_fence.h>")
  endif()
  mobula_split_kernels(${name})
endfunction()

# The object files of those of `layers` that have any (the global property MOBULA_COMPILED_LAYERS names them).
function(mobula_layer_objects variable)
  get_property(compiled GLOBAL PROPERTY MOBULA_COMPILED_LAYERS)
  set(objects "")
  foreach(layer IN LISTS ARGN)
    if(layer IN_LIST compiled)
      list(APPEND objects "$<TARGET_OBJECTS:${layer}>")
    endif()
  endforeach()
  set(${variable} "${objects}" PARENT_SCOPE)
endfunction()

# mobula_add_schemas(<name> FOLDER <folder>): the generated code of its *.capnp, compiled without our warnings.
# Included as "<folder>/<name>.capnp.h" by whoever links <name>.
function(mobula_add_schemas name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "")
  mobula_glob(schemas PATTERNS *.capnp FOLDERS ${arg_FOLDER})
  set(root "${PROJECT_BINARY_DIR}/generated/capnp")
  if(NOT schemas)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE CapnProto::capnp)
    return()
  endif()
  file(MAKE_DIRECTORY "${root}/${arg_FOLDER}")
  list(TRANSFORM schemas PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE all_schemas)
  set(generated "")
  foreach(schema IN LISTS schemas)
    add_custom_command(
      OUTPUT "${root}/${schema}.c++" "${root}/${schema}.h"
      COMMAND "${CAPNP_EXECUTABLE}" compile "-o${CAPNPC_CXX_EXECUTABLE}:${root}"
              "--src-prefix=${PROJECT_SOURCE_DIR}" "-I${PROJECT_SOURCE_DIR}" "-I${CAPNP_INCLUDE_DIRECTORY}"
              "${PROJECT_SOURCE_DIR}/${schema}"
      DEPENDS ${all_schemas}
      COMMENT "Compiling schema ${schema}"
      VERBATIM)
    list(APPEND generated "${root}/${schema}.c++" "${root}/${schema}.h")
  endforeach()
  add_library(${name} STATIC ${generated})
  set_property(GLOBAL APPEND PROPERTY MOBULA_COMPILED_LAYERS ${name})
  target_include_directories(${name} SYSTEM PUBLIC "${root}")
  target_compile_options(${name} PRIVATE -w)
  target_link_libraries(${name} PUBLIC CapnProto::capnp)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# mobula_add_shared_library(<name> LAYERS ... PUBLIC_INCLUDES ... PRIVATE_LINKS ... VERSION_SCRIPT <file>)
# The layers go in as objects, not as archives: --exclude-libs hides every archive, and all of a layer is wanted.
function(mobula_add_shared_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "VERSION_SCRIPT" "LAYERS;PUBLIC_INCLUDES;PRIVATE_LINKS")
  mobula_layer_objects(objects ${arg_LAYERS})
  set(script "${PROJECT_SOURCE_DIR}/${arg_VERSION_SCRIPT}")
  add_library(${name} SHARED ${objects})
  set_target_properties(${name} PROPERTIES
    LINKER_LANGUAGE CXX
    LINK_DEPENDS "${script}"
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  foreach(folder IN LISTS arg_PUBLIC_INCLUDES)
    target_include_directories(${name} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${folder}>")
  endforeach()
  target_include_directories(${name} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_features(${name} INTERFACE cxx_std_20)
  # Every program needs a build id: it is half of the identity of the functions it registers.
  target_link_options(${name} INTERFACE -Wl,--build-id
    PRIVATE "-Wl,--version-script=${script}" -Wl,--exclude-libs,ALL)
  if(NOT MOBULA_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_PRIVATE_LINKS} Threads::Threads)
endfunction()

# mobula_link_layers(<target> <layer>...): links layers into a program. mobula_core and mobula_takeover go in as
# objects: they register themselves and take over the start of the process, so nothing asks for them by name.
function(mobula_link_layers target)
  target_link_libraries(${target} PRIVATE ${ARGN})
  set(whole ${ARGN})
  list(FILTER whole INCLUDE REGEX "^mobula_(core|takeover)$")
  mobula_layer_objects(objects ${whole})
  target_sources(${target} PRIVATE ${objects})
endfunction()

# mobula_add_program(<name> MAIN <file> OUTPUT_NAME <name> LAYERS <layer>...). Skipped while MAIN does not exist.
function(mobula_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MAIN;OUTPUT_NAME" "LAYERS")
  mobula_glob(main PATTERNS ${arg_MAIN} FOLDERS .)
  if(NOT EXISTS "${PROJECT_SOURCE_DIR}/${arg_MAIN}")
    message(STATUS "No ${arg_MAIN} yet: ${arg_OUTPUT_NAME} is not built")
    return()
  endif()
  add_executable(${name} "${PROJECT_SOURCE_DIR}/${arg_MAIN}")
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${arg_OUTPUT_NAME})
  target_compile_definitions(${name} PRIVATE MOBULA_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE mobula_warnings)
  mobula_link_layers(${name} ${arg_LAYERS})
endfunction()

# mobula_add_tune(<name> FOLDERS <folder>... CORE <layer>): the tune and train library. It sees the public headers and
# its own pure core, nothing else of Mobula; the core's objects go into it, so that users link one archive.
function(mobula_add_tune name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORE" "FOLDERS")
  mobula_glob(sources PATTERNS *.cc FOLDERS ${arg_FOLDERS} RECURSE)
  mobula_glob(headers PATTERNS *.h FOLDERS ${arg_FOLDERS} RECURSE)
  mobula_link_headers(${name} "${headers}")
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${arg_CORE} mobula)
    return()
  endif()
  list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/")
  mobula_layer_objects(objects ${arg_CORE} mobula_base)
  add_library(${name} STATIC ${sources} ${objects})
  target_include_directories(${name}
    PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/tune/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    PRIVATE "${PROJECT_BINARY_DIR}/layers/${name}" "$<TARGET_PROPERTY:${arg_CORE},INTERFACE_INCLUDE_DIRECTORIES>"
            "$<TARGET_PROPERTY:mobula_base,INTERFACE_INCLUDE_DIRECTORIES>")
  target_link_libraries(${name} PUBLIC mobula Threads::Threads PRIVATE "$<BUILD_INTERFACE:mobula_warnings>"
    "$<BUILD_INTERFACE:nlohmann_json::nlohmann_json>")
  target_compile_definitions(${name} PRIVATE MOBULA_VERSION="${PROJECT_VERSION}")
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_BINARY_DIR}/layers/=>")
  mobula_join_files(${name})
  mobula_split_kernels(${name})
endfunction()
