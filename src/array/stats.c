/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of an array: read box by box, each chunk once, and kept as JSON. Means and squares are
 * merged block by block [Chan, Golub, LeVeque 1983], which loses no digits on long arrays.
 */
#include <math.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "array/room.h"
#include "array/zarr.h"
#include "base/sized.h"

#define BOX_BYTES  (UINT64_C(64) << 20) /* read at a time, where chunks are not larger */
#define BLOCK      4096                 /* numbers widened at a time: they stay in the cache */
#define FILE_NAME  ".stoker-stats.json"
#define MOST_BYTES 65536 /* of a kept file */

/* ---- Computing ---- */

typedef struct sums {
    uint64_t count, nan, missing;
    double mean, squares; /* squares: of what differs from the mean */
    double min, max;
    bool has_missing;
    double missing_value;
} sums;

/* Leave out what does not count; the rest moves together. */
static size_t sift(sums *s, double *x, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        double v = x[i];
        bool nan = isnan(v), missing = s->has_missing && v == s->missing_value;
        s->nan += nan;
        s->missing += missing;
        x[kept] = v;
        kept += !nan && !missing;
    }
    return kept;
}

static void add_block(sums *s, const double *x, size_t n)
{
    double sum = 0, squares = 0, low = s->min, high = s->max;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    s->min = low;
    s->max = high;
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double delta = mean - s->mean, all = (double)(s->count + n);
    s->mean += delta * (double)n / all;
    s->squares += squares + delta * delta * (double)s->count * (double)n / all;
    s->count += n;
}

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

static stk_status compute(stk_array *a, bool (*stop)(void *user), void *user, sums *s,
                          stk_error *err)
{
    int64_t start[STK_ARRAY_MAX_RANK] = {0}, step[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK];
    uint64_t most = 0, total = a->bytes / a->type.itemsize, done = 0;
    const stk_array_box box = {start, shape, NULL};
    stk_status status = STK_OK;
    double x[BLOCK];

    if (total == 0)
        return STK_OK;
    box_shape(a, step, &most);
    char *values = stk__alloc_buffer(a->context, most);
    if (!values)
        return stk__array_no_memory(a, err);
    do {
        uint64_t count = 1;
        for (uint32_t d = 0; d < a->rank; d++) {
            shape[d] = STK_MIN(step[d], a->shape[d] - start[d]);
            count *= (uint64_t)shape[d];
        }
        if (stop && stop(user))
            status =
                stk__fail(err, STK_ECANCELED, STK_STAGE_ARRAY, "the statistics were interrupted");
        else
            status = stk_array_read(a, &box, values, count * a->type.itemsize, NULL, -1, err);
        for (uint64_t i = 0; i < count && status == STK_OK; i += BLOCK) {
            size_t n = (size_t)STK_MIN(count - i, BLOCK);
            (void)stk__array_numbers(&a->type, values + i * a->type.itemsize, n, x);
            add_block(s, x, sift(s, x, n));
        }
        done += count;
        stk__progress(a->context, "reading values", done, total);
    } while (status == STK_OK && next_box(a, step, start));
    stk__free(a->context, values);
    return status;
}

stk_status stk_array_stats_compute(stk_array *a, bool (*stop)(void *user), void *user,
                                   stk_array_stats *out, stk_error *err)
{
    sums s = {.min = (double)INFINITY, .max = -(double)INFINITY};
    double none[1];

    if (!a || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_stats_compute: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    STK_TRY(stk__sized_check(out, "stk_array_stats", STK_STAGE_ARRAY, err));
    if (!stk__array_numbers(&a->type, none, 0, none))
        return stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: values of %s have no mean; statistics are of real numbers",
                            a->metadata_key, a->type.name);
    s.has_missing = stk__array_missing(a, &s.missing_value);
    STK_TRY(compute(a, stop, user, &s, err));
    stk_array_stats stats = {
        .struct_size = sizeof stats, .values = s.count, .nan = s.nan, .missing = s.missing};
    stats.mean = s.count ? s.mean : (double)NAN;
    stats.std = s.count ? sqrt(s.squares / (double)s.count) : (double)NAN;
    stats.min = s.count ? s.min : (double)NAN;
    stats.max = s.count ? s.max : (double)NAN;
    stk__sized_write(out, &stats);
    return STK_OK;
}

/* ---- Keeping ---- */

/* What statistics are of: all that makes other values of the same bytes, but no place or time, so
 * that a copy of the array keeps them. */
static uint64_t fingerprint(const stk_array *a)
{
    const char *const texts[] = {a->type.name, a->codecs, a->attributes_text};
    uint64_t hash = a->rank;

    for (size_t i = 0; i < STK_COUNT(texts); i++)
        hash = XXH64(texts[i], strlen(texts[i]) + 1, hash);
    hash = XXH64(a->shape, a->rank * sizeof a->shape[0], hash);
    hash = XXH64(a->levels[a->num_levels - 1].shape, a->rank * sizeof a->shape[0], hash);
    if (a->rest) /* of several arrays in one object */
        hash = XXH64(a->rest, strlen(a->rest) + 1, hash);
    return XXH64(a->fill, a->type.itemsize, hash);
}

/* In a folder of many arrays the place and the time tell them apart. */
static stk_status place_of(stk_array *a, const char *folder, char *key, size_t size, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    int length;

    if (folder) {
        STK_TRY(stk_store_stat(stk__array_home(a), a->metadata_key, NULL, &info, err));
        uint64_t hash =
            XXH64(a->metadata_key, strlen(a->metadata_key), fingerprint(a) ^ info.identity);
        length = snprintf(key, size, "stats-%016llx.json", (unsigned long long)hash);
    } else if (a->manifest == STK__MANIFEST_KEYS || !*a->metadata_key) {
        length = snprintf(key, size, "%s" FILE_NAME, a->prefix);
    } else {
        const char *slash = strrchr(a->object_key, '/'), *name = slash ? slash + 1 : a->object_key;
        char of[24] = "";
        if (a->rest)
            snprintf(of, sizeof of, "-%016llx",
                     (unsigned long long)XXH64(a->rest, strlen(a->rest), 0));
        length = snprintf(key, size, "%.*s.%s%s" FILE_NAME, (int)(name - a->object_key),
                          a->object_key, name, of);
    }
    if (length < 0 || (size_t)length >= size)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "the name of the statistics of %.200s is too long", a->metadata_key);
    return STK_OK;
}

static stk_status no_stats(const char *key, stk_error *err)
{
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        "%s holds no statistics of this array; stoker info --stats makes them",
                        key);
}

/* A number, or null for NaN. */
static bool take_number(const json_t *object, const char *name, double *out)
{
    const json_t *value = json_object_get(object, name);

    *out = json_is_null(value) ? (double)NAN : json_number_value(value);
    return json_is_number(value) || json_is_null(value);
}

static bool take_count(const json_t *object, const char *name, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);

    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Every element is a value, NaN or missing. */
static bool is_sound(const stk_array *a, const stk_array_stats *s)
{
    const uint64_t total = a->bytes / a->type.itemsize;

    return s->values <= total && s->nan <= total && s->missing <= total &&
           s->values + s->nan + s->missing == total && !(s->std < 0);
}

static bool take_stats(const stk_array *a, const json_t *o, stk_array_stats *out)
{
    char print[20];

    snprintf(print, sizeof print, "%016llx", (unsigned long long)fingerprint(a));
    const char *found = json_string_value(json_object_get(o, "fingerprint"));
    *out = (stk_array_stats){.struct_size = sizeof *out};
    return json_integer_value(json_object_get(o, "stoker_stats")) == 1 && found &&
           !strcmp(found, print) && take_count(o, "values", &out->values) &&
           take_count(o, "nan", &out->nan) && take_count(o, "missing", &out->missing) &&
           take_number(o, "mean", &out->mean) && take_number(o, "std", &out->std) &&
           take_number(o, "min", &out->min) && take_number(o, "max", &out->max) && is_sound(a, out);
}

static stk_status load_from(stk_array *a, stk_store *store, const char *key, stk_array_stats *out,
                            stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    stk__json document = {0};
    bool found = false;

    STK_TRY(stk_store_stat(store, key, NULL, &info, err));
    if (info.is_folder || info.size > MOST_BYTES)
        return no_stats(key, err);
    STK_TRY(stk__zarr_load(store, key, &document, &found, err));
    bool good = found && take_stats(a, document.value, out);
    stk__json_drop(store->context, &document);
    return good ? STK_OK : no_stats(key, err);
}

stk_status stk_array_stats_load(stk_array *a, const char *folder, stk_array_stats *out,
                                stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    if (!a || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_stats_load: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    STK_TRY(stk__sized_check(out, "stk_array_stats", STK_STAGE_ARRAY, err));
    STK_TRY(place_of(a, folder, key, sizeof key, err));
    if (folder)
        STK_TRY(stk_store_open(a->context, folder, &store, NULL, 0, err));
    stk_array_stats stats = {.struct_size = sizeof stats};
    stk_status status = load_from(a, store ? store : stk__array_home(a), key, &stats, err);
    if (status == STK_OK)
        stk__sized_write(out, &stats);
    stk_store_close(&store);
    return status;
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

stk_status stk_array_stats_save(stk_array *a, const char *folder, const stk_array_stats *given,
                                stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY], prefix[STK_MAX_OBJECT_KEY] = "", whole[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    char print[20];

    if (!a || !given)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_stats_save: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    stk_array_stats stats = {.struct_size = sizeof stats};
    STK_TRY(stk__sized_read(&stats, sizeof stats, given, "stk_array_stats", STK_STAGE_ARRAY, err));
    STK_TRY(place_of(a, folder, key, sizeof key, err));
    snprintf(print, sizeof print, "%016llx", (unsigned long long)fingerprint(a));
    json_t *document =
        json_pack("{s:i,s:s,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "stoker_stats", 1, "fingerprint", print,
                  "values", (json_int_t)stats.values, "nan", (json_int_t)stats.nan, "missing",
                  (json_int_t)stats.missing, "mean", number(stats.mean), "std", number(stats.std),
                  "min", number(stats.min), "max", number(stats.max));
    if (!document)
        return stk__array_no_memory(a, err);
    stk_status status =
        folder ? stk__put_folder_open(a->context, folder, &store, prefix, err) : STK_OK;
    if (status == STK_OK)
        status = stk__key_below(prefix, key, whole, err);
    if (status == STK_OK)
        status = stk__array_put_json(store ? store : stk__array_home(a), whole, document, err);
    stk_store_close(&store);
    json_decref(document);
    return status;
}
