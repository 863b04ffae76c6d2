/* SPDX-License-Identifier: Apache-2.0 */
/* A chain that is compiled and run while the n-th allocation fails. */
#ifndef STK_TESTS_TORTURE_CODEC_CHAIN_FAULTS_H
#define STK_TESTS_TORTURE_CODEC_CHAIN_FAULTS_H

#include "codec/codec.h"

#include "support/faults.h"
#include "support/support.h"

/* What is done with it. */
typedef stk_status chain_use(const stk__chain *chain, stk__codec_state *state, const void *user);

/* True when no allocation failed. */
static inline bool chain_run(const stk__chain_spec *spec, chain_use *use, const void *user,
                             int64_t n, bool for_good)
{
    faults f = {n, for_good, 0};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__chain *chain = NULL;
    stk__codec_state *state = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk__chain_create(ctx, spec, &chain, &err);
    if (status == STK_OK)
        status = stk__codec_state_create(ctx, &state, &err);
    if (status == STK_OK)
        status = use(chain, state, user);
    if (status != STK_OK)
        assert_int_equal(status, STK_ENOMEM);
    stk__codec_state_destroy(&state);
    stk__chain_destroy(&chain);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return !fault_struck(&f);
}

/* For every n until all succeed. */
static inline void chain_torture(const stk__chain_spec *spec, chain_use *use, const void *user)
{
    for (int for_good = 0; for_good < 2; for_good++) {
        int64_t n = 0;
        while (!chain_run(spec, use, user, n, for_good))
            assert_true(++n < 1000);
        assert_true(n >= 3);
    }
}

/* With one state no allocation of Stoker's from the second chunk on. */
static inline void chain_steady(const stk__chain_spec *spec, chain_use *use, const void *user)
{
    stk_context *ctx = test_context();
    stk_memory_stats before = {.struct_size = sizeof before}, after = before;
    stk__codec_state *state = NULL;
    stk__chain *chain = NULL;
    stk_error err;

    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    assert_ok(stk__chain_create(ctx, spec, &chain, &err), &err);
    assert_int_equal(use(chain, state, user), STK_OK);
    stk_context_memory(ctx, &before);
    for (int i = 0; i < 5; i++)
        assert_int_equal(use(chain, state, user), STK_OK);
    stk_context_memory(ctx, &after);
    if (after.allocations != before.allocations)
        fail_msg("%s: %llu allocations", spec->key,
                 (unsigned long long)(after.allocations - before.allocations));
    stk__chain_destroy(&chain);
    stk__codec_state_destroy(&state);
    stk_context_destroy(&ctx);
}

#endif
