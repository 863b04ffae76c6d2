#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What cmake/hardening.cmake asks for is in the binaries: hardening.sh BINARY...
set -u
failed=0

wants() { # WHAT BINARY PATTERN TEXT
    printf '%s\n' "$4" | grep -Eq -- "$3" || {
        echo "$2: no $1"
        failed=1
    }
}

for binary in "$@"; do
    dynamic=$(readelf -Wd "$binary")
    segments=$(readelf -Wl "$binary")
    symbols=$(readelf -W --dyn-syms "$binary")
    wants "immediate binding" "$binary" 'BIND_NOW|\(FLAGS_1\).*NOW' "$dynamic"
    wants "RELRO" "$binary" 'GNU_RELRO' "$segments"
    wants "stack without execution" "$binary" 'GNU_STACK.* RW ' "$segments"
    wants "address that is drawn" "$binary" 'Elf file type is DYN' "$segments"
    wants "stack protector" "$binary" '__stack_chk_fail' "$symbols"
    wants "calls with checked bounds" "$binary" '__(memcpy|snprintf|vsnprintf|read|pread(64)?|memset)_chk' "$symbols"
    case $(uname -m) in
    x86_64)
        wants "shadow stack (CET)" "$binary" 'x86 feature: .*SHSTK' "$(readelf -Wn "$binary")"
        wants "landing places of branches (CET)" "$binary" '[1-9][0-9]{2}' "$(objdump -d "$binary" | grep -c endbr64)"
        ;;
    esac
    case $binary in
    *.so*) ;;
    *) wants "position-independent program" "$binary" '\(FLAGS_1\).*PIE' "$dynamic" ;;
    esac
done
exit $failed
