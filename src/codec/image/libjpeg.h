/* libjpeg's errors and input: what reading and writing of JPEG share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_IMAGE_LIBJPEG_H
#define STK_SRC_CODEC_IMAGE_LIBJPEG_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "codec/image/room.h"

/* Stands first in the struct of its user, which is the client_data of the library's structs. Errors
 * come by longjmp: calls of the library are in functions that stk__libjpeg_guard() runs, which
 * hold nothing that would have to be released. */
typedef struct stk__libjpeg {
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    stk_status status; /* of the failure that escaped */
    const char *reason;
    const char *too_large; /* the reason where it wants more memory than it may have */
    uint32_t max_scans;
} stk__libjpeg;

void stk__libjpeg_init(stk__libjpeg *l, const char *too_large);
/* Run `work` with the struct that begins with `l`; its status, or that of what escaped. */
stk_status stk__libjpeg_guard(stk__libjpeg *l, stk_status (*work)(void *user, void *arguments),
                              void *arguments, const char **reason);
_Noreturn void stk__libjpeg_escape(stk__libjpeg *l, stk_status status, const char *reason);
/* What is to be read. All bytes are given at once. */
void stk__libjpeg_offer(stk__libjpeg *l, const uint8_t *data, uint64_t length);

#endif
