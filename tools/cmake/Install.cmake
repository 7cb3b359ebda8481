# What `cmake --install` puts down, and where. Every path is below the prefix and
# is found from the place of the file that needs it, so a tree may be moved.
#
#   bin/                          tools
#   lib/                          libshardwright_cost.a, libshardwright_rt.a
#   lib/cmake/Shardwright/        find_package(Shardwright)
#   include/shardwright/          cost_model/*.h, runtime/include/*.h
#   share/shardwright/            the clusters and profiles that the tools embed
#   share/man, bash-completion, zsh, fish
#   share/doc/shardwright/        README, examples
include(CMakePackageConfigHelpers)

set(SHARDWRIGHT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Shardwright)
set(SHARDWRIGHT_DOC_DIR ${CMAKE_INSTALL_DATAROOTDIR}/doc/shardwright)
set(SHARDWRIGHT_INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR}/shardwright)

install(TARGETS shardwright_cost shardwright_rt EXPORT ShardwrightTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${SHARDWRIGHT_INCLUDE_DIR})
install(EXPORT ShardwrightTargets NAMESPACE Shardwright::
        DESTINATION ${SHARDWRIGHT_CMAKE_DIR})

# The readers and writers of JSON are private: nlohmann is no dependency.
install(DIRECTORY cost_model DESTINATION ${SHARDWRIGHT_INCLUDE_DIR}
        FILES_MATCHING PATTERN "*.h"
        PATTERN Diagnostics.def
        PATTERN data EXCLUDE
        PATTERN JsonReader.h EXCLUDE
        PATTERN JsonWriter.h EXCLUDE)
install(DIRECTORY runtime/include
        DESTINATION ${SHARDWRIGHT_INCLUDE_DIR}/runtime
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY cost_model/data/hardware cost_model/data/profiles
        DESTINATION ${CMAKE_INSTALL_DATADIR}/shardwright
        FILES_MATCHING PATTERN "*.json")
install(FILES README.md DESTINATION ${SHARDWRIGHT_DOC_DIR})
install(DIRECTORY examples DESTINATION ${SHARDWRIGHT_DOC_DIR}
        USE_SOURCE_PERMISSIONS
        PATTERN "__pycache__" EXCLUDE
        PATTERN "Output" EXCLUDE)

configure_package_config_file(
  tools/cmake/ShardwrightConfig.cmake.in
  ${CMAKE_BINARY_DIR}/generated/ShardwrightConfig.cmake
  INSTALL_DESTINATION ${SHARDWRIGHT_CMAKE_DIR}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${CMAKE_BINARY_DIR}/generated/ShardwrightConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/ShardwrightConfig.cmake
              ${CMAKE_BINARY_DIR}/generated/ShardwrightConfigVersion.cmake
              tools/cmake/ShardwrightFunctions.cmake
        DESTINATION ${SHARDWRIGHT_CMAKE_DIR})

if(SHARDWRIGHT_ENABLE_COMPILER)
  # Debian keeps libMLIR beside LLVM's other files, where no loader looks.
  set_target_properties(shardwright shardwright-opt shardwright-import
    PROPERTIES INSTALL_RPATH "${LLVM_LIBRARY_DIR}")
  install(TARGETS shardwright EXPORT ShardwrightTools
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS shardwright-opt shardwright-import
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(EXPORT ShardwrightTools NAMESPACE Shardwright::
          DESTINATION ${SHARDWRIGHT_CMAKE_DIR})

  set(pages ${CMAKE_BINARY_DIR}/generated/pages)
  install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/shardwright.bash RENAME shardwright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/_shardwright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  install(FILES ${pages}/shardwright.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
