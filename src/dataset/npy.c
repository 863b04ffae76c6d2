/* SPDX-License-Identifier: Apache-2.0 */
/* npy: samples along the first axis of a NumPy file; a folder of files is npy_folder.c. */
#include "dataset/npy.h"
#include "dataset/rows.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "dataset/widen.h"

#define HEAD_GUESS  4096u /* bytes read first: the header of nearly every file */
#define PIECE       4096u /* bytes of labels widened at a time */
#define BLOCK_BYTES 65536u

static const stk_option npy_option_list[] = {
    {"labels", STK_OPTION_STRING, offsetof(stk__npy_options, labels), NULL, 0, 0, NULL, "FILE",
     "File of one entry for each sample, integers or floats of any shape; without a '/' in it, "
     "next "
     "to the data."},
    {"allow_trailing", STK_OPTION_BOOL, offsetof(stk__npy_options, allow_trailing), "false", 0, 0,
     NULL, NULL, "Accept files that are longer than their header says."},
    {"memory", STK_OPTION_BOOL, offsetof(stk__npy_options, memory), "false", 0, 0, NULL, NULL,
     "Read the file into memory when opening."},
};

static const stk_option_table npy_table = {
    "npy", "NumPy files: one of many samples, or a folder of one for each sample.",
    sizeof(stk__npy_options), npy_option_list, STK_COUNT(npy_option_list)};

typedef struct npy {
    stk_dataset base;
    stk_store *store;
    stk_field fields[2];
    stk__object file;
    stk__npy_header header;
    uint64_t sample_bytes;
    void *labels;                      /* one for each sample, of fields[1]; NULL: none */
    uint64_t label_count, label_bytes; /* elements of all; bytes of one sample's */
} npy;

stk_status stk__npy_read_header(stk_store *store, const stk__object *object, bool trailing,
                                stk__npy_header *out, uint64_t *print, stk_error *err)
{
    stk_context *ctx = store->context;
    uint64_t first = STK_MIN(object->size, HEAD_GUESS);
    uint64_t length = 0;

    unsigned char *head = stk__alloc(ctx, STK_NPY_HEADER_MAX);
    if (!head)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, object->key, STK_NO_OFFSET,
                            "no memory for the header of %s", object->key);
    stk_status status = STK_OK;
    if (first)
        status = stk__object_read(store, object, 0, first, head, err);
    if (status == STK_OK)
        status = stk__npy_measure(head, STK_MIN(first, STK_NPY_PREAMBLE), object->size, object->key,
                                  &length, err);
    if (status == STK_OK && length > first)
        status = stk__object_read(store, object, first, length - first, head + first, err);
    if (status == STK_OK)
        status = stk__npy_parse(head, length, object->size, trailing, object->key, out, err);
    if (status == STK_OK && print)
        *print = stk__fingerprint(*print, head, first);
    stk__free(ctx, head);
    return status;
}

stk_field stk__npy_field(stk_dtype dtype, const int64_t *shape, uint32_t rank)
{
    int64_t ended[STK_MAX_RANK + 1];
    bool picture = dtype == STK_UINT8 && rank == 3 && shape[0] > 0 && shape[1] > 0 &&
                   (shape[2] == 1 || shape[2] == 3 || shape[2] == 4);

    memcpy(ended, shape, rank * sizeof *shape);
    ended[rank] = -1;
    return stk__field(picture ? "image" : "data", dtype, ended, picture);
}

/* ---- Labels -----------------------------------------------------------------------------------
 */

/* Integers become int64 and float16 float32; float32 and float64 stay. */
static stk_dtype label_type(stk_dtype dtype)
{
    if (dtype >= STK_BOOL && dtype <= STK_INT64)
        return STK_INT64;
    if (dtype == STK_FLOAT16 || dtype == STK_FLOAT32)
        return STK_FLOAT32;
    return dtype == STK_FLOAT64 ? STK_FLOAT64 : STK_DTYPE_NONE;
}

/* Bring `n` labels into their field's type; the first that does not fit, or `n`. */
static size_t convert_labels(const unsigned char *from, stk_dtype dtype, size_t n, void *to)
{
    const bool unsigned64 = dtype == STK_UINT64;
    stk__dataset_widen_fn *widen = stk__widen_c(unsigned64 ? STK_INT64 : dtype);
    float *floats = to;

    if (widen)
        widen(from, n, to);
    else if (dtype == STK_FLOAT16)
        for (size_t i = 0; i < n; i++)
            floats[i] = (float)stk__element_as_double(from + i * sizeof(uint16_t), dtype);
    else
        memcpy(to, from, n * stk_dtype_size(dtype));
    for (size_t i = 0; unsigned64 && i < n; i++)
        if (((const int64_t *)to)[i] < 0)
            return i;
    return n;
}

/* One entry for each sample, of integers or floats; further dimensions of 1 are left out. */
static stk_status check_labels(npy *d, const stk__object *file, const stk__npy_header *h,
                               stk_error *err)
{
    char shape[256];
    bool flat = true;
    const int64_t scalar[] = {-1};
    int64_t ended[STK_MAX_RANK + 1];
    const uint64_t count = (uint64_t)d->header.shape[0];

    stk__shape_tuple(h->shape, h->rank, shape, sizeof shape);
    if (label_type(h->dtype) == STK_DTYPE_NONE)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key, 0,
                            "the labels in %s are %s; they have to be integers or floats",
                            file->key, stk_dtype_name(h->dtype));
    if (h->rank < 1 || (uint64_t)h->shape[0] != count)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key, 0,
                            "the labels in %s are of shape %s and %s has %llu samples: one label "
                            "for each is needed",
                            file->key, shape, d->file.key, (unsigned long long)count);
    if (h->bytes == 0 || (h->fortran && h->rank > 1))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key, 0,
                            "the labels in %s are of shape %s%s", file->key, shape,
                            h->bytes ? " and in Fortran order, in which no label lies in one "
                                       "piece; save them with numpy.ascontiguousarray()"
                                     : " and hold nothing");
    for (uint32_t i = 1; i < h->rank; i++) {
        flat = flat && h->shape[i] == 1;
        ended[i - 1] = h->shape[i];
    }
    ended[h->rank - 1] = -1;
    d->fields[1] = stk__field("label", label_type(h->dtype), flat ? scalar : ended, false);
    d->label_bytes = stk_field_bytes(&d->fields[1]);
    d->label_count = h->bytes / stk_dtype_size(h->dtype);
    return STK_OK;
}

static stk_status read_labels(npy *d, stk_store *store, stk__object *file, const stk__npy_header *h,
                              stk_error *err)
{
    stk_context *ctx = d->base.context;
    const uint64_t count = d->label_count;
    uint64_t bytes = 0;
    const size_t size = stk_dtype_size(h->dtype), kept = stk_dtype_size(d->fields[1].dtype);
    unsigned char piece[PIECE];

    if (!stk__mul_size(count, kept, &bytes) || bytes > stk__memory_left(ctx))
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, file->key, STK_NO_OFFSET,
                            "%llu labels do not fit what is left of memory_limit",
                            (unsigned long long)count);
    STK_TRY(stk__object_load(store, file, err));
    d->labels = stk__alloc(ctx, bytes);
    if (!d->labels)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, file->key, STK_NO_OFFSET,
                            "no memory for %llu labels", (unsigned long long)count);
    for (uint64_t at = 0; at < count;) {
        const size_t n = (size_t)STK_MIN(count - at, sizeof piece / size);
        STK_TRY(stk__object_read(store, file, h->offset + at * size, n * size, piece, err));
        if (h->swap)
            stk__npy_swap(piece, piece, n * size, h->swap);
        const size_t bad = convert_labels(piece, h->dtype, n, (char *)d->labels + at * kept);
        if (bad < n)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key,
                                h->offset + (at + bad) * size,
                                "label %llu in %s is beyond 2^63 - 1; labels are int64",
                                (unsigned long long)(at + bad), file->key);
        at += n;
    }
    return STK_OK;
}

/* Find the labels next to the data, or where their own path says, and read them. */
static stk_status open_labels(npy *d, const char *labels, bool trailing, stk_error *err)
{
    stk_context *ctx = d->base.context;
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *own = NULL;
    stk_store *store = d->store;
    stk__object file;
    stk__npy_header header;
    bool found = false;

    if (strchr(labels, '/')) {
        STK_TRY(stk_store_open(ctx, labels, &own, key, sizeof key, err));
        store = own;
    } else {
        snprintf(key, sizeof key, "%s", labels);
    }
    stk_status status = key[0] ? stk__object_find(store, key, &file, &found, err) : STK_OK;
    if (status == STK_OK && !found)
        status = stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, labels, STK_NO_OFFSET,
                              "labels=%.200s is no file%s", labels,
                              own ? "" : " next to the data; give its path");
    if (status == STK_OK)
        status = stk__npy_read_header(store, &file, trailing, &header, NULL, err);
    if (status == STK_OK)
        status = check_labels(d, &file, &header, err);
    if (status == STK_OK)
        status = read_labels(d, store, &file, &header, err);
    if (found)
        stk__object_release(ctx, &file);
    stk_store_close(&own);
    return status;
}

/* ---- The dataset ------------------------------------------------------------------------------
 */

static void npy_close(stk_dataset *dataset)
{
    npy *d = (npy *)dataset;
    stk_context *ctx = d->base.context;

    stk__object_release(ctx, &d->file);
    stk_store_close(&d->store);
    stk__free(ctx, d->labels);
    stk__free(ctx, d);
}

/* The shape as that of samples along the first axis. */
static stk_status check_shape(const npy *d, stk_error *err)
{
    const stk__npy_header *h = &d->header;
    const char *key = d->file.key;
    char shape[256];

    stk__shape_tuple(h->shape, h->rank, shape, sizeof shape);
    if (h->rank == 0)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                            "%s is a single number: samples lie along the first axis, and it has "
                            "none",
                            key);
    if (h->bytes == 0)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                            "%s is of shape %s and holds nothing; give a file with samples", key,
                            shape);
    if (h->fortran && h->rank > 1)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, key, 0,
                            "%s of shape %s is in Fortran order, in which no sample lies in one "
                            "piece; save it with numpy.ascontiguousarray()",
                            key, shape);
    return STK_OK;
}

static stk_status open_data(npy *d, const stk__npy_options *o, uint64_t *print, stk_error *err)
{
    STK_TRY(o->memory ? stk__object_load(d->store, &d->file, err)
                      : stk__object_map(d->store, &d->file, err));
    STK_TRY(stk__npy_read_header(d->store, &d->file, o->allow_trailing, &d->header, print, err));
    STK_TRY(check_shape(d, err));
    d->sample_bytes = d->header.bytes / (uint64_t)d->header.shape[0];
    if (o->labels && o->labels[0])
        STK_TRY(open_labels(d, o->labels, o->allow_trailing, err));
    return STK_OK;
}

static int64_t npy_label(const stk_dataset *dataset, uint64_t index)
{
    return ((const int64_t *)((const npy *)dataset)->labels)[index];
}

static void fill_head(npy *d, uint64_t print)
{
    const stk__npy_header *h = &d->header;
    uint64_t count = (uint64_t)h->shape[0];

    d->fields[0] = stk__npy_field(h->dtype, h->shape + 1, h->rank - 1);
    stk__dataset_init(&d->base, &stk__dataset_npy, d->base.context, count, d->fields,
                      d->labels ? 2 : 1);
    if (d->labels)
        print = stk__fingerprint(print, d->labels, count * d->label_bytes);
    d->base.fingerprint = stk__fingerprint(d->base.fingerprint, &print, sizeof print);
    if (d->labels && d->fields[1].dtype == STK_INT64 && d->fields[1].rank == 0)
        d->base.label = npy_label;
    d->base.block_size = STK_MAX(BLOCK_BYTES / d->sample_bytes, 1);
    d->base.held_bytes = stk__object_held(&d->file) + count * d->label_bytes;
    d->base.cost_ns = 100 + (h->swap ? 0.2 * (double)d->sample_bytes : 0);
}

static stk_status open_file(stk_context *ctx, stk_store *store, const char *key,
                            const stk__npy_options *o, stk_dataset **out, stk_error *err)
{
    bool found = false;
    uint64_t print = stk__fingerprint(0, "npy", 3);

    npy *d = stk__calloc(ctx, 1, sizeof *d);
    if (!d) {
        stk_store_close(&store);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "npy: no memory to open %.200s", key);
    }
    d->base.context = ctx;
    d->store = store;
    stk_status status = stk__object_find(store, key, &d->file, &found, err);
    if (status == STK_OK && !found)
        status = stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                              "npy: there is no file %s; check the name", key);
    if (status == STK_OK)
        status = open_data(d, o, &print, err);
    if (status != STK_OK) {
        npy_close(&d->base);
        return status;
    }
    fill_head(d, print);
    *out = &d->base;
    return STK_OK;
}

static stk_status npy_open(stk_context *ctx, const char *url, const void *options,
                           stk_dataset **out, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;

    *out = NULL;
    STK_TRY(stk_store_open(ctx, url, &store, key, sizeof key, err));
    if (key[0])
        return open_file(ctx, store, key, options, out, err);
    return stk__npy_folder_open(ctx, store, url, options, out, err);
}

static int npy_recognise(stk_context *ctx, const char *url)
{
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;
    stk__object file;
    unsigned char head[sizeof magic];
    bool found = false;
    int sure = 0;

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    if (status == STK_OK && !key[0]) {
        sure = stk__npy_folder_recognise(store);
        if (sure > 0 && stk__npz_named(ctx, url))
            sure = 1; /* rows of its members, not a sample each */
    } else if (status == STK_OK) {
        status = stk__object_find(store, key, &file, &found, NULL);
        found = status == STK_OK && found && file.size >= sizeof head;
        if (found)
            status = stk_store_read(store, key, 0, sizeof head, head, NULL);
        if (found && status == STK_OK)
            sure = memcmp(head, magic, sizeof magic) == 0 ? 2 : 0;
    }
    stk_store_close(&store);
    return sure ? sure : stk__dataset_unsure(status);
}

static stk_status npy_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                             stk_locator *to, stk_error *err)
{
    const npy *d = (const npy *)dataset;

    return stk__object_locate(&d->file, d->header.offset, d->sample_bytes, d->sample_bytes, indices,
                              n, to);
}

static size_t npy_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                         size_t size)
{
    npy *d = (npy *)dataset;

    *store = d->store;
    return stk__object_copy_key(key, size, d->file.key);
}

static void npy_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const npy *d = (const npy *)dataset;
    uint64_t bytes = d->sample_bytes;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        const void *data =
            d->file.data ? d->file.data + d->header.offset + s->index * bytes : s->needs[0].data;
        if (d->header.swap) {
            stk__npy_swap(data, s->values[0].out, bytes, d->header.swap);
            data = s->values[0].out;
        }
        s->values[0].data = data;
        s->values[0].size = bytes;
        if (!d->labels)
            continue;
        s->values[1].data = (const char *)d->labels + s->index * d->label_bytes;
        s->values[1].size = d->label_bytes;
    }
}

static stk_status npy_describe(stk_dataset *dataset,
                               void (*line)(void *user, const char *name, const char *value),
                               void *user, stk_error *err)
{
    const npy *d = (const npy *)dataset;
    const stk__npy_header *h = &d->header;
    char text[256];

    line(user, "file", d->file.key);
    stk__shape_tuple(h->shape, h->rank, text, sizeof text);
    line(user, "array", text);
    line(user, "dtype", stk_dtype_name(h->dtype));
    if (stk_dtype_size(h->dtype) > 1)
        line(user, "byte order", h->swap ? "big endian, swapped" : "little endian");
    line(user, "kept in", d->file.data ? "memory" : "the store, read by range");
    if (!d->labels) {
        line(user, "labels", "none (labels=FILE gives them)");
        return STK_OK;
    }
    const stk_dtype dtype = d->fields[1].dtype;
    const size_t size = stk_dtype_size(dtype);
    double least = INFINITY, most = -INFINITY;
    for (uint64_t i = 0; i < d->label_count; i++) {
        const double value = stk__element_as_double((const char *)d->labels + i * size, dtype);
        least = STK_MIN(value, least);
        most = STK_MAX(value, most);
    }
    if (dtype == STK_INT64)
        snprintf(text, sizeof text, "%.0f to %.0f", least, most);
    else
        snprintf(text, sizeof text, "%s, %g to %g", stk_dtype_name(dtype), least, most);
    line(user, "labels", text);
    return STK_OK;
}

const stk_dataset_ops stk__dataset_npy = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "npy",
    .doc = "NumPy files: samples along the first axis of one, or a folder of one for each sample.",
    .options = &npy_table,
    .open = npy_open,
    .recognise = npy_recognise,
    .close = npy_close,
    .locate = npy_locate,
    .object = npy_object,
    .prepare = npy_prepare,
    .describe = npy_describe,
};
