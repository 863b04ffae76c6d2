/* A context whose allocations fail on purpose, and what is tried until none does. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_FAULTY_CONTEXT_H
#define STK_TESTS_SUPPORT_FAULTY_CONTEXT_H

#include "support/faults.h"
#include "support/support.h"

static inline stk_context *faulty_context(faults *f)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, f};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

/* Use something while the n-th allocation fails, for every n until all succeed: STK_ENOMEM or
 * success, and success in the end. The last n, which is less than `most`. */
static inline int64_t faulty_each(faults *f, const char *name, int64_t most,
                                  stk_status (*use)(void *user, stk_error *err), void *user)
{
    for (int64_t n = 0;; n = fault_next(n)) {
        stk_error err;
        assert_true(n < most);
        f->left = n;
        stk_error_init(&err);
        const stk_status status = use(user, &err);
        const bool all = !fault_struck(f);
        f->left = FAULTS_NONE;
        if (status != STK_OK && (all || status != STK_ENOMEM))
            fail_msg("%s, allocation %lld: %s: %s", name, (long long)n, stk_status_name(status),
                     err.text);
        if (all)
            return n;
    }
}

#endif
