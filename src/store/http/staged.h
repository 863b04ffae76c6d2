/* pieces of an object -> the body of a request, in bounded memory */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_HTTP_STAGED_H
#define STK_SRC_STORE_HTTP_STAGED_H

#include "store/http/holds.h"

#define STK__HTTP_IN_MEMORY (UINT64_C(8) << 20) /* bytes of an object that is sent from memory */

/*
 * An object that is sent as a whole, but comes in pieces: up to STK__HTTP_IN_MEMORY in memory, of
 * more all of it in a file without a name. Begins as zeros but for `fd`, which is -1.
 */
typedef struct stk__http_staged {
    stk_context *context;
    char *bytes; /* NULL where there is a file */
    size_t room;
    uint64_t length;
    int fd;
} stk__http_staged;

/* `expected` bytes there are in all, as far as is known. `key` is for the error. */
stk_status stk__http_staged_add(stk__http_staged *staged, const void *data, size_t length,
                                uint64_t expected, const char *key, stk_error *err);
/* Have an exchange send it. */
void stk__http_staged_send(stk__http_staged *staged, stk__http_exchange *exchange);
/* Whether the object at `target` is that. Waits. */
bool stk__http_staged_is_sent(stk__http_staged *staged, stk__http_client *client,
                              const char *target, const stk_store_call *call);
void stk__http_staged_release(stk__http_staged *staged);

#endif
