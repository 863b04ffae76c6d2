/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell of the matrices of http: does: one operation, whose bytes are looked at. */
#ifndef STK_TESTS_UNIT_STORE_HTTP_OPERATIONS_H
#define STK_TESTS_UNIT_STORE_HTTP_OPERATIONS_H

#include "support/matrix.h"
#include "world.h"

#define OFFSET 1000u
#define LENGTH 200000u
#define WRITES 5000u
/* Of every operation, which ends before it, or at most a tenth later. */
#define DEADLINE_NS UINT64_C(20000000000)

enum { READ, UP_TO, STAT, PUT, OPERATIONS };
static const char *const operations[] = {"read", "read up to", "stat", "put"};

/* STK_EINTERNAL: it ended well, and what it says or brought is wrong. */
static inline stk_status operate(const fixture *f, stk_store *store, int operation, const char *key,
                                 stk_error *err)
{
    const stk_store_call call = {.struct_size = sizeof call,
                                 .deadline_ns = stk__now_ns() + DEADLINE_NS};
    stk_object_info info = {.struct_size = sizeof info};
    unsigned char *got = calloc(1, LENGTH);
    matrix_read up_to = {.read = {.key = key,
                                  .offset = OFFSET,
                                  .length = LENGTH,
                                  .data = got,
                                  .up_to = true,
                                  .deadline_ns = call.deadline_ns}};
    bool right = true;
    stk_status status;

    if (operation == READ) {
        status = stk_store_read(store, key, OFFSET, LENGTH, got, err);
    } else if (operation == UP_TO) {
        status = matrix_read_now(store, &up_to, err);
        right = up_to.read.got == LENGTH;
    } else if (operation == STAT) {
        status = stk_store_stat(store, key, &call, &info, err);
        right = info.size == SIZE;
    } else {
        status = stk_store_put(store, key, f->bytes + 1, WRITES, &call, err);
    }
    if (operation == READ || operation == UP_TO)
        right &= memcmp(got, f->bytes + OFFSET, LENGTH) == 0;
    free(got);
    return status == STK_OK && !right ? STK_EINTERNAL : status;
}

/* The same by a store of its own, in a context of its own: connections and tokens are no other's.
 */
static inline stk_status operate_at(const fixture *f, const char *url, int operation,
                                    const char *key, stk_error *err)
{
    stk_context *context = test_context();
    stk_store *store = NULL;

    stk_error_init(err);
    stk_status status = stk_store_open(context, url, &store, NULL, 0, err);
    if (status == STK_OK)
        status = operate(f, store, operation, key, err);
    stk_store_close(&store);
    stk_context_destroy(&context);
    return status;
}

/* Whether the server has of an object what was written, or else what was there before. */
static inline bool is_kept(const fixture *f, http_server *server, const char *path, bool written)
{
    size_t length;
    unsigned char *kept = http_server_get(server, path, &length);
    const bool is = kept && (written ? length == WRITES && memcmp(kept, f->bytes + 1, WRITES) == 0
                                     : length == SIZE && memcmp(kept, f->bytes, SIZE) == 0);

    free(kept);
    return is;
}

#endif
