/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mnist, fashion_mnist, kmnist, emnist: images and labels in IDX files, plain or gzip.
 *
 * A plain file of images stays in the store and each sample is a range of it; a gzip file is
 * inflated once, at the opening, and served from memory, as is a file that the store has in memory.
 */
#include "dataset/idx.h"

#include <stdio.h>

#define LABELS      256u
#define BLOCK_BYTES 65536u

typedef struct mnist_options {
    uint32_t struct_size;
    int32_t split;
    bool memory;
    const char *prefix;
    int32_t set;
} mnist_options;

enum { SPLIT_TRAIN, SPLIT_TEST };
enum { SET_BALANCED, SET_BYCLASS, SET_BYMERGE, SET_DIGITS, SET_LETTERS, SET_MNIST, SETS };

#define SPLIT                                                                                      \
    {                                                                                              \
        "split", STK_OPTION_ENUM, offsetof(mnist_options, split), "train", 0, 0, "train|test",     \
            NULL, "Which of the two sets."                                                         \
    }
#define MEMORY                                                                                     \
    {                                                                                              \
        "memory", STK_OPTION_BOOL, offsetof(mnist_options, memory), "false", 0, 0, NULL, NULL,     \
            "Read the images into memory when opening; gzip files always are."                     \
    }

static const stk_option mnist_option_list[] = {
    SPLIT,
    MEMORY,
    {"prefix", STK_OPTION_STRING, offsetof(mnist_options, prefix), "", 0, 0, NULL, "TEXT",
     "What is before `train-images` or `test-images` in the names, as \"emnist-letters-\"."},
};

static const stk_option plain_option_list[] = {SPLIT, MEMORY};

static const stk_option emnist_option_list[] = {
    SPLIT,
    MEMORY,
    {"set", STK_OPTION_ENUM, offsetof(mnist_options, set), "balanced", 0, 0,
     "balanced|byclass|bymerge|digits|letters|mnist", NULL,
     "Which selection of the characters, as torchvision's `split`."},
};

static const stk_option_table mnist_table = {"mnist", "Images and labels in IDX files.",
                                             sizeof(mnist_options), mnist_option_list,
                                             STK_COUNT(mnist_option_list)};
static const stk_option_table fashion_mnist_table = {"fashion_mnist", "Fashion-MNIST.",
                                                     sizeof(mnist_options), plain_option_list,
                                                     STK_COUNT(plain_option_list)};
static const stk_option_table kmnist_table = {"kmnist", "Kuzushiji-MNIST.", sizeof(mnist_options),
                                              plain_option_list, STK_COUNT(plain_option_list)};
static const stk_option_table emnist_table = {"emnist", "EMNIST.", sizeof(mnist_options),
                                              emnist_option_list, STK_COUNT(emnist_option_list)};

/* A kind: where torchvision has its files, and the names of its classes. */
typedef struct family {
    const stk_dataset_ops *ops;
    const char *const *folders;
    const char *const *classes; /* NULL: the numbers */
    uint32_t num_classes;
} family;

static const char *const mnist_folders[] = {
    "", "raw/", "MNIST/raw/", "FashionMNIST/raw/", "KMNIST/raw/", "EMNIST/raw/", NULL};
static const char *const fashion_folders[] = {"", "raw/", "FashionMNIST/raw/", NULL};
static const char *const kmnist_folders[] = {"", "raw/", "KMNIST/raw/", NULL};
/* The last one is that of the archive from NIST. */
static const char *const emnist_folders[] = {"", "raw/", "EMNIST/raw/", "gzip/", NULL};

static const char *const fashion_classes[] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                              "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                              "Bag",         "Ankle boot"};
static const char *const kmnist_classes[] = {"o",  "ki", "su", "tsu", "na",
                                             "ha", "ma", "ya", "re",  "wo"};

static const family mnist_family = {&stk__dataset_mnist, mnist_folders, NULL, 0};
static const family fashion_mnist_family = {&stk__dataset_fashion_mnist, fashion_folders,
                                            fashion_classes, STK_COUNT(fashion_classes)};
static const family kmnist_family = {&stk__dataset_kmnist, kmnist_folders, kmnist_classes,
                                     STK_COUNT(kmnist_classes)};
static const family emnist_family = {&stk__dataset_emnist, emnist_folders, NULL, 0};

/* EMNIST's sets. A class is a character; the merged ones are known by the capital letter. Labels of
 * letters begin at 1: class 0 has no samples, and torchvision's name. */
static const struct {
    const char *name, *classes;
} sets[SETS] = {
    [SET_BALANCED] = {"balanced", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"},
    [SET_BYCLASS] = {"byclass", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"},
    [SET_BYMERGE] = {"bymerge", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"},
    [SET_DIGITS] = {"digits", "0123456789"},
    [SET_LETTERS] = {"letters", "-abcdefghijklmnopqrstuvwxyz"},
    [SET_MNIST] = {"mnist", "0123456789"},
};

typedef struct mnist {
    stk_dataset base;
    stk_store *store;
    stk_field fields[2];
    stk__idx images;
    stk__idx labels;
    const unsigned char *label; /* `base.size` of them */
    uint64_t sample_bytes;
    const family *of;
    int32_t split, set;
    uint64_t counts[LABELS]; /* samples of each label */
    char names[LABELS][4];   /* "0", "1", ... */
    const char *classes[LABELS];
} mnist;

/* ---- Names ------------------------------------------------------------------------------------
 */

/* Look for the images or the labels of a split below the folders. */
static stk_status find_idx(stk_store *store, const char *const *folders, const char *prefix,
                           int32_t split, uint32_t magic, stk__object *object, bool *found,
                           stk_error *err)
{
    /* MNIST calls its test set t10k, EMNIST test. */
    static const char *const splits[2][2] = {{"train", NULL}, {"t10k", "test"}};
    const char *what = magic == STK__IDX_IMAGES ? "images" : "labels";

    *found = false;
    for (size_t f = 0; folders[f]; f++)
        for (int s = 0; s < 2 && splits[split][s]; s++)
            for (const char *dot = "-."; *dot; dot++)
                for (int gz = 0; gz < 2; gz++) {
                    char key[sizeof object->key];
                    snprintf(key, sizeof key, "%s%s%s-%s%cidx%u-ubyte%s", folders[f], prefix,
                             splits[split][s], what, *dot, stk__idx_rank(magic), gz ? ".gz" : "");
                    STK_TRY(stk__object_find(store, key, object, found, err));
                    if (*found)
                        return STK_OK;
                }
    return STK_OK;
}

static stk_status find_pair(mnist *m, const char *url, const char *prefix, stk_error *err)
{
    const char *kind = m->of->ops->name;
    const char *split = m->split == SPLIT_TRAIN   ? "train"
                        : m->of == &emnist_family ? "test"
                                                  : "t10k";
    bool found = false;

    if (strlen(prefix) > 64 || strchr(prefix, '/'))
        return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                         "%s: prefix \"%s\" is no beginning of a file name of at most 64 bytes",
                         kind, prefix);
    STK_TRY(find_idx(m->store, m->of->folders, prefix, m->split, STK__IDX_IMAGES, &m->images.object,
                     &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %.200s holds no file %s%s-images-idx3-ubyte or .gz; name the "
                            "folder that does (or its parent in torchvision's layout)%s",
                            kind, url, prefix, split,
                            m->of == &emnist_family ? ", or another set=" : "");
    STK_TRY(find_idx(m->store, m->of->folders, prefix, m->split, STK__IDX_LABELS, &m->labels.object,
                     &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %s has no labels next to it: put %s%s-labels-idx1-ubyte or "
                            ".gz there",
                            kind, m->images.object.key, prefix, split);
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

/* Names of classes: the kind's, EMNIST's characters, or numbers up to the highest label. */
static void fill_classes(mnist *m)
{
    uint32_t count = m->of->num_classes;

    if (m->of == &emnist_family)
        count = (uint32_t)strlen(sets[m->set].classes);
    for (uint32_t c = 0; c < LABELS; c++) {
        snprintf(m->names[c], sizeof m->names[c], "%u", c);
        if (m->of == &emnist_family && c < count)
            snprintf(m->names[c], sizeof m->names[c], "%c", sets[m->set].classes[c]);
        m->classes[c] = m->of->classes && c < count ? m->of->classes[c] : m->names[c];
        if (m->counts[c])
            m->base.num_classes = c + 1;
    }
    if (m->of == &emnist_family && m->set == SET_LETTERS)
        m->classes[0] = "N/A";
    m->base.num_classes = STK_MAX(m->base.num_classes, count);
}

static void fill_head(mnist *m, stk_context *ctx)
{
    uint64_t count = m->images.dims[0];
    int64_t shape[] = {m->images.dims[1], m->images.dims[2], 1, -1};

    m->label = m->labels.object.data + m->labels.first;
    m->sample_bytes = (uint64_t)shape[0] * (uint64_t)shape[1];
    m->fields[0] = stk__field("image", STK_UINT8, shape, true);
    m->fields[1] = stk__field("label", STK_INT64, (const int64_t[]){-1}, false);
    stk__dataset_init(&m->base, m->of->ops, ctx, count, m->fields, 2);
    for (uint64_t i = 0; i < count; i++)
        m->counts[m->label[i]]++;
    fill_classes(m);
    m->base.classes = m->classes;
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

static stk_status open_family(const family *of, stk_context *ctx, const char *url,
                              const mnist_options *o, stk_dataset **out, stk_error *err)
{
    char prefix[32] = "";
    char key[STK_MAX_OBJECT_KEY] = "";

    *out = NULL;
    if (of == &emnist_family)
        snprintf(prefix, sizeof prefix, "emnist-%s-", sets[o->set].name);
    mnist *m = stk__calloc(ctx, 1, sizeof *m);
    if (!m)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory to open %.200s",
                         of->ops->name, url);
    m->base.context = ctx;
    m->of = of;
    m->split = o->split;
    m->set = o->set;
    stk_status status = stk_store_open(ctx, url, &m->store, key, sizeof key, err);
    if (status == STK_OK && key[0])
        status =
            stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                         "%s: %.200s is a file; name its folder, and split=train or split=test",
                         of->ops->name, url);
    if (status == STK_OK)
        status = find_pair(m, url, o->prefix ? o->prefix : prefix, err);
    if (status == STK_OK)
        status = stk__idx_open(m->store, &m->images, STK__IDX_IMAGES, o->memory, err);
    if (status == STK_OK)
        status = stk__idx_open(m->store, &m->labels, STK__IDX_LABELS, true, err);
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

static stk_status mnist_open(stk_context *ctx, const char *url, const void *options,
                             stk_dataset **out, stk_error *err)
{
    return open_family(&mnist_family, ctx, url, options, out, err);
}

static stk_status fashion_mnist_open(stk_context *ctx, const char *url, const void *options,
                                     stk_dataset **out, stk_error *err)
{
    return open_family(&fashion_mnist_family, ctx, url, options, out, err);
}

static stk_status kmnist_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    return open_family(&kmnist_family, ctx, url, options, out, err);
}

static stk_status emnist_open(stk_context *ctx, const char *url, const void *options,
                              stk_dataset **out, stk_error *err)
{
    return open_family(&emnist_family, ctx, url, options, out, err);
}

static int mnist_recognise(stk_context *ctx, const char *url)
{
    char key[STK_MAX_OBJECT_KEY] = "";
    stk_store *store = NULL;
    stk__object object;
    bool found = false;

    if (stk_store_open(ctx, url, &store, key, sizeof key, NULL) != STK_OK)
        return 0;
    if (!key[0] &&
        find_idx(store, mnist_folders, "", SPLIT_TRAIN, STK__IDX_IMAGES, &object, &found, NULL) ==
            STK_OK &&
        !found &&
        find_idx(store, mnist_folders, "", SPLIT_TEST, STK__IDX_IMAGES, &object, &found, NULL) !=
            STK_OK)
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
    if (m->of == &emnist_family)
        line(user, "set", sets[m->set].name);
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

/* They are MNIST by their content: a name is to say which. */
static int never(stk_context *ctx, const char *url)
{
    (void)ctx;
    (void)url;
    return 0;
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

const stk_dataset_ops stk__dataset_fashion_mnist = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "fashion_mnist",
    .doc = "Fashion-MNIST: its IDX files, with the names of its classes.",
    .options = &fashion_mnist_table,
    .open = fashion_mnist_open,
    .recognise = never,
    .close = mnist_close,
    .locate = mnist_locate,
    .object = mnist_object,
    .prepare = mnist_prepare,
    .describe = mnist_describe,
};

const stk_dataset_ops stk__dataset_kmnist = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "kmnist",
    .doc = "Kuzushiji-MNIST: its IDX files, with the names of its classes.",
    .options = &kmnist_table,
    .open = kmnist_open,
    .recognise = never,
    .close = mnist_close,
    .locate = mnist_locate,
    .object = mnist_object,
    .prepare = mnist_prepare,
    .describe = mnist_describe,
};

const stk_dataset_ops stk__dataset_emnist = {
    .struct_size = sizeof(stk_dataset_ops),
    .name = "emnist",
    .doc = "EMNIST: the IDX files of one of its sets, with the names of its classes.",
    .options = &emnist_table,
    .open = emnist_open,
    .recognise = never,
    .close = mnist_close,
    .locate = mnist_locate,
    .object = mnist_object,
    .prepare = mnist_prepare,
    .describe = mnist_describe,
};
