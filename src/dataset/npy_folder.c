/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy: a folder of one NumPy file for each sample. Files in folders of their own are labelled by
 * the folder: its place among the sorted names. All files must agree in type and shape; the first
 * one says which, the others are checked when they are prepared.
 */
#include "dataset/npy.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

#define MAX_FILES      (UINT64_C(1) << 27)
#define NAME_MAX_BYTES 255u

/* A name of the listing: 24 bytes and the name itself. */
typedef struct entry {
    uint64_t name; /* where it begins in `text` */
    uint64_t size; /* bytes of the file */
    uint32_t label;
} entry;

typedef struct listing {
    stk_context *context;
    char *text; /* names, each ended by 0 */
    uint64_t text_used, text_room;
    entry *entries;
    uint64_t count, room;
} listing;

typedef struct folder {
    stk_dataset base;
    stk_store *store;
    stk_field fields[2];
    listing files;   /* sorted by label, then name */
    listing classes; /* sorted; none: the files have no labels */
    const char **class_names;
    stk__npy_header header; /* of the first file, as all must be */
    unsigned char *head;    /* its bytes */
    uint64_t head_file;     /* size of its file */
    bool trailing;
} folder;

/* ---- Listing ----------------------------------------------------------------------------------
 */

static stk_status no_memory(uint64_t files, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for the names of %llu files",
                     (unsigned long long)files);
}

static stk_status add_entry(listing *l, const char *name, size_t length, uint64_t size,
                            uint32_t label, stk_error *err)
{
    if (l->count == MAX_FILES || length > NAME_MAX_BYTES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_DATASET,
                         "npy: %s is beyond the %llu files of names of %u bytes that are listed; "
                         "put many samples into one file",
                         name, (unsigned long long)MAX_FILES, NAME_MAX_BYTES);
    char *text =
        stk__grow(l->context, l->text, &l->text_room, l->text_used + length + 1, sizeof *text);
    if (text)
        l->text = text;
    entry *entries = stk__grow(l->context, l->entries, &l->room, l->count + 1, sizeof *entries);
    if (entries)
        l->entries = entries;
    if (!text || !entries)
        return no_memory(l->count + 1, err);
    memcpy(l->text + l->text_used, name, length);
    l->text[l->text_used + length] = 0;
    l->entries[l->count++] = (entry){l->text_used, size, label};
    l->text_used += length + 1;
    return STK_OK;
}

static void release(listing *l)
{
    stk__free(l->context, l->text);
    stk__free(l->context, l->entries);
}

static const char *name_of(const listing *l, uint64_t i)
{
    return l->text + l->entries[i].name;
}

static int by_name(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + ((const entry *)a)->name,
                  (const char *)text + ((const entry *)b)->name);
}

static void sort(listing *l, uint64_t first)
{
    if (l->count - first > 1)
        qsort_r(l->entries + first, l->count - first, sizeof *l->entries, by_name, l->text);
}

static bool is_npy(const char *name, size_t length)
{
    return length > 4 && !memcmp(name + length - 4, ".npy", 4);
}

/* What one listing collects. */
typedef struct collector {
    folder *to;
    uint32_t label;
    bool inside; /* a class folder */
    stk_error *err;
} collector;

static stk_status collect(void *user, const char *key, const stk_object_info *info)
{
    collector *c = user;
    size_t length = 0;
    const char *name = stk__object_name(key, &length);

    if (!length || name[0] == '.')
        return STK_OK;
    if (!info->is_folder)
        return is_npy(name, length)
                   ? add_entry(&c->to->files, name, length, info->size, c->label, c->err)
                   : STK_OK;
    if (!c->inside)
        return add_entry(&c->to->classes, name, length, 0, 0, c->err);
    return stk__fail_at(c->err, STK_EKIND, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                        "npy: %.300s is a folder in a class folder, and classes are one level "
                        "deep: name the folder that holds the classes, or move the files up",
                        key);
}

/* List one folder: `prefix` is "" or a class with its '/'. */
static stk_status list_folder(folder *d, const char *prefix, uint32_t label, stk_error *err)
{
    collector c = {d, label, prefix[0] != 0, err};
    uint64_t first = d->files.count;

    STK_TRY(stk_store_list(d->store, prefix, NULL, collect, &c, err));
    sort(&d->files, first);
    return STK_OK;
}

static stk_status list_classes(folder *d, const char *url, stk_error *err)
{
    char prefix[NAME_MAX_BYTES + 2];

    sort(&d->classes, 0);
    for (uint64_t c = 0; c < d->classes.count; c++) {
        uint64_t first = d->files.count;
        snprintf(prefix, sizeof prefix, "%s/", name_of(&d->classes, c));
        STK_TRY(list_folder(d, prefix, (uint32_t)c, err));
        if (d->files.count == first)
            return stk__fail_at(
                err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                "npy: the folder %s of %.200s holds no .npy file, so it is no class; "
                "fill it or remove it",
                name_of(&d->classes, c), url);
    }
    return STK_OK;
}

static stk_status list_all(folder *d, const char *url, stk_error *err)
{
    STK_TRY(list_folder(d, "", 0, err));
    if (d->files.count && d->classes.count)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
            "npy: %.200s holds .npy files (%s) and folders (%s): either all samples "
            "lie in class folders or none does",
            url, name_of(&d->files, 0), name_of(&d->classes, 0));
    if (!d->files.count)
        STK_TRY(list_classes(d, url, err));
    if (!d->files.count)
        return stk__fail_at(
            err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
            "npy: %.200s holds no .npy file and no class folder; name the folder that "
            "does",
            url);
    return STK_OK;
}

/* ---- The dataset ------------------------------------------------------------------------------
 */

static size_t file_key(const folder *d, uint64_t i, char *key, size_t size)
{
    const char *name = name_of(&d->files, i);

    if (!d->classes.count)
        return (size_t)snprintf(key, size, "%s", name);
    return (size_t)snprintf(key, size, "%s/%s", name_of(&d->classes, d->files.entries[i].label),
                            name);
}

/* Bytes to read of a file: no more than one of the right shape can have. */
static uint64_t need_length(const folder *d, uint64_t i)
{
    return STK_MIN(d->files.entries[i].size, d->header.bytes + STK_NPY_HEADER_MAX);
}

static void folder_close(stk_dataset *dataset)
{
    folder *d = (folder *)dataset;
    stk_context *ctx = d->base.context;

    release(&d->files);
    release(&d->classes);
    stk_store_close(&d->store);
    stk__free(ctx, d->class_names);
    stk__free(ctx, d->head);
    stk__free(ctx, d);
}

static stk_status read_first(folder *d, stk_error *err)
{
    stk_context *ctx = d->base.context;
    stk__object file = {.size = d->files.entries[0].size};
    const char *key = file.key;

    file_key(d, 0, file.key, sizeof file.key);
    STK_TRY(stk__npy_read_header(d->store, &file, d->trailing, &d->header, NULL, err));
    if (d->header.bytes == 0)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                            "%s holds no values; give files with samples", key);
    if (d->header.fortran && d->header.rank > 1)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, key, 0,
                            "%s is in Fortran order; save it with numpy.ascontiguousarray()", key);
    d->head_file = file.size;
    d->head = stk__alloc(ctx, d->header.offset);
    if (!d->head)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "no memory for the header of %s", key);
    return stk__object_read(d->store, &file, 0, d->header.offset, d->head, err);
}

static int64_t folder_label(const stk_dataset *dataset, uint64_t index)
{
    return ((const folder *)dataset)->files.entries[index].label;
}

static stk_status fill_head(folder *d, stk_error *err)
{
    const stk__npy_header *h = &d->header;
    uint64_t print = stk__fingerprint(0, "npy folder", 10);

    d->fields[0] = stk__npy_field(h->dtype, h->shape, h->rank);
    d->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    stk__dataset_init(&d->base, &stk__npy_folder, d->base.context, d->files.count, d->fields,
                      d->classes.count ? 2 : 1);
    d->base.cost_ns = 1000 + (h->swap ? 0.2 : 0.05) * (double)h->bytes;
    print = stk__fingerprint(print, &h->dtype, sizeof h->dtype);
    print = stk__fingerprint(print, h->shape, h->rank * sizeof h->shape[0]);
    for (uint64_t i = 0; i < d->files.count; i++) {
        const entry *e = &d->files.entries[i];
        print = stk__fingerprint(print, name_of(&d->files, i), strlen(name_of(&d->files, i)) + 1);
        print = stk__fingerprint(print, &e->size, sizeof e->size);
        print = stk__fingerprint(print, &e->label, sizeof e->label);
    }
    d->base.fingerprint = stk__fingerprint(d->base.fingerprint, &print, sizeof print);
    if (!d->classes.count)
        return STK_OK;
    d->base.label = folder_label;
    d->class_names = stk__calloc(d->base.context, d->classes.count, sizeof *d->class_names);
    if (!d->class_names)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory for %llu names of classes",
                         (unsigned long long)d->classes.count);
    for (uint64_t c = 0; c < d->classes.count; c++)
        d->class_names[c] = name_of(&d->classes, c);
    d->base.classes = d->class_names;
    d->base.num_classes = (uint32_t)d->classes.count;
    return STK_OK;
}

static stk_status check_options(const stk__npy_options *o, const char *url, stk_error *err)
{
    if (o->labels && o->labels[0])
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
            "npy: labels=%.200s goes with one file of samples and %.200s is a folder: put "
            "its files into one folder for each class",
            o->labels, url);
    if (o->memory)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
            "npy: memory=true goes with one file of samples and %.200s is a folder: "
            "the loader's cache=encoded keeps its files in memory",
            url);
    return STK_OK;
}

stk_status stk__npy_folder_open(stk_context *ctx, stk_store *store, const char *url,
                                const stk__npy_options *options, stk_dataset **out, stk_error *err)
{
    folder *d = stk__calloc(ctx, 1, sizeof *d);
    if (!d) {
        stk_store_close(&store);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "npy: no memory to open %.200s", url);
    }
    d->base.context = d->files.context = d->classes.context = ctx;
    d->store = store;
    d->trailing = options->allow_trailing;
    stk_status status = check_options(options, url, err);
    if (status == STK_OK)
        status = list_all(d, url, err);
    if (status == STK_OK)
        status = read_first(d, err);
    if (status == STK_OK)
        status = fill_head(d, err);
    if (status != STK_OK) {
        folder_close(&d->base);
        return status;
    }
    *out = &d->base;
    return STK_OK;
}

/* Ends at the first file. */
static stk_status first_file(void *user, const char *key, const stk_object_info *info)
{
    int *sure = user;
    size_t length = 0;
    const char *name = stk__object_name(key, &length);

    if (info->is_folder || name[0] == '.')
        return STK_OK;
    *sure = is_npy(name, length) ? 2 : 0;
    return STK_EOS;
}

static stk_status first_folder(void *user, const char *key, const stk_object_info *info)
{
    char *prefix = user;
    size_t length = strlen(key);

    if (!info->is_folder || key[0] == '.' || length > NAME_MAX_BYTES)
        return STK_OK;
    snprintf(prefix, NAME_MAX_BYTES + 2, "%s%s", key, key[length - 1] == '/' ? "" : "/");
    return STK_EOS;
}

int stk__npy_folder_recognise(stk_store *store)
{
    char prefix[NAME_MAX_BYTES + 2] = "";
    int sure = 0;

    stk_status status = stk_store_list(store, "", NULL, first_file, &sure, NULL);
    if (status == STK_OK)
        status = stk_store_list(store, "", NULL, first_folder, prefix, NULL);
    if (status == STK_EOS && *prefix)
        status = stk_store_list(store, prefix, NULL, first_file, &sure, NULL);
    return status < 0 ? stk__dataset_unsure(status) : sure;
}

static stk_status folder_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                                stk_locator *to, stk_error *err)
{
    const folder *d = (const folder *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_need need = {.object = indices[i], .offset = 0, .length = need_length(d, indices[i])};
        STK_TRY(to->add(to, i, &need));
    }
    return STK_OK;
}

static size_t folder_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                            size_t size)
{
    folder *d = (folder *)dataset;

    *store = d->store;
    return file_key(d, object, key, size);
}

/* Check the header of one file; `h` tells where its values are. */
static stk_status check_file(const folder *d, const unsigned char *data, uint64_t length,
                             uint64_t size, stk__npy_header *h, const char **reason)
{
    uint64_t header = 0;

    /* Nearly always: the same bytes as the first file's. */
    if (size == d->head_file && !memcmp(data, d->head, d->header.offset)) {
        *h = d->header;
        return STK_OK;
    }
    *reason = "it is no sound npy file";
    STK_TRY(stk__npy_measure(data, STK_MIN(length, STK_NPY_PREAMBLE), size, "", &header, NULL));
    STK_TRY(stk__npy_parse(data, header, size, d->trailing, "", h, NULL));
    *reason = "its type or shape is not that of the first file";
    if (!stk__npy_same(h, &d->header))
        return STK_EFORMAT;
    *reason = "it is in Fortran order; save it with numpy.ascontiguousarray()";
    return h->fortran && h->rank > 1 ? STK_EKIND : STK_OK;
}

static void folder_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const folder *d = (const folder *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        const entry *e = &d->files.entries[s->index];
        const unsigned char *data = e->size ? s->needs[0].data : (const unsigned char *)"";
        stk__npy_header h;
        const char *reason = NULL;
        s->status = check_file(d, data, need_length(d, s->index), e->size, &h, &reason);
        if (s->status != STK_OK) {
            s->reason = reason;
            continue;
        }
        s->values[0].data = data + h.offset;
        s->values[0].size = h.bytes;
        if (h.swap) {
            stk__npy_swap(data + h.offset, s->values[0].out, h.bytes, h.swap);
            s->values[0].data = s->values[0].out;
        }
        if (!d->classes.count)
            continue;
        int64_t label = e->label;
        memcpy(s->values[1].out, &label, sizeof label);
        s->values[1].data = s->values[1].out;
        s->values[1].size = sizeof label;
    }
}

static stk_status folder_describe(stk_dataset *dataset,
                                  void (*line)(void *user, const char *name, const char *value),
                                  void *user, stk_error *err)
{
    const folder *d = (const folder *)dataset;
    char text[256];
    char key[2 * NAME_MAX_BYTES + 2];

    snprintf(text, sizeof text, "%llu, one sample each", (unsigned long long)d->files.count);
    line(user, "files", text);
    file_key(d, 0, key, sizeof key);
    line(user, "first file", key);
    stk__shape_tuple(d->header.shape, d->header.rank, text, sizeof text);
    line(user, "array", text);
    line(user, "dtype", stk_dtype_name(d->header.dtype));
    if (d->classes.count)
        snprintf(text, sizeof text, "from %llu class folders",
                 (unsigned long long)d->classes.count);
    line(user, "labels", d->classes.count ? text : "none (class folders give them)");
    return STK_OK;
}

const stk_dataset_ops stk__npy_folder = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "npy",
    .doc = "A folder of NumPy files, one for each sample.",
    .close = folder_close,
    .locate = folder_locate,
    .object = folder_object,
    .prepare = folder_prepare,
    .describe = folder_describe,
};
