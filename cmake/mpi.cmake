# SPDX-License-Identifier: Apache-2.0
# A library for each MPI that is installed, loaded when a run of several ranks begins: libstoker_openmpi.so, libstoker_mpich.so.
# They have nothing of Stoker's library but the header of what they offer.
function(stoker_mpi_shim name package)
    add_library(stoker_${name} MODULE ${PROJECT_SOURCE_DIR}/mpi/shim.c)
    target_include_directories(stoker_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(stoker_${name} PRIVATE _GNU_SOURCE)
    target_compile_options(stoker_${name} PRIVATE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
        -Wno-unused-parameter)
    if(STOKER_WERROR)
        target_compile_options(stoker_${name} PRIVATE -Werror)
    endif()
    target_link_libraries(stoker_${name} PRIVATE PkgConfig::${package})
    set_target_properties(stoker_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    stoker_harden(stoker_${name})
    # Found when it is wanted; whoever builds the command wants it, too.
    if(TARGET stoker)
        add_dependencies(stoker stoker_${name})
    endif()
endfunction()
if(OPENMPI_FOUND)
    stoker_mpi_shim(openmpi OPENMPI)
endif()
if(MPICH_FOUND)
    stoker_mpi_shim(mpich MPICH)
endif()
