/* texts, numbers -> bytes to be written */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_BYTES_H
#define STK_SRC_BASE_BYTES_H

#include "base/text.h"

/* A growing run of bytes. */
typedef struct stk__bytes {
    stk_context *ctx;
    char *data;
    size_t length, room;
} stk__bytes;

/* Make room for `more` bytes behind the last; false: no memory. */
bool stk__bytes_reserve(stk__bytes *bytes, uint64_t more);
bool stk__bytes_put(stk__bytes *bytes, const void *data, size_t length);
bool stk__bytes_text(stk__bytes *bytes, const char *text);
void stk__bytes_release(stk__bytes *bytes);
/* Write all of it to a file and make it empty. -1: errno. */
int stk__bytes_write(stk__bytes *bytes, int fd);

bool stk__utf8_valid(const char *text, size_t length);
/* Put a text with '?' in place of bytes that are not UTF-8. */
bool stk__bytes_clean(stk__bytes *bytes, const char *text);

#endif
