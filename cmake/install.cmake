# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: library, headers, command, pkg-config and CMake package files.
include(CMakePackageConfigHelpers)

set_target_properties(stoker_shared PROPERTIES EXPORT_NAME stoker)
install(TARGETS stoker_shared EXPORT StokerTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The static library needs the development files of its dependencies: a component of its own.
install(TARGETS stoker_static EXPORT StokerStaticTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/stoker DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET stoker-hdf5)
    install(TARGETS stoker-hdf5 RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/stoker)
endif()
if(TARGET stoker)
    install(TARGETS stoker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    if(STOKER_SHARE)
        install(DIRECTORY ${STOKER_SHARE}/ DESTINATION ${CMAKE_INSTALL_DATADIR})
    endif()
endif()

set(STOKER_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Stoker)
install(EXPORT StokerTargets NAMESPACE stoker:: DESTINATION ${STOKER_CMAKE_DIR})
install(EXPORT StokerStaticTargets NAMESPACE stoker:: DESTINATION ${STOKER_CMAKE_DIR})
configure_package_config_file(cmake/StokerConfig.cmake.in ${CMAKE_BINARY_DIR}/StokerConfig.cmake
    INSTALL_DESTINATION ${STOKER_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/StokerConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/StokerConfig.cmake ${CMAKE_BINARY_DIR}/StokerConfigVersion.cmake
    DESTINATION ${STOKER_CMAKE_DIR})

# stoker.pc finds the prefix from its own place, so that an installed tree may be moved.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(STOKER_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
    set(STOKER_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
else()
    file(RELATIVE_PATH STOKER_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" STOKER_PC_UP ${STOKER_PC_UP})
    set(STOKER_PC_PREFIX "\${pcfiledir}/${STOKER_PC_UP}")
    set(STOKER_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
set(STOKER_PC_REQUIRES "zlib yaml-0.1 libxxhash libjpeg spng jansson libzstd liblz4 blosc libdeflate liblzma")
if(URING_FOUND)
    string(APPEND STOKER_PC_REQUIRES " liburing")
endif()
if(CURL_FOUND)
    string(APPEND STOKER_PC_REQUIRES " libcurl")
endif()
if(BROTLI_FOUND)
    string(APPEND STOKER_PC_REQUIRES " libbrotlidec")
endif()
if(CRYPTO_FOUND)
    string(APPEND STOKER_PC_REQUIRES " libcrypto")
endif()
if(MICROHTTPD_FOUND)
    string(APPEND STOKER_PC_REQUIRES " libmicrohttpd")
endif()
set(STOKER_PC_LIBS "-pthread -lbz2 -lm")
if(ONEDNN_FOUND)
    string(APPEND STOKER_PC_LIBS " -ldnnl -lgomp")
endif()
if(AEC_FOUND)
    string(APPEND STOKER_PC_LIBS " -laec")
endif()
if(ZFP_FOUND)
    string(APPEND STOKER_PC_LIBS " -lzfp")
endif()
configure_file(cmake/stoker.pc.in ${CMAKE_BINARY_DIR}/stoker.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/stoker.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
