/* SPDX-License-Identifier: Apache-2.0 */
/* mix: datasets that alternate by weights, with exact shares in every R samples. */
#include "dataset/join.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "dataset/view.h"

#define AUTO_SLOTS 1000 /* R where no smaller one has the weights exactly */
#define MAX_SLOTS  4096
#define EXACT      1e-9 /* of R: weights that are so near to whole slots are meant to be them */

typedef struct mix_options {
    uint32_t struct_size;
    int32_t classes;
    const char *stop;
    uint64_t resolution;
} mix_options;

static const stk_option option_list[] = {
    {"stop", STK_OPTION_STRING, offsetof(mix_options, stop), "first", 0, 0, NULL, "first|all|N",
     "When an epoch ends: before a dataset would repeat a sample, when each sample was there, or "
     "after N samples."},
    {"resolution", STK_OPTION_UINT, offsetof(mix_options, resolution), "0", 0, MAX_SLOTS, NULL, "R",
     "Weights are rounded to whole parts of R. 0: the least R that has them exactly, at most "
     "1000."},
    {"classes", STK_OPTION_ENUM, offsetof(mix_options, classes), "check", 0, 0, STK_JOIN_CLASSES,
     NULL,
     "Where names of classes differ: an error, labels numbered anew by name, or labels as they are "
     "and no names."},
};

static const stk_option_table options_table = {"mix", "Datasets that alternate by weights.",
                                               sizeof(mix_options), option_list,
                                               STK_COUNT(option_list)};

static void mix_map(const stk__join *join, const uint64_t *indices, uint32_t *source, uint64_t *out,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t draw = stk__mixture_draw(&join->mixture, indices[i], &source[i]);
        out[i] = draw % join->mixture.sizes[source[i]];
    }
}

static void mix_say(const stk__join *join, uint32_t source, char *text, size_t size)
{
    const stk__mixture *m = &join->mixture;

    snprintf(text, size, "%.60s, %u/%u: %" PRIu64 " draws an epoch of %" PRIu64 " samples",
             join->sources[source]->ops->name, m->counts[source], m->slots,
             stk__mixture_draws(m, source, join->base.size), m->sizes[source]);
}

/* ---- Shares ---- */

/* The least R that has all weights as whole slots, at least one each; 0: none up to AUTO_SLOTS. */
static uint32_t exact_slots(const double *weights, uint32_t n, double sum)
{
    for (uint32_t r = n; r <= AUTO_SLOTS; r++) {
        bool exact = true;
        for (uint32_t s = 0; exact && s < n; s++) {
            const double share = weights[s] / sum * r;
            exact = share > 0.5 && fabs(share - round(share)) <= EXACT * r;
        }
        if (exact)
            return r;
    }
    return 0;
}

/* Whole slots, at least one each: what is left over goes to those that lack the most. */
static void share_out(const double *weights, uint32_t n, double sum, uint32_t slots,
                      uint32_t *counts)
{
    uint64_t given = 0;

    for (uint32_t s = 0; s < n; s++) {
        counts[s] = (uint32_t)STK_MAX(floor(weights[s] / sum * slots + EXACT * slots), 1.0);
        given += counts[s];
    }
    while (given != slots) {
        const bool more = given < slots;
        uint32_t best = n;
        double most = -INFINITY;
        for (uint32_t s = 0; s < n; s++) {
            const double lacks = weights[s] / sum * slots - counts[s];
            if ((more || counts[s] > 1) && (more ? lacks : -lacks) > most) {
                most = more ? lacks : -lacks;
                best = s;
            }
        }
        counts[best] = more ? counts[best] + 1 : counts[best] - 1;
        given = more ? given + 1 : given - 1;
    }
}

/* ---- The pattern ---- */

/* The tables of a mixture in one block of memory. */
typedef struct tables {
    uint64_t *sizes, *blocks;
    uint32_t *source, *turn, *places, *counts, *first;
    int64_t *owed;
} tables;

static stk_status make_tables(stk__join *join, uint32_t slots, tables *t, stk_error *err)
{
    const uint64_t n = join->num, r = slots;

    t->sizes = stk__calloc(join->base.context, 3 * n * sizeof *t->sizes + (3 * r + 2 * n) * 4, 1);
    if (!t->sizes)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "mix: no memory for its pattern");
    join->room = t->sizes;
    t->blocks = t->sizes + n;
    t->owed = (int64_t *)(t->blocks + n);
    t->source = (uint32_t *)(t->owed + n);
    t->turn = t->source + r;
    t->places = t->turn + r;
    t->counts = t->places + r;
    t->first = t->counts + n;
    join->mixture = (stk__mixture){.slots = slots,
                                   .num_sources = join->num,
                                   .source = t->source,
                                   .turn = t->turn,
                                   .counts = t->counts,
                                   .first = t->first,
                                   .places = t->places,
                                   .sizes = t->sizes,
                                   .blocks = t->blocks};
    return STK_OK;
}

/* Slots as evenly as they can be: each goes to the source that is owed the most. */
static void lay_pattern(tables *t, uint32_t n, uint32_t slots)
{
    uint32_t at = 0;

    for (uint32_t slot = 0; slot < slots; slot++) {
        uint32_t best = 0;
        for (uint32_t s = 0; s < n; s++) {
            t->owed[s] += t->counts[s];
            best = t->owed[s] > t->owed[best] ? s : best;
        }
        t->owed[best] -= slots;
        t->source[slot] = best;
    }
    for (uint32_t s = 0; s < n; s++) {
        t->first[s] = at;
        for (uint32_t slot = 0; slot < slots; slot++)
            if (t->source[slot] == s) {
                t->turn[slot] = at - t->first[s];
                t->places[at++] = slot;
            }
    }
}

static stk_status set_shares(stk__join *join, const double *weights, uint64_t resolution,
                             stk_error *err)
{
    double sum = 0;
    tables t = {0};

    for (uint32_t s = 0; s < join->num; s++)
        sum += weights[s];
    if (resolution && resolution < join->num)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "resolution", STK_NO_OFFSET,
                            "mix: resolution=%" PRIu64
                            " has no part for each of %u datasets; give at least %u",
                            resolution, join->num, join->num);
    uint32_t slots = (uint32_t)resolution;
    if (!slots)
        slots = exact_slots(weights, join->num, sum);
    if (!slots)
        slots = AUTO_SLOTS;
    STK_TRY(make_tables(join, slots, &t, err));
    share_out(weights, join->num, sum, slots, t.counts);
    lay_pattern(&t, join->num, slots);
    for (uint32_t s = 0; s < join->num; s++) {
        t.sizes[s] = join->sources[s]->size;
        t.blocks[s] = STK_MAX(join->sources[s]->block_size, 1);
        if (t.sizes[s] == 0)
            return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                             "mix: its dataset %u has no samples; leave it out", s);
    }
    join->base.fingerprint =
        stk__fingerprint(join->base.fingerprint, t.counts, join->num * sizeof *t.counts);
    return STK_OK;
}

/* ---- Where an epoch ends ---- */

/* Whole rounds of the pattern: before the first source repeats, or when the last was there. */
static uint64_t rounds(const stk__mixture *m, bool all)
{
    uint64_t found = all ? 0 : UINT64_MAX;

    for (uint32_t s = 0; s < m->num_sources; s++) {
        const uint64_t whole = m->sizes[s] / m->counts[s];
        found =
            all ? STK_MAX(found, whole + (m->sizes[s] % m->counts[s] != 0)) : STK_MIN(found, whole);
    }
    return found;
}

static bool parse_samples(const char *text, uint64_t *out)
{
    *out = 0;
    for (const char *p = text; *p; p++)
        if (*p < '0' || *p > '9' || !stk__mul_size(*out, 10, out) ||
            !stk__add_size(*out, (uint64_t)(*p - '0'), out))
            return false;
    return *out > 0 && *out <= STK_PERMUTATION_MAX;
}

static stk_status set_size(stk__join *join, const char *stop, stk_error *err)
{
    const stk__mixture *m = &join->mixture;
    const bool all = strcmp(stop, "all") == 0, first = strcmp(stop, "first") == 0;
    uint64_t size = 0;

    /* What the indices of all samples come to at most. */
    if (rounds(m, true) > STK_PERMUTATION_MAX / m->slots)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "mix: more than 2^48 samples until each was there; give the largest "
                         "dataset a larger weight");
    if (all || first)
        size = rounds(m, all) * m->slots;
    else if (!parse_samples(stop, &size))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "stop", STK_NO_OFFSET,
                            "mix: stop=%.60s: give first, all, or a number of samples from 1 to "
                            "2^48",
                            stop);
    if (size == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "stop", STK_NO_OFFSET,
                            "mix: a dataset has fewer samples than its slots of the %u in which "
                            "the shares are exact, and stop=first ends before it repeats: nothing "
                            "is left; give stop=all, or a smaller resolution",
                            m->slots);
    join->base.size = size;
    join->base.fingerprint = stk__fingerprint(join->base.fingerprint, &size, sizeof size);
    snprintf(join->text, sizeof join->text,
             "exact shares in every %u samples (R), stop=%.40s: %" PRIu64 " samples an epoch",
             m->slots, stop, size);
    return STK_OK;
}

/* For those who know of no sources, as a view: rounds that have a whole block of each. */
static uint64_t block_of(const stk__mixture *m, uint64_t size)
{
    uint64_t most = 1;

    for (uint32_t s = 0; s < m->num_sources; s++)
        most = STK_MAX(most, m->blocks[s] / m->counts[s]);
    return most == 1 || most > size / m->slots ? 1 : most * m->slots;
}

static stk_status mix_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    const mix_options *o = options;
    stk__nested nested;
    stk__join *join = NULL;

    STK_TRY(stk__refuse_query(&options_table, url, err));
    STK_TRY(stk__nested_open(ctx, "mix", url, true, &nested, err));
    stk_status status =
        stk__join_create(&stk__dataset_mix, &nested, (stk__join_classes)o->classes, &join, err);
    if (status == STK_OK)
        status = set_shares(join, nested.weights, o->resolution, err);
    if (status == STK_OK)
        status = set_size(join, o->stop, err);
    stk__nested_release(&nested);
    if (status != STK_OK) {
        if (join)
            stk__join_close(&join->base);
        return status;
    }
    join->map = mix_map;
    join->say = mix_say;
    join->base.block_size = block_of(&join->mixture, join->base.size);
    join->base.mixture = &join->mixture;
    *out = &join->base;
    return STK_OK;
}

const stk_dataset_ops stk__dataset_mix = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "mix",
    .doc = "Datasets that alternate by weights, as mix:0.7*(SPEC),0.3*(SPEC).",
    .options = &options_table,
    .open = mix_open,
    .close = stk__join_close,
    .prepare = stk__join_prepare,
};
