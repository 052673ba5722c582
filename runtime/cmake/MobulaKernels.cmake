# Arithmetic for today's processors, with a fallback for all others.
#
# A file named *_kernels.cc is compiled twice: for plain x86-64, and for x86-64-v3 (AVX2, FMA). It puts its code into
# `namespace MOBULA_KERNELS { ... }`, which is `kernels_baseline` or `kernels_v3`, and shows plain functions over
# pointers. Its caller, for which MOBULA_HAVE_KERNELS_V3 says that the second copy exists, chooses once, by
# __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"). Two rules keep the copies apart: no type of a
# header-only library crosses the border (Eigen is renamed in the v3 copy, so its templates never mix), and no
# container of the standard library is used inside (the linker would keep one copy of its templates for both).
# Where a loop needs no library, `__attribute__((target_clones("arch=x86-64-v3", "default")))` on the function does it
# with one copy of the file.
include(CheckCXXCompilerFlag)
set(MOBULA_V3 FALSE)
if(MOBULA_KERNELS_V3 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  check_cxx_compiler_flag(-march=x86-64-v3 MOBULA_HAVE_MARCH_V3)
  set(MOBULA_V3 ${MOBULA_HAVE_MARCH_V3})
endif()

# mobula_add_kernels(<target> <file>...): the files go into the target in both forms.
function(mobula_add_kernels target)
  foreach(file IN LISTS ARGN)
    get_filename_component(name "${file}" NAME_WE)
    set(baseline "${target}_${name}_baseline")
    add_library(${baseline} OBJECT "${file}")
    target_compile_definitions(${baseline} PRIVATE MOBULA_KERNELS=kernels_baseline)
    set(variants ${baseline})
    if(MOBULA_V3)
      set(v3 "${target}_${name}_v3")
      add_library(${v3} OBJECT "${file}")
      target_compile_options(${v3} PRIVATE -march=x86-64-v3)
      target_compile_definitions(${v3} PRIVATE MOBULA_KERNELS=kernels_v3 Eigen=EigenV3)
      list(APPEND variants ${v3})
      target_compile_definitions(${target} PRIVATE MOBULA_HAVE_KERNELS_V3=1)
    endif()
    foreach(variant IN LISTS variants)
      # -O3: these files are loops over numbers; elsewhere -O2 is as fast and smaller.
      target_compile_options(${variant} PRIVATE $<$<CONFIG:Release>:-O3>)
      target_include_directories(${variant} PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
      target_link_libraries(${variant} PRIVATE mobula_warnings Eigen3::Eigen)
      # The baseline objects come first: a template both need is then the one that runs everywhere.
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${variant}>)
    endforeach()
  endforeach()
endfunction()

# Takes *_kernels.cc out of the target's own sources and adds both forms.
function(mobula_split_kernels target)
  get_target_property(sources ${target} SOURCES)
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "_kernels\\.cc$")
  if(kernels)
    list(FILTER sources EXCLUDE REGEX "_kernels\\.cc$")
    set_target_properties(${target} PROPERTIES SOURCES "${sources}")
    mobula_add_kernels(${target} ${kernels})
  endif()
endfunction()
