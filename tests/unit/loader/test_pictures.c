/* SPDX-License-Identifier: Apache-2.0 */
/* Encoded pictures through the loader: from files to batches, and what becomes of the bad ones. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "support/support.h"
#include "support/text.h"

enum { SIDE = 24, PIXELS = SIDE * SIDE, MOST = 128 };

/* Files of tests/golden/images that decode. */
static char names[MOST][64];
static size_t num_names;

static unsigned char *read_golden(const char *name, size_t *size)
{
    char path[600];

    snprintf(path, sizeof path, "%s/golden/images/%s", TESTS_DIR, name);
    unsigned char *data = test_load(path, size);
    assert_non_null(data);
    return data;
}

/* An ImageFolder of the golden pictures: JPEG in class "jpg", PNG in "png". */
static void make_tree(const char *folder)
{
    char path[600];

    snprintf(path, sizeof path, "%s/golden/images", TESTS_DIR);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    num_names = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && num_names < MOST;) {
        const char *dot = strrchr(entry->d_name, '.');
        size_t size;

        if (!dot || (strcmp(dot, ".jpg") != 0 && strcmp(dot, ".png") != 0))
            continue;
        snprintf(names[num_names++], sizeof names[0], "%s/%.50s", dot + 1, entry->d_name);
        unsigned char *data = read_golden(entry->d_name, &size);
        test_write(folder, names[num_names - 1], data, size);
        free(data);
    }
    closedir(dir);
    assert_true(num_names > 40);
}

static stk_dataset *open_tree(stk_context *ctx, const char *folder)
{
    char spec[400];
    stk_dataset *dataset = NULL;
    stk_error err;

    snprintf(spec, sizeof spec, "images:%s", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    return dataset;
}

static stk_loader_options picture_options(void)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.batch_size = 16;
    o.shuffle = STK_SHUFFLE_FULL;
    o.seed = 7;
    o.epochs = 2;
    o.transforms = "random_resized_crop(24), horizontal_flip, vertical_flip";
    return o;
}

/* All pictures of all epochs, by epoch and position; rows that are missing stay zero. */
static void *collect(stk_dataset *dataset, const stk_loader_options *o, size_t item, size_t *count)
{
    stk_loader *loader = NULL;
    stk_batch *batch;
    stk_error err;
    const size_t row = PIXELS * 3 * item;
    char *all = calloc(o->epochs * dataset->size, row);
    stk_status status;
    size_t ends = 0;

    *count = 0;
    assert_non_null(all);
    assert_ok(stk_loader_create(dataset, o, &loader, &err), &err);
    while (ends < o->epochs) {
        status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS) {
            ends++;
            continue;
        }
        assert_ok(status, &err);
        stk_tensor image = {.struct_size = sizeof image};
        assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
        const uint64_t *positions = stk_batch_positions(batch);
        for (uint64_t i = 0; i < stk_batch_count(batch); i++)
            memcpy(all + (stk_batch_epoch(batch) * dataset->size + positions[i]) * row,
                   (const char *)image.data + i * row, row);
        *count += stk_batch_count(batch);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    return all;
}

/* The bytes are a function of seed, epoch and position: not of workers, cache, prefetch or batches.
 */
static void pictures_depend_on_position_alone(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    size_t count;

    (void)state;
    test_folder(folder);
    make_tree(folder);
    stk_dataset *dataset = open_tree(ctx, folder);
    assert_int_equal(dataset->size, num_names);
    stk_loader_options o = picture_options();
    o.num_workers = 0;
    const size_t bytes = o.epochs * dataset->size * PIXELS * 3;
    char *want = collect(dataset, &o, 1, &count);
    assert_int_equal(count, o.epochs * dataset->size);
    for (int k = 0; k < 4; k++) {
        stk_loader_options other = picture_options();
        other.num_workers = k;
        other.batch_size = k == 2 ? 16 : (uint64_t)(5 + k);
        other.cache = k % 3;
        other.prefetch_factor = 1 + k;
        char *got = collect(dataset, &other, 1, &count);
        assert_int_equal(count, o.epochs * dataset->size);
        assert_memory_equal(got, want, bytes);
        free(got);
    }
    /* Epochs differ: the draws do. */
    assert_int_not_equal(memcmp(want, want + bytes / 2, bytes / 2), 0);
    free(want);
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* One pass or several: floats in planes are those of the bytes, normalised. */
static void floats_are_those_of_the_bytes(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    size_t count;

    (void)state;
    test_folder(folder);
    make_tree(folder);
    stk_dataset *dataset = open_tree(ctx, folder);
    stk_loader_options o = picture_options();
    o.epochs = 1;
    uint8_t *bytes = collect(dataset, &o, 1, &count);
    o.transforms = "random_resized_crop(24), horizontal_flip, vertical_flip, "
                   "normalize([0.5, 0.4, 0.3], [0.2, 0.25, 0.5]), layout(chw)";
    float *floats = collect(dataset, &o, sizeof(float), &count);
    const double mean[] = {0.5, 0.4, 0.3}, std[] = {0.2, 0.25, 0.5};
    for (size_t s = 0; s < dataset->size; s++)
        for (size_t p = 0; p < PIXELS; p++)
            for (size_t c = 0; c < 3; c++) {
                double want = (bytes[(s * PIXELS + p) * 3 + c] / 255.0 - mean[c]) / std[c];
                assert_true(fabs(floats[(s * 3 + c) * PIXELS + p] - want) < 1e-5);
            }
    free(bytes);
    free(floats);
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Bad pictures ---- */

/* A JPEG header that claims 65,535 x 65,535 pixels, and little else. */
static const unsigned char giant[] = {
    0xff, 0xd8, 0xff, 0xc0, 0, 17, 8, 0xff, 0xff, 0xff, 0xff, 3, 1, 0x11, 0,  2, 0x11, 0,   3,
    0x11, 0,    0xff, 0xda, 0, 12, 3, 1,    0,    2,    0,    3, 0, 0,    63, 0, 0xff, 0xd9};

static void plant(const char *folder)
{
    size_t size;
    unsigned char *good = read_golden("base_420.jpg", &size);

    test_write(folder, "a/good.jpg", good, size);
    test_write(folder, "a/cut.jpg", good, size / 2);
    test_write(folder, "a/no_end.jpg", good, size - 2);
    free(good);
    test_write(folder, "b/empty.jpg", "", 0);
    test_write(folder, "b/text.jpg", "not a picture at all", 20);
    test_write(folder, "b/giant.jpg", giant, sizeof giant);
    good = read_golden("rgb_8.png", &size);
    test_write(folder, "c/good.png", good, size);
    test_write(folder, "c/wrong_name.jpg", good, size); /* a PNG all the same */
    good[size / 2] ^= 1;
    test_write(folder, "c/checksum.png", good, size);
    free(good);
}

static void bad_pictures_are_named(void **state)
{
    static const struct {
        const char *name, *says;
        stk_status status;
    } bad[] = {{"cut.jpg", "end", STK_ETRUNCATED},      {"no_end.jpg", "end", STK_ETRUNCATED},
               {"empty.jpg", "", STK_ETRUNCATED},       {"text.jpg", "JPEG", STK_EFORMAT},
               {"giant.jpg", "max_pixels", STK_ELIMIT}, {"checksum.png", "", STK_ECHECKSUM}};
    stk_context *ctx = test_context();
    char folder[256];
    stk_error err;

    (void)state;
    test_folder(folder);
    plant(folder);
    stk_dataset *dataset = open_tree(ctx, folder);
    assert_int_equal(dataset->size, 9);
    for (int workers = 0; workers < 3; workers += 2) {
        stk_loader_options o = picture_options();
        stk_loader *loader = NULL;
        stk_batch *batch = NULL;
        size_t failed = 0, good = 0;

        o.batch_size = 1;
        o.epochs = 1;
        o.num_workers = workers;
        assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
        for (;;) {
            stk_status status = stk_loader_next(loader, -1, &batch, &err);

            if (status == STK_EOS)
                break;
            if (status == STK_OK) {
                good++;
                stk_batch_release(&batch);
                continue;
            }
            size_t k = 0;
            while (k < 6 && !strstr(err.key, bad[k].name))
                k++;
            if (k == 6)
                fail_msg("%s: %s", err.key, err.text);
            assert_non_null(strstr(err.text, bad[k].name));
            if (!strstr(err.text, bad[k].says))
                fail_msg("%s lacks \"%s\"", err.text, bad[k].says);
            assert_int_equal(status, bad[k].status);
            failed++;
        }
        assert_int_equal(failed, 6);
        assert_int_equal(good, 3);
        stk_loader_destroy(&loader);
        /* Replaced: every row is there, and the substitutes are the same with any workers. */
        static char first[9 * PIXELS * 3];
        size_t count;
        o.batch_size = 4;
        o.on_error = STK_ON_ERROR_REPLACE;
        o.max_errors = "100%";
        char *all = collect(dataset, &o, 1, &count);
        assert_int_equal(count, 9);
        if (workers == 0)
            memcpy(first, all, sizeof first);
        assert_memory_equal(all, first, sizeof first);
        free(all);
        o.on_error = STK_ON_ERROR_SKIP;
        free(collect(dataset, &o, 1, &count));
        assert_int_equal(count, 3);
    }
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* The work of a picture has a limit, which is an option of decode. */
static void work_is_limited(void **state)
{
    static const char *const texts[] = {"decode(max_blocks=119), resize([8, 8])",
                                        "decode(max_blocks=120), resize([8, 8])"};
    stk_context *ctx = test_context();
    char folder[256];
    size_t size;
    stk_error err;

    (void)state;
    test_folder(folder);
    unsigned char *good = read_golden("base_420.jpg", &size); /* 67 x 53 */
    test_write(folder, "a/good.jpg", good, size);
    free(good);
    stk_dataset *dataset = open_tree(ctx, folder);
    for (int k = 0; k < 2; k++) {
        stk_loader_options o = picture_options();
        stk_loader *loader = NULL;
        stk_batch *batch = NULL;

        o.transforms = texts[k];
        o.batch_size = 1;
        assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        assert_int_equal(status, k ? STK_OK : STK_ELIMIT);
        if (!k)
            assert_non_null(strstr(err.text, "decode(max_blocks=...)"));
        stk_batch_release(&batch);
        stk_loader_destroy(&loader);
    }
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Of a picture that a transform does not take, the reason and the remedy. */
static void crops_fit(void **state)
{
    stk_context *ctx = test_context();
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    char folder[256];
    stk_error err;

    (void)state;
    test_folder(folder);
    plant(folder);
    stk_dataset *dataset = open_tree(ctx, folder);
    stk_loader_options o = picture_options();
    o.transforms = "random_crop(4000)";
    o.shuffle = STK_SHUFFLE_NONE;
    o.batch_size = 1;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    bool told = false;
    for (int i = 0; i < 9; i++) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        assert_int_not_equal(status, STK_OK);
        told = told || (strstr(err.text, "random_crop: its size is larger") &&
                        strstr(err.text, "padding") && strstr(err.text, "resize"));
    }
    assert_true(told);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Transforms that could only be left out unseen are refused: the first field has no size. */
static void values_without_a_size_take_none(void **state)
{
    stk_context *ctx = test_context();
    char folder[256], spec[300];
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_loader_options o;
    stk_error err;

    (void)state;
    test_folder(folder);
    test_write(folder, "t.csv", "text,a\nx,1\nyy,2\n", 16);
    snprintf(spec, sizeof spec, "csv:%s/t.csv", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    stk_loader_options_init(&o);
    o.transforms = "nonsense(3)";
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err,
                 "transforms: they would be of 'text', the first field");
    o.transforms = "";
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    snprintf(spec, sizeof spec, "csv:%s/t.csv?columns=a", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    o.transforms = "nonsense(3)";
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err,
                 "no transform \"nonsense\"");
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void sizes_must_become_one(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    stk_loader *loader = NULL;
    stk_batch *batch;
    stk_tensor image = {.struct_size = sizeof image};
    stk_error err;

    (void)state;
    test_folder(folder);
    plant(folder);
    stk_dataset *dataset = open_tree(ctx, folder);
    stk_loader_options o = picture_options();
    o.transforms = "horizontal_flip";
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err, "many sizes");
    o.transforms = "resize(32)";
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err, "center_crop");
    o.transforms = "normalize(imagenet), decode";
    assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err, "first");
    /* Without transforms the bytes themselves are the batch. */
    o.transforms = NULL;
    o.shuffle = STK_SHUFFLE_NONE;
    o.on_error = STK_ON_ERROR_SKIP; /* the empty file */
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
    assert_non_null(image.offsets);
    assert_int_equal(stk_batch_count(batch), 8);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A picture that can never be decoded in the budget is bad, and says what it wanted. */
static void the_budget_bounds_decoding(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;
    size_t size;

    (void)state;
    test_folder(folder);
    unsigned char *picture = read_golden("progressive_420.jpg", &size);
    /* The same picture, said to be of 4000 x 4000 pixels: its coefficients are held all at once. */
    for (size_t i = 0; i + 9 < size; i++)
        if (picture[i] == 0xff && picture[i + 1] == 0xc2) {
            picture[i + 5] = picture[i + 7] = 4000 >> 8;
            picture[i + 6] = picture[i + 8] = 4000 & 255;
        }
    test_write(folder, "a/large.jpg", picture, size);
    free(picture);
    stk_dataset *dataset = open_tree(ctx, folder);
    stk_loader_options o = picture_options();
    o.memory_budget = 16 << 20;
    o.num_workers = 1;
    o.batch_size = 1;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EBUDGET, &err, "left for decoding");
    assert_non_null(strstr(err.text, "memory_budget"));
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_depend_on_position_alone),
        cmocka_unit_test(floats_are_those_of_the_bytes),
        cmocka_unit_test(bad_pictures_are_named),
        cmocka_unit_test(work_is_limited),
        cmocka_unit_test(crops_fit),
        cmocka_unit_test(sizes_must_become_one),
        cmocka_unit_test(values_without_a_size_take_none),
        cmocka_unit_test(the_budget_bounds_decoding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
