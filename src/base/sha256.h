/* bytes -> SHA-256, and HMAC by it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_SHA256_H
#define STK_SRC_BASE_SHA256_H

#include "base/digest.h"

#define STK__SHA256      32 /* bytes */
#define STK__SHA256_TEXT 65 /* bytes as hexadecimal digits, with the end */

typedef struct stk__sha256 {
    uint32_t state[8];
    stk__digest_blocks blocks;
} stk__sha256;

/* [FIPS 180-4, section 6.2] */
void stk__sha256_init(stk__sha256 *hash);
void stk__sha256_add(stk__sha256 *hash, const void *data, size_t length);
void stk__sha256_end(stk__sha256 *hash, uint8_t digest[STK__SHA256]);
/* Small hexadecimal digits. */
void stk__sha256_text(const uint8_t digest[STK__SHA256], char text[STK__SHA256_TEXT]);

/* HMAC-SHA256 [RFC 2104]. What it leaves in memory is wiped. */
void stk__hmac_sha256(const void *key, size_t key_length, const void *data, size_t length,
                      uint8_t digest[STK__SHA256]);

#endif
