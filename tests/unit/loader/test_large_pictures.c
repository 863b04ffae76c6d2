/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of 24 megapixels in a budget that holds none of them decoded, and progressive ones, of
 * which a budget holds one at a time or none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>

#include "support/support.h"

enum { WIDTH = 6000, HEIGHT = 4000, SIDE = 224, BATCH = 64, BATCHES = 2 };

#define BUDGET (UINT64_C(64) << 20)

/* Red grows to the right, green downwards. 4:2:0, quality 90. */
static void write_picture(const char *path, int width, int height, bool progressive)
{
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    static unsigned char row[WIDTH * 3];
    JSAMPROW rows = row;
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_stdio_dest(&library, file);
    library.image_width = (JDIMENSION)width;
    library.image_height = (JDIMENSION)height;
    library.input_components = 3;
    library.in_color_space = JCS_RGB;
    jpeg_set_defaults(&library);
    jpeg_set_quality(&library, 90, TRUE);
    if (progressive)
        jpeg_simple_progression(&library);
    jpeg_start_compress(&library, TRUE);
    for (int x = 0; x < width; x++)
        row[3 * x] = (unsigned char)(x * 255 / width);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            row[3 * x + 1] = (unsigned char)(y * 255 / height);
            row[3 * x + 2] = (unsigned char)(100 + ((x >> 4) * (y >> 4) & 15)); /* some detail */
        }
        jpeg_write_scanlines(&library, &rows, 1);
    }
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    assert_int_equal(fclose(file), 0);
}

/* One picture under many names. */
static void make_tree(const char *folder)
{
    char first[300], path[300];

    test_write(folder, "a/000.jpg", "", 0);
    snprintf(first, sizeof first, "%s/a/000.jpg", folder);
    write_picture(first, WIDTH, HEIGHT, false);
    for (int i = 1; i < BATCH * BATCHES; i++) {
        snprintf(path, sizeof path, "%s/a/%03d.jpg", folder, i);
        assert_int_equal(link(first, path), 0);
    }
}

/* "VmHWM" or "VmRSS" of this process in bytes. */
static uint64_t resident(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long kib = 0;

    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name) + 1, "%llu", &kib);
    fclose(file);
    assert_true(kib > 0);
    return (uint64_t)kib << 10;
}

/* It is a part of the picture: both colours grow, neither by more than the box can hold. */
static void check_picture(const unsigned char *pixels)
{
    const unsigned char *last = pixels + (size_t)(SIDE * SIDE - 1) * 3;

    assert_in_range(last[0] - pixels[0], 3, 80);
    assert_in_range(last[1] - pixels[1], 3, 110);
    for (size_t i = 0; i < SIDE; i++) {
        assert_in_range(pixels[3 * i] + 4, pixels[0], last[0] + 8);
        assert_in_range(pixels[3 * i * SIDE + 1] + 4, pixels[1], last[1] + 8);
    }
}

static void large_pictures_stay_in_the_budget(void **state)
{
    char folder[256], spec[300];
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_memory_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    stk_loader_options o;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_tensor image = {.struct_size = sizeof image};
    stk_error err;

    (void)state;
    test_folder(folder);
    make_tree(folder);
    stk_context *ctx = test_context();
    snprintf(spec, sizeof spec, "images:%s?index=none", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    stk_loader_options_init(&o);
    o.batch_size = BATCH;
    o.num_workers = 2;
    o.memory_budget = BUDGET;
    o.epochs = 1;
    o.transforms = "random_resized_crop(224, scale=[0.01, 0.05])";
    const uint64_t resident_before = resident("VmRSS");
    stk_context_memory(ctx, &before);
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    for (int i = 0; i < BATCHES; i++) {
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        assert_int_equal(stk_batch_count(batch), BATCH);
        assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
        for (size_t k = 0; k < BATCH; k++)
            check_picture((const unsigned char *)image.data + k * SIDE * SIDE * 3);
        stk_batch_release(&batch);
    }
    stk_loader_get_stats(loader, &stats);
    stk_context_memory(ctx, &after);
    assert_int_equal(stats.pictures, BATCH * BATCHES);
    assert_true(stats.memory_peak <= BUDGET);
    assert_true(after.peak_bytes - before.bytes <= BUDGET);
    /* With what libjpeg allocates by itself, stacks, and the library's own pages. */
    if (!TEST_SANITIZED)
        assert_true(resident("VmHWM") - resident_before <= BUDGET + (16 << 20));
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

/* ---- What decoding wants of the budget ---- */

enum { PICTURES = 60, SMALL = 100, LARGE = 1400, HUGE = 4000 };

static int kind_of(int i)
{
    return i % 7 == 3 ? LARGE + 100 * (i % 2) : i % 20 == 11 ? HUGE + i : SMALL;
}

/* A progressive picture that is said to be of side x side pixels: nobody comes to its end. */
static void claim_size(const char *folder, const char *from, const char *to, int side)
{
    static unsigned char bytes[1 << 16];
    char path[300];

    snprintf(path, sizeof path, "%s/%s", folder, from);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size < sizeof bytes);
    for (size_t i = 0; i + 9 < size; i++)
        if (bytes[i] == 0xff && bytes[i + 1] == 0xc2) {
            bytes[i + 5] = bytes[i + 7] = (unsigned char)(side >> 8);
            bytes[i + 6] = bytes[i + 8] = (unsigned char)(side & 255);
        }
    test_write(folder, to, bytes, size);
}

static void make_mixed_tree(const char *folder)
{
    char small[300], large[2][300], path[300], name[40];

    test_write(folder, "small.jpg", "", 0);
    snprintf(small, sizeof small, "%s/small.jpg", folder);
    write_picture(small, SMALL, SMALL, true);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "large%d.jpg", i);
        test_write(folder, name, "", 0);
        snprintf(large[i], sizeof large[i], "%s/%s", folder, name);
        write_picture(large[i], LARGE + 100 * i, LARGE + 100 * i, true);
    }
    test_write(folder, "t/a/none", "", 0);
    for (int i = 0; i < PICTURES; i++) {
        const int kind = kind_of(i);
        snprintf(name, sizeof name, "t/a/%02d.jpg", i);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (kind >= HUGE)
            claim_size(folder, "small.jpg", name, kind);
        else
            assert_int_equal(link(kind < LARGE ? small : large[kind > LARGE], path), 0);
    }
    snprintf(path, sizeof path, "%s/t/a/none", folder);
    assert_int_equal(remove(path), 0);
}

/* Which pictures come, as their indices in order; `bad` gets what is said of the others. */
static size_t decodable(stk_dataset *dataset, const stk_loader_options *o, uint64_t *indices,
                        stk_bad_samples *bad)
{
    stk_loader *loader = NULL;
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_batch *batch = NULL;
    stk_tensor index = {.struct_size = sizeof index};
    stk_error err;
    size_t n = 0;

    assert_ok(stk_loader_create(dataset, o, &loader, &err), &err);
    for (;;) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS)
            break;
        assert_ok(status, &err);
        assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
        for (uint64_t i = 0; i < stk_batch_count(batch); i++)
            indices[n++] = ((const uint64_t *)index.data)[i];
        stk_batch_release(&batch);
    }
    stk_loader_get_stats(loader, &stats);
    assert_true(stats.memory_peak <= o->memory_budget);
    stk_loader_get_bad_samples(loader, bad);
    stk_loader_destroy(&loader);
    return n;
}

/* Decoding that no share holds waits until it has the room of all; what does not fit then is bad,
 * with its own number. */
static void what_fits_alone_is_decoded(void **state)
{
    stk_context *ctx = test_context();
    uint64_t wanted[PICTURES], got[PICTURES];
    char folder[256], spec[300];
    stk_dataset *dataset = NULL;
    stk_bad_samples bad = {.struct_size = sizeof bad};
    stk_error err;
    size_t n = 0;

    (void)state;
    test_folder(folder);
    make_mixed_tree(folder);
    for (int i = 0; i < PICTURES; i++)
        if (kind_of(i) < HUGE)
            wanted[n++] = (uint64_t)i;
    snprintf(spec, sizeof spec, "images:%s/t?index=none", folder);
    assert_ok(stk_dataset_open(ctx, spec, &dataset, &err), &err);
    for (int i = 0; i < 8; i++) {
        stk_loader_options o;
        unsigned long long size = 0, left = 0;
        stk_loader_options_init(&o);
        o.transforms = "resize(32), center_crop(32)";
        /* An eighth of it, the room of decoding, holds less than those of 1400 x 1400 and 1500 x
         * 1500 want. */
        o.memory_budget = 16 << 20;
        o.num_workers = (int64_t[]){0, 1, 2, 5}[i % 4];
        o.prefetch_factor = 1 + i;
        o.batch_size = 4;
        o.epochs = 1;
        o.on_error = STK_ON_ERROR_SKIP;
        o.max_errors = "100%";
        o.cache = i > 4 ? STK_CACHE_ENCODED : STK_CACHE_NONE;
        assert_int_equal(decodable(dataset, &o, got, &bad), n);
        assert_memory_equal(got, wanted, n * sizeof *wanted);
        assert_int_equal(bad.samples, PICTURES - n);
        /* The first is of 4011 x 4011, the largest of 4051 x 4051. */
        const char *at = strstr(bad.reasons[0].first.text, "raise memory_budget, or re-pack");
        assert_non_null(at);
        at = strchr(at, '(');
        assert_non_null(at);
        assert_int_equal(
            sscanf(at, "(%llu bytes wanted, memory_budget of %*u: %llu left", &size, &left), 2);
        assert_in_range(size, UINT64_C(4011) * 4011 * 3, UINT64_C(4011) * 4011 * 3 * 41 / 40);
        assert_in_range(left, 13 << 20, 16 << 20);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_pictures_stay_in_the_budget),
        cmocka_unit_test(what_fits_alone_is_decoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
