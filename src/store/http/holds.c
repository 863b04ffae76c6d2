/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/holds.h"

#define PIECE (UINT64_C(1) << 20) /* bytes of a look */

/* Read it and show it piece by piece, all of one version. */
static bool show(stk__http_client *client, stk__http_exchange *x, const stk__http_exchange *empty,
                 const stk__http_sent *sent, const stk_store_call *call, char *piece)
{
    const uint64_t identity = x->identity;

    for (uint64_t at = 0; at < sent->length; at += PIECE) {
        *x = *empty;
        x->method = "GET";
        x->offset = at;
        x->length = STK_MIN(PIECE, sent->length - at);
        x->data = piece;
        x->pinned = identity;
        if (stk__http_call(client, x, call, NULL) != STK_OK ||
            !sent->same(sent->user, piece, (size_t)x->length))
            return false;
    }
    return true;
}

bool stk__http_holds(stk_context *ctx, stk__http_client *client, stk__http_exchange *x,
                     const stk__http_sent *sent, const stk_store_call *call)
{
    const stk__http_exchange empty = *x;

    x->method = "HEAD";
    if (stk__http_call(client, x, call, NULL) != STK_OK || x->size != sent->length)
        return false;
    if (sent->length == 0 || (sent->etag[0] && strcmp(x->etag, sent->etag) == 0))
        return true;
    char *piece = x->identity ? stk__alloc(ctx, STK_MIN(PIECE, sent->length)) : NULL;
    const bool is = piece && show(client, x, &empty, sent, call, piece);
    stk__free(ctx, piece);
    return is;
}

bool stk__http_same_bytes(void *user, const void *bytes, size_t length)
{
    const char **left = user;
    const bool is = memcmp(*left, bytes, length) == 0;

    *left += length;
    return is;
}
