/* options, files, services -> credentials, kept until they expire */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_CREDENTIALS_CREDENTIALS_H
#define STK_SRC_STORE_S3_CREDENTIALS_CREDENTIALS_H

#include "base/base.h"
#include "store/s3/secrets.h"

/* Lives in memory of stk__secrets_alloc(). */
typedef struct stk__s3_keys {
    stk__secret id, secret, token; /* `token` "": none. Of a bearer token it alone is set */
    int64_t expires;               /* Unix time, seconds; INT64_MAX: never */
} stk__s3_keys;

/* ---- Answers (keys.c): pure ---- */

/* JSON of a process, a container, or instance metadata: AccessKeyId, SecretAccessKey,
 * SessionToken or Token, Expiration; or that of SSO, {"roleCredentials": {"accessKeyId": ...}}.
 * Messages repeat none of it. STK_EFORMAT. */
stk_status stk__s3_keys_read_json(const char *text, size_t length, const char *from,
                                  stk__s3_keys *out, stk_error *err);
/* XML of STS: AssumeRoleWithWebIdentity and its like. STK_EFORMAT. */
stk_status stk__s3_keys_read_sts(const char *text, size_t length, const char *from,
                                 stk__s3_keys *out, stk_error *err);
/* JSON of OAuth: access_token, expires_in from `now` on. STK_EFORMAT. */
stk_status stk__s3_keys_read_oauth(const char *text, size_t length, const char *from, int64_t now,
                                   stk__s3_keys *out, stk_error *err);

/* ---- Sources (chain.c) ---- */

/* Where credentials may come from, in this order; all members may be NULL. */
typedef struct stk__s3_sources {
    const char *access_key_id, *secret_access_key, *session_token;
    const char *role_arn, *role_session_name, *web_identity_token_file;
    const char *profile; /* NULL: default */
    const char *credentials_file, *config_file;
    const char *sso_folder; /* tokens of `aws sso login` */
    const char *container_uri, *container_token, *container_token_file;
    const char *metadata_endpoint; /* "http://169.254.169.254"; NULL: it is not asked */
    const char *region;
    bool google; /* the metadata server of Google, for a bearer token */
} stk__s3_sources;

typedef struct stk__s3_ask_header {
    const char *name, *value;
} stk__s3_ask_header;

/* A request for credentials. */
typedef struct stk__s3_ask {
    const char *method, *endpoint, *target;
    stk__s3_ask_header headers[2];
    const char *body; /* NULL: none */
    bool plain;       /* it goes over plain http, or to this machine's link, on purpose */
} stk__s3_ask;

#define STK__S3_ANSWER 65536 /* bytes of an answer at most, with an end */

/* Asks and waits; `text` is of STK__S3_ANSWER bytes of secret memory. */
typedef stk_status stk__s3_fetch_fn(void *user, const stk__s3_ask *ask, int32_t *code, char *text,
                                    size_t *length, stk_error *err);

/* The first source that has any gives them. Blocks. Errors: STK_EINVAL where none has. */
stk_status stk__s3_chain(const stk__s3_sources *sources, stk__s3_fetch_fn *fetch, void *user,
                         int64_t now, stk__s3_keys *out, stk_error *err);
/* The region of the profile, into `region` of `size` bytes; false: it names none. */
bool stk__s3_profile_region(const stk__s3_sources *sources, char *region, size_t size);

/* ---- The cache (cache.c) ---- */

/*
 * Credentials of a store. One thread loads them, "stk-keys", when they are wanted first and then
 * before they expire, early and one time only, however many want them. Old ones serve for as long
 * as they are valid, also where a load has failed.
 */
typedef struct stk__s3_cache stk__s3_cache;

typedef struct stk__s3_cache_ops {
    stk_status (*load)(void *user, stk__s3_keys *out, stk_error *err); /* blocks */
    int64_t (*now)(void *user);                                        /* Unix time, seconds */
    void (*wake)(void *user); /* what was put off may be asked for again; no lock is held */
} stk__s3_cache_ops;

stk_status stk__s3_cache_open(stk_context *ctx, const stk__s3_cache_ops *ops, void *user,
                              stk__s3_cache **out, stk_error *err);
/* Waits for a load that is under way. Sets *cache to NULL; accepts NULL. */
void stk__s3_cache_close(stk__s3_cache **cache);
/* Nobody uses it for a while: its thread ends, after a load that is under way. */
void stk__s3_cache_rest(stk__s3_cache *cache);
/*
 * Have `use` see the keys, under the lock of the cache: it may not wait. *generation tells these
 * keys from others. STK_EAGAIN: there are none yet, wake() says when. Else how the load failed, or
 * what `use` returns.
 */
stk_status stk__s3_cache_use(stk__s3_cache *cache,
                             stk_status (*use)(void *user, const stk__s3_keys *keys,
                                               stk_error *err),
                             void *user, uint64_t *generation, stk_error *err);
/* A server has said that keys of this generation have expired: they serve no more. False: it was
 * said of the last keys as well, with which no request succeeded; a further load is of no use. */
bool stk__s3_cache_expire(stk__s3_cache *cache, uint64_t generation);
/* A server has taken keys of this generation. */
void stk__s3_cache_taken(stk__s3_cache *cache, uint64_t generation);

#endif
