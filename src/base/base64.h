/* bytes <-> base64 [RFC 4648] */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_BASE64_H
#define STK_SRC_BASE_BASE64_H

#include "base/text.h"

/* Base64 of bytes; NULL: no memory. */
char *stk__base64_text(stk_context *ctx, const void *bytes, size_t size);
/* The same behind a text. */
void stk__text_add_base64(stk__text *text, const void *bytes, size_t size);
/* In the alphabet of URLs, without padding [section 5; RFC 7515, section 2]. */
void stk__text_add_base64url(stk__text *text, const void *bytes, size_t size);
/* Base64 of at most `size` bytes; the rest of `out` stays as it is. `out` may be `text`. */
bool stk__base64_parse(const char *text, uint32_t size, unsigned char *out);
/* How many bytes it is of. */
size_t stk__base64_bytes(const char *text);

#endif
