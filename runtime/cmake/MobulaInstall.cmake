# cmake --install, and what find_package(Mobula) finds: Mobula::mobula and, when it is built, Mobula::tune.
include(CMakePackageConfigHelpers)
set(MOBULA_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Mobula")

foreach(folder IN ITEMS runtime/include gpu/include tune/include)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
      FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()

set(exported mobula)
get_target_property(kind mobula_tune TYPE)
if(kind STREQUAL "STATIC_LIBRARY")
  list(APPEND exported mobula_tune)
  set_target_properties(mobula_tune PROPERTIES EXPORT_NAME tune)
endif()
install(TARGETS ${exported} EXPORT MobulaTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET mobula_cli)
  install(TARGETS mobula_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(EXPORT MobulaTargets NAMESPACE Mobula:: DESTINATION "${MOBULA_CMAKE_DIR}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/runtime/cmake/MobulaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/generated/MobulaConfig.cmake" INSTALL_DESTINATION "${MOBULA_CMAKE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/MobulaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/generated/MobulaConfig.cmake"
  "${PROJECT_BINARY_DIR}/generated/MobulaConfigVersion.cmake"
  DESTINATION "${MOBULA_CMAKE_DIR}")
