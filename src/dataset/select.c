/* SPDX-License-Identifier: Apache-2.0 */
/* The options that every dataset has: `indices`, `subset`, `random_split`, `part`, `split_seed`. */
#include <inttypes.h>

#include "array/npy/npy.h"
#include "dataset/object.h"
#include "dataset/view.h"

#define MAX_FRACTIONS   64
#define MAX_INDEX_BYTES (UINT64_C(1) << 30) /* of an index file */

static const stk_option select_options[] = {
    {"indices", STK_OPTION_STRING, offsetof(stk__select_options, indices), NULL, 0, 0, NULL, "FILE",
     "Only the samples listed in a file: text with one index a line, or .npy of int64."},
    {"subset", STK_OPTION_STRING, offsetof(stk__select_options, subset), NULL, 0, 0, NULL, "A:B",
     "Only the samples from A up to and without B, as slices in Python; after `indices`."},
    {"random_split", STK_OPTION_STRING, offsetof(stk__select_options, random_split), NULL, 0, 0,
     NULL, "0.8,0.2",
     "Split the samples at random into parts of these fractions and take one; last of all."},
    {"part", STK_OPTION_UINT, offsetof(stk__select_options, part), "0", 0, 0, NULL, "N",
     "The part of the random split that is taken, from 0."},
    {"split_seed", STK_OPTION_UINT, offsetof(stk__select_options, split_seed), "0", 0, 0, NULL, "N",
     "Seed of the random split."},
};

const stk_option_table stk__dataset_option_table = {"dataset", "Options of every dataset.",
                                                    sizeof(stk__select_options), select_options,
                                                    STK_COUNT(select_options)};

stk_status stk__refuse_query(const stk_option_table *table, const char *url, stk_error *err)
{
    const char *query = strchr(url, '?');
    char name[64];

    if (!query)
        return STK_OK;
    size_t length = STK_MIN(strcspn(query + 1, "=&"), sizeof name - 1);
    memcpy(name, query + 1, length);
    name[length] = 0;
    /* An unknown name is refused, with the nearest known one, before anything is set. */
    if (!stk_options_find(table, name))
        return stk_options_set(table, NULL, name, "", err);
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, name, STK_NO_OFFSET,
                        "%s: the query '%.100s' is none; write name=value, parted by '&'",
                        table->name, query);
}

/* ---- subset -------------------------------------------------------------------------------- */

/* One end of a slice: absent, from the start, or (negative) from the end. */
static bool parse_end(const char **text, uint64_t size, uint64_t absent, uint64_t *out)
{
    const char *p = *text;
    bool from_end = *p == '-';
    uint64_t value = 0;

    p += from_end;
    if (*p < '0' || *p > '9') {
        *out = absent;
        return !from_end;
    }
    for (; *p >= '0' && *p <= '9'; p++)
        if (!stk__mul_size(value, 10, &value) ||
            !stk__add_size(value, (uint64_t)(*p - '0'), &value))
            return false;
    if (from_end && value > size)
        return false;
    *out = from_end ? size - value : value;
    *text = p;
    return true;
}

static stk_status select_range(stk_dataset **dataset, const char *text, stk_error *err)
{
    uint64_t first = 0, end = 0, size = (*dataset)->size;
    const char *p = text;
    bool good =
        parse_end(&p, size, 0, &first) && *p++ == ':' && parse_end(&p, size, size, &end) && !*p;

    if (!good || first >= end || end > size)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "subset", STK_NO_OFFSET,
                            "subset=%.100s is no range of a dataset of %" PRIu64
                            " samples; give first:end as 0:%" PRIu64 ", with first < end",
                            text, size, size);
    return stk_dataset_range(dataset, first, end, err);
}

/* ---- indices ------------------------------------------------------------------------------- */

/* A growing list of indices. */
typedef struct index_list {
    stk_context *ctx;
    const char *file; /* for messages */
    uint64_t *items;
    size_t count, room;
} index_list;

static stk_status append(index_list *list, uint64_t index, stk_error *err)
{
    uint64_t *items =
        stk__grow(list->ctx, list->items, &list->room, list->count + 1, sizeof *items);
    if (!items)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, list->file, STK_NO_OFFSET,
                            "no memory for more than %zu indices of %s", list->count, list->file);
    list->items = items;
    list->items[list->count++] = index;
    return STK_OK;
}

/* One index a line; blank lines and blanks around an index are nothing. */
static stk_status parse_lines(index_list *list, const unsigned char *data, uint64_t size,
                              stk_error *err)
{
    uint64_t line = 1;

    for (uint64_t i = 0; i < size; line++) {
        uint64_t begin = i, value = 0, digits = 0;
        bool good = true, ended = false;

        for (; i < size && data[i] != '\n'; i++) {
            bool blank = data[i] == ' ' || data[i] == '\t' || data[i] == '\r';
            if (blank) {
                ended = digits > 0;
                continue;
            }
            good = good && !ended && data[i] >= '0' && data[i] <= '9' &&
                   stk__mul_size(value, 10, &value) && stk__add_size(value, data[i] - '0', &value);
            digits++;
        }
        i++;
        if (!good)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, list->file, begin,
                                "line %" PRIu64
                                " of %s is no index; write one number from 0 on each "
                                "line",
                                line, list->file);
        if (digits)
            STK_TRY(append(list, value, err));
    }
    return STK_OK;
}

/* An npy file of one row of int64 or uint64. */
static stk_status parse_npy(index_list *list, const unsigned char *data, uint64_t size,
                            stk_error *err)
{
    stk__npy_header head;
    uint64_t length = 0;

    STK_TRY(
        stk__npy_measure(data, STK_MIN(size, STK_NPY_PREAMBLE), size, list->file, &length, err));
    STK_TRY(stk__npy_parse(data, length, size, false, list->file, &head, err));
    if (head.rank != 1 || (head.dtype != STK_INT64 && head.dtype != STK_UINT64) || head.swap)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, list->file, 0,
                            "%s is not one row of int64 in little-endian order; save it as "
                            "numpy.save(FILE, numpy.asarray(indices, numpy.int64))",
                            list->file);
    for (uint64_t i = 0; i < (uint64_t)head.shape[0]; i++) {
        int64_t index;
        memcpy(&index, data + head.offset + i * sizeof index, sizeof index);
        if (index < 0)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, list->file,
                                head.offset + i * sizeof index,
                                "entry %" PRIu64 " of %s is %" PRId64 "; indices count from 0", i,
                                list->file, index);
        STK_TRY(append(list, (uint64_t)index, err));
    }
    return STK_OK;
}

static stk_status select_indices(stk_dataset **dataset, const char *file, stk_error *err)
{
    stk_context *ctx = (*dataset)->context;
    index_list list = {.ctx = ctx, .file = file};
    stk_store *store = NULL;
    stk__object object = {0};
    bool found = false;
    char key[STK_MAX_OBJECT_KEY];

    STK_TRY(stk_store_open(ctx, file, &store, key, sizeof key, err));
    stk_status status = stk__object_find(store, key, &object, &found, err);
    if (status != STK_OK)
        goto out;
    status = STK_ENOENT;
    if (!found) {
        stk__fail_at(err, status, STK_STAGE_DATASET, file, STK_NO_OFFSET,
                     "indices=%.300s is no file; give a file with one index a line", file);
        goto out;
    }
    if (object.size > MAX_INDEX_BYTES) {
        status = stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, file, STK_NO_OFFSET,
                              "the index file %s has %" PRIu64 " bytes; %" PRIu64 " are the most",
                              file, object.size, MAX_INDEX_BYTES);
        goto out;
    }
    status = stk__object_load(store, &object, err);
    if (status != STK_OK)
        goto out;
    bool npy = object.size >= 6 && memcmp(object.data, "\x93NUMPY", 6) == 0;
    status = (npy ? parse_npy : parse_lines)(&list, object.data, object.size, err);
    if (status == STK_OK)
        status = stk_dataset_subset(dataset, list.items ? list.items : (const uint64_t[]){0},
                                    list.count, err);
out:
    stk__free(ctx, list.items);
    stk__object_release(ctx, &object);
    stk_store_close(&store);
    return status;
}

/* ---- random_split -------------------------------------------------------------------------- */

/* One fraction in plain decimals, the same in every locale: "0.8", ".25", "1". */
static bool parse_fraction(const char **text, double *out)
{
    const char *p = *text;
    double value = 0, scale = 1;
    int digits = 0;

    for (; *p >= '0' && *p <= '9' && digits < 18; p++, digits++)
        value = value * 10 + (*p - '0');
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9' && digits < 18; p++, digits++) {
            value = value * 10 + (*p - '0');
            scale *= 10;
        }
    *out = value / scale;
    *text = p;
    return digits > 0;
}

static stk_status select_split(stk_dataset **dataset, const stk__select_options *o, stk_error *err)
{
    double fractions[MAX_FRACTIONS];
    uint32_t count = 0;
    const char *p = o->random_split;
    bool good = true;

    while (good && count < MAX_FRACTIONS) {
        good = parse_fraction(&p, &fractions[count++]);
        if (*p != ',')
            break;
        p++;
    }
    if (!good || *p)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_OPTIONS, "random_split", STK_NO_OFFSET,
            "random_split=%.100s is no list of fractions; give at most %d as 0.8,0.2",
            o->random_split, MAX_FRACTIONS);
    if (o->part >= count)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "part", STK_NO_OFFSET,
                            "part=%" PRIu64 ", but random_split=%.100s has parts 0 to %u", o->part,
                            o->random_split, count - 1);
    return stk_dataset_random_split(dataset, fractions, count, (uint32_t)o->part, o->split_seed,
                                    err);
}

stk_status stk__select(stk_dataset **dataset, const stk__select_options *options, stk_error *err)
{
    if (!options->random_split && (options->part || options->split_seed))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS,
                            options->part ? "part" : "split_seed", STK_NO_OFFSET,
                            "%s is given without random_split and would do nothing; give "
                            "random_split=0.8,0.2 or leave it out",
                            options->part ? "part" : "split_seed");
    if (options->indices)
        STK_TRY(select_indices(dataset, options->indices, err));
    if (options->subset)
        STK_TRY(select_range(dataset, options->subset, err));
    if (options->random_split)
        STK_TRY(select_split(dataset, options, err));
    return STK_OK;
}
