/* reads of a store on HTTP -> exchanges, of one version of each object */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_HTTP_READS_H
#define STK_SRC_STORE_HTTP_READS_H

#include "store/http/http.h"
#include "store/http/pins.h"

#define STK__HTTP_TARGET (3 * STK_MAX_OBJECT_KEY + 256) /* bytes of a path and query at most */

typedef struct stk__http_slot stk__http_slot;

/* What submit() and cancel() of a store need. Slots of reads that have ended are used again. */
typedef struct stk__http_reads {
    stk_context *context;
    stk__http_pins *pins;
    size_t request_bytes;  /* of the store's own request, which begins with its exchange */
    pthread_mutex_t mutex; /* guards the free slots, `cancelers` of all, and driver[0] of reads */
    stk__http_slot *free;
} stk__http_reads;

void stk__http_reads_init(stk__http_reads *reads, stk_context *ctx, stk__http_pins *pins,
                          size_t request_bytes);
/* None may be under way. */
void stk__http_reads_release(stk__http_reads *reads);
/* As submit() of a store. `target` writes the path of a key as it goes on the wire. */
stk_status stk__http_reads_submit(stk__http_reads *reads, stk__http_client *client, stk_read *read,
                                  stk_status (*target)(const void *store, const char *key,
                                                       char to[STK__HTTP_TARGET]),
                                  const void *store);
void stk__http_reads_cancel(stk__http_reads *reads, stk__http_client *client, stk_read *read);

/* Limits that suit object stores; `connections` of the options is the depth. */
void stk__http_limits(const stk__http_options *options, stk_store_limits *out);

#endif
