/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank has what of each parameter, and so of each gradient. */
#include <xxhash.h>

#include "train/trainer.h"

stk_shard stk__shard_of(const stk_trainer *t, size_t parameter, uint64_t rank)
{
    const stk__shard_place *p = &t->ranks.shards.places[parameter];
    const uint64_t world = t->ranks.strategy.world_size;

    return stk__shard_overlap(p->before, p->count, stk__part_from(p->all, world, rank),
                              stk__part_from(p->all, world, rank + 1));
}

/* Where some of its parameters do not learn yet, the others lie in it in the same order. */
uint64_t stk__shard_count(const stk_trainer *t, const stk__gradient_piece *pieces,
                          const stk__gradient_bucket *b, uint64_t rank)
{
    const uint64_t world = t->ranks.strategy.world_size;
    const stk__gradient_piece *p = &pieces[b->first];
    const stk__shard_place *place = &t->ranks.shards.places[p->parameter];
    const uint64_t elements = b->bytes / stk_dtype_size(p->dtype);
    uint64_t count = 0;

    if (elements == place->all)
        return stk__part_from(elements, world, rank + 1) - stk__part_from(elements, world, rank);
    for (size_t i = 0; i < b->n; i++)
        count += stk__shard_of(t, p[i].parameter, rank).count;
    return count;
}

const uint64_t *stk__shard_counts(const stk_trainer *t, const stk__gradient_piece *pieces,
                                  const stk__gradient_bucket *b)
{
    uint64_t *counts = t->ranks.shards.counts;

    for (uint64_t r = 0; r < t->ranks.strategy.world_size; r++)
        counts[r] = stk__shard_count(t, pieces, b, r);
    return counts;
}

bool stk__shard_whole(const stk_trainer *t, stk_state_kind kind, const stk_state_tensor *tensor,
                      stk_state_tensor *whole, size_t *parameter)
{
    *whole = *tensor;
    return t->ranks.shards.stage && t->ops.whole(t->module, kind, tensor, whole, parameter);
}

uint64_t stk__shard_hash(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

uint64_t stk__shard_name(const stk_trainer *t, const char *name)
{
    return t->ranks.shards.n ? stk__shard_hash(name) : 0;
}

/* The last parameter of a name below `below`, and 1; 0: none has it. */
static size_t find_place(const stk__shards *s, uint64_t name, size_t below)
{
    while (below && s->places[below - 1].name != name)
        below--;
    return below;
}

stk_status stk__shard_place_piece(const stk_trainer *t, const stk__gradient_piece *after,
                                  stk__gradient_piece *piece, stk_error *err)
{
    const stk__shards *s = &t->ranks.shards;
    const size_t found = find_place(s, piece->name, after ? after->parameter : s->n);

    if (s->n == 0)
        return STK_OK;
    /* Those that are to be shared out have no size yet. */
    if (!found || (!t->ranks.lists && s->places[found - 1].count != stk__piece_elements(piece)))
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRAIN,
            "the module %s has a gradient that is of no parameter of its state, or "
            "shows it in another order, and ranks share out both: leave shard() out of "
            "its table",
            t->ops.name);
    piece->parameter = found - 1;
    return STK_OK;
}

const stk_shard *stk__shards_own(const stk_trainer *t, const char *name)
{
    const stk__shards *s = &t->ranks.shards;
    const size_t found = s->stage == 3 ? find_place(s, stk__shard_hash(name), s->n) : 0;

    return found ? &s->own[found - 1] : NULL;
}
