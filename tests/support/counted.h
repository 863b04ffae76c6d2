/* The store counted:FOLDER, a folder whose reads are counted for all processes of a test. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_COUNTED_H
#define STK_TESTS_SUPPORT_COUNTED_H

#include "support/support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "store/store.h"

typedef struct counted_calls {
    _Atomic uint64_t reads, bytes, stats;
    _Atomic uint64_t steps; /* of the test's own */
    _Atomic uint64_t twice; /* bytes that were read before, of the object that is watched */
    _Atomic unsigned char seen[1 << 12];
    bool silent;    /* reads do not say of which version their bytes are */
    uint64_t block; /* bytes of what one of `seen` stands for; 0: nobody watches */
} counted_calls;

static counted_calls *counted;
static stk_store_ops counted_ops;

static stk_status counted_submit(stk_store *store, stk_read *read)
{
    atomic_fetch_add(&counted->reads, 1);
    atomic_fetch_add(&counted->bytes, read->length);
    for (uint64_t b = 0; counted->block && b * counted->block < read->length; b++) {
        const uint64_t at = read->offset / counted->block + b;
        if (at < sizeof counted->seen && atomic_exchange(&counted->seen[at], 1))
            atomic_fetch_add(&counted->twice, 1);
    }
    if (counted->silent)
        read->identity = NULL;
    return stk__store_file.submit(store, read);
}

static stk_status counted_stat(stk_store *store, const char *key, const stk_store_call *call,
                               stk_object_info *out, stk_error *err)
{
    atomic_fetch_add(&counted->stats, 1);
    return stk__store_file.stat(store, key, call, out, err);
}

static stk_status counted_open(stk_context *ctx, const char *url, const void *options,
                               stk_store **out, stk_error *err)
{
    char file[600];

    snprintf(file, sizeof file, "file%s", strchr(url, ':'));
    STK_TRY(stk__store_file.open(ctx, file, options, out, err));
    (*out)->ops = &counted_ops;
    return STK_OK;
}

/* Make the store known to a context; its counters are zero then. */
static inline void counted_add(stk_context *ctx)
{
    stk_error err;

    if (!counted)
        counted =
            mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(counted, MAP_FAILED);
    counted_ops = stk__store_file;
    counted_ops.name = "counted";
    counted_ops.doc = "a folder whose reads are counted";
    counted_ops.open = counted_open;
    counted_ops.submit = counted_submit;
    counted_ops.stat = counted_stat;
    /* Each read is one of the counters. */
    counted_ops.read_now = NULL;
    assert_ok(stk_driver_add(ctx, STK_DRIVER_STORE, &counted_ops, &err), &err);
}

static inline void counted_reset(void)
{
    memset((void *)counted, 0, sizeof *counted);
}

#endif
