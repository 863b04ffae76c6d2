/* bytes -> SHA-1 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_SHA1_H
#define STK_SRC_BASE_SHA1_H

#include "base/digest.h"

#define STK__SHA1_TEXT 41 /* bytes as hexadecimal digits, with the end */

/* Of names that others gave to files by it: it protects nothing. */
typedef struct stk__sha1 {
    uint32_t state[5];
    stk__digest_blocks blocks;
} stk__sha1;

/* [FIPS 180-4, section 6.1] */
void stk__sha1_init(stk__sha1 *hash);
void stk__sha1_add(stk__sha1 *hash, const void *data, size_t length);
/* The end of it: small hexadecimal digits. */
void stk__sha1_text(stk__sha1 *hash, char text[STK__SHA1_TEXT]);

#endif
