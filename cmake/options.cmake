# SPDX-License-Identifier: Apache-2.0
# Every switch of the build, in one place.
option(STOKER_BUILD_TESTS "Build the tests" ON)
option(STOKER_BUILD_BENCH "Build the benchmarks" ON)
option(STOKER_BUILD_EXAMPLES "Build the examples" ON)
option(STOKER_BUILD_FUZZ "Build the fuzz targets (libFuzzer: clang; the tests replay the corpora in any case)" OFF)
option(STOKER_BUILD_PYTHON "Build the Python package in the build folder" OFF)
option(STOKER_WITH_ONEDNN "Layers, losses and optimizers on oneDNN, where it is installed" ON)
option(STOKER_WITH_HDF5 "The program stoker-hdf5 on libhdf5, where it is installed: writing NetCDF-4, reading all of HDF5" ON)
option(STOKER_WITH_HTTP "The stores on HTTP by libcurl, where it is installed" ON)
option(STOKER_WITH_SZIP "The szip filter of HDF5 by libaec, where it is installed" ON)
option(STOKER_WITH_ZFP "The codecs zfp and zfpy by libzfp, where it is installed" ON)
option(STOKER_WERROR "Treat warnings as errors" OFF)
set(STOKER_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
