/* text -> driver, path, options: what a URL of a store says */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_URL_H
#define STK_SRC_STORE_URL_H

#include "base/url.h"
#include "store/store.h"

/* Errors: STK_EINVAL for an empty one, STK_ENOTSUP for an unknown scheme, naming those that are
 * known. */
stk_status stk__url_parse(stk_context *ctx, const char *text, stk__url *out, stk_error *err);

/* Fail for a scheme that no store has. STK_ENOTSUP. */
stk_status stk__url_unknown(stk_context *ctx, const char *text, stk_error *err);

/* What a driver is opened with (options.c). */
typedef struct stk__store_given {
    void *options; /* of the driver's table; NULL: it has none */
    char *url;     /* without the options that were taken */
    char *texts;   /* that the options point into */
} stk__store_given;

stk_status stk__store_given_take(stk_context *ctx, const char *text, const stk__url *url,
                                 stk__store_given *given, stk_error *err);
/* `bare`, a URL without a query, with what its stores know of `query` ("" or "?..."): other options
 * are those of readers above. NULL: no memory. */
char *stk__store_query(stk_context *ctx, const char *bare, const char *query);
void stk__store_given_release(stk_context *ctx, stk__store_given *given);

/* Whether a path is that of a folder by its name, "data/era5.zarr", with no other point in it, so
 * that no other machine has to be asked whether an object is called so. */
bool stk__url_means_folder(const char *path, size_t length);

/* Open by URL alone, as a wrapper opens what it wraps. */
stk_status stk__store_open_url(stk_context *ctx, const char *url, stk_store **out, stk_error *err);

#endif
