/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cifar10: the binary version of CIFAR-10 [https://www.cs.toronto.edu/~kriz/cifar.html]:
 * files of records of 3,073 bytes: a label, then 1,024 bytes each of red, green and blue, in rows.
 */
#include "dataset/object.h"

#include <stdio.h>

#include "dataset/planes.h"

#define SIDE         32
#define PLANE_BYTES  (SIDE * SIDE)
#define IMAGE_BYTES  (3 * PLANE_BYTES)
#define RECORD_BYTES (1 + IMAGE_BYTES)
#define CLASSES      10
#define TRAIN_FILES  5
#define META_MAX     4096 /* bytes of batches.meta.txt */
#define BLOCK_BYTES  65536u

typedef struct cifar_options {
    uint32_t struct_size;
    int32_t split;
    bool memory;
} cifar_options;

enum { SPLIT_TRAIN, SPLIT_TEST };

static const stk_option cifar_option_list[] = {
    {"split", STK_OPTION_ENUM, offsetof(cifar_options, split), "train", 0, 0, "train|test", NULL,
     "Which of the two sets."},
    {"memory", STK_OPTION_BOOL, offsetof(cifar_options, memory), "false", 0, 0, NULL, NULL,
     "Read the files into memory when opening."},
};

static const stk_option_table cifar_table = {"cifar10", "The binary version of CIFAR-10.",
                                             sizeof(cifar_options), cifar_option_list,
                                             STK_COUNT(cifar_option_list)};

typedef struct cifar {
    stk_dataset base;
    stk_store *store;
    stk_field fields[2];
    stk__object files[TRAIN_FILES];
    uint64_t first[TRAIN_FILES + 1]; /* index of the first sample of each file, and the end */
    uint32_t num_files;
    int32_t split;
    stk__planes_fn *interleave;
    char meta[META_MAX + 1];
    const char *classes[CLASSES];
} cifar;

static const char *const folders[] = {"", "cifar-10-batches-bin/"};
static const char *const usual_classes[CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

static void cifar_close(stk_dataset *dataset)
{
    cifar *c = (cifar *)dataset;
    stk_context *ctx = c->base.context;

    for (uint32_t f = 0; f < TRAIN_FILES; f++)
        stk__object_release(ctx, &c->files[f]);
    stk_store_close(&c->store);
    stk__free(ctx, c);
}

static void file_name(char *key, size_t size, const char *folder, int32_t split, uint32_t file)
{
    if (split == SPLIT_TEST)
        snprintf(key, size, "%stest_batch.bin", folder);
    else
        snprintf(key, size, "%sdata_batch_%u.bin", folder, file + 1);
}

/* Find the files of the split in one of the folders; *folder is NULL where there are none. */
static stk_status find_files(cifar *c, const char **folder, stk_error *err)
{
    uint32_t wanted = c->split == SPLIT_TEST ? 1 : TRAIN_FILES;

    *folder = NULL;
    for (size_t i = 0; i < STK_COUNT(folders) && !*folder; i++)
        for (c->num_files = 0; c->num_files < wanted; c->num_files++) {
            char key[64];
            bool found = false;
            file_name(key, sizeof key, folders[i], c->split, c->num_files);
            STK_TRY(stk__object_find(c->store, key, &c->files[c->num_files], &found, err));
            if (!found && *folder)
                return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                                    "cifar10: %s is missing next to %s; unpack "
                                    "cifar-10-binary.tar.gz again",
                                    key, c->files[0].key);
            if (!found)
                break;
            *folder = folders[i];
        }
    return STK_OK;
}

/* Sizes and labels tell a CIFAR-10 file from others; the first record is part of the fingerprint.
 */
static stk_status open_file(cifar *c, uint32_t f, bool load, uint64_t *print, stk_error *err)
{
    stk__object *file = &c->files[f];
    unsigned char record[RECORD_BYTES];

    if (!file->size || file->size % RECORD_BYTES)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key,
                            file->size / RECORD_BYTES * RECORD_BYTES,
                            "%s has %llu bytes, no whole number of records of %d: it is cut or is "
                            "not CIFAR-10 (binary version); unpack cifar-10-binary.tar.gz again",
                            file->key, (unsigned long long)file->size, RECORD_BYTES);
    STK_TRY(load ? stk__object_load(c->store, file, err) : stk__object_map(c->store, file, err));
    STK_TRY(stk__object_read(c->store, file, 0, sizeof record, record, err));
    if (record[0] >= CLASSES)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key, 0,
                            "%s begins with label %u and CIFAR-10 has labels 0 to %d; unpack "
                            "cifar-10-binary.tar.gz again",
                            file->key, record[0], CLASSES - 1);
    *print = stk__fingerprint(*print, &file->size, sizeof file->size);
    *print = stk__fingerprint(*print, record, sizeof record);
    c->first[f + 1] = c->first[f] + file->size / RECORD_BYTES;
    return STK_OK;
}

/* Names of the classes, one a line; the usual ones where the file is absent. */
static stk_status read_names(cifar *c, const char *folder, stk_error *err)
{
    stk__object file;
    char key[64];
    bool found = false;
    uint32_t count = 0;

    snprintf(key, sizeof key, "%sbatches.meta.txt", folder);
    STK_TRY(stk__object_find(c->store, key, &file, &found, err));
    if (!found) {
        memcpy(c->classes, usual_classes, sizeof c->classes);
        return STK_OK;
    }
    if (file.size > META_MAX)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s has %llu bytes; names of classes take at most %d: remove it to use "
                            "the usual names",
                            key, (unsigned long long)file.size, META_MAX);
    STK_TRY(stk__object_read(c->store, &file, 0, file.size, c->meta, err));
    for (char *at = c->meta, *end = at + file.size; at < end;) {
        char *stop = at + strcspn(at, "\r\n");
        bool name = stop > at;
        *stop = 0;
        if (name && count < CLASSES)
            c->classes[count] = at;
        count += name;
        at = stop + 1;
    }
    if (count != CLASSES)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s names %u classes and CIFAR-10 has %d: one name a line, or remove "
                            "it to use the usual names",
                            key, count, CLASSES);
    return STK_OK;
}

static void fill_head(cifar *c, stk_context *ctx, uint64_t print)
{
    c->fields[0] = stk__field("image", STK_UINT8, (const int64_t[]){SIDE, SIDE, 3, -1}, true);
    c->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    stk__dataset_init(&c->base, &stk__dataset_cifar10, ctx, c->first[c->num_files], c->fields, 2);
    c->base.classes = c->classes;
    c->base.num_classes = CLASSES;
    c->base.block_size = BLOCK_BYTES / RECORD_BYTES;
    c->base.fingerprint = stk__fingerprint(c->base.fingerprint, &print, sizeof print);
    for (uint32_t f = 0; f < c->num_files; f++)
        c->base.held_bytes += stk__object_held(&c->files[f]);
    c->interleave = stk__planes_interleave3(ctx);
    c->base.cost_ns = c->interleave == stk__planes_interleave3_c ? 800 : 200;
}

static stk_status open_all(cifar *c, const char *url, bool load, uint64_t *print, stk_error *err)
{
    const char *folder = NULL;

    STK_TRY(find_files(c, &folder, err));
    if (!folder)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "cifar10: %.200s holds no %s; name the folder of the unpacked binary "
                            "version (cifar-10-binary.tar.gz; the Python version is not read)",
                            url, c->split == SPLIT_TEST ? "test_batch.bin" : "data_batch_1.bin");
    *print = stk__fingerprint(0, "cifar10", 7);
    *print = stk__fingerprint(*print, &c->split, sizeof c->split);
    for (uint32_t f = 0; f < c->num_files; f++)
        STK_TRY(open_file(c, f, load, print, err));
    return read_names(c, folder, err);
}

static stk_status cifar_open(stk_context *ctx, const char *url, const void *options,
                             stk_dataset **out, stk_error *err)
{
    const cifar_options *o = options;
    char key[STK_MAX_OBJECT_KEY] = "";
    uint64_t print = 0;

    *out = NULL;
    cifar *c = stk__calloc(ctx, 1, sizeof *c);
    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "cifar10: no memory to open %.200s",
                         url);
    c->base.context = ctx;
    c->split = o->split;
    stk_status status = stk_store_open(ctx, url, &c->store, key, sizeof key, err);
    if (status == STK_OK && key[0])
        status = stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                              "cifar10: %.200s is a file; name its folder, and split=train or "
                              "split=test",
                              url);
    if (status == STK_OK)
        status = open_all(c, url, o->memory, &print, err);
    if (status != STK_OK) {
        cifar_close(&c->base);
        return status;
    }
    fill_head(c, ctx, print);
    *out = &c->base;
    return STK_OK;
}

static int cifar_recognise(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;
    bool found = false;

    if (stk_store_open(ctx, url, &store, key, sizeof key, NULL) != STK_OK)
        return 0;
    for (size_t i = 0; i < STK_COUNT(folders) && !key[0] && !found; i++)
        for (int32_t split = SPLIT_TRAIN; split <= SPLIT_TEST && !found; split++) {
            char name[64];
            stk__object object;
            file_name(name, sizeof name, folders[i], split, 0);
            if (stk__object_find(store, name, &object, &found, NULL) != STK_OK)
                found = false;
        }
    stk_store_close(&store);
    return found ? 2 : 0;
}

static uint32_t file_of(const cifar *c, uint64_t index)
{
    uint32_t f = 0;
    while (index >= c->first[f + 1])
        f++;
    return f;
}

static stk_status cifar_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                               stk_locator *to, stk_error *err)
{
    const cifar *c = (const cifar *)dataset;

    for (size_t i = 0; i < n; i++) {
        uint32_t f = file_of(c, indices[i]);
        if (c->files[f].data)
            continue;
        stk_need need = {.object = f,
                         .offset = (indices[i] - c->first[f]) * RECORD_BYTES,
                         .length = RECORD_BYTES};
        STK_TRY(to->add(to, i, &need));
    }
    return STK_OK;
}

static size_t cifar_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                           size_t size)
{
    cifar *c = (cifar *)dataset;

    *store = c->store;
    return stk__object_copy_key(key, size, c->files[object].key);
}

static void cifar_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const cifar *c = (const cifar *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        uint32_t f = file_of(c, s->index);
        const unsigned char *file = c->files[f].data;
        const unsigned char *record =
            file ? file + (s->index - c->first[f]) * RECORD_BYTES : s->needs[0].data;
        int64_t label = record[0];
        if (label >= CLASSES) {
            s->status = STK_EFORMAT;
            s->reason = "its label is beyond 9: the file is damaged";
            continue;
        }
        c->interleave(record + 1, PLANE_BYTES, s->values[0].out);
        s->values[0].data = s->values[0].out;
        s->values[0].size = IMAGE_BYTES;
        memcpy(s->values[1].out, &label, sizeof label);
        s->values[1].data = s->values[1].out;
        s->values[1].size = sizeof label;
    }
}

static stk_status cifar_describe(stk_dataset *dataset,
                                 void (*line)(void *user, const char *name, const char *value),
                                 void *user, stk_error *err)
{
    const cifar *c = (const cifar *)dataset;
    char text[576];

    line(user, "split", c->split == SPLIT_TRAIN ? "train" : "test");
    for (uint32_t f = 0; f < c->num_files; f++) {
        snprintf(text, sizeof text, "%s (%llu samples)", c->files[f].key,
                 (unsigned long long)(c->first[f + 1] - c->first[f]));
        line(user, "file", text);
    }
    line(user, "kept in", c->files[0].data ? "memory" : "the store, read by range");
    return STK_OK;
}

const stk_dataset_ops stk__dataset_cifar10 = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "cifar10",
    .doc = "The binary version of CIFAR-10: data_batch_1.bin to data_batch_5.bin, test_batch.bin.",
    .options = &cifar_table,
    .open = cifar_open,
    .recognise = cifar_recognise,
    .close = cifar_close,
    .locate = cifar_locate,
    .object = cifar_object,
    .prepare = cifar_prepare,
    .describe = cifar_describe,
};
