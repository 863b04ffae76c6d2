/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step's all-reduce: what gradients would be, combined over all ranks at the end of each step,
 * and with it whether the run goes on. Each call needs all ranks, and they have their steps by time
 * or by number: so they end together, when all have enough or one has to.
 */
#include "bench/bench.h"

/* Behind the values: what of the ranks would go on, and what of them ends now. */
enum { GOES_ON, ENDS, FLAGS };

struct stk__bench_all_reduce {
    stk_context *ctx;
    stk_strategy strategy;
    uint64_t count; /* of values, without flags */
    bool over;
    float values[];
};

stk_status stk__bench_all_reduce_create(stk_context *ctx, const stk_strategy *strategy,
                                        uint64_t bytes, stk__bench_all_reduce **out, stk_error *err)
{
    const uint64_t count = stk__divide_up(bytes, sizeof(float));
    uint64_t room;

    *out = NULL;
    if (!bytes)
        return STK_OK;
    stk__bench_all_reduce *r = NULL;
    if (stk__mul_size(count + FLAGS, sizeof(float), &room) && stk__add_size(room, sizeof *r, &room))
        r = stk__alloc(ctx, (size_t)room);
    if (!r)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE,
                         "no memory for the values of bench.all_reduce: give it fewer bytes");
    r->ctx = ctx;
    r->strategy = *strategy;
    r->count = count;
    r->over = false;
    /* The mean of ones is one, to the bit: what comes back is known. */
    for (uint64_t i = 0; i < count; i++)
        r->values[i] = 1;
    *out = r;
    return STK_OK;
}

void stk__bench_all_reduce_destroy(stk__bench_all_reduce *r)
{
    if (r)
        stk__free(r->ctx, r);
}

stk_status stk__bench_all_reduce_run(stk__bench_all_reduce *r, bool enough, bool ends,
                                     stk_error *err)
{
    float *flags = r->values + r->count;

    flags[GOES_ON] = enough ? 0 : 1;
    flags[ENDS] = ends ? 1 : 0;
    STK_TRY(r->strategy.reduce(r->strategy.state, r->values, r->count + FLAGS, STK_FLOAT32,
                               STK_COMBINE_MEAN, NULL, err));
    r->over = flags[GOES_ON] <= 0 || flags[ENDS] > 0;
    if (r->values[0] == 1 && r->values[r->count - 1] == 1)
        return STK_OK;
    return stk__fail(err, STK_EIO, STK_STAGE_MEASURE,
                     "the all-reduce of %s came back with other values: the ranks do not make the "
                     "same calls",
                     r->strategy.name);
}

bool stk__bench_all_reduce_over(const stk__bench_all_reduce *r)
{
    return r->over;
}
