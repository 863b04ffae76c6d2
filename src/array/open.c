/* SPDX-License-Identifier: Apache-2.0 */
/* Opening by URL: options, the store, and the format that knows what lies there. */
#include <stdio.h>

#include "array/concat.h"
#include "array/coordinate.h"
#include "array/texts.h"
#include "array/zarr.h"

#include "base/options.h"
#include "base/sized.h"
#include "base/spec.h"
#include "base/text.h"

#define AT(member)  offsetof(stk_array_options, member)
#define MAX_MEMORY  (UINT64_C(1) << 30)
#define MEMORY_PART 8 /* of what the process may use */

static const stk_array_format_ops *format_at(const stk_context *ctx, size_t i)
{
    return (const stk_array_format_ops *)stk_driver_at(ctx, STK_DRIVER_ARRAY, i);
}

static const stk_option option_list[] = {
    {"format", STK_OPTION_STRING, AT(format), "auto", 0, 0, NULL, "NAME",
     "How the array is stored: zarr, hdf5, netcdf3, kerchunk, libhdf5, npy, raw, or a format of a "
     "plug-in; auto: by content."},
    {"missing", STK_OPTION_ENUM, AT(missing), "fill", 0, 0, "fill|error", NULL,
     "A chunk that is not there: the fill value, as the format says, or an error, for data that "
     "must be complete."},
    {"checksums", STK_OPTION_BOOL, AT(checksums), "true", 0, 0, NULL, NULL,
     "Compare the checksums of chunks and shard indexes."},
    {"num_threads", STK_OPTION_INT, AT(num_threads), "auto", 1, 1024, "auto", "N",
     "Threads that decode one read; auto: the cores of preparation."},
    {"memory", STK_OPTION_SIZE, AT(memory), "0", 0, 0, NULL, "SIZE",
     "What one read may hold in addition to its result; 0: an eighth of what the process may use, "
     "at most 1 GiB."},
    {"index_cache", STK_OPTION_SIZE, AT(index_cache), "64MiB", 0, 0, NULL, "SIZE",
     "Shard indexes kept in memory."},
    {"timeout", STK_OPTION_DURATION, AT(timeout), "120", 0, 0, NULL, "SECONDS",
     "After which one read of the store fails; 0: never."},
    {"concat", STK_OPTION_STRING, AT(concat), NULL, 0, 0, NULL, "DIM",
     "The path names several files, as era5_*.nc/t2m or a.nc,b.nc/t2m, whose arrays are joined "
     "along this dimension, in the order of their names."},
    {"dtype", STK_OPTION_STRING, AT(dtype), NULL, 0, 0, NULL, "TYPE",
     "raw: type of the elements, as uint16 or >f4."},
    {"shape", STK_OPTION_STRING, AT(shape), NULL, 0, 0, NULL, "NxNx...",
     "raw: the shape, as 512x512; one of the dimensions may be -1. Without it the array is flat."},
    {"offset", STK_OPTION_SIZE, AT(offset), "0", 0, 0, NULL, "SIZE",
     "raw: bytes in front of the data."},
    {"order", STK_OPTION_ENUM, AT(order), "C", 0, 0, "C|F", NULL,
     "raw: whether the last index runs fastest, or the first."},
    {"allow_trailing", STK_OPTION_BOOL, AT(allow_trailing), "false", 0, 0, NULL, NULL,
     "npy, raw: ignore bytes behind the data."},
};

const stk_option_table stk__array_option_table = {
    .name = "array",
    .doc = "How an array is opened and read.",
    .struct_size = sizeof(stk_array_options),
    .options = option_list,
    .count = STK_COUNT(option_list),
};

bool stk__array_by_content(const stk_array_options *o)
{
    return !o->format || !*o->format || stk__option_same(o->format, strlen(o->format), "auto", 4);
}

stk_status stk__array_named(const stk_context *ctx, const stk_array_options *o,
                            const stk_array_format_ops **out, stk_error *err)
{
    const stk_driver_head *driver = NULL;

    *out = NULL;
    if (stk__array_by_content(o))
        return STK_OK;
    STK_TRY(stk_driver_find(ctx, STK_DRIVER_ARRAY, o->format, &driver, err));
    *out = (const stk_array_format_ops *)driver;
    return STK_OK;
}

/* Options as they are used: defaults filled in, those of no other format refused; and the format
 * that they name, or NULL. */
static stk_status settle(stk_context *ctx, stk_array_options *o, const stk_array_format_ops **out,
                         stk_error *err)
{
    stk_cores cores = {.struct_size = sizeof cores};

    STK_TRY(stk__array_named(ctx, o, out, err));
    const stk_array_format_ops *format = *out;
    if (o->memory == 0)
        o->memory = STK_MIN(stk__context_memory_limit(ctx) / MEMORY_PART, MAX_MEMORY);
    if (o->num_threads == STK_AUTO) {
        stk_context_cores(ctx, &cores);
        o->num_threads = cores.usable;
    }
    const char *alone = o->dtype ? "dtype" : o->shape ? "shape" : o->offset ? "offset" : NULL;
    if (!alone && o->order != 0)
        alone = "order";
    if (alone && format != &stk__array_raw)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, alone, STK_NO_OFFSET,
                            "array.%s: it is for format=raw alone; the others say it themselves",
                            alone);
    if (o->allow_trailing && format == &stk__array_zarr)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "allow_trailing", STK_NO_OFFSET,
                            "array.allow_trailing: it is for npy and raw files");
    return STK_OK;
}

const char *stk__array_foreign(const char *url)
{
    static const struct {
        const char *end, *format;
    } formats[] = {
        {".zip", "zip"},   {".pt", "PyTorch pickle"}, {".pkl", "pickle"},
        {".grib", "GRIB"}, {".grib2", "GRIB"},
    };
    const size_t length = strcspn(url, "?");

    for (size_t i = 0; i < STK_COUNT(formats); i++) {
        const size_t n = strlen(formats[i].end);
        if (length > n && stk__option_same(url + length - n, n, formats[i].end, n))
            return formats[i].format;
    }
    return NULL;
}

int stk__array_best_format(stk_store *store, const char *key, const stk_array_format_ops **out)
{
    const stk_array_format_ops *format;
    int best = 0;

    *out = NULL;
    for (size_t i = 0; (format = format_at(store->context, i)); i++) {
        const int sure = format->recognise(store, key);
        if (sure > best) {
            best = sure;
            *out = format;
        }
    }
    return best;
}

/* No format knows it. */
static stk_status unknown(const char *url, const char *key, stk_error *err)
{
    const char *foreign = *key ? stk__array_foreign(url) : NULL;
    if (foreign)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                            "'%.300s': %s is not built in: write the array as Zarr or npy", url,
                            foreign);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                        *key ? "'%.300s' is no HDF5, no NetCDF and no npy file; say "
                               "format=raw&dtype=TYPE&shape=NxN if it holds nothing but elements"
                             : "'%.300s' holds no array: neither zarr.json nor .zarray is there; "
                               "name the folder of the array itself, or its files, as "
                               "DIR/*.nc/t2m?concat=time",
                        url);
}

/* What a URL says of an array, and the store that it is in. */
typedef struct source {
    char *url; /* whose query has lost what is said here */
    char *texts;
    stk_array_options options; /* whose texts are in `texts` */
    stk__own_options *own;
    stk_store *store;
    const stk_array_format_ops *format; /* NULL: none is named, and none recognises it */
    int sure;                           /* as recognise() of the format says; named: 2 */
    char key[STK_MAX_OBJECT_KEY], rest[STK_MAX_OBJECT_KEY];
} source;

static void source_release(stk_context *ctx, source *s)
{
    stk_store_close(&s->store);
    stk__own_options_free(ctx, &s->own);
    stk__free(ctx, s->texts);
    stk__free(ctx, s->url);
}

/* Take the options out of a URL, over those that there are; released also on failure. */
static stk_status source_options(stk_context *ctx, const char *url, source *s, stk_error *err)
{
    s->url = stk__strdup(ctx, url);
    if (!s->url)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_ARRAY, "no memory to open '%.200s'", url);
    STK_TRY(stk__spec_take(ctx, s->url, &stk__array_option_table, &s->options, &s->texts, err));
    STK_TRY(settle(ctx, &s->options, &s->format, err));
    return stk__own_options_take(ctx, s->url, s->format, &s->own, err);
}

static bool joins(const source *s)
{
    return s->options.concat && *s->options.concat;
}

/* Find what a URL without options names. */
static stk_status source_find(stk_context *ctx, source *s, stk_error *err)
{
    const char *const before = s->url;

    STK_TRY(stk__store_split(ctx, s->url, &s->store, s->key, sizeof s->key, s->rest, sizeof s->rest,
                             err));
    if (!*s->key)
        stk__zarr_expect(s->store);
    s->sure = s->format ? 2 : stk__array_best_format(s->store, s->key, &s->format);
    if (!s->format && *s->key)
        STK_TRY(stk__container_enter(ctx, &s->url, err));
    if (s->url != before) {
        stk_store_close(&s->store);
        return source_find(ctx, s, err);
    }
    if (!s->format && !*s->rest)
        return unknown(s->url, s->key, err);
    if (*s->rest && !(s->format && s->format->takes_rest))
        return stk__store_no_rest(s->url, s->key, s->rest, err);
    return STK_OK;
}

void stk__array_drop_texts(stk_array *a)
{
    a->options.dtype = a->options.shape = a->options.format = a->options.concat = NULL;
}

stk_status stk__array_open_key(stk__shared_store *shared, const stk_array_opening *opening,
                               const stk_array_format_ops *format, const stk__own_options *own,
                               stk_array **out, stk_error *err)
{
    stk_array_opening o = *opening;

    *out = NULL;
    if (!format && stk__array_best_format(o.store, o.key, &format) == 0)
        return unknown(o.url, o.key, err);
    if (*o.rest && !format->takes_rest)
        return stk__store_no_rest(o.url, o.key, o.rest, err);
    STK_TRY(stk__own_options_get(own, format, &o.options, err));
    stk_status status = stk__array_create(o.store->context, shared, "", o.array_options, out, err);
    if (status == STK_OK)
        status = stk__array_open_with(*out, format, &o, err);
    if (status != STK_OK)
        stk_array_close(out);
    else /* the texts are the caller's */
        stk__array_drop_texts(*out);
    return status;
}

static stk_status open_source(source *s, stk_array **out, stk_error *err)
{
    const stk_array_opening opening = {.struct_size = sizeof opening,
                                       .store = s->store,
                                       .key = s->key,
                                       .url = s->url,
                                       .rest = s->rest,
                                       .array_options = &s->options};
    stk__shared_store *shared;

    STK_TRY(stk__shared_create(&s->store, &shared, err));
    const stk_status status = stk__array_open_key(shared, &opening, s->format, s->own, out, err);
    stk__shared_unref(shared);
    return status;
}

static stk_status open_url(stk_context *context, const char *url, const stk_array_options *options,
                           stk_array **out, stk_error *err)
{
    source s = {.options = *options};

    stk_status status = source_options(context, url, &s, err);
    if (status == STK_OK && joins(&s)) {
        status = stk__concat_open(context, s.url, &s.options, s.format, s.own, out, err);
    } else {
        if (status == STK_OK)
            status = source_find(context, &s, err);
        if (status == STK_OK)
            status = open_source(&s, out, err);
    }
    if (status != STK_OK)
        stk__option_unknown_nearer(&stk__array_option_table, err);
    source_release(context, &s);
    return status;
}

stk_status stk_array_open(stk_context *context, const char *url, const stk_array_options *options,
                          stk_array **out, stk_error *err)
{
    stk_array_options own;

    if (!context || !url || !out)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY, "stk_array_open: an argument is NULL");
    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_array_options_init(&own);
    if (options)
        STK_TRY(
            stk__sized_read(&own, sizeof own, options, "stk_array_options", STK_STAGE_ARRAY, err));
    stk__opening_begin(context);
    const stk_status status = open_url(context, url, &own, out, err);
    stk__opening_end(context);
    return status;
}

int stk_array_recognise(stk_context *context, const char *url, const stk_array_format_ops **format)
{
    const stk_array_format_ops *found = NULL;
    source s = {0};
    int sure = 0;

    if (context && url && stk__context_check(context, NULL) == STK_OK) {
        stk_array_options_init(&s.options);
        stk__opening_begin(context);
        stk_status status = source_options(context, url, &s, NULL);
        if (status == STK_OK && joins(&s)) {
            s.format = &stk__array_concat;
            s.sure = 2;
        } else if (status == STK_OK) {
            status = source_find(context, &s, NULL);
        }
        if (status == STK_OK) {
            found = s.format;
            sure = s.sure;
        } else if (status == STK_ENOMEM) {
            sure = status;
        }
        stk__opening_end(context);
        source_release(context, &s);
    }
    if (format)
        *format = found;
    return sure;
}

stk_status stk__array_settle(stk_context *ctx, const stk_array_options *options,
                             stk_array_options *out, stk_error *err)
{
    const stk_array_format_ops *format;

    stk_array_options_init(out);
    if (options)
        STK_TRY(
            stk__sized_read(out, sizeof *out, options, "stk_array_options", STK_STAGE_ARRAY, err));
    return settle(ctx, out, &format, err);
}

/* ---- Asking ---- */

const stk_array_info *stk_array_get_info(const stk_array *array)
{
    return &array->info;
}

bool stk_array_number(const stk_array *array, const char *name, double *out)
{
    const json_t *value = json_object_get(array->attributes.value, name);

    *out = json_number_value(value);
    return json_is_number(value);
}

double stk__array_number_or(const stk_array *array, const char *name, double otherwise)
{
    double value;

    return stk_array_number(array, name, &value) ? value : otherwise;
}

const char *stk_array_text(const stk_array *array, const char *name)
{
    const json_t *value = json_object_get(array->attributes.value, name);

    return stk__json_special(value) ? NULL : json_string_value(value);
}

stk_status stk_array_box_bytes(const stk_array *array, const stk_array_box *box, uint64_t *bytes,
                               stk_error *err)
{
    stk__box b;

    STK_TRY(stk__array_fixed(array, err));
    STK_TRY(stk__array_box(array, box, &b, err));
    if (!stk__shape_bytes(b.shape, array->rank, array->type.itemsize, bytes))
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY, "the box has more bytes than can be");
    return STK_OK;
}

static void names_text(const stk_array *a, char *text, size_t size)
{
    size_t at = 0;

    text[0] = 0;
    for (uint32_t d = 0; d < a->rank && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", d ? ", " : "",
                               a->names[d] ? a->names[d] : "-");
}

stk_status stk_array_describe(stk_array *a,
                              void (*line)(void *user, const char *name, const char *value),
                              void *user, stk_error *err)
{
    char text[512];

    if (!a || !line)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_describe: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    const stk__level *leaf = &a->levels[a->num_levels - 1];
    line(user, "format", a->format);
    line(user, "dtype", a->type.name);
    stk__shape_tuple(a->shape, a->rank, text, sizeof text);
    line(user, "shape", text);
    snprintf(text, sizeof text, "%llu", (unsigned long long)a->bytes);
    line(user, "bytes", stk__type_varies(&a->type) ? "varying" : text);
    if (a->names) {
        names_text(a, text, sizeof text);
        line(user, "dimensions", text);
    }
    if (a->manifest != STK__MANIFEST_ONE) {
        stk__shape_tuple(leaf->shape, a->rank, text, sizeof text);
        line(user, "chunks", text);
        snprintf(text, sizeof text, "%llu", (unsigned long long)leaf->total);
        line(user, "number of chunks", text);
        if (a->num_levels > 1) {
            stk__shape_tuple(a->levels[0].shape, a->rank, text, sizeof text);
            line(user, "shards", text);
            snprintf(text, sizeof text, "%llu", (unsigned long long)a->levels[0].total);
            line(user, "number of shards", text);
        }
        line(user, "codecs", a->codecs);
    }
    snprintf(text, sizeof text, "%c", a->order);
    line(user, "order", a->order == 'T' ? "transposed" : text);
    if (a->type.big_endian)
        line(user, "byte order", "big endian, swapped");
    if (a->fill_defined) {
        json_t *value = stk__fill_to_json(&a->type, a->fill);
        char *shown = value ? stk__json_text(a->context, value, false) : NULL;
        json_decref(value);
        line(user, "fill value", shown ? shown : "set");
        stk__free(a->context, shown);
    }
    line(user, "attributes", a->attributes_text);
    if (stk__coordinate_ends(a, text, sizeof text))
        line(user, "times", text);
    return STK_OK;
}
