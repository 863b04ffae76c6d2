/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, index lists and seeded random splits of a dataset. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/gcd.h"
#include "base/random.h"
#include "dataset/view.h"

/* Fractions whose sum differs from 1 by less than this are meant to be everything. */
#define WHOLE_TOLERANCE 1e-6

static stk_status check_dataset(stk_dataset **dataset, stk_error *err)
{
    if (!dataset || !*dataset)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET, "no dataset to take samples of");
    return stk__context_check((*dataset)->context, err);
}

/* ---- Range --------------------------------------------------------------------------------- */

static void map_range(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = view->first + indices[i];
}

stk_status stk_dataset_range(stk_dataset **dataset, uint64_t first, uint64_t end, stk_error *err)
{
    stk__view *view = NULL;

    STK_TRY(check_dataset(dataset, err));
    uint64_t size = (*dataset)->size;
    if (first >= end || end > size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "the samples %" PRIu64 " up to %" PRIu64 " of a dataset of %" PRIu64
                         " are %s; give first < end <= %" PRIu64,
                         first, end, size, end > size ? "not all there" : "none", size);
    STK_TRY(stk__view_create(*dataset, end - first, "range", &view, err));
    view->map = map_range;
    view->first = first;
    /* The largest blocks that lie within one block of the inner dataset: its own where the range
     * begins with one. */
    uint64_t block = STK_MAX((*dataset)->block_size, 1);
    view->base.block_size = stk__gcd(block, first % block);
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, &first, sizeof first);
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, &end, sizeof end);
    snprintf(view->text, sizeof view->text, "%" PRIu64 ":%" PRIu64 " of %" PRIu64, first, end,
             size);
    stk__view_finish(view, dataset);
    return STK_OK;
}

/* ---- Index list ---------------------------------------------------------------------------- */

static void map_list(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = view->list[indices[i]];
}

stk_status stk_dataset_subset(stk_dataset **dataset, const uint64_t *indices, uint64_t n,
                              stk_error *err)
{
    stk__view *view = NULL;
    uint64_t bytes = 0;

    STK_TRY(check_dataset(dataset, err));
    uint64_t size = (*dataset)->size;
    if (!indices || n == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "an index list without indices; give at least one");
    for (uint64_t i = 0; i < n; i++)
        if (indices[i] >= size)
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "entry %" PRIu64 " of the index list is %" PRIu64
                             ", but the dataset has samples 0 to %" PRIu64 " only",
                             i, indices[i], size - 1);
    if (!stk__mul_size(n, sizeof *indices, &bytes) || bytes > SIZE_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "an index list of %" PRIu64 " entries is too long", n);
    STK_TRY(stk__view_create(*dataset, n, "indices", &view, err));
    view->list = stk__alloc((*dataset)->context, (size_t)bytes);
    if (!view->list) {
        stk__free((*dataset)->context, view);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                         "no memory for an index list of %" PRIu64 " entries (%" PRIu64 " bytes)",
                         n, bytes);
    }
    memcpy(view->list, indices, (size_t)bytes);
    view->map = map_list;
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, indices, (size_t)bytes);
    snprintf(view->text, sizeof view->text, "a list of %" PRIu64 " of %" PRIu64, n, size);
    stk__view_finish(view, dataset);
    return STK_OK;
}

/* ---- Random split -------------------------------------------------------------------------- */

static void map_split(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    uint64_t positions[STK_VIEW_CHUNK];

    for (size_t i = 0; i < n; i++)
        positions[i] = view->first + indices[i];
    stk__permutation_many(&view->permutation, positions, out, n,
                          stk__cpu_has_avx2(view->base.context));
}

/*
 * Where part `part` of `size` samples lies: [*first, *first + *count). Each part gets the whole
 * samples of its fraction; where the fractions are everything, the samples left over go one each to
 * the first parts, as PyTorch's random_split() does it.
 */
static stk_status split_bounds(uint64_t size, const double *fractions, uint32_t num_fractions,
                               uint32_t part, uint64_t *first, uint64_t *count, stk_error *err)
{
    double sum = 0;
    uint64_t given = 0;

    for (uint32_t i = 0; i < num_fractions; i++) {
        if (!(fractions[i] >= 0 && fractions[i] <= 1))
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "fraction %u of the random split is %g; give numbers from 0 to 1", i,
                             fractions[i]);
        sum += fractions[i];
        given += (uint64_t)floor((double)size * fractions[i]);
    }
    if (sum > 1 + WHOLE_TOLERANCE || given > size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "the fractions of the random split sum to %.9g; give 1 at most", sum);
    uint64_t left = sum > 1 - WHOLE_TOLERANCE ? size - given : 0;
    *first = *count = 0;
    for (uint32_t i = 0; i <= part; i++) {
        *first += *count;
        *count = (uint64_t)floor((double)size * fractions[i]);
        *count += left / num_fractions + (i < left % num_fractions);
    }
    return STK_OK;
}

stk_status stk_dataset_random_split(stk_dataset **dataset, const double *fractions,
                                    uint32_t num_fractions, uint32_t part, uint64_t seed,
                                    stk_error *err)
{
    uint64_t first = 0, count = 0;
    uint32_t words[4];
    stk__view *view = NULL;

    STK_TRY(check_dataset(dataset, err));
    uint64_t size = (*dataset)->size;
    if (!fractions || part >= num_fractions)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "part %u of a random split into %u; parts are counted from 0", part,
                         fractions ? num_fractions : 0);
    if (size > STK_PERMUTATION_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "a dataset of %" PRIu64 " samples cannot be split at random; 2^48 are the "
                         "most",
                         size);
    STK_TRY(split_bounds(size, fractions, num_fractions, part, &first, &count, err));
    if (count == 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "part %u of the random split, %g of %" PRIu64
                         " samples, is empty; give it a "
                         "larger fraction",
                         part, fractions[part], size);
    STK_TRY(stk__view_create(*dataset, count, "random_split", &view, err));
    /* A key of its own, so that no order of an epoch with the same seed equals the split. */
    stk__draw(seed, 0, 0, STK_DRAW_SPLIT, words, 4);
    stk__permutation_init(&view->permutation, size, (uint64_t)words[1] << 32 | words[0], 0, 0);
    view->map = map_split;
    view->first = first;
    uint64_t identity[3] = {seed, first, count};
    view->base.fingerprint = stk__fingerprint(view->base.fingerprint, identity, sizeof identity);
    snprintf(view->text, sizeof view->text, "part %u, %" PRIu64 " of %" PRIu64 ", seed %" PRIu64,
             part, count, size, seed);
    stk__view_finish(view, dataset);
    return STK_OK;
}
