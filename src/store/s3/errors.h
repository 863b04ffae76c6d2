/* answer of an object store that failed -> status, words, what to do */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_ERRORS_H
#define STK_SRC_STORE_S3_ERRORS_H

#include "base/base.h"

/* What may mend it. */
typedef enum stk__s3_cure {
    STK__S3_FINAL,  /* nothing */
    STK__S3_AGAIN,  /* the same request, later */
    STK__S3_KEYS,   /* other credentials: one refresh, then once more */
    STK__S3_REGION, /* the region that the answer names */
    STK__S3_CLOCK   /* the time of the server */
} stk__s3_cure;

typedef struct stk__s3_error {
    char code[64], message[256];
    char region[32];        /* "": the answer names none that is a region's name */
    int64_t server_seconds; /* Unix time of the server; 0: it does not say */
    stk_status status;
    stk__s3_cure cure;
    const char *remedy; /* "; ..." or "" */
} stk__s3_error;

/* Read an answer that is a failure, or a 200 that may hold one; a body that is no error of S3 or
 * STS leaves `code` empty. True: the body is an error. */
bool stk__s3_error_read(const char *body, size_t length, stk__s3_error *out);
/* What the code, or of an answer without one the status of HTTP, means. */
void stk__s3_error_judge(int32_t http, stk__s3_error *error);

/* Whether a text can be the name of a region, and thus a part of a host's name: a to z, 0 to 9 and
 * '-' within. */
bool stk__s3_region_valid(const char *region);

#endif
