/* the parts of the stores s3: and gs: */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_S3_H
#define STK_SRC_STORE_S3_S3_H

#include "store/http/reads.h"
#include "store/s3/endpoint.h"
#include "store/s3/errors.h"
#include "store/s3/provider.h"
#include "store/s3/sigv4.h"

typedef struct stk__s3_options {
    uint32_t struct_size;
    stk__http_options http;
    const char *region, *endpoint, *profile;
    const char *access_key_id, *secret_access_key, *session_token;
    const char *credentials_file, *config_file, *sso_folder;
    const char *role_arn, *role_session_name, *web_identity_token_file;
    const char *container_uri, *container_token, *container_token_file, *metadata_endpoint;
    int32_t style;
    bool anonymous, requester_pays, allow_http;
} stk__s3_options;

extern const stk_option_table stk__s3_option_table, stk__gs_option_table;

typedef struct stk__s3_store {
    stk_store base;
    stk__http_client *client;
    stk__http_options http;
    stk__s3_where where; /* its texts are the store's */
    stk__s3_endpoint endpoint;
    stk__sigv4_key *key;        /* in secret memory; of the thread of the client */
    stk__s3_provider *provider; /* NULL: anonymous, as `cache` */
    stk__s3_member member;
    stk__s3_cache *cache;
    stk__http_pins pins;
    bool google, requester_pays;
    char *texts;         /* that where and http point into */
    char region[32];     /* that is signed for. The thread's of the client, as the next one */
    int64_t skew;        /* seconds that the server's clock is ahead */
    uint64_t generation; /* of the keys that `key` was made of */
    stk__http_reads reads;
    char prefix[STK_MAX_OBJECT_KEY]; /* of keys: "" or one that ends in '/' */
} stk__s3_store;

/* A request. The hooks of the client find it by its exchange. */
typedef struct stk__s3_request {
    stk__http_exchange exchange; /* first */
    const char *checksum;        /* of the body, CRC-32C in base64; NULL: none */
    bool asks_checksum;          /* the upload is to be checked as a whole by those of its parts */
    /* The hooks' own. */
    uint64_t generation; /* of the keys that it was signed with */
    bool renewed, moved, wound;
} stk__s3_request;

/* ---- sign.c: what the client asks of its owner ---- */

extern const stk__http_hooks stk__s3_hooks;

/* ---- calls.c: requests that wait ---- */

/* Send it and wait; the caller releases the exchange. */
stk_status stk__s3_call(stk__s3_store *store, stk__s3_request *request, const stk_store_call *call,
                        stk_error *err);
/* The path of a key of the store, with `query` ("" or "?...") behind it. STK_EINVAL: too long. */
stk_status stk__s3_target(const stk__s3_store *store, const char *key, const char *query,
                          char target[STK__HTTP_TARGET], stk_error *err);
/* An object, or a folder where there is none. */
stk_status stk__s3_stat(stk__s3_store *store, const char *key, const stk_store_call *call,
                        stk_object_info *out, stk_error *err);
stk_status stk__s3_list(stk__s3_store *store, const char *prefix, const stk_store_call *call,
                        stk_list_fn *each, void *user, stk_error *err);
/* Whether anything lies in a folder: "" or a key that ends in '/'. */
stk_status stk__s3_folder_look(stk__s3_store *store, const char *folder, const stk_store_call *call,
                               bool *is, stk_error *err);
stk_status stk__s3_remove(stk__s3_store *store, const char *key, const stk_store_call *call,
                          stk_error *err);

/* ---- put.c ---- */

stk_status stk__s3_put_begin(stk__s3_store *store, const char *key, const stk_store_call *call,
                             stk_put **out, stk_error *err);

#endif
