/* SPDX-License-Identifier: Apache-2.0 */
/* Joining the other ranks, and leaving them. */
#include <inttypes.h>

#include "dist/nccl.h"

static void release(stk_collectives *c)
{
    stk_context *ctx = c->ctx;

    stk__free(ctx, c->frames);
    stk__free(ctx, c->hosts);
    stk__free(ctx, c->sizes);
    stk__free(ctx, c->room);
    stk__free(ctx, c->aside);
    stk__free(ctx, c->nccl_wish);
    stk__free(ctx, c);
    stk__context_unref(ctx);
}

static stk_status make_room(stk_collectives *c, const stk_collectives_options *o, stk_error *err)
{
    const uint64_t world = c->strategy.world_size;

    c->frames = stk__calloc(c->ctx, world + 1, sizeof *c->frames);
    c->hosts = stk__calloc(c->ctx, world, sizeof *c->hosts);
    c->sizes = stk__calloc(c->ctx, world, sizeof *c->sizes);
    c->nccl_wish = stk__strdup(c->ctx, o->nccl ? o->nccl : "auto");
    return c->frames && c->hosts && c->sizes && c->nccl_wish
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for %" PRIu64 " ranks",
                           world);
}

static void set_options(stk_collectives *c, const stk_collectives_options *o)
{
    c->timeout_ns = (uint64_t)(o->collective_timeout * 1e9);
    if (c->strategy.rank != o->fault_rank)
        return;
    c->fail_at = o->fault_fail_at;
    c->late_at = o->fault_late_at;
    c->late_ns = (uint64_t)(o->fault_late_by * 1e9);
}

stk_status stk__collectives_join(stk_context *ctx, const stk__transport_ops *ops,
                                 const stk_collectives_options *o, stk_collectives **out,
                                 stk_error *err)
{
    char why[STK__TRANSPORT_TEXT] = "";
    stk_collectives *c = stk__calloc(ctx, 1, sizeof *c);

    *out = NULL;
    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for collectives");
    c->ctx = stk__context_ref(ctx);
    c->ops = ops;
    if (!ops->open(&c->transport, &c->strategy.rank, &c->strategy.world_size, why)) {
        release(c);
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "%s: %s", ops->name, why);
    }
    set_options(c, o);
    stk__collectives_fill(c);
    stk_status status = make_room(c, o, err);
    if (status == STK_OK)
        status = stk__exchange_hosts(c, err);
    if (status != STK_OK) {
        ops->close(c->transport, false);
        release(c);
        return status;
    }
    *out = c;
    return STK_OK;
}

const stk_strategy *stk_collectives_strategy(const stk_collectives *c)
{
    return &c->strategy;
}

const char *stk_collectives_name(const stk_collectives *c)
{
    return c->ops->name;
}

void stk_collectives_close(stk_collectives **collectives)
{
    stk_collectives *c = collectives ? *collectives : NULL;

    if (!c)
        return;
    *collectives = NULL;
    if (stk__context_forked(c->ctx))
        return;
    stk__say_farewell(c, STK__CALL_LEAVE);
    stk__nccl_detach(c);
    /* Nothing asks the network from here on, so of a call that came to no end nothing is written
     * into what is freed. */
    c->ops->close(c->transport, c->health != STK__HEALTH_LOST);
    release(c);
}
