/* key -> object: what the two halves of the mem store share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_MEM_H
#define STK_SRC_STORE_MEM_H

#include "store/store.h"

typedef struct stk__mem_object stk__mem_object;
struct stk__mem_object {
    stk__mem_object *next; /* in the graveyard of its space */
    unsigned char *data;   /* from stk__alloc_buffer() */
    uint64_t size, serial;
    uint32_t readers; /* that copy from it now */
    bool listed, mapped;
    char key[];
};

/* What is under one NAME. */
typedef struct stk__mem_space stk__mem_space;
struct stk__mem_space {
    stk__mem_space *next; /* guarded by the context's slot */
    stk_context *context;
    pthread_mutex_t mutex;     /* guards the rest */
    stk__mem_object **objects; /* by key in the order of bytes */
    size_t count, room;
    stk__mem_object *graveyard; /* mapped ones that were replaced or removed */
    uint64_t serial;            /* of the object put last */
    char name[];
};

typedef struct stk__mem_store {
    stk_store base;
    stk__mem_space *space;
    size_t prefix_length; /* bytes of `prefix`, which ends with '/' unless it is empty */
    char prefix[];        /* what keys of this store begin with in their space */
} stk__mem_store;

/* Accepts NULL. */
void stk__mem_free(stk_context *ctx, stk__mem_object *o);
/* First place whose key is not before the store's prefix + `key`. */
size_t stk__mem_place_locked(const stk__mem_space *s, const stk__mem_store *store, const char *key);
/* NULL: there is none. */
stk__mem_object *stk__mem_find_locked(const stk__mem_store *store, const char *key);
stk_status stk__mem_put(stk_store *store, const char *key, const stk_store_call *call,
                        stk_put **out, stk_error *err);
stk_status stk__mem_remove(stk_store *store, const char *key, const stk_store_call *call,
                           stk_error *err);

#endif
