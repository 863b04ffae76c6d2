/* SPDX-License-Identifier: Apache-2.0 */
/* Folds of a dataset for cross-validation, and a dataset that is gone through several times. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "dataset/view.h"

/* ---- Folds ---- */

#define FOLD_DRAW 1 /* position of the key: 0 is that of random_split */

/* Places in the random order: the fold's own, or all but the `gap` from `first` on. */
static void map_fold(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    uint64_t places[STK_VIEW_CHUNK];

    for (size_t i = 0; i < n; i++)
        places[i] = !view->gap                 ? view->first + indices[i]
                    : indices[i] < view->first ? indices[i]
                                               : indices[i] + view->gap;
    stk__permutation_many(&view->permutation, places, out, n,
                          stk__cpu_has_avx2(view->base.context));
}

static stk_status check_folds(uint64_t size, uint64_t folds, uint64_t fold, stk_error *err)
{
    if (folds < 2 || folds > size)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "kfold", STK_NO_OFFSET,
                            "kfold=%" PRIu64 " of %" PRIu64
                            " samples: give from 2 to the number of samples",
                            folds, size);
    if (fold >= folds)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "fold", STK_NO_OFFSET,
                            "fold=%" PRIu64 ", but kfold=%" PRIu64 " has folds 0 to %" PRIu64, fold,
                            folds, folds - 1);
    if (size > STK_PERMUTATION_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "a dataset of %" PRIu64 " samples has no folds; 2^48 are the most", size);
    return STK_OK;
}

stk_status stk__dataset_fold(stk_dataset **dataset, uint64_t folds, uint64_t fold, bool train,
                             uint64_t seed, stk_error *err)
{
    const uint64_t size = (*dataset)->size;
    uint32_t words[4];
    stk__view *view = NULL;

    STK_TRY(check_folds(size, folds, fold, err));
    /* What is left over goes one each to the first folds. */
    const uint64_t first = size / folds * fold + STK_MIN(fold, size % folds),
                   count = size / folds + (fold < size % folds);
    STK_TRY(stk__view_create(*dataset, train ? size - count : count, "kfold", &view, err));
    stk__draw(seed, 0, FOLD_DRAW, STK_DRAW_SPLIT, words, 4);
    stk__permutation_init(&view->permutation, size, (uint64_t)words[1] << 32 | words[0], 0, 0);
    view->map = map_fold;
    view->first = first;
    view->gap = train ? count : 0;
    const uint64_t identity[4] = {seed, first, count, train};
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, identity, sizeof identity);
    snprintf(view->text, sizeof view->text, "%s fold %" PRIu64 " of %" PRIu64 ", seed %" PRIu64,
             train ? "all but" : "only", fold, folds, seed);
    stk__view_finish(view, dataset);
    return STK_OK;
}

/* ---- Repeats ---- */

static void map_repeat(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = indices[i] % view->source[0];
}

/* Keep the stages with a view; false: no memory. */
static bool keep_stages(stk__view *view, const stk__mixture_stage *stages, uint32_t num)
{
    const size_t bytes = num * sizeof *stages;

    if (!num)
        return true;
    view->extra = stk__alloc(view->base.context, bytes);
    if (!view->extra)
        return false;
    memcpy(view->extra, stages, bytes);
    view->mixture.stages = view->extra;
    view->mixture.num_stages = num;
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, stages, bytes);
    return true;
}

stk_status stk__dataset_repeat(stk_dataset **dataset, double times,
                               const stk__mixture_stage *stages, uint32_t num_stages,
                               stk_error *err)
{
    static const uint32_t zero = 0, one = 1;
    const uint64_t inner = (*dataset)->size;
    const double wanted = round((double)inner * times);
    stk__view *view = NULL;

    if (!(wanted >= 1 && wanted <= (double)STK_PERMUTATION_MAX))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "repeat", STK_NO_OFFSET,
                            "repeat=%g of %" PRIu64
                            " samples is %s; give a number that leaves from 1 to 2^48",
                            times, inner, wanted >= 1 ? "too many" : "none");
    const uint64_t size = (uint64_t)wanted;
    STK_TRY(stk__view_create(*dataset, size, "repeat", &view, err));
    view->map = map_repeat;
    view->source[0] = inner;
    view->source[1] = STK_MAX((*dataset)->block_size, 1);
    /* The order goes through one source pass by pass, as through those of a mixture. */
    view->mixture = (stk__mixture){.slots = 1,
                                   .num_sources = 1,
                                   .source = &zero,
                                   .turn = &zero,
                                   .counts = &one,
                                   .first = &zero,
                                   .places = &zero,
                                   .sizes = &view->source[0],
                                   .blocks = &view->source[1]};
    if (!keep_stages(view, stages, num_stages)) {
        stk__free((*dataset)->context, view);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for %u stages", num_stages);
    }
    view->base.mixture = &view->mixture;
    view->base.block_size = view->source[1];
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, &size, sizeof size);
    snprintf(view->text, sizeof view->text, "%g times %" PRIu64 " samples%s", times, inner,
             num_stages ? ", in stages" : "");
    stk__view_finish(view, dataset);
    return STK_OK;
}
