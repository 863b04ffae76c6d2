/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stk__cifar10, cifar100: the binary and the Python version of CIFAR [https://www.cs.toronto.edu/
 * ~kriz/cifar.html]. Binary: records of a label (CIFAR-100: a coarse and a fine one), then 1,024
 * bytes each of red, green and blue, in rows. Python: pickles (cifar_pickle.h), whose labels are
 * kept in memory; both leave the pictures in the store, and they have the same fingerprint.
 */
#include "dataset/object.h"

#include <stdio.h>

#include "dataset/cifar_archive.h"
#include "dataset/cifar_pickle.h"
#include "dataset/planes.h"

#define SIDE         32
#define PLANE_BYTES  (SIDE * SIDE)
#define IMAGE_BYTES  (3 * PLANE_BYTES)
#define RECORD_BYTES (1 + IMAGE_BYTES) /* of CIFAR-10 */
#define MAX_LEAD     2
#define MAX_CLASSES  100
#define MAX_FILES    5
#define META_MAX     4096 /* bytes of names of classes */
#define BLOCK_BYTES  65536u

typedef struct cifar_options {
    uint32_t struct_size;
    int32_t split;
    bool memory;
    bool download;
    const char *mirror;
    int32_t labels;
} cifar_options;

enum { LABELS_FINE, LABELS_COARSE };

static const stk_option cifar_option_list[] = {
    {"split", STK_OPTION_ENUM, offsetof(cifar_options, split), "train", 0, 0, "train|test", NULL,
     "Which of the two sets."},
    {"memory", STK_OPTION_BOOL, offsetof(cifar_options, memory), "false", 0, 0, NULL, NULL,
     "Read the files into memory when opening."},
    {"download", STK_OPTION_BOOL, offsetof(cifar_options, download), "false", 0, 0, NULL, NULL,
     "Fetch the Python version, unless either is there, from where torchvision does; unpack it."},
    {"mirror", STK_OPTION_STRING, offsetof(cifar_options, mirror), "", 0, 0, NULL, "URL",
     "Folder of any store to download from instead."},
    {"labels", STK_OPTION_ENUM, offsetof(cifar_options, labels), "fine", 0, 0, "fine|coarse", NULL,
     "Which labels: of 100 classes, or of the 20 that they make up."},
};

/* CIFAR-10 has one kind of labels. */
static const stk_option_table cifar10_table = {"cifar10", "CIFAR-10, binary or Python version.",
                                               sizeof(cifar_options), cifar_option_list,
                                               STK_COUNT(cifar_option_list) - 1};
static const stk_option_table cifar100_table = {"cifar100", "CIFAR-100, binary or Python version.",
                                                sizeof(cifar_options), cifar_option_list,
                                                STK_COUNT(cifar_option_list)};

/* A file of samples: picture i lies in the `step` bytes from `first` + i `step` on, at their end.
 */
typedef struct batch {
    stk__object object;
    uint64_t first;
    uint8_t *labels; /* NULL: they are in front of the pictures */
} batch;

typedef struct cifar {
    stk_dataset base;
    const stk__cifar_archive *of;
    const stk__cifar_form *form;
    stk_store *store;
    stk_field fields[2];
    batch files[MAX_FILES];
    uint64_t first[MAX_FILES + 1]; /* index of the first sample of each file, and the end */
    uint32_t num_files;
    uint32_t step, lead; /* bytes of a sample, and of those in front of its picture */
    int32_t split, labels;
    stk__planes_fn *interleave;
    char meta[META_MAX + 1];
    const char *classes[MAX_CLASSES];
} cifar;

static const char *const usual_classes[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                            "dog",      "frog",       "horse", "ship", "truck"};

static void cifar_close(stk_dataset *dataset)
{
    cifar *c = (cifar *)dataset;
    stk_context *ctx = c->base.context;

    for (uint32_t f = 0; f < MAX_FILES; f++) {
        stk__object_release(ctx, &c->files[f].object);
        stk__free(ctx, c->files[f].labels);
    }
    stk_store_close(&c->store);
    stk__free(ctx, c);
}

/* ---- Files ---- */

/* Find the files of the split in one folder; *found: the first is there. */
static stk_status find_files(cifar *c, const stk__cifar_form *form, const char *folder, bool *found,
                             stk_error *err)
{
    uint32_t wanted = c->split == STK__CIFAR_TEST ? 1 : c->of->train_files;

    *found = false;
    for (c->num_files = 0; c->num_files < wanted; c->num_files++) {
        char key[64];
        bool there = false;
        stk__cifar_file(c->of, form, folder, c->split, c->num_files, key, sizeof key);
        STK_TRY(stk__object_find(c->store, key, &c->files[c->num_files].object, &there, err));
        if (!there && *found)
            return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                                "%s: %s is missing next to %s; unpack %s again", c->of->ops->name,
                                key, c->files[0].object.key, form->packed);
        if (!there)
            return STK_OK;
        *found = true;
    }
    return STK_OK;
}

/* The form and the folder that has files of the split. */
static stk_status find_form(cifar *c, const char *url, const char **folder, stk_error *err)
{
    char names[2][64];

    for (size_t i = 0; i < STK_COUNT(c->of->forms); i++) {
        const stk__cifar_form *form = c->form = &c->of->forms[i];
        const char *const folders[] = {"", form->folder};
        for (size_t k = 0; k < STK_COUNT(folders); k++) {
            bool found = false;
            STK_TRY(find_files(c, form, *folder = folders[k], &found, err));
            if (found)
                return STK_OK;
        }
        stk__cifar_file(c->of, form, "", c->split, 0, names[i], sizeof names[i]);
    }
    return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                        "%s: %.200s holds no %s and no %s; name the folder of the unpacked archive "
                        "(%s or %s), or have it fetched and unpacked with download=true",
                        c->of->ops->name, url, names[0], names[1], c->of->forms[0].packed,
                        c->of->forms[1].packed);
}

static stk_status check_records(const cifar *c, const stk__object *file, stk_error *err)
{
    if (file->size && file->size % c->step == 0)
        return STK_OK;
    return stk__fail_at(
        err, STK_EFORMAT, STK_STAGE_DATASET, file->key, file->size / c->step * c->step,
        "%s has %llu bytes, no whole number of records of %u: it is cut or is not "
        "%s (binary version); unpack %s again",
        file->key, (unsigned long long)file->size, c->step, c->of->title, c->form->packed);
}

static stk_status open_pickle(cifar *c, batch *file, uint64_t *count, stk_error *err)
{
    stk__cifar_batch found;

    STK_TRY(stk__cifar_read_batch(c->store, &file->object, IMAGE_BYTES, c->of->labels[c->labels],
                                  c->of->classes[c->labels], &found, err));
    file->first = found.pixels;
    file->labels = found.labels;
    *count = found.count;
    return STK_OK;
}

/* Sizes and labels tell a file from others; the first sample, as a record of CIFAR-10, is part of
 * the fingerprint. */
static stk_status open_file(cifar *c, uint32_t f, bool load, uint64_t *print, stk_error *err)
{
    batch *file = &c->files[f];
    stk__object *object = &file->object;
    unsigned char bytes[1 + MAX_LEAD + IMAGE_BYTES];
    unsigned char *sample = bytes + 1, *record = sample + c->lead - 1;
    uint64_t count = object->size / c->step;

    if (!c->form->pickled)
        STK_TRY(check_records(c, object, err));
    STK_TRY(load ? stk__object_load(c->store, object, err)
                 : stk__object_map(c->store, object, err));
    if (c->form->pickled)
        STK_TRY(open_pickle(c, file, &count, err));
    STK_TRY(stk__object_read(c->store, object, file->first, c->step, sample, err));
    record[0] = file->labels ? file->labels[0] : sample[c->of->label[c->labels]];
    if (record[0] >= c->base.num_classes)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, object->key, 0,
                            "%s begins with label %u and %s has labels 0 to %u; unpack %s again",
                            object->key, record[0], c->of->title, c->base.num_classes - 1,
                            c->form->packed);
    const uint64_t all = count * RECORD_BYTES;
    *print = stk__fingerprint(*print, &all, sizeof all);
    *print = stk__fingerprint(*print, record, RECORD_BYTES);
    c->first[f + 1] = c->first[f] + count;
    c->base.held_bytes += stk__object_held(object) + (file->labels ? count : 0);
    return STK_OK;
}

/* ---- Names of classes ---- */

/* One a line. */
static stk_status read_lines(cifar *c, const stk__object *file, stk_error *err)
{
    uint32_t count = 0;

    STK_TRY(stk__object_read(c->store, file, 0, file->size, c->meta, err));
    for (char *at = c->meta, *end = at + file->size; at < end;) {
        char *stop = at + strcspn(at, "\r\n");
        bool name = stop > at;
        *stop = 0;
        if (name && count < c->base.num_classes)
            c->classes[count] = at;
        count += name;
        at = stop + 1;
    }
    if (count != c->base.num_classes)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, file->key, STK_NO_OFFSET,
                            "%s names %u classes and %s has %u: one name a line; unpack %s again",
                            file->key, count, c->of->title, c->base.num_classes, c->form->packed);
    return STK_OK;
}

/* Those of CIFAR-10 are known where the file is absent. */
static stk_status read_names(cifar *c, const char *folder, stk_error *err)
{
    stk__object file;
    char key[64];
    bool found = false;

    snprintf(key, sizeof key, "%s%s", folder, c->form->meta[c->labels]);
    STK_TRY(stk__object_find(c->store, key, &file, &found, err));
    if (!found && c->of == &stk__cifar10) {
        memcpy(c->classes, usual_classes, sizeof usual_classes);
        return STK_OK;
    }
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s: %s with the names of the classes is missing next to %s; unpack %s "
                            "again",
                            c->of->ops->name, key, c->files[0].object.key, c->form->packed);
    if (file.size > META_MAX)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, STK_NO_OFFSET,
                            "%s has %llu bytes; names of classes take at most %d: unpack %s again",
                            key, (unsigned long long)file.size, META_MAX, c->form->packed);
    if (c->form->pickled)
        return stk__cifar_read_names(c->store, &file, c->of->names[c->labels], c->base.num_classes,
                                     c->meta, sizeof c->meta, c->classes, err);
    return read_lines(c, &file, err);
}

/* ---- Opening ---- */

/* Of CIFAR-10 in the binary version it is what it always was. */
static uint64_t first_print(const cifar *c)
{
    uint64_t print = stk__fingerprint(0, c->of->ops->name, strlen(c->of->ops->name));

    print = stk__fingerprint(print, &c->split, sizeof c->split);
    if (c->labels)
        print = stk__fingerprint(print, &c->labels, sizeof c->labels);
    return print;
}

static void fill_head(cifar *c, stk_context *ctx, uint64_t print)
{
    const uint64_t held = c->base.held_bytes;

    c->fields[0] = stk__field("image", STK_UINT8, (const int64_t[]){SIDE, SIDE, 3, -1}, true);
    c->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    stk__dataset_init(&c->base, c->of->ops, ctx, c->first[c->num_files], c->fields, 2);
    c->base.classes = c->classes;
    c->base.num_classes = c->of->classes[c->labels];
    c->base.block_size = BLOCK_BYTES / RECORD_BYTES;
    c->base.fingerprint = stk__fingerprint(c->base.fingerprint, &print, sizeof print);
    c->base.held_bytes = held;
    c->interleave = stk__planes_interleave3(ctx);
    c->base.cost_ns = c->interleave == stk__planes_interleave3_c ? 800 : 200;
}

static stk_status open_all(cifar *c, const char *url, bool load, uint64_t *print, stk_error *err)
{
    const char *folder = NULL;

    STK_TRY(find_form(c, url, &folder, err));
    c->lead = c->form->pickled ? 0 : c->of->lead;
    c->step = c->lead + IMAGE_BYTES;
    *print = first_print(c);
    for (uint32_t f = 0; f < c->num_files; f++)
        STK_TRY(open_file(c, f, load, print, err));
    return read_names(c, folder, err);
}

/* Whether a folder of a store has the files of both sets, and those of names that there must be. */
static stk_status has_all(stk_store *store, const stk__cifar_archive *a,
                          const stk__cifar_form *form, const char *folder, bool *all,
                          stk_error *err)
{
    stk__object object;
    char key[64];

    *all = true;
    for (uint32_t f = 0; f <= a->train_files && *all; f++) {
        const int32_t split = f < a->train_files ? STK__CIFAR_TRAIN : STK__CIFAR_TEST;
        stk__cifar_file(a, form, folder, split, f, key, sizeof key);
        STK_TRY(stk__object_find(store, key, &object, all, err));
    }
    for (size_t k = 0; k < STK_COUNT(form->meta) && a != &stk__cifar10 && *all; k++) {
        snprintf(key, sizeof key, "%s%s", folder, form->meta[k]);
        STK_TRY(stk__object_find(store, key, &object, all, err));
    }
    return STK_OK;
}

/* For stk__published_get(): a version is there, of both sets, with its names. */
static stk_status has_published(const void *user, stk_store *store, size_t file, bool *there,
                                stk_error *err)
{
    const stk__cifar_archive *a = user;

    *there = false;
    for (size_t i = 0; i < STK_COUNT(a->forms) && !*there; i++) {
        const char *const folders[] = {"", a->forms[i].folder};
        for (size_t k = 0; k < STK_COUNT(folders) && !*there; k++)
            STK_TRY(has_all(store, a, &a->forms[i], folders[k], there, err));
    }
    return STK_OK;
}

static stk_status open_archive(const stk__cifar_archive *of, stk_context *ctx, const char *url,
                               const cifar_options *o, stk_dataset **out, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    uint64_t print = 0;

    *out = NULL;
    STK_TRY(stk__published_check(of->ops->name, o->download, o->mirror, NULL, false, err));
    if (o->download)
        STK_TRY(stk__published_get(ctx, of->published, url, o->mirror, has_published, of, err));
    cifar *c = stk__calloc(ctx, 1, sizeof *c);
    if (!c)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory to open %.200s",
                         of->ops->name, url);
    c->base.context = ctx;
    c->of = of;
    c->split = o->split;
    c->labels = o->labels;
    c->base.num_classes = of->classes[c->labels];
    stk_status status = stk_store_open(ctx, url, &c->store, key, sizeof key, err);
    if (status == STK_EINVAL && of == &stk__cifar10 && err && strcmp(err->key, "labels") == 0)
        status = stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "labels", STK_NO_OFFSET,
                              "cifar10: the option labels is of cifar100, and CIFAR-10 has one "
                              "kind of labels: leave it out");
    if (status == STK_OK && key[0])
        status = stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                              "%s: %.200s is a file; name its folder, and split=train or "
                              "split=test; an archive has to be unpacked (tar xzf)",
                              of->ops->name, url);
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

static stk_status cifar10_open(stk_context *ctx, const char *url, const void *options,
                               stk_dataset **out, stk_error *err)
{
    return open_archive(&stk__cifar10, ctx, url, options, out, err);
}

static stk_status cifar100_open(stk_context *ctx, const char *url, const void *options,
                                stk_dataset **out, stk_error *err)
{
    return open_archive(&stk__cifar100, ctx, url, options, out, err);
}

static int cifar10_recognise(stk_context *ctx, const char *url)
{
    return stk__cifar_recognise(&stk__cifar10, ctx, url);
}

static int cifar100_recognise(stk_context *ctx, const char *url)
{
    return stk__cifar_recognise(&stk__cifar100, ctx, url);
}

/* ---- Samples ---- */

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
        if (c->files[f].object.data)
            continue;
        stk_need need = {.object = f,
                         .offset = c->files[f].first + (indices[i] - c->first[f]) * c->step,
                         .length = c->step};
        STK_TRY(to->add(to, i, &need));
    }
    return STK_OK;
}

static size_t cifar_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                           size_t size)
{
    cifar *c = (cifar *)dataset;

    *store = c->store;
    return stk__object_copy_key(key, size, c->files[object].object.key);
}

static void cifar_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const cifar *c = (const cifar *)dataset;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        const batch *file = &c->files[file_of(c, s->index)];
        const uint64_t at = s->index - c->first[file - c->files];
        const unsigned char *all = file->object.data;
        const unsigned char *record = all ? all + file->first + at * c->step : s->needs[0].data;
        int64_t label = file->labels ? file->labels[at] : record[c->of->label[c->labels]];
        if (label >= c->base.num_classes) {
            s->status = STK_EFORMAT;
            s->reason = "its label is beyond those of its classes: the file is damaged";
            continue;
        }
        c->interleave(record + c->lead, PLANE_BYTES, s->values[0].out);
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

    line(user, "split", c->split == STK__CIFAR_TRAIN ? "train" : "test");
    if (c->of->classes[LABELS_COARSE])
        line(user, "labels", c->labels == LABELS_FINE ? "fine" : "coarse");
    line(user, "version", c->form->pickled ? "Python" : "binary");
    for (uint32_t f = 0; f < c->num_files; f++) {
        snprintf(text, sizeof text, "%s (%llu samples)", c->files[f].object.key,
                 (unsigned long long)(c->first[f + 1] - c->first[f]));
        line(user, "file", text);
    }
    line(user, "kept in", c->files[0].object.data ? "memory" : "the store, read by range");
    return STK_OK;
}

const stk_dataset_ops stk__dataset_cifar10 = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "cifar10",
    .doc = "CIFAR-10, binary or Python version: data_batch_1 to data_batch_5, test_batch.",
    .options = &cifar10_table,
    .open = cifar10_open,
    .recognise = cifar10_recognise,
    .close = cifar_close,
    .locate = cifar_locate,
    .object = cifar_object,
    .prepare = cifar_prepare,
    .describe = cifar_describe,
};

const stk_dataset_ops stk__dataset_cifar100 = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "cifar100",
    .doc = "CIFAR-100, binary or Python version: train, test.",
    .options = &cifar100_table,
    .open = cifar100_open,
    .recognise = cifar100_recognise,
    .close = cifar_close,
    .locate = cifar_locate,
    .object = cifar_object,
    .prepare = cifar_prepare,
    .describe = cifar_describe,
};
