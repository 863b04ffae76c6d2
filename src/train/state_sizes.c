/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of what a training copies of a module: for checkpoints, for callbacks, and to go back to.
 */
#include "base/sized.h"
#include "train/trainer.h"

/* Of the module, and what ranks share out of it: bytes of other ranks, and of this one. */
typedef struct sizes {
    const stk_trainer *t;
    stk_state_bytes of;
    uint64_t other_weights, other_optimizer, own_weights, own_optimizer;
} sizes;

/* What callbacks keep of what a rank has; in *saved what they add to a checkpoint. */
static uint64_t callback_bytes(const stk_trainer *t, const stk_state_bytes *has, uint64_t *saved)
{
    uint64_t kept = 0;

    *saved = 0;
    for (size_t i = 0; i < t->hooks.num_callbacks; i++) {
        const stk__callback_entry *entry = &t->hooks.callbacks[i];
        uint64_t more = 0;
        if (entry->ops.copies)
            kept += entry->ops.copies(entry->callback, has, &more);
        *saved += more;
    }
    return kept;
}

/* The same of this rank. */
static uint64_t kept_bytes(const sizes *s, uint64_t *saved)
{
    stk_state_bytes has = s->of;

    has.weights -= s->other_weights;
    has.optimizer -= s->other_optimizer;
    return callback_bytes(s->t, &has, saved);
}

/* What this rank writes where rank 0 writes all else: of what lies in parts its own. */
static uint64_t own_bytes(const sizes *s)
{
    const stk_state_bytes parts = {.struct_size = sizeof parts, .weights = s->own_weights};
    uint64_t saved;

    callback_bytes(s->t, &parts, &saved);
    return s->own_weights + s->own_optimizer + saved;
}

/* Of the copy that this rank's part of a checkpoint is written from, within a window of
 * accumulation where there are some. */
static uint64_t snapshot_bytes(const sizes *s, uint64_t saved)
{
    const stk_trainer *t = s->t;
    const bool in_parts = stk__state_in_parts(t);

    if (t->ranks.strategy.rank)
        return in_parts ? own_bytes(s) : 0;
    saved += s->of.weights + s->of.optimizer;
    if (t->options.accumulate_grad_batches > 1)
        saved += s->of.gradients;
    return in_parts ? saved - s->other_weights - s->other_optimizer : saved;
}

/* Equal parts, the largest: what learns has gradients, and buffers are whole everywhere. */
static void share_bytes(sizes *s)
{
    const uint32_t stage = stk__shards_stage(s->t);
    const uint64_t world = s->t->ranks.strategy.world_size;
    const uint64_t learns = stage < 3 ? 0 : STK_MIN(s->of.gradients, s->of.weights);
    const uint64_t moments = stage ? s->of.optimizer : 0;

    s->own_weights = stk__part_from(learns, world, 1);
    s->own_optimizer = stk__part_from(moments, world, 1);
    s->other_weights = learns - s->own_weights;
    s->other_optimizer = moments - s->own_optimizer;
}

uint64_t stk_trainer_copy_bytes(const stk_trainer *t, const stk_state_bytes *given)
{
    sizes s = {.t = t, .of = {.struct_size = sizeof s.of}};
    uint64_t saved;

    stk__sized_copy(&s.of, sizeof s.of, given);
    share_bytes(&s);
    uint64_t kept = kept_bytes(&s, &saved);
    if (t->settings.checkpointing)
        kept += snapshot_bytes(&s, saved);
    /* Rank 0 has it put together when the copy is taken. */
    if (t->settings.checkpointing && t->ranks.strategy.rank == 0 && !stk__state_in_parts(t))
        kept += s.own_weights + s.own_optimizer + s.other_weights + s.other_optimizer;
    if (t->options.nan_policy == STK_NAN_REWIND)
        kept += s.of.weights + s.of.optimizer - s.other_weights - s.other_optimizer;
    return kept;
}

static stk_status add_size(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    sizes *s = user;
    stk_state_tensor whole;
    size_t parameter;

    const uint64_t own =
        stk__shard_whole(s->t, kind, tensor, &whole, &parameter) ? tensor->bytes : 0;
    const bool moments = kind == STK_STATE_OPTIMIZER;
    *(moments ? &s->of.optimizer : &s->of.weights) += whole.bytes;
    *(moments ? &s->own_optimizer : &s->own_weights) += own;
    *(moments ? &s->other_optimizer : &s->other_weights) += whole.bytes - tensor->bytes;
    if (kind == STK_STATE_PARAMETER)
        s->of.gradients += whole.bytes;
    return STK_OK;
}

stk_status stk__state_reserve(stk_trainer *t, stk_error *err)
{
    sizes s = {.t = t, .of = {.struct_size = sizeof s.of}};
    uint64_t saved;

    if (!t->settings.checkpointing || !t->ops.state ||
        (t->ranks.strategy.rank && !stk__state_in_parts(t)))
        return STK_OK;
    STK_TRY(t->ops.state(t->module, STK_STATE_WEIGHTS | STK_STATE_OPTIMIZER, add_size, &s, err));
    kept_bytes(&s, &saved);
    const uint64_t bytes = snapshot_bytes(&s, saved);
    return bytes ? stk__checkpoint_reserve(t->writer, bytes, err) : STK_OK;
}
