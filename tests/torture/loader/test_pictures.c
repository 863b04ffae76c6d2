/* SPDX-License-Identifier: Apache-2.0 */
/* Fail the n-th allocation, for every n, in a program that opens a folder of pictures, decodes them
 * and closes: the status must be right, nothing may leak, and what is delivered must be sound. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/faults.h"
#include "support/support.h"
#include "support/text.h"

enum { SIDE = 16, ROW = SIDE * SIDE * 3 };

static faults fault = {.left = FAULTS_NONE};

static void copy_golden(const char *folder, const char *name, const char *to)
{
    char path[600];
    size_t size = 0;

    snprintf(path, sizeof path, "%s/golden/images/%s", TESTS_DIR, name);
    void *data = test_load(path, &size);
    assert_non_null(data);
    test_write(folder, to, data, size);
    free(data);
}

/* One run; adds what was delivered to `rows` by position. The status that ended it. */
static stk_status run(const char *folder, int workers, char *rows)
{
    const stk_allocator allocator = {faulty_alloc, faulty_free, &fault};
    stk_context_options options;
    stk_loader_options o;
    stk_context *ctx = NULL;
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_error err;
    char spec[400];

    stk_context_options_init(&options);
    options.allocator = allocator;
    snprintf(spec, sizeof spec, "images:%s?index=none", folder);
    stk_loader_options_init(&o);
    o.batch_size = 2;
    o.num_workers = workers;
    o.epochs = 1;
    o.transforms = "decode(exif_orientation=true), random_resized_crop(16), color_jitter(0.2), "
                   "gaussian_blur(3), horizontal_flip";
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = stk_dataset_open(ctx, spec, &dataset, &err);
    if (status == STK_OK)
        status = stk_loader_create(dataset, &o, &loader, &err);
    while (status == STK_OK) {
        status = stk_loader_next(loader, -1, &batch, &err);
        if (status != STK_OK)
            break;
        stk_tensor image = {.struct_size = sizeof image};
        assert_int_equal(stk_batch_find(batch, "image", &image), STK_OK);
        for (uint64_t i = 0; i < stk_batch_count(batch); i++)
            memcpy(rows + stk_batch_positions(batch)[i] * ROW, (const char *)image.data + i * ROW,
                   ROW);
        stk_batch_release(&batch);
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    static char want[8 * ROW], got[8 * ROW], none[ROW];
    char folder[256];

    (void)state;
    test_folder(folder);
    copy_golden(folder, "base_420.jpg", "a/1.jpg");
    copy_golden(folder, "progressive_444.jpg", "a/2.jpg");
    copy_golden(folder, "exif_6.jpg", "b/3.jpg");
    copy_golden(folder, "rgb_8_interlaced.png", "b/4.png");
    for (int workers = 0; workers < 2; workers++) {
        fault.left = FAULTS_NONE;
        memset(want, 0, sizeof want);
        assert_int_equal(run(folder, workers, want), STK_EOS);
        assert_int_equal(fault.held, 0);
        long failed = 0;
        for (int64_t at = 0;; at++) {
            memset(got, 0, sizeof got);
            fault.left = at;
            stk_status status = run(folder, workers, got);
            assert_int_equal(fault.held, 0);
            if (!fault_struck(&fault))
                break;
            failed++;
            assert_true(status == STK_ENOMEM || status == STK_EOS);
            for (int i = 0; i < 4; i++)
                if (memcmp(got + i * ROW, none, ROW) != 0)
                    assert_memory_equal(got + i * ROW, want + i * ROW, ROW);
        }
        assert_true(failed > 50);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
