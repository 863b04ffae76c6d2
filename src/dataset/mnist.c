/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mnist, fashion_mnist, kmnist, emnist: images and labels in IDX files, plain or gzip.
 *
 * A plain file of images stays in the store and each sample is a range of it; a gzip file is
 * inflated once, at the opening, and served from memory, as is a file that the store has in memory.
 */
#include "dataset/idx.h"

#include <stdio.h>

#include "base/url.h"
#include "dataset/published.h"

#define LABELS      256u
#define BLOCK_BYTES 65536u

typedef struct mnist_options {
    uint32_t struct_size;
    int32_t split;
    bool memory;
    bool download;
    const char *mirror;
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
#define DOWNLOAD                                                                                   \
    {"download",                                                                                   \
     STK_OPTION_BOOL,                                                                              \
     offsetof(mnist_options, download),                                                            \
     "false",                                                                                      \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     NULL,                                                                                         \
     "Fetch the files that are missing, of both sets, from where torchvision does."},              \
    {                                                                                              \
        "mirror", STK_OPTION_STRING, offsetof(mnist_options, mirror), "", 0, 0, NULL, "URL",       \
            "Folder of any store to download from instead."                                        \
    }

static const stk_option mnist_option_list[] = {
    SPLIT,
    MEMORY,
    DOWNLOAD,
    {"prefix", STK_OPTION_STRING, offsetof(mnist_options, prefix), "", 0, 0, NULL, "TEXT",
     "What is before `train-images` or `test-images` in the names, as \"emnist-letters-\"."},
};

static const stk_option plain_option_list[] = {SPLIT, MEMORY, DOWNLOAD};

static const stk_option emnist_option_list[] = {
    SPLIT,
    MEMORY,
    DOWNLOAD,
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

/* A kind: where torchvision has its files, what it downloads, and the names of its classes. */
typedef struct family {
    const stk_dataset_ops *ops;
    const char *const *folders;
    const stk__published *published;
    const char *const *classes; /* NULL: the numbers */
    uint32_t num_classes;
} family;

static const char *const mnist_folders[] = {
    "", "raw/", "MNIST/raw/", "FashionMNIST/raw/", "KMNIST/raw/", "EMNIST/raw/", NULL};
/* Those that MNIST's own files lie in: where they are downloaded other kinds do not count. */
static const char *const mnist_own_folders[] = {"", "raw/", "MNIST/raw/", NULL};
static const char *const fashion_folders[] = {"", "raw/", "FashionMNIST/raw/", NULL};
static const char *const kmnist_folders[] = {"", "raw/", "KMNIST/raw/", NULL};
/* The last one is that of the archive from NIST. */
static const char *const emnist_folders[] = {"", "raw/", "EMNIST/raw/", "gzip/", NULL};

static const char *const fashion_classes[] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                              "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                              "Bag",         "Ankle boot"};
static const char *const kmnist_classes[] = {"o",  "ki", "su", "tsu", "na",
                                             "ha", "ma", "ya", "re",  "wo"};

static const family mnist_family = {&stk__dataset_mnist, mnist_folders, &stk__published_mnist, NULL,
                                    0};
static const family fashion_mnist_family = {&stk__dataset_fashion_mnist, fashion_folders,
                                            &stk__published_fashion_mnist, fashion_classes,
                                            STK_COUNT(fashion_classes)};
static const family kmnist_family = {&stk__dataset_kmnist, kmnist_folders, &stk__published_kmnist,
                                     kmnist_classes, STK_COUNT(kmnist_classes)};
static const family emnist_family = {&stk__dataset_emnist, emnist_folders, &stk__published_emnist,
                                     NULL, 0};

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
    const char *const *folders;
    char prefix[80]; /* of names of files */
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

/* What is before "train-images" in the names of files. */
static stk_status take_prefix(mnist *m, const char *given, stk_error *err)
{
    if (m->of == &emnist_family)
        snprintf(m->prefix, sizeof m->prefix, "emnist-%s-", sets[m->set].name);
    else
        snprintf(m->prefix, sizeof m->prefix, "%s", given ? given : "");
    if (strlen(m->prefix) <= 64 && !strchr(m->prefix, '/'))
        return STK_OK;
    return stk__fail(err, STK_EINVAL, STK_STAGE_DATASET,
                     "%s: prefix \"%s\" is no beginning of a file name of at most 64 bytes",
                     m->of->ops->name, given);
}

static stk_status find_pair(mnist *m, const char *url, stk_error *err)
{
    const char *kind = m->of->ops->name;
    const char *split = m->split == SPLIT_TRAIN   ? "train"
                        : m->of == &emnist_family ? "test"
                                                  : "t10k";
    const char *prefix = m->prefix;
    bool found = false;

    STK_TRY(find_idx(m->store, m->folders, prefix, m->split, STK__IDX_IMAGES, &m->images.object,
                     &found, err));
    if (!found)
        return stk__fail_at(err, STK_ENOENT, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %.200s holds no file %s%s-images-idx3-ubyte or .gz; name the "
                            "folder that does (or its parent in torchvision's layout)%s, or have "
                            "it filled with download=true",
                            kind, url, prefix, split,
                            m->of == &emnist_family ? ", or another set=" : "");
    STK_TRY(find_idx(m->store, m->folders, prefix, m->split, STK__IDX_LABELS, &m->labels.object,
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

/* ---- Files that are published ------------------------------------------------------------------
 */

/* Where the archive of EMNIST's sets lies: what torchvision and download=true leave. */
static stk_status find_sets(stk_store *store, stk__object *archive, bool *found, stk_error *err)
{
    *found = false;
    for (size_t f = 0; emnist_folders[f] && !*found; f++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", emnist_folders[f], stk__published_emnist.files[0].name);
        STK_TRY(stk__object_find(store, key, archive, found, err));
    }
    return STK_OK;
}

/* Where a folder has no files of EMNIST but the archive of them, that is the store. */
static stk_status enter_sets(mnist *m, const char *url, stk_error *err)
{
    stk_context *ctx = m->base.context;
    char key[STK_MAX_OBJECT_KEY];
    stk_store *store = NULL;
    stk__object object;
    bool found = false;

    STK_TRY(
        find_idx(m->store, m->folders, m->prefix, m->split, STK__IDX_IMAGES, &object, &found, err));
    if (found)
        return STK_OK;
    STK_TRY(find_sets(m->store, &object, &found, err));
    if (!found)
        return STK_OK;
    char *archive = stk__url_below(ctx, url, object.key);
    stk_status status =
        archive ? stk__container_enter(ctx, &archive, err)
                : stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "no memory to open '%.200s'", url);
    if (status == STK_OK)
        status = stk_store_open(ctx, archive, &store, key, sizeof key, err);
    stk__free(ctx, archive);
    if (status == STK_OK && key[0]) {
        stk_store_close(&store);
        status = stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, object.key, STK_NO_OFFSET,
                              "%s: %s is no zip archive; copy or download it again",
                              m->of->ops->name, object.key);
    }
    if (status == STK_OK) {
        stk_store_close(&m->store);
        m->store = store;
    }
    return status;
}

/* For stk__published_get(): whether a published file is there, in whatever form. */
static stk_status has_published(const void *user, stk_store *store, size_t file, bool *there,
                                stk_error *err)
{
    const mnist *m = user;
    uint32_t magic = STK__IDX_IMAGES;
    int32_t split = m->split;
    stk__object object;

    if (m->of != &emnist_family) {
        split = file < 2 ? SPLIT_TRAIN : SPLIT_TEST;
        magic = file % 2 ? STK__IDX_LABELS : STK__IDX_IMAGES;
    }
    STK_TRY(find_idx(store, m->folders, m->prefix, split, magic, &object, there, err));
    return *there || m->of != &emnist_family ? STK_OK : find_sets(store, &object, there, err);
}

/* ---- Opening -----------------------------------------------------------------------------------
 */

static int64_t mnist_label(const stk_dataset *dataset, uint64_t index)
{
    return ((const mnist *)dataset)->label[index];
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
    m->base.label = mnist_label;
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

/* Open and check the files of a folder. */
static stk_status open_files(mnist *m, const char *url, bool load, stk_error *err)
{
    char key[STK_MAX_OBJECT_KEY] = "";

    STK_TRY(stk_store_open(m->base.context, url, &m->store, key, sizeof key, err));
    if (key[0])
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_DATASET, url, STK_NO_OFFSET,
                            "%s: %.200s is a file; name its folder, and split=train or split=test",
                            m->of->ops->name, url);
    if (m->of == &emnist_family)
        STK_TRY(enter_sets(m, url, err));
    STK_TRY(find_pair(m, url, err));
    STK_TRY(stk__idx_open(m->store, &m->images, STK__IDX_IMAGES, load, err));
    STK_TRY(stk__idx_open(m->store, &m->labels, STK__IDX_LABELS, true, err));
    if (m->images.dims[0] == m->labels.dims[0])
        return STK_OK;
    return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, m->labels.object.key, 4,
                        "%s has %u labels and %s has %u images: they do not belong together",
                        m->labels.object.key, m->labels.dims[0], m->images.object.key,
                        m->images.dims[0]);
}

static stk_status open_family(const family *of, stk_context *ctx, const char *url,
                              const mnist_options *o, stk_dataset **out, stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__published_check(of->ops->name, o->download, o->mirror, "prefix",
                                 o->prefix && o->prefix[0], err));
    mnist *m = stk__calloc(ctx, 1, sizeof *m);
    if (!m)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_DATASET, "%s: no memory to open %.200s",
                         of->ops->name, url);
    m->base.context = ctx;
    m->of = of;
    m->folders = o->download && of == &mnist_family ? mnist_own_folders : of->folders;
    m->split = o->split;
    m->set = o->set;
    stk_status status = take_prefix(m, o->prefix, err);
    if (status == STK_OK && o->download)
        status = stk__published_get(ctx, of->published, url, o->mirror, has_published, m, err);
    if (status == STK_OK)
        status = open_files(m, url, o->memory, err);
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

    stk_status status = stk_store_open(ctx, url, &store, key, sizeof key, NULL);
    for (int32_t split = SPLIT_TRAIN; split <= SPLIT_TEST && status == STK_OK && !key[0] && !found;
         split++)
        status = find_idx(store, mnist_folders, "", split, STK__IDX_IMAGES, &object, &found, NULL);
    stk_store_close(&store);
    return status == STK_OK && found ? 2 : stk__dataset_unsure(status);
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

/* The others are MNIST by their content: a name is to say which. */
#define OPS(kind, how, what)                                                                       \
    {                                                                                              \
        .struct_size = sizeof(stk_dataset_ops), .name = #kind, .doc = what,                        \
        .options = &kind##_table, .open = kind##_open, .recognise = how, .close = mnist_close,     \
        .locate = mnist_locate, .object = mnist_object, .prepare = mnist_prepare,                  \
        .describe = mnist_describe                                                                 \
    }

const stk_dataset_ops stk__dataset_mnist =
    OPS(mnist, mnist_recognise,
        "Images and labels in IDX files, plain or gzip: MNIST, Fashion-MNIST, KMNIST, EMNIST.");
const stk_dataset_ops stk__dataset_fashion_mnist =
    OPS(fashion_mnist, NULL, "Fashion-MNIST: its IDX files, with the names of its classes.");
const stk_dataset_ops stk__dataset_kmnist =
    OPS(kmnist, NULL, "Kuzushiji-MNIST: its IDX files, with the names of its classes.");
const stk_dataset_ops stk__dataset_emnist =
    OPS(emnist, NULL, "EMNIST: the IDX files of one of its sets, with the names of its classes.");
