/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of 24 megapixels in a budget that holds none of them decoded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>

#include "support/support.h"

enum { WIDTH = 6000, HEIGHT = 4000, SIDE = 224, BATCH = 64, BATCHES = 2 };

#define BUDGET (UINT64_C(64) << 20)

/* Red grows to the right, green downwards. Baseline, 4:2:0, quality 90. */
static void write_picture(const char *path)
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
    library.image_width = WIDTH;
    library.image_height = HEIGHT;
    library.input_components = 3;
    library.in_color_space = JCS_RGB;
    jpeg_set_defaults(&library);
    jpeg_set_quality(&library, 90, TRUE);
    jpeg_start_compress(&library, TRUE);
    for (int x = 0; x < WIDTH; x++)
        row[3 * x] = (unsigned char)(x * 255 / WIDTH);
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            row[3 * x + 1] = (unsigned char)(y * 255 / HEIGHT);
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
    write_picture(first);
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
    stk_tensor image;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_pictures_stay_in_the_budget)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
