/* SPDX-License-Identifier: Apache-2.0 */
/* The options that every dataset has: which of its samples, how often, and which
 * fields. */
#include <inttypes.h>

#include "array/npy/npy.h"
#include "base/npy_head.h"
#include "base/spec.h"
#include "dataset/object.h"
#include "dataset/view.h"

#define MAX_STAGES     64
#define MAX_FRACTIONS  64
#define MAX_FILE_BYTES (UINT64_C(1) << 30) /* that an option names */

static const stk_option select_options[] = {
    {"indices", STK_OPTION_STRING, offsetof(stk__select_options, indices), NULL, 0, 0, NULL, "FILE",
     "Only the samples listed in a file: text with one index a line, or .npy of int64."},
    {"subset", STK_OPTION_STRING, offsetof(stk__select_options, subset), NULL, 0, 0, NULL, "A:B",
     "Only the samples from A up to and without B, as slices in Python; after `indices`."},
    {"random_split", STK_OPTION_STRING, offsetof(stk__select_options, random_split), NULL, 0, 0,
     NULL, "0.8,0.2",
     "Split the samples at random into parts of these fractions and take one; after `subset`."},
    {"kfold", STK_OPTION_UINT, offsetof(stk__select_options, kfold), "0", 0, 0, NULL, "K",
     "Split the samples at random into K folds of equal size for cross-validation; in place of "
     "`random_split`. 0: none."},
    {"fold", STK_OPTION_UINT, offsetof(stk__select_options, fold), "0", 0, 0, NULL, "I",
     "The fold that is kept for validation, from 0."},
    {"part", STK_OPTION_STRING, offsetof(stk__select_options, part), NULL, 0, 0, NULL,
     "N|train|val",
     "What is taken: of the random split a part, from 0 (the default); of folds `val`, the fold, "
     "or "
     "`train`, all others."},
    {"split_seed", STK_OPTION_UINT, offsetof(stk__select_options, split_seed), "0", 0, 0, NULL, "N",
     "Seed of the random split or of the folds."},
    {"balance", STK_OPTION_STRING, offsetof(stk__select_options, balance), NULL, 0, 0, NULL,
     "label|FILE",
     "Each label equally often: those that the dataset knows, or those of a file, text with one a "
     "line or .npy of int64."},
    {"weights", STK_OPTION_STRING, offsetof(stk__select_options, weights), NULL, 0, 0, NULL, "FILE",
     "Samples as often as their weights say: .npy of floats, one for each sample."},
    {"stages", STK_OPTION_STRING, offsetof(stk__select_options, stages), NULL, 0, 0, NULL,
     "EPOCH:SHARE,...",
     "From an epoch on only the first share of the samples, as 0:0.25,10:0.5,20:1; epochs stay as "
     "long as they are."},
    {"repeat", STK_OPTION_DOUBLE, offsetof(stk__select_options, repeat), "1", 0, 1e9, NULL, "X",
     "An epoch has X times the samples, as 3 or 0.25; shuffled, no sample comes again before each "
     "was there. The last of these choices."},
    {"keep", STK_OPTION_STRING, offsetof(stk__select_options, keep), NULL, 0, 0, NULL, "FIELDS",
     "Only these fields, as image,label, in this order."},
    {"drop", STK_OPTION_STRING, offsetof(stk__select_options, drop), NULL, 0, 0, NULL, "FIELDS",
     "All fields but these."},
    {"rename", STK_OPTION_STRING, offsetof(stk__select_options, rename), NULL, 0, 0, NULL,
     "OLD:NEW,...", "New names of fields, as jpg:image."},
    {"cast", STK_OPTION_STRING, offsetof(stk__select_options, cast), NULL, 0, 0, NULL,
     "FIELD:TYPE,...",
     "Fields of other types: int32, int64, float32 or float64; by their new names."},
    {"class_names", STK_OPTION_STRING, offsetof(stk__select_options, class_names), NULL, 0, 0, NULL,
     "FILE", "Names of the labels from a text file: line 1 is that of label 0."},
    {"padding", STK_OPTION_STRING, offsetof(stk__select_options, padding), NULL, 0, 0, NULL,
     "FIELD:MULTIPLE[:VALUE],...",
     "Fields of varying length are filled up in each batch, to the longest rounded up to a "
     "multiple, with a value (0); FIELD_length says how long each is. By their new names."},
};

const stk_option_table stk__dataset_option_table = {"dataset", "Options of every dataset.",
                                                    sizeof(stk__select_options), select_options,
                                                    STK_COUNT(select_options)};

stk_status stk__refuse_query(const stk_option_table *table, const char *url, stk_error *err)
{
    const char *query = stk__spec_query(url);
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
    const char *noun; /* "index", "label" */
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
                                "line %" PRIu64 " of %s is no %s; write one number from 0 on each "
                                "line",
                                line, list->file, list->noun);
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

stk_status stk__select_file(stk_context *ctx, const char *option, const char *file,
                            stk_store **store, stk__object *object, stk_error *err)
{
    bool found = false;
    char key[STK_MAX_OBJECT_KEY];

    STK_TRY(stk_store_open(ctx, file, store, key, sizeof key, err));
    STK_TRY(stk__object_find(*store, key, object, &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, file, STK_NO_OFFSET,
                            "%s=%.300s is no file; give the path of one", option, file);
    if (object->size > MAX_FILE_BYTES)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, file, STK_NO_OFFSET,
                            "%s=%s: the file has %" PRIu64 " bytes; %" PRIu64 " are the most",
                            option, file, object->size, MAX_FILE_BYTES);
    return stk__object_load(*store, object, err);
}

/* The numbers of a file, of which there are some; list->items to be freed in any case. */
static stk_status read_numbers(const char *option, index_list *list, stk_error *err)
{
    stk_store *store = NULL;
    stk__object object = {0};

    stk_status status = stk__select_file(list->ctx, option, list->file, &store, &object, err);
    if (status == STK_OK) {
        const bool npy = stk__npy_begins(object.data, object.size);
        status = (npy ? parse_npy : parse_lines)(list, object.data, object.size, err);
    }
    stk__object_release(list->ctx, &object);
    stk_store_close(&store);
    return status;
}

static stk_status select_indices(stk_dataset **dataset, const char *file, stk_error *err)
{
    index_list list = {.ctx = (*dataset)->context, .noun = "index", .file = file};
    stk_status status = read_numbers("indices", &list, err);

    if (status == STK_OK)
        status = stk_dataset_subset(dataset, list.items ? list.items : (const uint64_t[]){0},
                                    list.count, err);
    stk__free(list.ctx, list.items);
    return status;
}

/* ---- balance, weights ---------------------------------------------------------------------- */

static stk_status check_count(const char *option, const char *file, uint64_t count, uint64_t size,
                              stk_error *err)
{
    return count == size ? STK_OK
                         : stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, file, STK_NO_OFFSET,
                                        "%s=%.300s has %" PRIu64 " numbers and the dataset %" PRIu64
                                        " samples; give one for each",
                                        option, file, count, size);
}

static stk_status select_balance(stk_dataset **dataset, const char *by, double times,
                                 stk_error *err)
{
    index_list list = {.ctx = (*dataset)->context, .noun = "label", .file = by};

    if (strcmp(by, "label") == 0)
        return stk__dataset_balance(dataset, NULL, times, err);
    stk_status status = read_numbers("balance", &list, err);
    if (status == STK_OK)
        status = check_count("balance", by, list.count, (*dataset)->size, err);
    if (status == STK_OK)
        status = stk__dataset_balance(dataset, list.items, times, err);
    stk__free(list.ctx, list.items);
    return status;
}

/* The row of reals in an npy file, as doubles to be freed; NULL with a failure. */
static stk_status parse_reals(stk_context *ctx, const unsigned char *data, uint64_t size,
                              const char *file, double **out, uint64_t *count, stk_error *err)
{
    stk__npy_header head;
    uint64_t length = 0;

    STK_TRY(stk__npy_measure(data, STK_MIN(size, STK_NPY_PREAMBLE), size, file, &length, err));
    STK_TRY(stk__npy_parse(data, length, size, false, file, &head, err));
    if (head.rank != 1 || (head.dtype != STK_FLOAT64 && head.dtype != STK_FLOAT32) || head.swap)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file, 0,
                            "%s is not one row of floats in little-endian order; save it as "
                            "numpy.save(FILE, numpy.asarray(weights, numpy.float64))",
                            file);
    *count = (uint64_t)head.shape[0];
    *out = stk__calloc(ctx, STK_MAX(*count, 1), sizeof **out);
    if (!*out)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, file, STK_NO_OFFSET,
                            "no memory for %" PRIu64 " weights of %s", *count, file);
    stk__elements_to(*out, STK_FLOAT64, data + head.offset, head.dtype, *count);
    return STK_OK;
}

static stk_status select_weights(stk_dataset **dataset, const char *file, double times,
                                 stk_error *err)
{
    stk_context *ctx = (*dataset)->context;
    stk_store *store = NULL;
    stk__object object = {0};
    double *weights = NULL;
    uint64_t count = 0;

    stk_status status = stk__select_file(ctx, "weights", file, &store, &object, err);
    if (status == STK_OK)
        status = parse_reals(ctx, object.data, object.size, file, &weights, &count, err);
    if (status == STK_OK)
        status = check_count("weights", file, count, (*dataset)->size, err);
    if (status == STK_OK)
        status = stk__dataset_weigh(dataset, weights, times, err);
    stk__free(ctx, weights);
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

/* A number of decimals alone. */
static bool parse_count(const char *text, uint64_t *out)
{
    *out = 0;
    for (const char *p = text; *p; p++)
        if (*p < '0' || *p > '9' || !stk__mul_size(*out, 10, out) ||
            !stk__add_size(*out, (uint64_t)(*p - '0'), out))
            return false;
    return *text;
}

static stk_status select_split(stk_dataset **dataset, const stk__select_options *o, stk_error *err)
{
    double fractions[MAX_FRACTIONS];
    uint32_t count = 0;
    uint64_t part = 0;
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
    if (o->part && (!parse_count(o->part, &part) || part >= count))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "part", STK_NO_OFFSET,
                            "part=%.40s, but random_split=%.100s has parts 0 to %u", o->part,
                            o->random_split, count - 1);
    return stk_dataset_random_split(dataset, fractions, count, (uint32_t)part, o->split_seed, err);
}

static stk_status select_fold(stk_dataset **dataset, const stk__select_options *o, stk_error *err)
{
    const bool val = o->part && strcmp(o->part, "val") == 0;

    if (o->random_split)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "kfold", STK_NO_OFFSET,
                            "kfold and random_split both divide the samples; give one of them");
    if (!val && (!o->part || strcmp(o->part, "train") != 0))
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "part", STK_NO_OFFSET,
                            "%s%.40s of kfold=%" PRIu64 ": give part=train or part=val",
                            o->part ? "part=" : "no part", o->part ? o->part : "", o->kfold);
    return stk__dataset_fold(dataset, o->kfold, o->fold, !val, o->split_seed, err);
}

/* An option that the others make do nothing. */
static const char *idle_option(const stk__select_options *o)
{
    if (o->fold && !o->kfold)
        return "fold";
    if (o->random_split || o->kfold)
        return NULL;
    return o->part ? "part" : o->split_seed ? "split_seed" : NULL;
}

/* "0:0.25,10:1": from an epoch on a share of the samples. */
static stk_status select_stages(stk_dataset **dataset, const char *text, double times,
                                stk_error *err)
{
    stk__mixture_stage stages[MAX_STAGES];
    const char *p = text;
    uint32_t n = 0;
    bool good = true;

    for (; good && n < MAX_STAGES; n++) {
        double share = 0;
        good = parse_end(&p, 0, UINT64_MAX, &stages[n].epoch) && *p++ == ':' &&
               parse_fraction(&p, &share) && share > 0 && share <= 1 &&
               (n ? stages[n].epoch > stages[n - 1].epoch : stages[n].epoch == 0);
        stages[n].size = good ? STK_MAX((uint64_t)(share * (double)(*dataset)->size), 1) : 0;
        if (!good || *p != ',')
            break;
        p++;
    }
    if (!good || *p || n == MAX_STAGES)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "stages", STK_NO_OFFSET,
                            "stages=%.100s: give EPOCH:SHARE with growing epochs from 0 and shares "
                            "above 0 up to 1, at most %d, as 0:0.25,10:0.5,20:1",
                            text, MAX_STAGES);
    return stk__dataset_repeat(dataset, times, stages, n + 1, err);
}

/* How often they come. */
static stk_status select_times(stk_dataset **dataset, const stk__select_options *o, stk_error *err)
{
    if ((o->balance != NULL) + (o->weights != NULL) + (o->stages != NULL) > 1)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "weights", STK_NO_OFFSET,
                            "balance, weights and stages each say how often samples come; give "
                            "one");
    if (o->balance)
        return select_balance(dataset, o->balance, o->repeat, err);
    if (o->weights)
        return select_weights(dataset, o->weights, o->repeat, err);
    if (o->stages)
        return select_stages(dataset, o->stages, o->repeat, err);
    return o->repeat != 1 ? stk__dataset_repeat(dataset, o->repeat, NULL, 0, err) : STK_OK;
}

stk_status stk__select(stk_dataset **dataset, const stk__select_options *options, stk_error *err)
{
    const char *idle = idle_option(options);

    if (idle)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, idle, STK_NO_OFFSET,
                            "%s is given without %s and would do nothing; give %s or leave it out",
                            idle, strcmp(idle, "fold") == 0 ? "kfold" : "random_split",
                            strcmp(idle, "fold") == 0 ? "kfold=5" : "random_split=0.8,0.2");
    if (options->indices)
        STK_TRY(select_indices(dataset, options->indices, err));
    if (options->subset)
        STK_TRY(select_range(dataset, options->subset, err));
    if (options->random_split && !options->kfold)
        STK_TRY(select_split(dataset, options, err));
    if (options->kfold)
        STK_TRY(select_fold(dataset, options, err));
    STK_TRY(select_times(dataset, options, err));
    if (options->keep || options->drop || options->rename || options->cast)
        STK_TRY(stk__dataset_fields(dataset, options->keep, options->drop, options->rename,
                                    options->cast, err));
    if (options->class_names)
        STK_TRY(stk__dataset_class_names(dataset, options->class_names, err));
    if (options->padding)
        STK_TRY(stk__dataset_pad(dataset, options->padding, err));
    return STK_OK;
}
