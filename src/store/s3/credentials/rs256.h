/* a private key, bytes -> a signature of RS256 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_CREDENTIALS_RS256_H
#define STK_SRC_STORE_S3_CREDENTIALS_RS256_H

#include "base/base.h"

#define STK__RS256_ROOM 512 /* bytes of a signature at most */

typedef struct stk__rsa_number {
    uint8_t *bytes; /* most significant first, no zeros in front */
    size_t length;
} stk__rsa_number;

/* n e d p q dp dq qinv */
typedef struct stk__rsa_key {
    stk__rsa_number numbers[8];
} stk__rsa_key;

/* Read a key as PEM, "BEGIN PRIVATE KEY" [RFC 7468, section 10; RFC 5958; RFC 8017, appendix
 * A.1.2], in place: `text` becomes what the numbers point into. False: it is none. */
bool stk__rsa_key_read(char *text, stk__rsa_key *out);

/*
 * RSASSA-PKCS1-v1_5 with SHA-256 [RFC 7518, section 3.3], by OpenSSL: all that it has of the key is
 * wiped when this returns. `pem`, of the file `path`, is read in place, and is to be wiped by the
 * caller. Errors: STK_EFORMAT, STK_ENOMEM, STK_ENOTSUP (built without it).
 */
stk_status stk__rs256_sign(const char *path, char *pem, const void *data, size_t length,
                           uint8_t signature[STK__RS256_ROOM], size_t *out, stk_error *err);

#endif
