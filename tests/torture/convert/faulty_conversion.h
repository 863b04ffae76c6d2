/* A conversion whose n-th allocation fails. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_FAULTY_CONVERSION_H
#define STK_TESTS_FAULTY_CONVERSION_H

#include "support/support.h"

#include "support/faults.h"

/* True when no allocation failed: then it is whole. Else it has a clear status and holds nothing.
 * `converter`: the name of the one that is to be chosen. */
static inline bool faulty_conversion(const char *from, const char *to, const char *converter,
                                     const stk_convert_options *common, const void *own, int64_t n,
                                     bool for_good)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_conversion *conversion = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_conversion_create(ctx, from, to, &conversion, &err);
    if (status == STK_OK) {
        assert_string_equal(stk_conversion_converter(conversion)->name, converter);
        status = stk_conversion_run(conversion, common, own, NULL, &err);
    }
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("%s, allocation %lld: %s: %s", from, (long long)n, stk_status_name(status),
                 err.text);
    stk_conversion_destroy(&conversion);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return f.left > 0 || (status == STK_OK && f.left == 0);
}

#endif
