/* bytes -> MD5 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_MD5_H
#define STK_SRC_BASE_MD5_H

#include "base/digest.h"

/*
 * MD5 [RFC 1321], which others publish checksums in: it tells damage, and no forgery, as files of
 * the same MD5 can be made.
 */
typedef struct stk__md5 {
    uint32_t state[4];
    stk__digest_blocks blocks;
} stk__md5;

#define STK__MD5_TEXT 33 /* bytes of it as text, with the end */

void stk__md5_init(stk__md5 *h);
void stk__md5_add(stk__md5 *h, const void *data, size_t length);
/* In small hexadecimal digits. Ends it: nothing can be added. */
void stk__md5_text(stk__md5 *h, char text[STK__MD5_TEXT]);

#endif
