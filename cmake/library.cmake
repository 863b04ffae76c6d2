# SPDX-License-Identifier: Apache-2.0
# libstoker (shared and static) and the command.
file(GLOB_RECURSE STOKER_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
if(NOT URING_FOUND)
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/aio_uring\\.c$")
endif()
if(NOT AEC_FOUND)
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/codec/szip\\.c$")
endif()
if(NOT ZFP_FOUND)
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/codec/(codecs_)?zfp\\.c$")
endif()
if(NOT BROTLI_FOUND)
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/codec/brotli\\.c$")
endif()
# The stores on HTTP are there in any case; without libcurl their opening says so.
if(CURL_FOUND)
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/store/http/without\\.c$")
else()
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/store/http/(answer|client|counts|holds|job|late|look|loop|names|pins|reads|redirect|service|staged|store|try)\\.c$")
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/store/s3/(calls|listing|options|provider|put|sign|store)\\.c$")
endif()
if(NOT CRYPTO_FOUND)
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/credentials/rs256\\.c$")
endif()

if(MICROHTTPD_FOUND)
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/measure/live_without\\.c$")
    # The live page, as bytes.
    set(LIVE_PAGE ${PROJECT_SOURCE_DIR}/src/measure/live_page.html ${PROJECT_SOURCE_DIR}/src/measure/live_page.css
        ${PROJECT_SOURCE_DIR}/src/measure/live_page.js)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/embed/live_page.inc
        COMMAND ${CMAKE_COMMAND} -DOUT=${PROJECT_BINARY_DIR}/embed/live_page.inc "-DIN=${LIVE_PAGE}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${LIVE_PAGE} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    list(APPEND STOKER_SOURCES ${PROJECT_BINARY_DIR}/embed/live_page.inc)
else()
    list(FILTER STOKER_SOURCES EXCLUDE REGEX "/measure/live_serve\\.c$")
endif()

add_library(stoker_objects OBJECT ${STOKER_SOURCES})
target_include_directories(stoker_objects
    PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(stoker_objects PRIVATE -Wall -Wextra -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wpointer-arith -Wno-unused-parameter
    # A fused multiply-add would give other bits than the definition of a kernel.
    -ffp-contract=off)
stoker_harden(stoker_objects)
set(STOKER_DEFINITIONS _GNU_SOURCE)
if(STOKER_WERROR)
    target_compile_options(stoker_objects PRIVATE -Werror)
endif()
set(STOKER_LIBS Threads::Threads ZLIB::ZLIB PkgConfig::YAML PkgConfig::XXHASH PkgConfig::JPEG
    PkgConfig::SPNG PkgConfig::JANSSON PkgConfig::ZSTD PkgConfig::LZ4 PkgConfig::BLOSC
    PkgConfig::DEFLATE PkgConfig::LZMA BZip2::BZip2 m)
if(URING_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_URING=1)
    list(APPEND STOKER_LIBS PkgConfig::URING)
endif()
if(AEC_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_SZIP=1)
    list(APPEND STOKER_LIBS aec)
    target_include_directories(stoker_objects PRIVATE ${AEC_INCLUDE})
endif()
if(ZFP_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_ZFP=1)
    list(APPEND STOKER_LIBS zfp)
    target_include_directories(stoker_objects PRIVATE ${ZFP_INCLUDE})
endif()
if(BROTLI_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_BROTLI=1)
    list(APPEND STOKER_LIBS PkgConfig::BROTLI)
endif()
if(CURL_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_HTTP=1)
    list(APPEND STOKER_LIBS PkgConfig::CURL)
endif()
if(MICROHTTPD_FOUND)
    list(APPEND STOKER_LIBS PkgConfig::MICROHTTPD)
    # Seen by those that want it alone.
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/measure/live_serve.c APPEND PROPERTY INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/embed)
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/cli/main.c APPEND PROPERTY COMPILE_DEFINITIONS STK_WITH_MICROHTTPD=1)
endif()
if(CRYPTO_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_OPENSSL=1)
    list(APPEND STOKER_LIBS PkgConfig::CRYPTO)
endif()
if(HDF5_FOUND) # not linked: the program stoker-hdf5 is
    list(APPEND STOKER_DEFINITIONS STK_WITH_HDF5=1)
endif()
if(OPENMPI_FOUND) # not linked: libstoker_openmpi.so is, which is loaded when it is wanted
    list(APPEND STOKER_DEFINITIONS STK_WITH_OPENMPI=1)
endif()
if(MPICH_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_MPICH=1)
endif()
if(ONEDNN_FOUND)
    list(APPEND STOKER_DEFINITIONS STK_WITH_ONEDNN=1)
    # Clang's OpenMP has the entries of GNU's as well: linked first it is oneDNN's, too, so that there is one pool of threads,
    # and ThreadSanitizer knows its barriers by the tool that comes with it (libarcher).
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        list(APPEND STOKER_LIBS dnnl gomp)
    else()
        list(APPEND STOKER_LIBS ${OpenMP_C_LIBRARIES} dnnl)
    endif()
    target_include_directories(stoker_objects PRIVATE ${ONEDNN_INCLUDE})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/nn/parallel.c PROPERTIES COMPILE_OPTIONS "${OpenMP_C_FLAGS}")
endif()
target_link_libraries(stoker_objects PUBLIC ${STOKER_LIBS})

# Kernels for one instruction set stand in files of their own; the C version is the definition.
set(AVX2_SOURCES ${STOKER_SOURCES})
list(FILTER AVX2_SOURCES INCLUDE REGEX "_avx2\\.c$")
set(AVX512_SOURCES ${STOKER_SOURCES})
list(FILTER AVX512_SOURCES INCLUDE REGEX "_avx512\\.c$")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(${AVX2_SOURCES} PROPERTIES COMPILE_OPTIONS "-mavx2")
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/nn/kernels_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma")
    set_source_files_properties(${AVX512_SOURCES} PROPERTIES COMPILE_OPTIONS
        "-mfma;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/nn/winograd_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma")
    list(APPEND STOKER_DEFINITIONS STK_WITH_AVX2=1)
else()
    set_source_files_properties(${AVX2_SOURCES} ${AVX512_SOURCES} PROPERTIES HEADER_FILE_ONLY ON)
endif()

# Without these, roots and choices are not vectorized; no bit changes.
file(GLOB NN_KERNELS ${PROJECT_SOURCE_DIR}/src/nn/kernels*.c)
set_property(SOURCE ${NN_KERNELS} APPEND PROPERTY COMPILE_OPTIONS "-fno-math-errno;-fno-trapping-math")

target_compile_definitions(stoker_objects PRIVATE ${STOKER_DEFINITIONS})

# What figures are of: the libraries, by the versions that they had when this was built.
set(BUILT_WITH "zlib ${ZLIB_VERSION_STRING}")
foreach(library IN ITEMS "libyaml YAML" "xxHash XXHASH" "libjpeg-turbo JPEG" "libspng SPNG" "jansson JANSSON" "zstd ZSTD"
        "lz4 LZ4" "c-blosc BLOSC" "libdeflate DEFLATE" "liblzma LZMA" "liburing URING" "libcurl CURL" "OpenSSL CRYPTO"
        "brotli BROTLI" "libmicrohttpd MICROHTTPD" "bzip2 BZIP2" "libaec AEC" "zfp ZFP" "oneDNN ONEDNN" "OpenMPI OPENMPI" "MPICH MPICH")
    string(REPLACE " " ";" library ${library})
    list(GET library 0 name)
    list(GET library 1 variable)
    if(${variable}_FOUND)
        # Not all of them say it.
        string(STRIP "${name} ${${variable}_VERSION}${${variable}_VERSION_STRING}" library)
        string(APPEND BUILT_WITH ", ${library}")
    endif()
endforeach()
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/measure/machine.c APPEND PROPERTY COMPILE_DEFINITIONS
    "STK_BUILT_WITH=\"${BUILT_WITH}\"")

if(STOKER_BUILD_FUZZ AND CMAKE_C_COMPILER_ID MATCHES Clang)
    target_compile_options(stoker_objects PRIVATE -fsanitize=fuzzer-no-link)
    target_compile_definitions(stoker_objects PUBLIC FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
endif()
if(STOKER_SANITIZE)
    target_compile_options(stoker_objects PUBLIC -fsanitize=${STOKER_SANITIZE}
        -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(stoker_objects PUBLIC -fsanitize=${STOKER_SANITIZE})
endif()

add_library(stoker_static STATIC $<TARGET_OBJECTS:stoker_objects>)
set_target_properties(stoker_static PROPERTIES OUTPUT_NAME stoker)
target_link_libraries(stoker_static PUBLIC ${STOKER_LIBS})
target_include_directories(stoker_static PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)

# What tests are linked with. Four hundred programs that each hold all of the library and a sanitizer are gigabytes, and linking them
# takes as long as their objects: under sanitizers they share one library, of which they see the internals, too.
if(STOKER_SANITIZE AND NOT STOKER_BUILD_FUZZ)
    set_target_properties(stoker_objects PROPERTIES C_VISIBILITY_PRESET default)
    add_library(stoker_tested SHARED $<TARGET_OBJECTS:stoker_objects>)
    target_link_libraries(stoker_tested PUBLIC ${STOKER_LIBS})
    target_include_directories(stoker_tested PUBLIC ${PROJECT_SOURCE_DIR}/include)
    target_compile_options(stoker_tested PUBLIC -fsanitize=${STOKER_SANITIZE})
    target_link_options(stoker_tested PUBLIC -fsanitize=${STOKER_SANITIZE})
else()
    add_library(stoker_tested ALIAS stoker_static)
endif()

add_library(stoker_shared SHARED $<TARGET_OBJECTS:stoker_objects>)
set_target_properties(stoker_shared PROPERTIES OUTPUT_NAME stoker
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/stoker.map)
# libcurl keeps pointers to functions of ours: it is not unloaded.
target_link_options(stoker_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/stoker.map -Wl,-z,nodelete)
if(NOT STOKER_SANITIZE) # clang leaves the symbols of its runtime to the program
    target_link_options(stoker_shared PRIVATE -Wl,--no-undefined)
endif()
stoker_harden(stoker_shared)
target_link_libraries(stoker_shared PRIVATE ${STOKER_LIBS})
target_include_directories(stoker_shared PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
if(STOKER_SANITIZE)
    foreach(target stoker_static stoker_shared)
        target_compile_options(${target} PUBLIC -fsanitize=${STOKER_SANITIZE})
        target_link_options(${target} PUBLIC -fsanitize=${STOKER_SANITIZE})
    endforeach()
endif()

file(GLOB CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
if(CLI_SOURCES)
    # The style and the scripts of the report's page, as bytes.
    set(PAGE ${PROJECT_SOURCE_DIR}/cli/report_page.css ${CHART_JS} ${PROJECT_SOURCE_DIR}/cli/report_gantt.js
        ${PROJECT_SOURCE_DIR}/cli/report_training.js ${PROJECT_SOURCE_DIR}/cli/report_page.js)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/embed/report_page.inc
        COMMAND ${CMAKE_COMMAND} -DOUT=${PROJECT_BINARY_DIR}/embed/report_page.inc "-DIN=${PAGE}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${PAGE} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    add_executable(stoker ${CLI_SOURCES} ${PROJECT_BINARY_DIR}/embed/report_page.inc)
    target_include_directories(stoker PRIVATE ${PROJECT_BINARY_DIR}/embed)
    target_compile_definitions(stoker PRIVATE ${STOKER_DEFINITIONS})
    # What --version says of the build.
    get_target_property(FEATURES stoker_objects COMPILE_DEFINITIONS)
    target_compile_definitions(stoker PRIVATE ${FEATURES})
    target_compile_options(stoker PRIVATE -Wall -Wextra -Wshadow -Wno-unused-parameter)
    stoker_harden(stoker)
    # All of the library, and its public functions exported: plug-ins call them. One copy in the process, so not the shared one.
    target_link_libraries(stoker PRIVATE stoker_objects)
    set_target_properties(stoker PROPERTIES ENABLE_EXPORTS ON)
    # What shells complete with, and manual pages.
    if(NOT CMAKE_CROSSCOMPILING)
        set(STOKER_SHARE ${PROJECT_BINARY_DIR}/share)
        add_custom_command(OUTPUT ${STOKER_SHARE}/man/man1/stoker.1
            COMMAND ${CMAKE_COMMAND} -DSTOKER=$<TARGET_FILE:stoker> -DOUT=${STOKER_SHARE}
                -P ${PROJECT_SOURCE_DIR}/cmake/share.cmake
            DEPENDS stoker ${PROJECT_SOURCE_DIR}/cmake/share.cmake VERBATIM)
        add_custom_target(stoker_share ALL DEPENDS ${STOKER_SHARE}/man/man1/stoker.1)
    endif()
endif()
