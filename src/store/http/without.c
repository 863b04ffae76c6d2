/* SPDX-License-Identifier: Apache-2.0 */
/* http:, https:, s3: and gs:, and services, in a build without libcurl: their opening says so. */
#include "store/http/http.h"

static stk_status lacking(const char *url, stk_error *err)
{
    return stk__fail(err, STK_ENOTSUP, STK_STAGE_STORE,
                     "'%.200s' cannot be opened: this build has no libcurl; install "
                     "libcurl4-openssl-dev and build with -DSTOKER_WITH_HTTP=ON",
                     url);
}

static stk_status lacking_open(stk_context *ctx, const char *url, const void *options,
                               stk_store **out, stk_error *err)
{
    (void)ctx, (void)options;
    *out = NULL;
    return lacking(url, err);
}

/* No store is ever open. */
static void lacking_close(stk_store *store)
{
    (void)store;
}

static stk_status lacking_submit(stk_store *store, stk_read *read)
{
    (void)store, (void)read;
    return STK_ENOTSUP;
}

static void lacking_cancel(stk_store *store, stk_read *read)
{
    (void)store, (void)read;
}

static stk_status lacking_stat(stk_store *store, const char *key, const stk_store_call *call,
                               stk_object_info *out, stk_error *err)
{
    (void)store, (void)key, (void)call, (void)out, (void)err;
    return STK_ENOTSUP;
}

void (*const stk__network_get)(stk_context *ctx, stk_network *out) = NULL;

#define LACKING(scheme, what)                                                                      \
    {                                                                                              \
        .struct_size = sizeof(stk_store_ops), .name = scheme, .doc = what, .open = lacking_open,   \
        .close = lacking_close, .submit = lacking_submit, .cancel = lacking_cancel,                \
        .stat = lacking_stat,                                                                      \
    }

const stk_store_ops stk__store_http = LACKING("http", "objects of a web server");
const stk_store_ops stk__store_https = LACKING("https", "objects of a web server, over TLS");
const stk_store_ops stk__store_s3 =
    LACKING("s3", "objects of Amazon S3, and of what speaks its language");
const stk_store_ops stk__store_gs = LACKING("gs", "objects of Google Cloud Storage");

/* ---- Services ---- */

static stk_status lacking_service(stk_context *ctx, const stk__http_service_options *options,
                                  stk__http_service **out, stk_error *err)
{
    (void)ctx;
    *out = NULL;
    return lacking(options->url, err);
}

const stk__http_service_ops stk__http_services = {.open = lacking_service};
