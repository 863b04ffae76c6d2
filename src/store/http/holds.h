/* what was sent, an object -> whether it is that */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_HTTP_HOLDS_H
#define STK_SRC_STORE_HTTP_HOLDS_H

#include "store/http/http.h"

/*
 * Of a PUT with If-None-Match whose answer was lost the next try is told that the object is there:
 * its own. Then it is looked at.
 */
typedef struct stk__http_sent {
    uint64_t length;
    char etag[64]; /* that a server may have made of it; "": unknown. Where it has made another the
                      bytes are read */
    bool (*same)(void *user, const void *bytes, size_t length); /* from the first one on */
    void *user;
} stk__http_sent;

/* Whether the object is what was sent. `x` has its target and else zeros. Waits. */
bool stk__http_holds(stk_context *ctx, stk__http_client *client, stk__http_exchange *x,
                     const stk__http_sent *sent, const stk_store_call *call);
/* As `same`; `user` points to a pointer to the bytes. */
bool stk__http_same_bytes(void *user, const void *bytes, size_t length);

#endif
