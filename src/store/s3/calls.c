/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "store/http/head.h"
#include "store/s3/s3.h"

stk_status stk__s3_call(stk__s3_store *store, stk__s3_request *request, const stk_store_call *call,
                        stk_error *err)
{
    return stk__http_call(store->client, &request->exchange, call, err);
}

stk_status stk__s3_target(const stk__s3_store *store, const char *key, const char *query,
                          char target[STK__HTTP_TARGET], stk_error *err)
{
    stk__text text = {.bytes = target, .room = STK__HTTP_TARGET};
    char whole[2 * STK_MAX_OBJECT_KEY];

    if (snprintf(whole, sizeof whole, "%s%s", store->prefix, key) >= STK_MAX_OBJECT_KEY)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, key, STK_NO_OFFSET,
                            "the key '%.200s' is too long", key);
    stk__s3_endpoint_path(&store->endpoint, whole, &text);
    stk__text_add(&text, "%s", query);
    if (text.length < text.room)
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_STORE, key, STK_NO_OFFSET,
                        "the key '%.200s' is too long", key);
}

/* ---- Objects ----------------------------------------------------------------------------------
 */

stk_status stk__s3_stat(stk__s3_store *store, const char *key, const stk_store_call *call,
                        stk_object_info *out, stk_error *err)
{
    char target[STK__HTTP_TARGET], folder[STK_MAX_OBJECT_KEY + 1];
    const size_t length = strlen(key);
    bool is = false;

    if (length == 0) {
        out->is_folder = true;
        return STK_OK;
    }
    if (key[length - 1] != '/') {
        stk__s3_request request = {.exchange = {.target = target}};
        STK_TRY(stk__s3_target(store, key, "", target, err));
        const stk_status status =
            stk__http_look(store->client, &request.exchange, false, call, err);
        const stk__http_exchange *x = &request.exchange;
        if (status == STK_OK && x->size != UINT64_MAX) {
            out->size = x->size;
            out->identity = x->identity;
            out->mtime_ns = x->mtime_ns;
            stk__http_pins_set(&store->pins, key, x->identity, x->etag, true);
            return STK_OK;
        }
        if (status != STK_ENOENT)
            return status != STK_OK
                       ? status
                       : stk__fail_at(err, STK_ENOTSUP, STK_STAGE_STORE, key, STK_NO_OFFSET,
                                      "the server does not say how long '%.200s' is", key);
    }
    snprintf(folder, sizeof folder, "%s%s", key, key[length - 1] == '/' ? "" : "/");
    STK_TRY(stk__s3_folder_look(store, folder, call, &is, err));
    out->is_folder = is;
    return is ? STK_OK
              : stk__fail_at(err, STK_ENOENT, STK_STAGE_STORE, key, STK_NO_OFFSET,
                             "'%.200s' does not exist in the bucket '%s'", key,
                             store->endpoint.bucket);
}

/* The server says nothing of what was not there. */
stk_status stk__s3_remove(stk__s3_store *store, const char *key, const stk_store_call *call,
                          stk_error *err)
{
    char target[STK__HTTP_TARGET];
    stk__s3_request look = {.exchange = {.method = "HEAD", .target = target}};
    stk__s3_request request = {
        .exchange = {.method = "DELETE", .target = target, .most = STK__S3_ANSWER}};

    STK_TRY(stk__s3_target(store, key, "", target, err));
    STK_TRY(stk__s3_call(store, &look, call, err));
    const stk_status status = stk__s3_call(store, &request, call, err);
    stk__http_exchange_release(store->client, &request.exchange);
    stk__http_pins_set(&store->pins, key, 0, "", true);
    return status;
}
