/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of an array: read box by box, each chunk once. The values of a box are cut into
 * segments of one size, which threads take as they come and which are merged in their order, so
 * that the number of threads does not show in any digit.
 */
#include <math.h>
#include <stdatomic.h>

#include "array/room.h"
#include "array/stats.h"
#include "base/counted.h"
#include "base/sized.h"

#define BOX_BYTES   (UINT64_C(64) << 20) /* read at a time, where chunks are not larger */
#define BLOCK       4096                 /* numbers widened at a time: they stay in the cache */
#define SEGMENT     65536                /* numbers of a segment */
#define MAX_THREADS 64

/* The boxes: as many chunks of the last dimensions as fit. */
static void box_shape(const stk_array *a, int64_t *shape, uint64_t *bytes)
{
    const stk__level *level = &a->levels[0];

    for (uint32_t l = 0; l < a->num_levels; l++) { /* whole shards, where they are small enough */
        level = &a->levels[l];
        if (stk__shape_bytes(level->shape, a->rank, a->type.itemsize, bytes) && *bytes <= BOX_BYTES)
            break;
    }
    *bytes = a->type.itemsize;
    for (uint32_t d = 0; d < a->rank; d++) {
        shape[d] = STK_MIN(level->shape[d], a->shape[d]);
        *bytes *= (uint64_t)shape[d];
    }
    for (uint32_t d = a->rank; d-- > 0;) {
        uint64_t one = *bytes / (uint64_t)shape[d];
        uint64_t fits = BOX_BYTES / STK_MAX(one, 1);
        int64_t most = fits < (uint64_t)a->shape[d] ? (int64_t)fits : a->shape[d];
        if (most < a->shape[d])
            most -= most % level->shape[d];
        if (most > shape[d]) {
            shape[d] = most;
            *bytes = one * (uint64_t)most;
        }
        if (shape[d] < a->shape[d])
            break;
    }
}

/* Step to the next box; false: there is none. */
static bool next_box(const stk_array *a, const int64_t *step, int64_t *start)
{
    for (uint32_t d = a->rank; d-- > 0;) {
        start[d] += step[d];
        if (start[d] < a->shape[d])
            return true;
        start[d] = 0;
    }
    return false;
}

/* ---- The segments of a box ---- */

typedef struct summing {
    const stk_array *array;
    const char *values; /* of the box */
    uint64_t count;
    bool has_missing;
    double missing_value;
    stk__value_sums *segments;
    atomic_uint_fast64_t next; /* segment that nobody has taken */
} summing;

static uint64_t num_segments(uint64_t count)
{
    return (count + SEGMENT - 1) / SEGMENT;
}

static void work(void *user)
{
    summing *s = user;
    const stk__type *type = &s->array->type;
    const uint64_t all = num_segments(s->count);
    double x[BLOCK];

    for (uint64_t k; (k = atomic_fetch_add(&s->next, 1)) < all;) {
        stk__value_sums *sums = &s->segments[k];
        const uint64_t end = STK_MIN((k + 1) * SEGMENT, s->count);
        stk__value_sums_init(sums, type->kind != STK__KIND_FLOAT, s->has_missing, s->missing_value);
        for (uint64_t i = k * SEGMENT; i < end; i += BLOCK) {
            const size_t n = (size_t)STK_MIN(end - i, BLOCK);
            (void)stk__array_numbers(type, s->values + i * type->itemsize, n, x);
            stk__value_sums_add(sums, x, n);
        }
    }
}

/* Sum up a box that was read. */
static void sum_box(summing *s, uint64_t count, stk__value_sums *total)
{
    const uint64_t wanted = (uint64_t)STK_MAX(s->array->options.num_threads, 1);
    const uint64_t threads = STK_MIN(STK_MIN(wanted, MAX_THREADS), num_segments(count));

    s->count = count;
    atomic_store(&s->next, 0);
    stk__thread_share(s->array->context, "stk-stats", STK_MAX(threads, 1) - 1, work, s);
    for (uint64_t k = 0; k < num_segments(count); k++)
        stk__value_sums_merge(total, &s->segments[k]);
}

static stk_status read_all(stk_array *a, bool (*stop)(void *user), void *user, summing *s,
                           const int64_t *step, char *values, stk__value_sums *total,
                           stk_error *err)
{
    int64_t start[STK_ARRAY_MAX_RANK] = {0}, shape[STK_ARRAY_MAX_RANK];
    const stk_array_box box = {start, shape, NULL};
    const uint64_t all = a->bytes / a->type.itemsize;
    uint64_t done = 0;

    do {
        uint64_t count = 1;
        for (uint32_t d = 0; d < a->rank; d++) {
            shape[d] = STK_MIN(step[d], a->shape[d] - start[d]);
            count *= (uint64_t)shape[d];
        }
        if (stop && stop(user))
            return stk__fail(err, STK_ECANCELED, STK_STAGE_ARRAY,
                             "the statistics were interrupted");
        STK_TRY(stk_array_read(a, &box, values, count * a->type.itemsize, NULL, -1, err));
        sum_box(s, count, total);
        done += count;
        stk__progress(a->context, "reading values", done, all);
    } while (next_box(a, step, start));
    return STK_OK;
}

static stk_status compute(stk_array *a, bool (*stop)(void *user), void *user,
                          stk__value_sums *total, stk_error *err)
{
    summing s = {
        .array = a, .has_missing = total->has_missing, .missing_value = total->missing_value};
    int64_t step[STK_ARRAY_MAX_RANK];
    uint64_t most = 0;

    if (a->bytes == 0)
        return STK_OK;
    box_shape(a, step, &most);
    char *values = stk__alloc_buffer(a->context, most);
    s.values = values;
    s.segments = stk__calloc(a->context, num_segments(most / a->type.itemsize), sizeof *s.segments);
    const stk_status status = values && s.segments
                                  ? read_all(a, stop, user, &s, step, values, total, err)
                                  : stk__array_no_memory(a, err);
    stk__free(a->context, s.segments);
    stk__free(a->context, values);
    return status;
}

/* ---- The result ---- */

static void take_bins(const stk__bins *bins, stk_array_stats *out)
{
    if (bins->low > bins->high)
        return;
    out->bin_width = ldexp(1, bins->power);
    out->bin_low = ldexp((double)bins->first, bins->power);
    out->num_bins = STK_ARRAY_BINS;
    while (out->num_bins > 1 && !bins->counts[out->num_bins - 1])
        out->num_bins--;
    memcpy(out->bins, bins->counts, sizeof out->bins);
    /* The edge of a bin may be no double where its values are. */
    if (!isfinite(out->bin_low) || !isfinite(out->bin_low + out->num_bins * out->bin_width))
        out->num_bins = 0;
}

stk_status stk_array_stats_compute(stk_array *a, bool (*stop)(void *user), void *user,
                                   stk_array_stats *out, stk_error *err)
{
    double none[1], missing = 0;
    stk__value_sums s;

    if (!a || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_stats_compute: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    STK_TRY(stk__sized_check(out, "stk_array_stats", STK_STAGE_ARRAY, err));
    if (!stk__array_numbers(&a->type, none, 0, none))
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: values of %s have no mean; statistics are of real numbers",
                            a->metadata_key, a->type.name);
    const bool has_missing = stk__array_missing(a, &missing);
    stk__value_sums_init(&s, a->type.kind != STK__KIND_FLOAT, has_missing, missing);
    STK_TRY(compute(a, stop, user, &s, err));
    stk_array_stats stats = {
        .struct_size = sizeof stats, .values = s.count, .nan = s.nan, .missing = s.missing};
    stats.mean = s.count ? s.mean : (double)NAN;
    stats.std = s.count ? sqrt(s.squares / (double)s.count) : (double)NAN;
    stats.min = s.count ? s.min : (double)NAN;
    stats.max = s.count ? s.max : (double)NAN;
    stats.nan_share = stk__array_nan_share(&stats);
    take_bins(&s.bins, &stats);
    stk__sized_write(out, &stats);
    return STK_OK;
}

double stk__array_nan_share(const stk_array_stats *s)
{
    const double all = (double)s->values + (double)s->nan + (double)s->missing;

    return all > 0 ? (double)s->nan / all : (double)NAN;
}
