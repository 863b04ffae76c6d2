/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of an array where they are kept: as JSON next to the data, or in a folder of many. */
#include <math.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "array/room.h"
#include "array/stats.h"
#include "array/zarr.h"
#include "base/sized.h"

#define FILE_NAME  ".stoker-stats.json"
#define MOST_BYTES 65536 /* of a kept file */
#define VERSION    2     /* 1 has no histogram, and is read */

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

/* Bins that hold no more than all values; null: there are none. */
static bool take_bins(const json_t *o, stk_array_stats *out)
{
    const json_t *counts = json_object_get(o, "counts");
    const size_t n = json_array_size(counts);
    uint64_t total = 0;

    if (json_is_null(o))
        return true;
    if (n < 1 || n > STK_ARRAY_BINS || !take_number(o, "low", &out->bin_low) ||
        !take_number(o, "width", &out->bin_width) || !isfinite(out->bin_low) ||
        !(out->bin_width > 0))
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_int_t count = json_integer_value(json_array_get(counts, i));
        if (count < 0 || !stk__add_size(total, (uint64_t)count, &total))
            return false;
        out->bins[i] = (uint64_t)count;
    }
    out->num_bins = (uint32_t)n;
    return total <= out->values;
}

static bool take_stats(const stk_array *a, const json_t *o, stk_array_stats *out)
{
    char print[20];

    snprintf(print, sizeof print, "%016llx", (unsigned long long)fingerprint(a));
    const char *found = json_string_value(json_object_get(o, "fingerprint"));
    *out = (stk_array_stats){.struct_size = sizeof *out};
    const json_int_t version = json_integer_value(json_object_get(o, "stoker_stats"));
    if (version < 1 || version > VERSION || !found || strcmp(found, print) != 0 ||
        !take_count(o, "values", &out->values) || !take_count(o, "nan", &out->nan) ||
        !take_count(o, "missing", &out->missing) || !take_number(o, "mean", &out->mean) ||
        !take_number(o, "std", &out->std) || !take_number(o, "min", &out->min) ||
        !take_number(o, "max", &out->max) || !is_sound(a, out))
        return false;
    out->nan_share = stk__array_nan_share(out);
    return version == 1 || take_bins(json_object_get(o, "histogram"), out);
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

/* NULL: no memory. */
static json_t *bins_of(const stk_array_stats *s)
{
    if (s->num_bins == 0 || s->num_bins > STK_ARRAY_BINS)
        return json_null();
    json_t *counts = json_array();
    for (uint32_t i = 0; i < s->num_bins; i++)
        if (json_array_append_new(counts, json_integer((json_int_t)s->bins[i])) != 0) {
            json_decref(counts);
            return NULL;
        }
    return json_pack("{s:o,s:o,s:o}", "low", number(s->bin_low), "width", number(s->bin_width),
                     "counts", counts);
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
    json_t *document = json_pack(
        "{s:i,s:s,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o}", "stoker_stats", VERSION, "fingerprint", print,
        "values", (json_int_t)stats.values, "nan", (json_int_t)stats.nan, "missing",
        (json_int_t)stats.missing, "mean", number(stats.mean), "std", number(stats.std), "min",
        number(stats.min), "max", number(stats.max), "histogram", bins_of(&stats));
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
