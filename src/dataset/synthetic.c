/* SPDX-License-Identifier: Apache-2.0 */
/*
 * synthetic: samples made up, with planted work. Without work a sample costs a memcpy, so that what
 * is measured is the loader; with delays, CPU time, failures and reads it behaves as the data set
 * that is to be understood.
 *
 * A value is a template shared by all samples with the index, scrambled, in its first 8 bytes;
 * where the sample reads from a store, a hash of the bytes read is mixed in, so that wrong bytes
 * show.
 */
#include "dataset/synthetic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dataset/object.h"
#include "dataset/view.h"

#define NUM_LABELS  10
#define MAX_OBJECTS 65536
/* What is put into an empty mem: store to read from. */
#define MADE_BYTES (UINT64_C(16) << 20)
/* Work of copying: a start and 10 bytes a nanosecond. */
#define COPY_START_NS 20.0
#define COPY_BYTE_NS  0.1

#define OFFSET(member) offsetof(stk__synthetic_options, member)

static const stk_option synthetic_option_list[] = {
    {"size", STK_OPTION_UINT, OFFSET(size), "60000", 1, 0x1p48, NULL, "N", "Number of samples."},
    {"seed", STK_OPTION_UINT, OFFSET(seed), "0", 0, 0, NULL, "N",
     "Another seed gives other values and plants the work elsewhere."},
    {"shape", STK_OPTION_STRING, OFFSET(shape), "28x28x1", 0, 0, NULL, "HxWxC",
     "Shape of the first field; three dimensions make it a picture."},
    {"dtype", STK_OPTION_STRING, OFFSET(dtype), "uint8", 0, 0, NULL, "TYPE",
     "Type of its elements, by NumPy's name."},
    {"label", STK_OPTION_BOOL, OFFSET(label), "true", 0, 0, NULL, NULL,
     "A field `label`, int64: the index modulo 10."},
    {"ragged", STK_OPTION_STRING, OFFSET(ragged), NULL, 0, 0, NULL, "MIN..MAX",
     "A field `values` of that many elements."},
    {"value_bytes", STK_OPTION_STRING, OFFSET(value_bytes), NULL, 0, 0, NULL, "MIN..MAX",
     "A field `value` of that many encoded bytes."},
    {"delay", STK_OPTION_DURATION, OFFSET(delay), "0", 0, 3600, NULL, NULL,
     "Mean time that preparing a sample sleeps."},
    {"distribution", STK_OPTION_ENUM, OFFSET(distribution), "constant", 0, 0,
     "constant|exponential|lognormal|pareto", NULL,
     "Of the delay over the samples; log-normal with sigma 1, Pareto with alpha 2.5."},
    {"tail_share", STK_OPTION_DOUBLE, OFFSET(tail_share), "0", 0, 1, NULL, "SHARE",
     "Share of the samples that sleep tail_delay instead."},
    {"tail_delay", STK_OPTION_DURATION, OFFSET(tail_delay), "0", 0, 3600, NULL, NULL,
     "Time that the samples of the tail sleep."},
    {"cpu", STK_OPTION_DURATION, OFFSET(cpu), "0", 0, 3600, NULL, NULL,
     "CPU time that preparing a sample burns."},
    {"fail", STK_OPTION_DOUBLE, OFFSET(fail), "0", 0, 1, NULL, "SHARE",
     "Share of the samples that are damaged for good (STK_EFORMAT)."},
    {"fail_transient", STK_OPTION_DOUBLE, OFFSET(fail_transient), "0", 0, 1, NULL, "SHARE",
     "Share of the samples that fail with an error worth trying again (STK_EIO), each time."},
    {"read_bytes", STK_OPTION_SIZE, OFFSET(read_bytes), "0", 0, 0x1p30, NULL, NULL,
     "Bytes that a sample reads from the store of the URL, as "
     "synthetic:slow+mem://x?read_bytes=64KiB."},
    {"block_size", STK_OPTION_UINT, OFFSET(block_size), "1", 1, 0x1p48, NULL, "N",
     "Neighbouring samples that count as stored together."},
    {"cost_hint", STK_OPTION_BOOL, OFFSET(cost_hint), "false", 0, 0, NULL, NULL,
     "Tell the loader beforehand what each sample costs."},
};

static const stk_option_table synthetic_table = {
    "synthetic", "Samples made up, with planted work.", sizeof(stk__synthetic_options),
    synthetic_option_list, STK_COUNT(synthetic_option_list)};

typedef struct synthetic {
    stk_dataset base;
    stk_field fields[4];
    stk__synthetic_options options; /* its texts are not valid after open */
    stk__span ragged, bytes;        /* elements; bytes */
    uint64_t itemsize;              /* of the elements of `ragged` */
    int ragged_field, bytes_field;  /* number, or -1 */
    int label_field;
    uint64_t base_mark; /* of the seed, added to the index before it is scrambled */
    uint64_t keep, set; /* bits of the first 8 bytes that may vary, and that are 1: finite floats */
    bool works;         /* anything but copying is to be done */
    uint8_t *template;  /* of the longest value */
    stk_store *store;   /* NULL: nothing is read */
    stk__object *objects; /* each holds `read_bytes` at least */
    uint64_t num_objects;
} synthetic;

/* ---- Values -------------------------------------------------------------------------------- */

/* A bijection of 64 bits that scrambles: the finalizer of splitmix64. */
static inline uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Which bits of 8 bytes of elements may be anything. Floats become 1 <= |x| < 2, bools 0 or 1. */
static void element_bits(stk_dtype dtype, uint64_t *keep, uint64_t *set)
{
    *keep = UINT64_MAX;
    *set = 0;
    switch (dtype) {
    case STK_BOOL:
        *keep = UINT64_C(0x0101010101010101);
        break;
    case STK_FLOAT16:
        *keep = UINT64_C(0x03FF03FF03FF03FF);
        *set = UINT64_C(0x3C003C003C003C00);
        break;
    case STK_BFLOAT16:
        *keep = UINT64_C(0x007F007F007F007F);
        *set = UINT64_C(0x3F803F803F803F80);
        break;
    case STK_FLOAT32:
    case STK_COMPLEX64:
        *keep = UINT64_C(0x007FFFFF007FFFFF);
        *set = UINT64_C(0x3F8000003F800000);
        break;
    case STK_FLOAT64:
    case STK_COMPLEX128:
        *keep = UINT64_C(0x000FFFFFFFFFFFFF);
        *set = UINT64_C(0x3FF0000000000000);
        break;
    default:
        break;
    }
}

static inline void fill(const synthetic *s, stk_value *value, uint64_t size, uint64_t mark)
{
    memcpy(value->out, s->template, size);
    memcpy(value->out, &mark, size < sizeof mark ? size : sizeof mark);
    value->data = value->out;
    value->size = size;
}

static void fail_sample(stk_sample *sample, stk_status status, const char *reason)
{
    sample->status = status;
    sample->reason = reason;
}

/* Do the planted work; false when the sample is bad. */
static bool work_on(const synthetic *s, stk_sample *sample, uint64_t mark)
{
    stk__synthetic_work work;

    stk__synthetic_plan(&s->options, s->ragged, s->bytes, sample->index, &work);
    stk__synthetic_spend(&work);
    if (work.status != STK_OK) {
        fail_sample(sample, work.status,
                    work.status == STK_EIO ? "planted by fail_transient" : "planted by fail");
        return false;
    }
    uint64_t sizes[2] = {work.ragged * s->itemsize, work.bytes};
    int fields[2] = {s->ragged_field, s->bytes_field};
    for (int i = 0; i < 2; i++) {
        if (fields[i] < 0)
            continue;
        stk_value *value = &sample->values[fields[i]];
        if (value->capacity < sizes[i]) {
            fail_sample(sample, STK_EINTERNAL, "less room for a value than was asked for");
            return false;
        }
        fill(s, value, sizes[i], mark);
    }
    return true;
}

static void synthetic_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const synthetic *s = (const synthetic *)dataset;
    const uint64_t bytes = stk_field_bytes(&s->fields[0]);

    for (size_t i = 0; i < n; i++) {
        stk_sample *sample = &samples[i];
        uint64_t mark = scramble(sample->index + s->base_mark);

        if (s->store)
            mark ^= XXH3_64bits(sample->needs[0].data, sample->needs[0].size);
        mark = (mark & s->keep) | s->set;
        if (s->works && !work_on(s, sample, mark))
            continue;
        fill(s, &sample->values[0], bytes, mark);
        if (s->label_field < 0)
            continue;
        stk_value *label = &sample->values[s->label_field];
        int64_t name = (int64_t)(sample->index % NUM_LABELS);
        memcpy(label->out, &name, sizeof name);
        label->data = label->out;
    }
}

/* ---- Location ------------------------------------------------------------------------------ */

static stk_status synthetic_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                   stk_locator *to, stk_error *err)
{
    const synthetic *s = (const synthetic *)dataset;

    (void)err;
    for (size_t i = 0; i < n; i++) {
        if (s->store) {
            uint64_t length = s->options.read_bytes, object = indices[i] % s->num_objects;
            uint64_t place = indices[i] / s->num_objects % (s->objects[object].size / length);
            stk_need need = {.object = object, .offset = place * length, .length = length};
            STK_TRY(to->add(to, i, &need));
        }
        if (!s->works)
            continue;
        stk__synthetic_work work;
        stk__synthetic_plan(&s->options, s->ragged, s->bytes, indices[i], &work);
        if (s->options.cost_hint)
            to->cost(to, i, COPY_START_NS + (work.delay + work.cpu) * 1e9);
        if (s->ragged_field >= 0)
            to->bytes(to, i, (uint32_t)s->ragged_field, work.ragged * s->itemsize);
        if (s->bytes_field >= 0)
            to->bytes(to, i, (uint32_t)s->bytes_field, work.bytes);
    }
    return STK_OK;
}

static size_t synthetic_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                               size_t size)
{
    const synthetic *s = (const synthetic *)dataset;

    *store = s->store;
    return stk__object_copy_key(key, size, object < s->num_objects ? s->objects[object].key : "");
}

/* ---- The store read from ------------------------------------------------------------------- */

/* Gathers the files of a folder that are long enough. */
typedef struct gatherer {
    synthetic *s;
    uint64_t room;
    stk_status failed;
} gatherer;

static stk_status gather(void *user, const char *key, const stk_object_info *info)
{
    gatherer *g = user;
    synthetic *s = g->s;
    stk__object object = {.size = info->size};

    if (info->is_folder || info->size < s->options.read_bytes || strlen(key) >= sizeof object.key)
        return STK_OK;
    if (s->num_objects == MAX_OBJECTS) {
        g->failed = STK_ELIMIT;
        return g->failed;
    }
    stk__object *objects = stk__grow(s->base.context, s->objects, &g->room,
                                     (uint64_t)s->num_objects + 1, sizeof *objects);
    if (!objects) {
        g->failed = STK_ENOMEM;
        return g->failed;
    }
    s->objects = objects;
    memcpy(object.key, key, strlen(key) + 1);
    s->objects[s->num_objects++] = object;
    return STK_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const stk__object *)a)->key, ((const stk__object *)b)->key);
}

/* Put an object into the mem: store that `url` ends in, for there is nothing else that could be
 * read. */
static stk_status make_object(synthetic *s, const char *url, stk_error *err)
{
    stk_context *ctx = s->base.context;
    uint64_t length = s->options.read_bytes;
    char *inner = stk__strdup(ctx, strstr(url, "mem://"));
    stk_store *mem = NULL;
    char key[64];

    uint64_t count = STK_MAX(STK_MIN(s->base.size, MADE_BYTES / length), 1);
    uint64_t *data = stk__alloc_buffer(ctx, (size_t)stk__round_up(length * count, 8));
    stk_status status = STK_ENOMEM;
    if (!inner || !data) {
        stk__fail(err, status, STK_STAGE_DATASET, "no memory for %" PRIu64 " bytes to read from",
                  length * count);
        goto out;
    }
    inner[strcspn(inner, "?")] = 0;
    for (uint64_t i = 0; i < (length * count + 7) / 8; i++)
        data[i] = scramble(i + 1);
    status = stk_store_open(ctx, inner, &mem, NULL, 0, err);
    if (status != STK_OK)
        goto out;
    snprintf(key, sizeof key, "synthetic-%" PRIu64, length);
    status = stk_store_put(mem, key, data, (size_t)(length * count), NULL, err);
out:
    stk_store_close(&mem);
    stk__free(ctx, data);
    stk__free(ctx, inner);
    return status;
}

static stk_status gather_folder(synthetic *s, const char *url, stk_error *err)
{
    gatherer g = {.s = s};
    stk_status status = stk_store_list(s->store, "", NULL, gather, &g, err);

    if (status == STK_OK && s->num_objects == 0 && strstr(url, "mem://")) {
        STK_TRY(make_object(s, url, err));
        status = stk_store_list(s->store, "", NULL, gather, &g, err);
    }
    if (g.failed != STK_OK)
        return stk__fail_at(err, g.failed, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "no room to note the files of '%.200s'; %d are the most", url,
                            MAX_OBJECTS);
    STK_TRY(status);
    if (s->num_objects == 0)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "'%.200s' holds no file of read_bytes=%" PRIu64
                            " or more; give a larger file, "
                            "or mem://x to have one made",
                            url, s->options.read_bytes);
    /* A listing comes in no order. */
    qsort(s->objects, (size_t)s->num_objects, sizeof *s->objects, by_key);
    return STK_OK;
}

static stk_status open_store(synthetic *s, const char *url, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk__object object = {0};
    bool found = false;

    STK_TRY(stk_store_open(s->base.context, url, &s->store, key, sizeof key, err));
    if (!key[0])
        return gather_folder(s, url, err);
    STK_TRY(stk__object_find(s->store, key, &object, &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "there is no file '%.200s' to read from", url);
    if (object.size < s->options.read_bytes)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "read_bytes=%" PRIu64 ", but '%.200s' has %" PRIu64 " bytes only",
                            s->options.read_bytes, url, object.size);
    s->objects = stk__calloc(s->base.context, 1, sizeof *s->objects);
    if (!s->objects)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open '%.200s'", url);
    s->objects[s->num_objects++] = object;
    return STK_OK;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static stk_status check_options(const stk__synthetic_options *o, const char *url, stk_error *err)
{
    const char *name = NULL, *why = "";

    if (o->tail_delay > 0 && !(o->tail_share > 0))
        name = "tail_delay", why = "does nothing without tail_share; give both";
    else if (o->tail_share > 0 && !(o->tail_delay > 0))
        name = "tail_share", why = "needs tail_delay; give both";
    else if (o->distribution != STK_CONSTANT && !(o->delay > 0))
        name = "distribution", why = "does nothing without delay; give both";
    else if (o->cost_hint && !(o->delay > 0 || o->tail_share > 0 || o->cpu > 0))
        name = "cost_hint", why = "does nothing without delay, tail_delay or cpu; leave it out";
    else if (o->fail + o->fail_transient > 1)
        name = "fail", why = "and fail_transient are shares of all samples and sum to more than 1";
    else if (o->read_bytes > 0 && !*url)
        name = "read_bytes",
        why = "needs a store to read from; give one, as synthetic:mem://x?read_bytes=64KiB";
    else if (o->read_bytes == 0 && *url)
        name = "read_bytes",
        why = "is missing: it says how much each sample reads from the store that is given";
    if (name)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, name, STK_NO_OFFSET, "%s %s", name,
                            why);
    return STK_OK;
}

/* Field `*count` of varying size; returns its number. */
static int add_field(synthetic *s, uint32_t *count, const char *name, stk_dtype dtype,
                     stk_layout layout)
{
    stk_field *field = &s->fields[*count];

    *field = stk__field(name, dtype, (const int64_t[]){-1}, false);
    field->layout = layout;
    if (layout != STK_FIXED) {
        field->rank = 1;
        field->shape[0] = -1;
    }
    return (int)(*count)++;
}

static stk_status make_fields(synthetic *s, uint32_t *count, stk_error *err)
{
    const stk__synthetic_options *o = &s->options;
    stk_dtype dtype = stk_dtype_parse(o->dtype);

    if (dtype == STK_DTYPE_NONE)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_OPTIONS, "dtype", STK_NO_OFFSET,
            "dtype=%.100s is no type of elements; give one by NumPy's name, as uint8 or float32",
            o->dtype);
    s->itemsize = stk_dtype_size(dtype);
    element_bits(dtype, &s->keep, &s->set);
    s->fields[0].dtype = dtype;
    STK_TRY(stk__synthetic_shape(o->shape, &s->fields[0], err));
    *count = 1;
    if (o->label)
        s->label_field = add_field(s, count, "label", STK_INT64, STK_FIXED);
    if (o->ragged) {
        STK_TRY(stk__synthetic_span("ragged", o->ragged, s->itemsize, &s->ragged, err));
        s->ragged_field = add_field(s, count, "values", dtype, STK_RAGGED);
    }
    if (o->value_bytes) {
        STK_TRY(stk__synthetic_span("value_bytes", o->value_bytes, 1, &s->bytes, err));
        s->bytes_field = add_field(s, count, "value", STK_UINT8, STK_BYTES);
    }
    return STK_OK;
}

static stk_status make_template(synthetic *s, stk_error *err)
{
    uint64_t bytes = STK_MAX(stk_field_bytes(&s->fields[0]), s->ragged.high * s->itemsize);

    bytes = stk__round_up(STK_MAX(bytes, s->bytes.high), 8);
    s->template = stk__alloc_buffer(s->base.context, (size_t)bytes);
    if (!s->template)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET,
                         "no memory for a sample of %" PRIu64 " bytes", bytes);
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = (scramble(s->options.seed + i) & s->keep) | s->set;
        memcpy(s->template + i, &word, sizeof word);
    }
    return STK_OK;
}

static void synthetic_close(stk_dataset *dataset)
{
    synthetic *s = (synthetic *)dataset;

    stk_store_close(&s->store);
    stk__free(dataset->context, s->objects);
    stk__free(dataset->context, s->template);
    stk__free(dataset->context, s);
}

static uint64_t fingerprint(const synthetic *s)
{
    const stk__synthetic_options *o = &s->options;
    uint64_t numbers[7] = {o->seed,       s->ragged.low, s->ragged.high, s->bytes.low,
                           s->bytes.high, o->read_bytes, s->num_objects};
    double shares[2] = {o->fail, o->fail_transient};
    uint64_t so_far = stk__fingerprint(s->base.fingerprint, numbers, sizeof numbers);

    for (uint64_t i = 0; i < s->num_objects; i++) {
        so_far = stk__fingerprint(so_far, s->objects[i].key, strlen(s->objects[i].key));
        so_far = stk__fingerprint(so_far, &s->objects[i].size, sizeof s->objects[i].size);
    }
    return stk__fingerprint(so_far, shares, sizeof shares);
}

/* Options that neither this kind nor the store knows, before what is missing: a name is misspelt.
 */
static stk_status check_query(stk_context *ctx, const char *url, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, err);
    stk_store_close(&store);
    return status;
}

static stk_status synthetic_open(stk_context *ctx, const char *url, const void *options,
                                 stk_dataset **out, stk_error *err)
{
    const stk__synthetic_options *o = options;
    uint32_t num_fields = 0;

    if (*url == 0 || *url == '?')
        STK_TRY(stk__refuse_query(&synthetic_table, url, err));
    else if (!o->read_bytes && strchr(url, '?'))
        STK_TRY(check_query(ctx, url, err));
    STK_TRY(check_options(o, url, err));
    synthetic *s = stk__calloc(ctx, 1, sizeof *s);
    if (!s)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for synthetic:");
    s->options = *o;
    s->base.context = ctx;
    s->base.size = o->size;
    s->base_mark = scramble(o->seed);
    s->label_field = s->ragged_field = s->bytes_field = -1;
    stk_status status = make_fields(s, &num_fields, err);
    if (status == STK_OK)
        status = make_template(s, err);
    if (status == STK_OK && o->read_bytes)
        status = open_store(s, url, err);
    if (status != STK_OK) {
        synthetic_close(&s->base);
        return status;
    }
    bool varies = s->ragged_field >= 0 || s->bytes_field >= 0;
    s->works = varies || o->delay > 0 || o->tail_share > 0 || o->cpu > 0 || o->fail > 0 ||
               o->fail_transient > 0;
    bool located = varies || s->store || o->cost_hint;
    stk__dataset_init(&s->base, located ? &stk__dataset_synthetic : &stk__synthetic_unlocated, ctx,
                      o->size, s->fields, num_fields);
    s->base.fingerprint = fingerprint(s);
    s->base.block_size = o->block_size;
    s->base.cost_ns =
        COPY_START_NS + COPY_BYTE_NS * (double)stk_field_bytes(&s->fields[0]) +
        (o->cpu + o->delay * (1 - o->tail_share) + o->tail_delay * o->tail_share) * 1e9;
    *out = &s->base;
    return STK_OK;
}

static stk_status synthetic_describe(stk_dataset *dataset,
                                     void (*line)(void *user, const char *name, const char *value),
                                     void *user, stk_error *err)
{
    const synthetic *s = (const synthetic *)dataset;
    char text[64];

    (void)err;
    for (size_t i = 0; i < STK_COUNT(synthetic_option_list); i++) {
        const stk_option *option = &synthetic_option_list[i];
        if (option->type == STK_OPTION_STRING)
            continue; /* the fields say it, and the text is gone */
        stk_options_format(option, &s->options, text, sizeof text);
        line(user, option->name, text);
    }
    return STK_OK;
}

#define SYNTHETIC_OPS                                                                              \
    .struct_size = sizeof(stk_dataset_ops), .name = "synthetic",                                   \
    .doc = "Samples made up, with planted delays, work, failures and reads.",                      \
    .options = &synthetic_table, .open = synthetic_open, .close = synthetic_close,                 \
    .prepare = synthetic_prepare, .describe = synthetic_describe

/* The same functions, for when there is nothing to locate: the loader sees that by the missing
 * function. */
const stk_dataset_ops stk__synthetic_unlocated = {SYNTHETIC_OPS};

const stk_dataset_ops stk__dataset_synthetic = {
    SYNTHETIC_OPS,
    .locate = synthetic_locate,
    .object = synthetic_object,
};
