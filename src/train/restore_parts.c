/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank needs of a checkpoint in parts: of what it has a part of that part alone. */
#include <stdio.h>
#include <stdlib.h>

#include "train/trainer.h"

/* Ranges of the tensors of a module, with names of their own. */
typedef struct wants {
    stk_trainer *t;
    stk__checkpoint_range *ranges;
    size_t n, room;
} wants;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN,
                     "no memory for what a checkpoint is to give");
}

static stk_status want(wants *w, const char *prefix, const char *name, uint64_t from,
                       uint64_t bytes, stk_error *err)
{
    stk__checkpoint_range *ranges =
        stk__grow(w->t->ctx, w->ranges, &w->room, w->n + 1, sizeof *ranges);
    if (!ranges)
        return no_memory(err);
    w->ranges = ranges;
    char *full = stk__format(w->t->ctx, "%s%s", prefix, name);
    if (!full)
        return no_memory(err);
    ranges[w->n++] = (stk__checkpoint_range){full, from, bytes};
    return STK_OK;
}

static stk_status want_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    wants *w = user;
    stk_state_tensor whole;
    size_t parameter;
    uint64_t from = 0;

    if (stk__shard_whole(w->t, kind, tensor, &whole, &parameter))
        from = w->t->ranks.shards.own[parameter].from * stk_dtype_size(tensor->dtype);
    return want(w, stk__state_kind_prefix(kind), tensor->name, from, tensor->bytes, err);
}

/* What callbacks have asked for. */
static stk_status want_copies(wants *w, stk_error *err)
{
    const stk__restart *r = &w->t->restart;

    for (size_t i = 0; i < r->num_copies; i++)
        STK_TRY(want(w, "", r->copies[i].name, r->copies[i].from, r->copies[i].bytes, err));
    return STK_OK;
}

static int compare(const void *a, const void *b)
{
    const stk__checkpoint_range *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Whether each rank needs just the part of its number. */
static stk_status ask_all(stk_trainer *t, const stk__checkpoint_wanted *wanted, bool *own,
                          stk_error *err)
{
    bool fits = false;

    const stk_status status = stk__checkpoint_fits(t->restart.checkpoint, wanted, &fits, err);
    STK_TRY(stk__agree_failure(t, status, err));
    double all = fits;
    STK_TRY(stk__reduce(t, &all, 1, STK_COMBINE_MIN, err));
    *own = all > 0;
    return STK_OK;
}

static stk_status bring(stk_trainer *t, const wants *w, stk_error *err)
{
    const stk__checkpoint_wanted wanted = {w->ranges, w->n, t->ranks.strategy.rank,
                                           t->ranks.strategy.world_size};
    bool own = false;

    STK_TRY(ask_all(t, &wanted, &own, err));
    const stk_status status = stk__checkpoint_bring(t->restart.checkpoint, &wanted, own, err);
    return stk__agree_failure(t, status, err);
}

stk_status stk__state_bring(stk_trainer *t, uint32_t kinds, stk_error *err)
{
    wants w = {.t = t};

    stk_status status = t->ops.state ? t->ops.state(t->module, kinds, want_one, &w, err) : STK_OK;
    if (status == STK_OK)
        status = want_copies(&w, err);
    if (status == STK_OK && w.n)
        qsort(w.ranges, w.n, sizeof *w.ranges, compare);
    if (status == STK_OK)
        status = bring(t, &w, err);
    for (size_t i = 0; i < w.n; i++)
        stk__free(t->ctx, (char *)w.ranges[i].name);
    stk__free(t->ctx, w.ranges);
    return status;
}

/* ---- The search ------------------------------------------------------------------------------ */

/* What rank 0 says while it looks for a checkpoint: each that may be it, and then the one. */
enum { ASKS = '?', TAKES = '=' };

typedef struct word {
    char what, path[STK_MAX_OBJECT_KEY];
} word;

static stk_status say(stk_trainer *t, char what, const char *path, stk_error *err)
{
    word w = {.what = what};

    snprintf(w.path, sizeof w.path, "%s", path);
    return stk__share_text(t, &w.what, sizeof w, err);
}

/* Parts that rank 0 sees and another does not are no sign of damage. */
static stk_status verify_share(stk_trainer *t, const char *path, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    stk_error why;

    stk_error_init(&why);
    stk_status status = stk__checkpoint_verify_share(t->ctx, path, s->rank, s->world_size, &why);
    if (status == STK_ENOENT && s->rank)
        status = stk__fail_at(err, STK_EIO, STK_STAGE_TRAIN, path, STK_NO_OFFSET,
                              "rank 0 sees more of a checkpoint than this rank: %.500s", why.text);
    else if (status != STK_OK)
        *err = why;
    return stk__agree_failure(t, status, err);
}

stk_status stk__state_verify(void *trainer, const char *path, stk_error *err)
{
    STK_TRY(say(trainer, ASKS, path, err));
    return verify_share(trainer, path, err);
}

stk_status stk__state_share_path(stk_trainer *t, char *path, size_t size, stk_error *err)
{
    word w = {.what = ASKS};
    stk_error known;

    if (t->ranks.strategy.rank == 0)
        return say(t, TAKES, path, err);
    for (;;) {
        STK_TRY(stk__share_text(t, &w.what, sizeof w, err));
        if (w.what == TAKES)
            break;
        /* Rank 0 knows what comes of it. */
        (void)verify_share(t, w.path, &known);
    }
    snprintf(path, size, "%s", w.path);
    return STK_OK;
}
