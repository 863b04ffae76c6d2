/* where credentials may come from -> one who has them, for all stores of a context */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_S3_PROVIDER_H
#define STK_SRC_STORE_S3_PROVIDER_H

#include "store/http/http.h"
#include "store/s3/credentials/credentials.h"

/*
 * Stores of a context with the same sources have one provider, which loads credentials by one
 * request at a time. It stays for a minute after the last of them was closed, without a thread: an
 * opening makes a store for each look.
 */
typedef struct stk__s3_provider stk__s3_provider;

/* A store that has one. */
typedef struct stk__s3_member {
    struct stk__s3_member *next;
    stk__http_client *client; /* woken when there are credentials; NULL: none */
} stk__s3_member;

/* All texts are copied. Errors: STK_ENOMEM. */
stk_status stk__s3_provider_get(stk_context *ctx, const stk__s3_sources *sources,
                                const stk__http_options *http, stk__s3_member *member,
                                stk__s3_provider **out, stk_error *err);
/* Nobody asks it for this member any more. Sets it to NULL; accepts NULL. Waits for a load where it
 * was the last. */
void stk__s3_provider_leave(stk__s3_provider **provider, stk__s3_member *member);
/* Another client of a member; NULL: none any more. Accepts a provider that is NULL. */
void stk__s3_provider_serve(stk__s3_provider *provider, stk__s3_member *member,
                            stk__http_client *client);
stk__s3_cache *stk__s3_provider_cache(stk__s3_provider *provider);

#endif
