/* SPDX-License-Identifier: Apache-2.0 */
/* mnist: against files made here and against the real MNIST, read by zlib's own file functions. */
#include <stdio.h>
#include <zlib.h>

#include "dataset/dataset.h"
#include "samples.h"
#include "support/gzips.h"

enum { ROWS = 5, COLUMNS = 7, COUNT = 9, IMAGES = 16 + COUNT * ROWS * COLUMNS, LABELS = 8 + COUNT };

typedef struct files {
    unsigned char images[IMAGES + 8];
    unsigned char labels[LABELS + 8];
} files;

static void put_word(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Byte k of the images is 3 k + 1, label i is i mod 4. */
static files make_files(void)
{
    files f;

    memset(&f, 0, sizeof f);
    put_word(f.images, 0x803);
    put_word(f.images + 4, COUNT);
    put_word(f.images + 8, ROWS);
    put_word(f.images + 12, COLUMNS);
    for (int i = 0; i < COUNT * ROWS * COLUMNS; i++)
        f.images[16 + i] = (unsigned char)(3 * i + 1);
    put_word(f.labels, 0x801);
    put_word(f.labels + 4, COUNT);
    for (int i = 0; i < COUNT; i++)
        f.labels[8 + i] = (unsigned char)(i % 4);
    return f;
}

static stk_status open_spec(stk_context *ctx, const char *folder, const char *query,
                            stk_dataset **out, stk_error *err)
{
    char spec[1200];

    snprintf(spec, sizeof spec, "mnist:%s%s", folder, query);
    stk_error_init(err);
    return stk_dataset_open(ctx, spec, out, err);
}

static void check_samples(stk_dataset *d, const files *f, bool needs)
{
    static const uint64_t indices[] = {8, 0, 3, 3, 7, 1};
    samples *s = samples_read(d, indices, STK_COUNT(indices));

    assert_int_equal(s->located, needs ? STK_COUNT(indices) : 0);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->sample[i].status, STK_OK);
        assert_memory_equal(s->data[i], f->images + 16 + indices[i] * ROWS * COLUMNS,
                            ROWS * COLUMNS);
        assert_int_equal(s->label[i], indices[i] % 4);
    }
    samples_free(s);
}

static void check_head(const stk_dataset *d)
{
    assert_int_equal(d->size, COUNT);
    assert_int_equal(d->num_fields, 2);
    assert_string_equal(d->fields[0].name, "image");
    assert_int_equal(d->fields[0].dtype, STK_UINT8);
    assert_int_equal(d->fields[0].rank, 3);
    assert_int_equal(d->fields[0].shape[0], ROWS);
    assert_int_equal(d->fields[0].shape[1], COLUMNS);
    assert_int_equal(d->fields[0].shape[2], 1);
    assert_true(d->fields[0].picture);
    assert_string_equal(d->fields[1].name, "label");
    assert_int_equal(d->fields[1].dtype, STK_INT64);
    assert_int_equal(d->fields[1].rank, 0);
    assert_int_equal(d->num_classes, 4);
    assert_string_equal(d->classes[3], "3");
    assert_int_equal(d->block_size, 65536 / (ROWS * COLUMNS));
}

/* Where the files may lie and how they may be called; always the same samples and fingerprint. */
static void test_layouts(void **state)
{
    static const struct {
        const char *images, *labels, *query;
        bool packed, needs;
    } cases[] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "", false, true},
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "?memory=true", false, false},
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "?mmap=true", false, false},
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "", true, false},
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "?split=train", false, true},
        {"MNIST/raw/train-images-idx3-ubyte", "MNIST/raw/train-labels-idx1-ubyte", "", false, true},
        {"FashionMNIST/raw/train-images-idx3-ubyte.gz",
         "FashionMNIST/raw/train-labels-idx1-ubyte.gz", "", true, false},
        {"emnist-letters-train-images-idx3-ubyte.gz", "emnist-letters-train-labels-idx1-ubyte.gz",
         "?prefix=emnist-letters-", true, false},
    };
    stk_context *ctx = test_context();
    files f = make_files();
    uint64_t fingerprint = 0;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char folder[256];
        stk_dataset *d = NULL;
        test_folder(folder);
        (cases[i].packed ? gzip_write : test_write)(folder, cases[i].images, f.images, IMAGES);
        (cases[i].packed ? gzip_write : test_write)(folder, cases[i].labels, f.labels, LABELS);
        assert_ok(open_spec(ctx, folder, cases[i].query, &d, &err), &err);
        check_head(d);
        check_samples(d, &f, cases[i].needs);
        if (i)
            assert_int_equal(d->fingerprint, fingerprint);
        fingerprint = d->fingerprint;
        stk_dataset_close(&d);
        test_folder_remove(folder);
    }
    stk_context_destroy(&ctx);
}

/* The two splits; other labels are another dataset. */
static void test_splits(void **state)
{
    stk_context *ctx = test_context();
    files f = make_files();
    char folder[256];
    stk_dataset *train = NULL, *test = NULL;
    stk_error err;

    test_folder(folder);
    test_write(folder, "train-images-idx3-ubyte", f.images, IMAGES);
    test_write(folder, "train-labels-idx1-ubyte", f.labels, LABELS);
    test_write(folder, "t10k-images-idx3-ubyte", f.images, IMAGES);
    test_write(folder, "t10k-labels-idx1-ubyte", f.labels, LABELS);
    assert_ok(open_spec(ctx, folder, "", &train, &err), &err);
    assert_ok(open_spec(ctx, folder, "?split=test", &test, &err), &err);
    assert_true(train->fingerprint != test->fingerprint);
    uint64_t fingerprint = test->fingerprint;
    stk_dataset_close(&test);
    f.labels[8 + 4] ^= 1;
    test_write(folder, "t10k-labels-idx1-ubyte", f.labels, LABELS);
    assert_ok(open_spec(ctx, folder, "?split=test", &test, &err), &err);
    assert_true(test->fingerprint != fingerprint);
    stk_dataset_close(&test);
    stk_dataset_close(&train);
    /* Recognised without a prefix. */
    assert_ok(stk_dataset_open(ctx, folder, &train, &err), &err);
    assert_string_equal(train->ops->name, "mnist");
    stk_dataset_close(&train);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* What a store has in memory is not copied. */
static void test_mapped(void **state)
{
    stk_context *ctx = test_context();
    files f = make_files();
    char key[64];
    stk_store *store = NULL;
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://mnist", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_put(store, "train-images-idx3-ubyte", f.images, IMAGES, NULL, &err), &err);
    assert_ok(stk_store_put(store, "train-labels-idx1-ubyte", f.labels, LABELS, NULL, &err), &err);
    assert_ok(open_spec(ctx, "mem://mnist", "", &d, &err), &err);
    check_head(d);
    check_samples(d, &f, false);
    samples *s = samples_range(d, 2, 1);
    assert_ptr_not_equal(s->values[0].data, s->data[0]);
    samples_free(s);
    stk_dataset_close(&d);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* ---- Bad input --------------------------------------------------------------------------------
 */

typedef struct bad {
    const char *what;
    int file;      /* 0: images, 1: labels */
    uint32_t at;   /* word that is changed, ... */
    uint32_t word; /* ... to this */
    int size;      /* bytes of the file more or less */
    stk_status status;
    const char *part;
    uint64_t offset;
} bad;

static const bad bads[] = {
    {"labels as images", 0, 0, 0x801, 0, STK_EFORMAT, "0x00000801", 0},
    {"images as labels", 1, 0, 0x803, 0, STK_EFORMAT, "0x00000803", 0},
    {"no magic", 0, 0, 0x1f8b0800, 0, STK_EFORMAT, "begins with 0x1f8b0800", 0},
    {"no samples", 0, 4, 0, 0, STK_EFORMAT, "0 samples", 4},
    {"no rows", 0, 8, 0, 0, STK_EFORMAT, "0 rows", 8},
    {"negative rows", 0, 8, 0xffffffff, 0, STK_EFORMAT, "4294967295 rows", 8},
    {"huge columns", 0, 12, 4097, 0, STK_EFORMAT, "4097 columns", 12},
    {"too many samples", 0, 4, 0xffffffff, 0, STK_ETRUNCATED, "ends after", IMAGES},
    {"one image too many", 0, 4, COUNT + 1, 0, STK_ETRUNCATED, "ends after", IMAGES},
    {"one image too few", 0, 4, COUNT - 1, 0, STK_EFORMAT, "ask for", IMAGES - ROWS *COLUMNS},
    {"one byte less", 0, 0, 0x803, -1, STK_ETRUNCATED, "ends after", IMAGES - 1},
    {"one byte more", 0, 0, 0x803, 1, STK_EFORMAT, "ask for", IMAGES},
    {"labels too few", 1, 4, COUNT - 1, -1, STK_EFORMAT, "do not belong together", 4},
    {"labels cut", 1, 0, 0x801, -1, STK_ETRUNCATED, "ends after", LABELS - 1},
    {"header cut", 0, 0, 0x803, 15 - IMAGES, STK_ETRUNCATED, "ends after 15", 15},
    {"nothing", 1, 0, 0, -LABELS, STK_ETRUNCATED, "ends after 0", 0},
};

static void test_bad_files(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    stk_error err;

    test_folder(folder);
    for (size_t i = 0; i < 2 * STK_COUNT(bads); i++) {
        const bad *b = &bads[i / 2];
        bool packed = i & 1;
        files f = make_files();
        stk_dataset *d = (stk_dataset *)1;
        unsigned char *changed = b->file ? f.labels : f.images;
        size_t images = (size_t)(IMAGES + (b->file ? 0 : b->size));
        size_t labels = (size_t)(LABELS + (b->file ? b->size : 0));
        put_word(changed + b->at, b->word);
        (packed ? gzip_write : test_write)(
            folder, packed ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte", f.images,
            images);
        (packed ? gzip_write : test_write)(
            folder, packed ? "train-labels-idx1-ubyte.gz" : "train-labels-idx1-ubyte", f.labels,
            labels);
        stk_status status = open_spec(ctx, folder, "", &d, &err);
        assert_null(d);
        if (packed) {
            /* The size is told by inflating, so the words differ; the refusal does not. */
            if (status != STK_EFORMAT && status != STK_ETRUNCATED)
                fail_msg("%s.gz: %s", b->what, stk_status_name(status));
            assert_non_null(strstr(err.text, b->file ? "labels" : "images"));
        } else {
            assert_fails(status, b->status, &err, b->part);
            assert_non_null(strstr(err.key, b->file ? "labels" : "images"));
            assert_int_equal(err.offset, b->offset);
        }
        char path[300];
        snprintf(path, sizeof path, "%s/train-images-idx3-ubyte%s", folder, packed ? ".gz" : "");
        assert_int_equal(remove(path), 0);
        snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte%s", folder, packed ? ".gz" : "");
        assert_int_equal(remove(path), 0);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_missing(void **state)
{
    stk_context *ctx = test_context();
    files f = make_files();
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_ENOENT, &err, "train-images-idx3-ubyte");
    assert_fails(open_spec(ctx, folder, "?split=test", &d, &err), STK_ENOENT, &err, "t10k-images");
    assert_fails(open_spec(ctx, folder, "?split=both", &d, &err), STK_EINVAL, &err, "both");
    assert_fails(open_spec(ctx, folder, "?prefix=a/b", &d, &err), STK_EINVAL, &err, "a/b");
    test_write(folder, "train-images-idx3-ubyte", f.images, IMAGES);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_ENOENT, &err, "train-labels-idx1-ubyte");
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", folder);
    assert_fails(open_spec(ctx, path, "", &d, &err), STK_EINVAL, &err, "name its folder");
    snprintf(path, sizeof path, "%s/absent", folder);
    assert_fails(open_spec(ctx, path, "", &d, &err), STK_ENOENT, &err, "absent");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A small gzip file whose header asks for gigabytes takes no memory before it is refused. */
static void test_bomb(void **state)
{
    stk_context *ctx = test_context();
    files f = make_files();
    char folder[256];
    stk_dataset *d = NULL;
    stk_memory_stats before = {.struct_size = sizeof before};
    stk_memory_stats after = {.struct_size = sizeof after};
    stk_error err;

    test_folder(folder);
    put_word(f.images + 4, 100000000);
    gzip_write(folder, "train-images-idx3-ubyte.gz", f.images, IMAGES);
    gzip_write(folder, "train-labels-idx1-ubyte.gz", f.labels, LABELS);
    stk_context_memory(ctx, &before);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_EFORMAT, &err, "cannot hold");
    stk_context_memory(ctx, &after);
    assert_int_equal(after.bytes, before.bytes);
    assert_true(after.peak_bytes - before.bytes < 1 << 20);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* `count` black images and their labels, small as gzip. */
static void write_black(const char *folder, uint32_t count)
{
    unsigned char *images = calloc(1, 16 + (size_t)count * 784), *labels = calloc(1, 8 + count);

    assert_true(images && labels);
    put_word(images, 0x803);
    put_word(images + 4, count);
    put_word(images + 8, 28);
    put_word(images + 12, 28);
    put_word(labels, 0x801);
    put_word(labels + 4, count);
    gzip_write(folder, "train-images-idx3-ubyte.gz", images, 16 + (size_t)count * 784);
    gzip_write(folder, "train-labels-idx1-ubyte.gz", labels, 8 + count);
    free(images);
    free(labels);
}

/* What is inflated counts: against memory_limit while opening, and in a loader's budget. */
static void test_memory(void **state)
{
    stk_memory_stats memory = {.struct_size = sizeof memory};
    stk_context_options options;
    stk_loader_options lo;
    stk_loader *loader = NULL;
    stk_context *ctx = NULL;
    stk_dataset *d = NULL;
    char folder[256];
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = 32 << 20;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    test_folder(folder);
    write_black(folder, 50000);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_ELIMIT, &err,
                 "of memory_limit are left");
    assert_non_null(strstr(err.text, "inflates to 39200016 bytes"));
    write_black(folder, 20000);
    assert_ok(open_spec(ctx, folder, "", &d, &err), &err);
    assert_int_equal(d->held_bytes, 16 + 20000 * 784 + 8 + 20000);
    stk_context_memory(ctx, &memory);
    assert_true(memory.peak_bytes <= options.memory_limit);
    /* A view of it keeps as much. */
    assert_ok(stk_dataset_range(&d, 0, 100, &err), &err);
    stk_loader_options_init(&lo);
    lo.memory_budget = 8 << 20;
    assert_fails(stk_loader_create(d, &lo, &loader, &err), STK_EBUDGET, &err,
                 "the dataset itself keeps 15700024 in memory, and");
    lo.num_workers = 1;
    lo.memory_budget = 24 << 20;
    assert_ok(stk_loader_create(d, &lo, &loader, &err), &err);
    stk_loader_destroy(&loader);
    /* A second one does not fit beside the first. */
    stk_dataset *second = NULL;
    write_black(folder, 30000);
    assert_fails(open_spec(ctx, folder, "", &second, &err), STK_ELIMIT, &err, "memory_limit");
    stk_dataset_close(&d);
    assert_ok(open_spec(ctx, folder, "", &d, &err), &err);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A file that becomes shorter after it was opened is an error of its samples. */
static void test_cut_while_read(void **state)
{
    stk_context *ctx = test_context();
    files f = make_files();
    char folder[256];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    test_write(folder, "train-images-idx3-ubyte", f.images, IMAGES);
    test_write(folder, "train-labels-idx1-ubyte", f.labels, LABELS);
    assert_ok(open_spec(ctx, folder, "", &d, &err), &err);
    test_write(folder, "train-images-idx3-ubyte", f.images, IMAGES - 1);
    samples *s = samples_range(d, 0, COUNT);
    for (size_t i = 0; i < COUNT - 1; i++)
        assert_int_equal(s->sample[i].status, STK_OK);
    assert_true(s->sample[COUNT - 1].status == STK_ETRUNCATED ||
                s->sample[COUNT - 1].status == STK_ECHANGED);
    samples_free(s);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void find_line(void *user, const char *name, const char *value)
{
    if (!strcmp(name, "samples of each label") && !strcmp(value, "0: 3, 1: 2, 2: 2, 3: 2"))
        *(bool *)user = true;
}

static void test_describe(void **state)
{
    stk_context *ctx = test_context();
    files f = make_files();
    char folder[256];
    stk_dataset *d = NULL;
    bool found = false;
    stk_error err;

    test_folder(folder);
    test_write(folder, "train-images-idx3-ubyte", f.images, IMAGES);
    test_write(folder, "train-labels-idx1-ubyte", f.labels, LABELS);
    assert_ok(open_spec(ctx, folder, "", &d, &err), &err);
    assert_ok(stk_dataset_describe(d, find_line, &found, &err), &err);
    assert_true(found);
    stk_dataset_close(&d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Whole sets --------------------------------------------------------------------------------
 */

/* All of a gzip file by zlib's file functions. */
static unsigned char *slurp(const char *folder, const char *name, size_t size)
{
    char path[512];
    unsigned char *data = malloc(size + 1);

    snprintf(path, sizeof path, "%s/%s", folder, name);
    gzFile f = gzopen(path, "rb");
    assert_non_null(f);
    assert_non_null(data);
    assert_int_equal(gzread(f, data, (unsigned)size + 1), size);
    gzclose(f);
    return data;
}

static void check_whole(stk_context *ctx, const char *folder, const char *query, const char *name,
                        size_t count)
{
    char file[64];
    stk_dataset *d = NULL;
    stk_error err;

    snprintf(file, sizeof file, "%s-images-idx3-ubyte.gz", name);
    unsigned char *images = slurp(folder, file, 16 + count * 784);
    snprintf(file, sizeof file, "%s-labels-idx1-ubyte.gz", name);
    unsigned char *labels = slurp(folder, file, 8 + count);
    assert_ok(open_spec(ctx, folder, query, &d, &err), &err);
    assert_int_equal(d->size, count);
    assert_int_equal(d->num_classes, 10);
    for (size_t first = 0; first < count; first += SAMPLES_MAX) {
        samples *s = samples_range(d, first, STK_MIN(count - first, SAMPLES_MAX));
        for (size_t i = 0; i < s->n; i++) {
            assert_int_equal(s->label[i], labels[8 + first + i]);
            if (memcmp(s->data[i], images + 16 + (first + i) * 784, 784) != 0)
                fail_msg("image %zu differs", first + i);
        }
        samples_free(s);
    }
    stk_dataset_close(&d);
    free(images);
    free(labels);
}

/* Digits as `stoker convert` writes them, packed as MNIST is handed out. */
static void make_set(stk_context *ctx, const char *folder, const char *source)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    static unsigned char bytes[4 << 20];
    stk_conversion *conversion = NULL;
    stk_error err;

    assert_ok(stk_conversion_create(ctx, source, folder, &conversion, &err), &err);
    assert_ok(stk_conversion_run(conversion, NULL, NULL, NULL, &err), &err);
    stk_conversion_destroy(&conversion);
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        char path[512], packed[64];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        const size_t size = fread(bytes, 1, sizeof bytes, f);
        assert_in_range(size, 1, sizeof bytes - 1);
        fclose(f);
        assert_int_equal(remove(path), 0);
        snprintf(packed, sizeof packed, "%s.gz", names[i]);
        gzip_write(folder, packed, bytes, size);
    }
}

/* A set of digits made here, and MNIST itself where its files are. */
static void test_whole_sets(void **state)
{
    stk_context *ctx = test_context();
    char path[256];

    if (test_has_data("mnist", path)) {
        check_whole(ctx, path, "", "train", 60000);
        check_whole(ctx, path, "?split=test", "t10k", 10000);
    }
    test_folder(path);
    make_set(ctx, path, "digits:?size=5000");
    check_whole(ctx, path, "", "train", 5000);
    check_whole(ctx, path, "?split=test", "t10k", 5000);
    test_folder_remove(path);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),  cmocka_unit_test(test_splits),
        cmocka_unit_test(test_mapped),   cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_missing),  cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_cut_while_read),
        cmocka_unit_test(test_describe), cmocka_unit_test(test_whole_sets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
