/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mnist: images and labels in IDX files, plain or gzip: MNIST, Fashion-MNIST, KMNIST, EMNIST.
 *
 * IDX [http://yann.lecun.com/exdb/mnist]: big-endian words; magic 0x00000801 (labels: bytes, one
 * dimension) or 0x00000803 (images: bytes, three dimensions), the dimensions, then the bytes.
 *
 * A plain file of images stays in the store and each sample is a range of it; a gzip file is
 * inflated once, at the opening, and served from memory, as is a file that the store has in memory.
 */
#include "dataset/object.h"

#include <stdio.h>

#include "codec/codec.h"

#define IDX_LABELS   0x801u
#define IDX_IMAGES   0x803u
#define IDX_SIDE_MAX 4096u /* rows and columns of an image */
#define IDX_HEAD_MAX 16u
#define LABELS       256u
#define BLOCK_BYTES  65536u

typedef struct mnist_options {
    uint32_t struct_size;
    int32_t split;
    bool memory;
    const char *prefix;
} mnist_options;

enum { SPLIT_TRAIN, SPLIT_TEST };

static const stk_option mnist_option_list[] = {
    {"split", STK_OPTION_ENUM, offsetof(mnist_options, split), "train", 0, 0, "train|test", NULL,
     "Which of the two sets."},
    {"memory", STK_OPTION_BOOL, offsetof(mnist_options, memory), "false", 0, 0, NULL, NULL,
     "Read the images into memory when opening; gzip files always are."},
    {"prefix", STK_OPTION_STRING, offsetof(mnist_options, prefix), "", 0, 0, NULL, "TEXT",
     "What is before `train-images` or `test-images` in the names, as \"emnist-letters-\"."},
};

static const stk_option_table mnist_table = {"mnist", "Images and labels in IDX files.",
                                             sizeof(mnist_options), mnist_option_list,
                                             STK_COUNT(mnist_option_list)};

/* An IDX file that has been checked: its values are the bytes from `first` on. */
typedef struct idx {
    stk__object object;
    uint64_t first;
    uint32_t dims[3];
} idx;

typedef struct mnist {
    stk_dataset base;
    stk_store *store;
    stk_field fields[2];
    idx images;
    idx labels;
    const unsigned char *label; /* `base.size` of them */
    uint64_t sample_bytes;
    int32_t split;
    uint64_t counts[LABELS]; /* samples of each label */
    char names[LABELS][4];   /* "0", "1", ... */
    const char *classes[LABELS];
} mnist;

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- IDX --------------------------------------------------------------------------------------
 */

static uint32_t idx_rank(uint32_t magic)
{
    return magic & 0xff;
}

/* Check the header at `head` and find what the file must hold; `size` becomes header and values. */
static stk_status check_head(idx *file, const unsigned char *head, uint32_t magic, uint64_t *size,
                             stk_error *err)
{
    const char *key = file->object.key;
    uint32_t found = big_endian(head);

    if (found != magic)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                            "%s begins with 0x%08x and not with 0x%08x: it is no IDX file of %s; "
                            "copy or download it again",
                            key, found, magic, magic == IDX_IMAGES ? "images" : "labels");
    *size = 1;
    for (uint32_t i = 0; i < idx_rank(magic); i++) {
        uint32_t dim = file->dims[i] = big_endian(head + 4 + 4 * i);
        if (dim == 0 || (i > 0 && dim > IDX_SIDE_MAX))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 4 + 4 * i,
                                "%s says that it has %u %s; %u at least and %u at most are "
                                "possible; copy or download it again",
                                key, dim,
                                i == 0   ? "samples"
                                : i == 1 ? "rows"
                                         : "columns",
                                1, i == 0 ? UINT32_MAX : IDX_SIDE_MAX);
        if (!stk__mul_size(*size, dim, size))
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 4 + 4 * i,
                                "the dimensions of %s are too big", key);
    }
    file->first = 4 + 4 * idx_rank(magic);
    if (!stk__add_size(*size, file->first, size))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 4,
                            "the dimensions of %s are too big", key);
    return STK_OK;
}

/* `has` bytes are there, where the header at their start asks for `wants`. */
static stk_status wrong_size(const idx *file, uint64_t has, uint64_t wants, bool more,
                             stk_error *err)
{
    const char *key = file->object.key;

    if (has < wants)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_DATASET, key, has,
                            "%s ends after %llu bytes where %llu belong; copy or download it "
                            "again",
                            key, (unsigned long long)has, (unsigned long long)wants);
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, wants,
                        "%s has %s%llu bytes where its dimensions ask for %llu; copy or download "
                        "it again",
                        key, more ? "more than " : "", (unsigned long long)has,
                        (unsigned long long)wants);
}

static stk_status open_plain(stk_store *store, idx *file, uint32_t magic, bool load, stk_error *err)
{
    unsigned char head[IDX_HEAD_MAX];
    uint64_t length = 4 + 4 * idx_rank(magic);
    uint64_t wants = 0;

    if (file->object.size < length)
        return wrong_size(file, file->object.size, length, false, err);
    STK_TRY(stk__object_read(store, &file->object, 0, length, head, err));
    STK_TRY(check_head(file, head, magic, &wants, err));
    if (file->object.size != wants)
        return wrong_size(file, file->object.size, wants, false, err);
    if (load)
        return stk__object_load(store, &file->object, err);
    return stk__object_map(store, &file->object, err);
}

/* Inflate the whole of `packed` into memory of `file`, whose header says how much that must be. */
static stk_status inflate_idx(stk_context *ctx, const stk__object *packed, idx *file,
                              uint32_t magic, stk_error *err)
{
    unsigned char head[IDX_HEAD_MAX];
    uint64_t length = 4 + 4 * idx_rank(magic);
    uint64_t left = stk__memory_left(ctx);
    uint64_t got = 0, wants = 0, bound = 0;
    stk__gzip *gzip = NULL;
    unsigned char *data = NULL;

    stk_status status =
        stk__gzip_create(ctx, packed->data, packed->size, UINT64_MAX, packed->key, &gzip, err);
    if (status == STK_OK)
        status = stk__gzip_read(gzip, head, length, &got, err);
    if (status == STK_OK && got < length)
        status = wrong_size(file, got, length, false, err);
    if (status == STK_OK)
        status = check_head(file, head, magic, &wants, err);
    if (status != STK_OK)
        goto out;
    /* Before any memory is taken: more than deflate can give is a lie of the header. */
    if (stk__mul_size(packed->size, STK_DEFLATE_RATIO, &bound) && wants > bound) {
        status =
            stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, packed->key, 4,
                         "the dimensions of %s ask for %llu bytes, which its %llu cannot "
                         "hold; copy or download it again",
                         packed->key, (unsigned long long)wants, (unsigned long long)packed->size);
        goto out;
    }
    if (wants > left) {
        status = stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, packed->key, STK_NO_OFFSET,
                              "%s inflates to %llu bytes and %llu of memory_limit are left; "
                              "unpack it with gunzip, then it is read piece by piece",
                              packed->key, (unsigned long long)wants, (unsigned long long)left);
        goto out;
    }
    data = stk__alloc_buffer(ctx, wants);
    if (!data) {
        status = stk__fail_at(err, STK_ENOMEM, STK_STAGE_DATASET, packed->key, STK_NO_OFFSET,
                              "no memory for the %llu bytes that %s inflates to",
                              (unsigned long long)wants, packed->key);
        goto out;
    }
    if (!stk__gzip_whole(packed->data, packed->size, data, wants)) {
        memcpy(data, head, length);
        status = stk__gzip_read(gzip, data + length, wants - length, &got, err);
        if (status == STK_OK && got < wants - length)
            status = wrong_size(file, got + length, wants, false, err);
        if (status == STK_OK)
            status = stk__gzip_read(gzip, head, 1, &got, err);
        if (status == STK_OK && got)
            status = wrong_size(file, wants, wants, true, err);
    }
    if (status == STK_OK) {
        file->object.data = file->object.owned = data;
        file->object.size = wants;
        data = NULL;
    }
out:
    stk__free(ctx, data);
    stk__gzip_destroy(&gzip);
    return status;
}

static bool is_gzip(const char *key)
{
    size_t length = strlen(key);
    return length > 3 && !strcmp(key + length - 3, ".gz");
}

static stk_status open_idx(stk_store *store, idx *file, uint32_t magic, bool load, stk_error *err)
{
    if (!is_gzip(file->object.key))
        return open_plain(store, file, magic, load, err);
    stk__object packed = file->object;
    stk_status status = stk__object_load(store, &packed, err);
    if (status == STK_OK)
        status = inflate_idx(store->context, &packed, file, magic, err);
    stk__object_release(store->context, &packed);
    return status;
}

/* ---- Names ------------------------------------------------------------------------------------
 */

/* Where the files lie in the folder that the user names; the last ones are torchvision's. */
static const char *const folders[] = {
    "", "raw/", "MNIST/raw/", "FashionMNIST/raw/", "KMNIST/raw/", "EMNIST/raw/"};

/* Look for the images or the labels of a split below the folders. */
static stk_status find_idx(stk_store *store, const char *prefix, int32_t split, uint32_t magic,
                           stk__object *object, bool *found, stk_error *err)
{
    /* MNIST calls its test set t10k, EMNIST test. */
    static const char *const sets[2][2] = {{"train", NULL}, {"t10k", "test"}};
    const char *what = magic == IDX_IMAGES ? "images" : "labels";

    *found = false;
    for (size_t f = 0; f < STK_COUNT(folders); f++)
        for (int s = 0; s < 2 && sets[split][s]; s++)
            for (const char *dot = "-."; *dot; dot++)
                for (int gz = 0; gz < 2; gz++) {
                    char key[sizeof object->key];
                    snprintf(key, sizeof key, "%s%s%s-%s%cidx%u-ubyte%s", folders[f], prefix,
                             sets[split][s], what, *dot, idx_rank(magic), gz ? ".gz" : "");
                    STK_TRY(stk__object_find(store, key, object, found, err));
                    if (*found)
                        return STK_OK;
                }
    return STK_OK;
}

static stk_status find_pair(mnist *m, const char *url, const char *prefix, stk_error *err)
{
    bool found = false;

    if (strlen(prefix) > 64 || strchr(prefix, '/'))
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "mnist: prefix \"%s\" is no beginning of a file name of at most 64 bytes",
                         prefix);
    STK_TRY(find_idx(m->store, prefix, m->split, IDX_IMAGES, &m->images.object, &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "mnist: %.200s holds no file %s%s-images-idx3-ubyte or .gz; name the "
                            "folder that does (or its parent in torchvision's layout)",
                            url, prefix, m->split == SPLIT_TRAIN ? "train" : "t10k");
    STK_TRY(find_idx(m->store, prefix, m->split, IDX_LABELS, &m->labels.object, &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "mnist: %s has no labels next to it: put %s%s-labels-idx1-ubyte or "
                            ".gz there",
                            m->images.object.key, prefix,
                            m->split == SPLIT_TRAIN ? "train" : "t10k");
    return STK_OK;
}

/* ---- The dataset ------------------------------------------------------------------------------
 */

static void mnist_close(stk_dataset *dataset)
{
    mnist *m = (mnist *)dataset;
    stk_context *ctx = m->base.context;

    stk__object_release(ctx, &m->images.object);
    stk__object_release(ctx, &m->labels.object);
    stk_store_close(&m->store);
    stk__free(ctx, m);
}

static void fill_head(mnist *m, stk_context *ctx)
{
    uint64_t count = m->images.dims[0];
    int64_t shape[] = {m->images.dims[1], m->images.dims[2], 1, -1};
    uint32_t num_classes = 0;

    m->label = m->labels.object.data + m->labels.first;
    m->sample_bytes = (uint64_t)shape[0] * (uint64_t)shape[1];
    m->fields[0] = stk__field("image", STK_UINT8, shape, true);
    m->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    stk__dataset_init(&m->base, &stk__dataset_mnist, ctx, count, m->fields, 2);
    for (uint64_t i = 0; i < count; i++)
        m->counts[m->label[i]]++;
    for (uint32_t c = 0; c < LABELS; c++) {
        snprintf(m->names[c], sizeof m->names[c], "%u", c);
        m->classes[c] = m->names[c];
        if (m->counts[c])
            num_classes = c + 1;
    }
    m->base.classes = m->classes;
    m->base.num_classes = num_classes;
    m->base.block_size = STK_MAX(BLOCK_BYTES / m->sample_bytes, 1);
    m->base.cost_ns = 100;
    m->base.held_bytes = stk__object_held(&m->images.object) + stk__object_held(&m->labels.object);
    /* The same for a copy of the files, packed or not. */
    uint64_t print = stk__fingerprint(0, "mnist", 5);
    print = stk__fingerprint(print, &m->split, sizeof m->split);
    print = stk__fingerprint(print, m->images.dims, sizeof m->images.dims);
    print = stk__fingerprint(print, m->label, count);
    m->base.fingerprint = stk__fingerprint(m->base.fingerprint, &print, sizeof print);
}

static stk_status mnist_open(stk_context *ctx, const char *url, const void *options,
                             stk_dataset **out, stk_error *err)
{
    const mnist_options *o = options;
    char key[STK_MAX_OBJECT_KEY] = "";

    *out = NULL;
    mnist *m = stk__calloc(ctx, 1, sizeof *m);
    if (!m)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "mnist: no memory to open %.200s",
                         url);
    m->base.context = ctx;
    m->split = o->split;
    stk_status status = stk_store_open(ctx, url, &m->store, key, sizeof key, err);
    if (status == STK_OK && key[0])
        status = stk__fail_at(
            err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
            "mnist: %.200s is a file; name its folder, and split=train or split=test", url);
    if (status == STK_OK)
        status = find_pair(m, url, o->prefix ? o->prefix : "", err);
    if (status == STK_OK)
        status = open_idx(m->store, &m->images, IDX_IMAGES, o->memory, err);
    if (status == STK_OK)
        status = open_idx(m->store, &m->labels, IDX_LABELS, true, err);
    if (status == STK_OK && m->images.dims[0] != m->labels.dims[0])
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, m->labels.object.key, 4,
                              "%s has %u labels and %s has %u images: they do not belong together",
                              m->labels.object.key, m->labels.dims[0], m->images.object.key,
                              m->images.dims[0]);
    if (status != STK_OK) {
        mnist_close(&m->base);
        return status;
    }
    fill_head(m, ctx);
    *out = &m->base;
    return STK_OK;
}

static int mnist_recognise(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;
    stk__object object;
    bool found = false;

    if (stk_store_open(ctx, url, &store, key, sizeof key, NULL) != STK_OK)
        return 0;
    if (!key[0] && find_idx(store, "", SPLIT_TRAIN, IDX_IMAGES, &object, &found, NULL) == STK_OK &&
        !found && find_idx(store, "", SPLIT_TEST, IDX_IMAGES, &object, &found, NULL) != STK_OK)
        found = false;
    stk_store_close(&store);
    return found ? 2 : 0;
}

static stk_status mnist_locate(stk_dataset *dataset, const uint64_t *indices, size_t n,
                               stk_locator *to, stk_error *err)
{
    const mnist *m = (const mnist *)dataset;

    return stk__object_locate(&m->images.object, m->images.first, m->sample_bytes, m->sample_bytes,
                              indices, n, to);
}

static size_t mnist_object(stk_dataset *dataset, uint64_t object, stk_store **store, char *key,
                           size_t size)
{
    mnist *m = (mnist *)dataset;

    *store = m->store;
    return stk__object_copy_key(key, size, m->images.object.key);
}

static void mnist_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const mnist *m = (const mnist *)dataset;
    const unsigned char *images = m->images.object.data;

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = &samples[i];
        int64_t label = m->label[s->index];
        s->values[0].data =
            images ? images + m->images.first + s->index * m->sample_bytes : s->needs[0].data;
        s->values[0].size = m->sample_bytes;
        memcpy(s->values[1].out, &label, sizeof label);
        s->values[1].data = s->values[1].out;
        s->values[1].size = sizeof label;
    }
}

static stk_status mnist_describe(stk_dataset *dataset,
                                 void (*line)(void *user, const char *name, const char *value),
                                 void *user, stk_error *err)
{
    const mnist *m = (const mnist *)dataset;
    char text[1024];
    size_t at = 0;

    line(user, "split", m->split == SPLIT_TRAIN ? "train" : "test");
    line(user, "images", m->images.object.key);
    line(user, "labels", m->labels.object.key);
    line(user, "kept in", m->images.object.data ? "memory" : "the store, read by range");
    text[0] = 0;
    for (uint32_t c = 0; c < m->base.num_classes && at + 32 < sizeof text; c++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u: %llu", c ? ", " : "", c,
                               (unsigned long long)m->counts[c]);
    line(user, "samples of each label", text);
    return STK_OK;
}

const stk_dataset_ops stk__dataset_mnist = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "mnist",
    .doc = "Images and labels in IDX files, plain or gzip: MNIST, Fashion-MNIST, KMNIST, EMNIST.",
    .options = &mnist_table,
    .open = mnist_open,
    .recognise = mnist_recognise,
    .close = mnist_close,
    .locate = mnist_locate,
    .object = mnist_object,
    .prepare = mnist_prepare,
    .describe = mnist_describe,
};
