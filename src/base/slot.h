/* a context -> what stores of one kind share in it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_SLOT_H
#define STK_SRC_BASE_SLOT_H

#include "base/base.h"

/* A slot in which stores of this context keep what all of a kind share, owned by src/store: mem:
 * their objects, containers the tables that were read, http: its thread, openings what they
 * saw, stores of objects their credentials. */
typedef struct stk__slot {
    void *data;
    void (*destroy)(stk_context *ctx, void *data);
} stk__slot;
typedef enum stk__slot_of {
    STK__SLOT_MEM,
    STK__SLOT_CONTAINERS,
    STK__SLOT_HTTP,
    STK__SLOT_OPENING,
    STK__SLOT_CREDENTIALS,
    STK__SLOTS
} stk__slot_of;
/* Run `use` with a slot of the context, under the lock of all. */
stk_status stk__context_slot(stk_context *ctx, stk__slot_of which,
                             stk_status (*use)(stk_context *ctx, stk__slot *slot, void *user),
                             void *user);
/* How many openings are under way, as store/opening.c counts them. */
atomic_uint *stk__context_openings(stk_context *ctx);

#endif
