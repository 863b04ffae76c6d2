# SPDX-License-Identifier: Apache-2.0
# What makes a fault that is still there hard to use: checked bounds of the C library's calls, guarded stacks, tables that are only read
# once the program runs, an address that is drawn, and control flow that is followed by the processor. packaging/hardening looks for it
# in the binaries. Sanitizers have checks of their own.
function(stoker_harden target)
    if(STOKER_SANITIZE)
        return()
    endif()
    set(optimized "$<NOT:$<CONFIG:Debug>>")
    target_compile_options(${target} PRIVATE "$<${optimized}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
    foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full)
        string(MAKE_C_IDENTIFIER "STOKER_HAVE${flag}" known)
        check_c_compiler_flag(${flag} ${known})
        if(${known})
            target_compile_options(${target} PRIVATE ${flag})
        endif()
    endforeach()
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
        target_link_options(${target} PRIVATE -pie)
    endif()
    if(NOT type STREQUAL "OBJECT_LIBRARY")
        target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack)
        # The start files of some C libraries (Debian's) carry no mark. They keep the shadow stack's rules all the same; those of
        # indirect branches they do not, so our functions have the landing places (endbr64) and the whole has no mark of them.
        if(STOKER_HAVE_fcf_protection_full)
            target_link_options(${target} PRIVATE -Wl,-z,shstk)
        endif()
    endif()
endfunction()
