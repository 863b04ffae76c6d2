/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes, not only indices: what is delivered after random transforms is the same whatever the
 * workers, the I/O engine, the prefetch, the cache, the budget, the world size, and wherever the
 * loader was restored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "loader/parts.h"
#include "support/support.h"

enum { SAMPLES = 230, SIDE = 12, BYTES = SIDE * SIDE * 3, GLOBAL = 12, EPOCHS = 2 };

#define TRANSFORMS "random_crop(12, padding=3), horizontal_flip, normalize(cifar10), layout(chw)"

/* One hash for each position of each epoch: of the index, the label and the augmented picture. */
typedef struct digest {
    uint64_t at[EPOCHS][SAMPLES];
} digest;

static uint64_t hash(uint64_t so_far, const void *data, size_t n)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < n; i++)
        so_far = (so_far ^ bytes[i]) * UINT64_C(0x100000001b3);
    return so_far;
}

/* Pictures as one npy file each for images and labels, whose values are a formula of the index. */
static void write_pictures(const char *folder)
{
    static uint8_t images[SAMPLES][BYTES];
    static int64_t labels[SAMPLES];
    char head[128], file[128 + sizeof images];

    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % 7;
        for (int k = 0; k < BYTES; k++)
            images[i][k] = (uint8_t)(i * 31 + k * 7);
    }
    const char *const shapes[2] = {"'|u1', 'fortran_order': False, 'shape': (230, 12, 12, 3), }",
                                   "'<i8', 'fortran_order': False, 'shape': (230,), }"};
    for (int f = 0; f < 2; f++) {
        memset(head, ' ', sizeof head);
        memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
        int n = snprintf(head + 10, 118, "{'descr': %s", shapes[f]);
        head[10 + n] = ' ';
        head[127] = '\n';
        size_t length = f ? sizeof labels : sizeof images;
        memcpy(file, head, 128);
        memcpy(file + 128, f ? (void *)labels : (void *)images, length);
        test_write(folder, f ? "labels.npy" : "images.npy", file, 128 + length);
    }
}

static stk_context *context_with(stk_io_engine engine, stk_instructions instructions)
{
    stk_context_options options;
    stk_context *ctx;
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = engine;
    options.instructions = instructions;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

static void take(const stk_batch *batch, digest *out)
{
    const uint64_t *positions = stk_batch_positions(batch);
    stk_tensor image = {.struct_size = sizeof image}, label = {.struct_size = sizeof label},
               index = {.struct_size = sizeof index};

    assert_int_equal(stk_batch_field(batch, 0, &image), STK_OK);
    assert_int_equal(stk_batch_find(batch, "label", &label), STK_OK);
    assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
    assert_int_equal(image.dtype, STK_FLOAT32);
    assert_int_equal(image.shape[1], 3);
    for (uint64_t r = 0; r < stk_batch_count(batch); r++) {
        uint64_t *slot = &out->at[stk_batch_epoch(batch)][positions[r]];
        assert_int_equal(*slot, 0);
        *slot = hash(14695981039346656037u, (uint64_t *)index.data + r, 8);
        *slot = hash(*slot, (int64_t *)label.data + r, 8);
        *slot = hash(*slot, (float *)image.data + r * BYTES, BYTES * sizeof(float));
    }
}

/* Deliver from a serial on; `stop` batches at most. */
static void deliver(stk_loader *loader, uint64_t stop, digest *out, stk_loader_state *state)
{
    stk_batch *batch;
    stk_error err;

    for (uint64_t n = 0, ends = 0; n < stop && ends < EPOCHS;) {
        stk_status status = stk_loader_next(loader, -1, &batch, &err);
        if (status == STK_EOS) {
            stk_loader_state now;
            stk_loader_get_state(loader, &now);
            if (now.epoch >= EPOCHS)
                return;
            ends++;
            continue;
        }
        assert_ok(status, &err);
        take(batch, out);
        if (state)
            stk_batch_get_state(batch, state);
        stk_batch_release(&batch);
        n++;
    }
}

typedef struct setting {
    stk_io_engine engine;
    stk_instructions instructions;
    const char *url;
    stk_loader_options o;
} setting;

static stk_loader *open_loader(const setting *s, const char *folder, stk_context **ctx,
                               stk_dataset **dataset)
{
    char spec[700];
    stk_loader *loader;
    stk_error err;

    *ctx = context_with(s->engine, s->instructions);
    snprintf(spec, sizeof spec, s->url, folder, folder);
    assert_ok(stk_dataset_open(*ctx, spec, dataset, &err), &err);
    assert_ok(stk_loader_create(*dataset, &s->o, &loader, &err), &err);
    return loader;
}

static stk_loader_options base_options(void)
{
    stk_loader_options o;

    stk_loader_options_init(&o);
    o.global_batch_size = GLOBAL;
    o.shuffle = STK_SHUFFLE_FULL;
    o.seed = 5;
    o.num_workers = 0;
    o.epochs = EPOCHS;
    o.transforms = TRANSFORMS;
    o.memory_budget = 16 << 20;
    return o;
}

#define PLAIN "npy:file://%s/images.npy?labels=%s/labels.npy"
#define SLOW  "npy:slow+file://%s/images.npy?labels=%s/labels.npy&latency=300us&order=random"

static void run(const setting *s, const char *folder, digest *out)
{
    stk_context *ctx;
    stk_dataset *dataset;
    stk_loader *loader = open_loader(s, folder, &ctx, &dataset);

    deliver(loader, UINT64_MAX, out, NULL);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void reference(const char *folder, int shuffle, digest *out)
{
    setting s = {STK_IO_THREADS, STK_INSTRUCTIONS_PLAIN, PLAIN, base_options()};

    memset(out, 0, sizeof *out);
    s.o.shuffle = shuffle;
    run(&s, folder, out);
    for (int e = 0; e < EPOCHS; e++)
        for (int p = 0; p < SAMPLES; p++)
            assert_int_not_equal(out->at[e][p], 0);
}

static void settings_for_speed(void **state)
{
    static const int64_t workers[] = {0, 1, 2, 5}, factors[] = {1, 3};
    char folder[256];
    digest expected, got;
    uint64_t random = 9;

    write_pictures(test_folder(folder));
    for (int shuffle = STK_SHUFFLE_NONE; shuffle <= STK_SHUFFLE_BLOCK; shuffle++) {
        reference(folder, shuffle, &expected);
        for (int i = 0; i < 24; i++) {
            setting s = {i % 2 ? STK_IO_AUTO : STK_IO_THREADS,
                         i % 3 ? STK_INSTRUCTIONS_ALL : STK_INSTRUCTIONS_PLAIN,
                         i % 4 ? PLAIN : SLOW, base_options()};
            s.o.shuffle = shuffle;
            s.o.num_workers = workers[i % 4];
            s.o.prefetch_factor = factors[test_random(&random) % 2];
            s.o.cache = (int)(test_random(&random) % 3);
            s.o.io_depth = (int64_t)(test_random(&random) % 40) + 1;
            s.o.memory_budget = UINT64_C(6) << (20 + test_random(&random) % 3);
            memset(&got, 0, sizeof got);
            run(&s, folder, &got);
            assert_memory_equal(&got, &expected, sizeof got);
        }
    }
    test_folder_remove(folder);
}

/* All ranks together deliver what one does; 7 does not divide the global batch of 12. */
static void world_sizes(void **state)
{
    const uint64_t worlds[] = {2, 3, 4, 6, 7};
    char folder[256];
    digest expected, got;

    write_pictures(test_folder(folder));
    reference(folder, STK_SHUFFLE_FULL, &expected);
    for (int w = 0; w < 5; w++) {
        memset(&got, 0, sizeof got);
        for (uint64_t rank = 0; rank < worlds[w]; rank++) {
            setting s = {STK_IO_AUTO, STK_INSTRUCTIONS_ALL, PLAIN, base_options()};
            s.o.world_size = worlds[w];
            s.o.rank = rank;
            s.o.num_workers = (int64_t)rank % 3;
            run(&s, folder, &got);
        }
        assert_memory_equal(&got, &expected, sizeof got);
    }
    test_folder_remove(folder);
}

/* Stop after every batch and go on in another loader, with other workers and another world size. */
static void restored_everywhere(void **state)
{
    char folder[256];
    digest expected, got;
    const uint64_t steps = (SAMPLES + GLOBAL - 1) / GLOBAL * EPOCHS;

    write_pictures(test_folder(folder));
    reference(folder, STK_SHUFFLE_BLOCK, &expected);
    for (uint64_t stop = 1; stop < steps; stop++) {
        setting s = {STK_IO_AUTO, STK_INSTRUCTIONS_ALL, PLAIN, base_options()};
        stk_context *ctx;
        stk_dataset *dataset;
        stk_loader_state saved;
        stk_error err;
        s.o.shuffle = STK_SHUFFLE_BLOCK;
        s.o.num_workers = (int64_t)stop % 3;
        memset(&got, 0, sizeof got);
        stk_loader *loader = open_loader(&s, folder, &ctx, &dataset);
        deliver(loader, stop, &got, &saved);
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
        for (uint64_t rank = 0; rank < 2; rank++) {
            s.o.world_size = 2;
            s.o.rank = rank;
            s.o.num_workers = (int64_t)(stop + 1) % 3;
            loader = open_loader(&s, folder, &ctx, &dataset);
            assert_ok(stk_loader_restore(loader, &saved, &err), &err);
            deliver(loader, UINT64_MAX, &got, NULL);
            stk_loader_destroy(&loader);
            stk_dataset_close(&dataset);
            stk_context_destroy(&ctx);
        }
        assert_memory_equal(&got, &expected, sizeof got);
    }
    test_folder_remove(folder);
}

/* Batch transforms add their fields and are the same for any number of workers. */
static void mixed_batches(void **state)
{
    char folder[256];
    uint64_t sums[3];

    write_pictures(test_folder(folder));
    for (int w = 0; w < 3; w++) {
        setting s = {STK_IO_AUTO, STK_INSTRUCTIONS_ALL, PLAIN, base_options()};
        stk_context *ctx;
        stk_dataset *dataset;
        stk_batch *batch;
        stk_tensor image = {.struct_size = sizeof image}, mixed = {.struct_size = sizeof mixed},
                   mix = {.struct_size = sizeof mix};
        stk_error err;
        s.o.batch_transforms = "mixup(0.4)";
        s.o.num_workers = w;
        stk_loader *loader = open_loader(&s, folder, &ctx, &dataset);
        sums[w] = 1;
        for (int i = 0; i < 8; i++) {
            assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
            assert_int_equal(stk_batch_field(batch, 0, &image), STK_OK);
            assert_int_equal(stk_batch_find(batch, "label_mixed", &mixed), STK_OK);
            assert_int_equal(stk_batch_find(batch, "mix", &mix), STK_OK);
            assert_true(((float *)mix.data)[0] >= 0 && ((float *)mix.data)[0] <= 1);
            sums[w] = hash(sums[w], image.data, GLOBAL * BYTES * sizeof(float));
            sums[w] = hash(sums[w], mixed.data, GLOBAL * 8);
            stk_batch_release(&batch);
        }
        stk_loader_destroy(&loader);
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
        assert_int_equal(sums[w], sums[0]);
    }
    test_folder_remove(folder);
}

/* Most bytes a loader held under its budget; `admission` false takes the bound on reads away. */
static uint64_t peak_of(const char *folder, uint64_t budget, bool admission)
{
    setting s = {STK_IO_AUTO, STK_INSTRUCTIONS_ALL,
                 "npy:slow+file://%s/images.npy?labels=%s/labels.npy&latency=2ms", base_options()};
    stk_context *ctx;
    stk_dataset *dataset;
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_error err;
    stk_batch *batch;

    /* With workers asleep until the first call of next() there is time to meddle: none are started.
     */
    s.o.num_workers = 0;
    s.o.transforms = NULL;
    s.o.global_batch_size = 200;
    s.o.memory_budget = budget;
    s.o.io_depth = 200;
    stk_loader *loader = open_loader(&s, folder, &ctx, &dataset);
    if (!admission)
        loader->ring->pool.limit = UINT64_MAX / 8;
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    stk_loader_get_stats(loader, &stats);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    return stats.memory_peak;
}

/* The control: without admission the same run passes the budget, so the test of it can fail. */
static void admission_keeps_the_budget(void **state)
{
    const uint64_t budget = 768 << 10;
    char folder[256];
    static uint8_t image[128 + 230 * 4096];

    memset(image, ' ', 128);
    memcpy(image, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char head[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (230, 4096), }";
    memcpy(image + 10, head, sizeof head - 1);
    image[127] = '\n';
    write_pictures(test_folder(folder));
    test_write(folder, "images.npy", image, sizeof image);
    uint64_t slabs = 2 * 200 * 4096;
    assert_true(peak_of(folder, budget + slabs, true) <= budget + slabs);
    assert_true(peak_of(folder, budget + slabs, false) > budget + slabs);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_for_speed),         cmocka_unit_test(world_sizes),
        cmocka_unit_test(restored_everywhere),        cmocka_unit_test(mixed_batches),
        cmocka_unit_test(admission_keeps_the_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
