/* Opening a dataset while the n-th allocation fails, for every n until all succeed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_TORTURE_DATASET_OPENING_H
#define STK_TESTS_TORTURE_DATASET_OPENING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/faults.h"
#include "support/support.h"

static inline void opening_line(void *user, const char *name, const char *value)
{
    (void)user, (void)name, (void)value;
}

/* Open and close. True when no allocation failed. What fails is STK_ENOMEM, but for what it can do
 * without, as the index of pictures: then the samples are the same. */
static inline bool opening_run(const char *spec, int64_t n, bool for_good, uint64_t *print)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_dataset *d = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_dataset_open(ctx, spec, &d, &err);
    if (status == STK_OK) {
        assert_true(*print == 0 || *print == d->fingerprint);
        *print = d->fingerprint;
        assert_ok(stk_dataset_describe(d, opening_line, NULL, &err), &err);
    } else {
        assert_null(d);
        if (status != STK_ENOMEM)
            fail_msg("%s, allocation %lld: %s: %s", spec, (long long)n, stk_status_name(status),
                     err.text);
    }
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return !fault_struck(&f);
}

static inline void torture(const char *spec)
{
    uint64_t print = 0;

    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!opening_run(spec, n, for_good, &print)) {
            n = fault_next(n);
            assert_true(n < 100000);
        }
        assert_true(n > 3);
    }
}

#endif
