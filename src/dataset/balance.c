/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of some labels, or with some weights, more often than others.
 *
 * Balanced, the samples of each label are a source of a mixture in which all have one slot: the
 * order goes through each pass by pass. By weights, each sample stands in the list of an epoch as
 * often as its share says, and the list is kept as the places at which they end.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "dataset/view.h"

#define MAX_LABELS (UINT32_C(1) << 16)

/* ---- Balance ---- */

/* The tables of the mixture, of one block. */
typedef struct groups {
    uint32_t count;   /* labels that samples have */
    uint64_t *starts; /* where in the list the samples of each begin */
    uint64_t *sizes, *blocks;
    uint32_t *source, *turn, *counts, *first, *places;
} groups;

static void map_balance(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    const uint64_t *starts = view->extra;

    for (size_t i = 0; i < n; i++) {
        uint32_t source;
        const uint64_t draw = stk__mixture_draw(&view->mixture, indices[i], &source);
        out[i] = view->list[starts[source] + draw % view->mixture.sizes[source]];
    }
}

static int64_t label_at(const stk_dataset *d, const uint64_t *labels, uint64_t i)
{
    return labels ? (int64_t)STK_MIN(labels[i], (uint64_t)INT64_MAX) : d->label(d, i);
}

/* How many samples each label has; the caller frees *counts. */
static stk_status count_labels(const stk_dataset *d, const uint64_t *labels, uint64_t **counts,
                               uint64_t *num, stk_error *err)
{
    int64_t most = 0;

    for (uint64_t i = 0; i < d->size; i++) {
        const int64_t label = label_at(d, labels, i);
        if (label < 0 || label >= MAX_LABELS)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "balance", STK_NO_OFFSET,
                                "balance: sample %" PRIu64 " has the label %" PRId64
                                "; they are from 0 to %" PRIu32,
                                i, label, MAX_LABELS - 1);
        most = STK_MAX(most, label);
    }
    *num = (uint64_t)most + 1;
    *counts = stk__calloc(d->context, *num, sizeof **counts);
    if (!*counts)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "balance: no memory for its counts");
    for (uint64_t i = 0; i < d->size; i++)
        ++(*counts)[label_at(d, labels, i)];
    return STK_OK;
}

static bool make_groups(stk_context *ctx, uint64_t labels, const uint64_t *counts, groups *g)
{
    uint64_t n = 0, at = 0;

    for (uint64_t label = 0; label < labels; label++)
        n += counts[label] > 0;
    g->count = (uint32_t)n;
    g->starts = stk__calloc(ctx, n, 3 * sizeof(uint64_t) + 5 * sizeof(uint32_t));
    if (!g->starts)
        return false;
    g->sizes = g->starts + n;
    g->blocks = g->sizes + n;
    g->source = (uint32_t *)(g->blocks + n);
    g->turn = g->source + n;
    g->counts = g->turn + n;
    g->first = g->counts + n;
    g->places = g->first + n;
    for (uint64_t label = 0, k = 0; label < labels; label++) {
        if (!counts[label])
            continue;
        g->starts[k] = at;
        g->sizes[k] = counts[label];
        g->blocks[k] = 1;
        g->counts[k] = 1;
        g->source[k] = g->first[k] = g->places[k] = (uint32_t)k;
        at += counts[label];
        k++;
    }
    return true;
}

/* The samples label by label; `counts` become the places at which those of a label go on. */
static void sort_samples(const stk_dataset *d, const uint64_t *labels, uint64_t num,
                         uint64_t *counts, uint64_t *list)
{
    uint64_t at = 0;

    for (uint64_t label = 0; label < num; label++) {
        const uint64_t n = counts[label];
        counts[label] = at;
        at += n;
    }
    for (uint64_t i = 0; i < d->size; i++)
        list[counts[label_at(d, labels, i)]++] = i;
}

/* An epoch of so many times the samples, in whole rounds of `each`; 0: none or too many. */
static uint64_t epoch_size(uint64_t size, double times, uint64_t each)
{
    const double rounds = ceil((double)size * times / (double)each);

    return rounds >= 1 && rounds * (double)each <= (double)STK_PERMUTATION_MAX
               ? (uint64_t)rounds * each
               : 0;
}

static stk_status refuse_size(double times, uint64_t size, stk_error *err)
{
    return stk__fail_at(
        err, STK_EINVAL, STK_STAGE_OPTIONS, "repeat", STK_NO_OFFSET,
        "repeat=%g of %" PRIu64 " samples: give a number that leaves from 1 to 2^48", times, size);
}

/* Fill a view in; on failure what it has is freed with it. */
static stk_status lay_balance(stk__view *view, stk_dataset *d, const uint64_t *labels, double times,
                              stk_error *err)
{
    uint64_t *counts = NULL, num = 0;
    groups g;

    stk_status status = count_labels(d, labels, &counts, &num, err);
    if (status != STK_OK)
        return status;
    view->list = stk__calloc(d->context, d->size, sizeof *view->list);
    if (!view->list || !make_groups(d->context, num, counts, &g)) {
        stk__free(d->context, counts);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                         "balance: no memory for a list of %" PRIu64 " samples", d->size);
    }
    view->extra = g.starts;
    sort_samples(d, labels, num, counts, view->list);
    stk__free(d->context, counts);
    view->mixture = (stk__mixture){.slots = g.count,
                                   .num_sources = g.count,
                                   .source = g.source,
                                   .turn = g.turn,
                                   .counts = g.counts,
                                   .first = g.first,
                                   .places = g.places,
                                   .sizes = g.sizes,
                                   .blocks = g.blocks};
    view->base.size = epoch_size(d->size, times, g.count);
    if (!view->base.size)
        return refuse_size(times, d->size, err);
    view->base.mixture = &view->mixture;
    view->base.fingerprint =
        stk__fingerprint(view->base.fingerprint, g.sizes, g.count * sizeof *g.sizes);
    snprintf(view->text, sizeof view->text, "%u labels, %" PRIu64 " draws of each an epoch",
             g.count, view->base.size / g.count);
    return STK_OK;
}

/* Take a view over, or free what it has. */
static stk_status end_view(stk__view *view, stk_dataset **dataset, stk_status status)
{
    stk_context *ctx = (*dataset)->context;

    if (status == STK_OK) {
        const uint64_t size = view->base.size;
        view->base.fingerprint = stk__fingerprint(view->base.fingerprint, view->list,
                                                  (*dataset)->size * sizeof *view->list);
        view->base.fingerprint = stk__fingerprint(view->base.fingerprint, &size, sizeof size);
        stk__view_finish(view, dataset);
        return STK_OK;
    }
    stk__free(ctx, view->list);
    stk__free(ctx, view->extra);
    stk__free(ctx, view);
    return status;
}

stk_status stk__dataset_balance(stk_dataset **dataset, const uint64_t *labels, double times,
                                stk_error *err)
{
    stk__view *view = NULL;

    if (!labels && !(*dataset)->label)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "balance", STK_NO_OFFSET,
                            "balance=label: this dataset does not know its labels before it reads "
                            "samples; give a file with the label of each, as balance=labels.npy");
    STK_TRY(stk__view_create(*dataset, (*dataset)->size, "balance", &view, err));
    view->map = map_balance;
    return end_view(view, dataset, lay_balance(view, *dataset, labels, times, err));
}

/* ---- Weights ---- */

/* The first sample whose places end behind an index. */
static void map_weights(const stk__view *view, const uint64_t *indices, uint64_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t low = 0, high = view->first;
        while (low < high) {
            const uint64_t middle = low + (high - low) / 2;
            if (view->list[middle] > indices[i])
                high = middle;
            else
                low = middle + 1;
        }
        out[i] = low;
    }
}

static stk_status sum_weights(const double *weights, uint64_t n, double *sum, stk_error *err)
{
    *sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!(weights[i] >= 0 && weights[i] < 1e100))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "weights", STK_NO_OFFSET,
                                "weights: that of sample %" PRIu64 " is %g; give numbers from 0 on",
                                i, weights[i]);
        *sum += weights[i];
    }
    return *sum > 0 ? STK_OK
                    : stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "weights", STK_NO_OFFSET,
                                   "weights: all are 0; no sample would be taken");
}

/* Where each sample ends among the places of an epoch: its share of them, rounded so that all sum
 * up. */
static stk_status lay_weights(stk__view *view, stk_dataset *d, const double *weights, double times,
                              stk_error *err)
{
    double sum = 0, so_far = 0;

    STK_TRY(sum_weights(weights, d->size, &sum, err));
    view->base.size = epoch_size(d->size, times, 1);
    if (!view->base.size)
        return refuse_size(times, d->size, err);
    view->first = d->size;
    view->list = stk__calloc(d->context, d->size, sizeof *view->list);
    if (!view->list)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                         "weights: no memory for a list of %" PRIu64 " samples", d->size);
    for (uint64_t i = 0; i < d->size; i++) {
        so_far += weights[i];
        const double end = floor(so_far / sum * (double)view->base.size + 0.5);
        view->list[i] = STK_MIN((uint64_t)end, view->base.size);
    }
    /* The last that has a weight has what rounding left over. */
    for (uint64_t i = d->size; i-- > 0;) {
        view->list[i] = view->base.size;
        if (weights[i] > 0)
            break;
    }
    snprintf(view->text, sizeof view->text, "%" PRIu64 " draws an epoch of %" PRIu64 " samples",
             view->base.size, d->size);
    return STK_OK;
}

stk_status stk__dataset_weigh(stk_dataset **dataset, const double *weights, double times,
                              stk_error *err)
{
    stk__view *view = NULL;

    STK_TRY(stk__view_create(*dataset, (*dataset)->size, "weights", &view, err));
    view->map = map_weights;
    return end_view(view, dataset, lay_weights(view, *dataset, weights, times, err));
}
