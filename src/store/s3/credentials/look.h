/* one look along the chain: what its sources have in common */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_CREDENTIALS_LOOK_H
#define STK_SRC_STORE_S3_CREDENTIALS_LOOK_H

#include "base/text.h"
#include "store/s3/credentials/credentials.h"
#include "store/s3/credentials/ini.h"

#define STK__S3_FILE   (UINT64_C(256) << 10) /* bytes of a file of credentials, with an end */
#define STK__S3_TARGET 8192

/* Lies in memory of stk__secrets_alloc(), with all that is read and sent. */
typedef struct stk__s3_look {
    const stk__s3_sources *sources;
    stk__s3_fetch_fn *fetch;
    void *user;
    int64_t now;
    size_t credentials_length, config_length, length;
    stk__secret token; /* that a request carries */
    char target[STK__S3_TARGET], body[STK__S3_TARGET];
    char answer[STK__S3_ANSWER];
    char credentials[STK__S3_FILE], config[STK__S3_FILE];
} stk__s3_look;

/* A source: STK_ENOENT has none, and the next is asked. */
typedef stk_status stk__s3_source(stk__s3_look *look, stk__s3_keys *out, stk_error *err);

/* ---- chain.c ---- */

/* The whole file; one that is missing is empty. */
stk_status stk__s3_look_file(const char *path, char *text, size_t size, size_t *length,
                             stk_error *err);
/* Ask; the answer is `answer` of `length`. `from` is who, for messages. */
stk_status stk__s3_look_ask(stk__s3_look *look, const char *from, const stk__s3_ask *ask,
                            stk_error *err);
/* "http://HOST/PATH" as an endpoint of `size` bytes and `target`. False: it is none. */
bool stk__s3_look_part(stk__s3_look *look, const char *uri, char *endpoint, size_t size);
/* The name of the profile. */
const char *stk__s3_profile_name(const stk__s3_sources *sources);
/* A value of it, of the file of credentials first. */
bool stk__s3_look_profile(const stk__s3_look *look, const char *key, stk__ini_span *out);
/* Whether it is a word of an answer: a token, a role's name. */
bool stk__s3_look_word(const char *text, size_t length);

static inline bool stk__s3_is_given(const char *text)
{
    return text && *text;
}

/* ---- sso.c ---- */

/* The profile, which logs in by SSO. */
stk__s3_source stk__s3_from_sso;

/* ---- google.c ---- */

/* A file of a service account, or of a user's login. */
stk__s3_source stk__s3_from_google_file;
/* The metadata server. */
stk__s3_source stk__s3_from_google;

#endif
