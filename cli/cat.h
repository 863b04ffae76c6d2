/* bytes -> hash: what `stoker cat` needs in addition to the library */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_CAT_H
#define STK_CLI_CAT_H

#include <stdint.h>
#include <stdio.h>

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char rest[64];
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t length);
/* End it: 64 digits. */
void sha256_text(struct sha256 *hash, char text[65]);

#endif
