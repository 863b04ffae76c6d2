/* request, keys, time -> AWS Signature Version 4 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_SIGV4_H
#define STK_SRC_STORE_S3_SIGV4_H

#include "base/sha256.h"
#include "base/text.h"

/*
 * [AWS, Signature Version 4 signing process; S3, Authenticating requests]. Pure: no clock, no
 * memory but what is given. Canonical texts hold the session token: they are hashed piece by piece
 * and never lie in memory as a whole.
 */

#define STK__SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"
#define STK__SIGV4_DATE     17   /* bytes of "20130524T000000Z", with the end */
#define STK__SIGV4_HEADER   1024 /* bytes of the value of Authorization at most, with the end */
#define STK__SIGV4_PARTS    32   /* parameters of a query, and signed headers, at most */

/* A header that is signed: a name in small letters, a value without blanks at its ends. */
typedef struct stk__sigv4_header {
    const char *name, *value;
} stk__sigv4_header;

typedef struct stk__sigv4_request {
    const char *method;
    const char *target;               /* path and query as they go on the wire */
    const stk__sigv4_header *headers; /* all that are signed, "host" among them, in any order */
    size_t num_headers;
    const char *payload; /* SHA-256 of the body, hexadecimal, or STK__SIGV4_UNSIGNED */
} stk__sigv4_request;

/* What is signed with: the key of a day, a region and a service. */
typedef struct stk__sigv4_key {
    char date[STK__SIGV4_DATE]; /* of the request */
    char scope[96];             /* "20130524/us-east-1/s3/aws4_request" */
    uint8_t bytes[STK__SHA256];
} stk__sigv4_key;

/* Make the key for a moment. One of the same day, region and service is taken as it is: only its
 * date is new. False: the names are too long. */
bool stk__sigv4_key_for(stk__sigv4_key *key, const char *secret, int64_t seconds,
                        const char *region, const char *service);

/* The value of Authorization. False: too many parameters or headers, or it does not fit. */
bool stk__sigv4_sign(const stk__sigv4_key *key, const char *id, const stk__sigv4_request *request,
                     char header[STK__SIGV4_HEADER]);
/* The target with a signature in its query, which holds for `seconds`: appended to `out`. Headers
 * are in the order of their names. `token` NULL: none. False: as above. */
bool stk__sigv4_presign(const stk__sigv4_key *key, const char *id, const char *token,
                        uint32_t seconds, const stk__sigv4_request *request, stk__text *out);

#endif
