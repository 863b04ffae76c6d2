/* SPDX-License-Identifier: Apache-2.0 */
/* What is written as IDX is what MNIST's reader gives back. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "support/support.h"

static stk_status convert(stk_context *ctx, const char *source, const char *target,
                          const stk_convert_options *options, stk_conversion_report *report,
                          stk_error *err)
{
    stk_conversion *conversion = NULL;

    stk_error_init(err);
    stk_status status = stk_conversion_create(ctx, source, target, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, options, NULL, report, err);
    stk_conversion_destroy(&conversion);
    return status;
}

/* Batches of two datasets are equal. */
static void same_samples(stk_context *ctx, const char *a, const char *b)
{
    const char *const specs[2] = {a, b};
    stk_dataset *dataset[2];
    stk_loader *loader[2];
    stk_batch *batch[2];
    stk_loader_options options;
    stk_status status[2];
    stk_error err;

    stk_loader_options_init(&options);
    options.num_workers = 0;
    options.epochs = 1;
    for (int i = 0; i < 2; i++) {
        assert_ok(stk_dataset_open(ctx, specs[i], &dataset[i], &err), &err);
        assert_ok(stk_loader_create(dataset[i], &options, &loader[i], &err), &err);
    }
    assert_int_equal(dataset[0]->size, dataset[1]->size);
    for (;;) {
        stk_tensor image[2] = {{.struct_size = sizeof *image}, {.struct_size = sizeof *image}},
                   label[2] = {{.struct_size = sizeof *label}, {.struct_size = sizeof *label}};
        for (int i = 0; i < 2; i++)
            status[i] = stk_loader_next(loader[i], -1, &batch[i], &err);
        assert_int_equal(status[0], status[1]);
        if (status[0] != STK_OK)
            break;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(stk_batch_find(batch[i], "image", &image[i]), STK_OK);
            assert_int_equal(stk_batch_find(batch[i], "label", &label[i]), STK_OK);
        }
        uint64_t count = stk_batch_count(batch[0]);
        assert_memory_equal(image[0].data, image[1].data, count * 28 * 28);
        assert_memory_equal(label[0].data, label[1].data, count * sizeof(int64_t));
        stk_batch_release(&batch[0]);
        stk_batch_release(&batch[1]);
    }
    assert_int_equal(status[0], STK_EOS);
    for (int i = 0; i < 2; i++) {
        stk_loader_destroy(&loader[i]);
        stk_dataset_close(&dataset[i]);
    }
}

static void test_round_trip(void **state)
{
    char folder[256], again[256], spec[400];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;
    stk_context *ctx = test_context();

    test_folder(folder);
    test_folder(again);
    assert_ok(convert(ctx, "digits:?size=2500", folder, NULL, &report, &err), &err);
    assert_int_equal(report.total, 5000);
    snprintf(spec, sizeof spec, "mnist:%s", folder);
    same_samples(ctx, "digits:?size=2500", spec);
    snprintf(spec, sizeof spec, "mnist:%s?split=test", folder);
    same_samples(ctx, "digits:?size=2500&split=test", spec);
    /* From files, one split alone, a part of it. */
    snprintf(spec, sizeof spec, "mnist:%s?split=test&subset=100:400", folder);
    assert_ok(convert(ctx, spec, again, NULL, &report, &err), &err);
    assert_int_equal(report.total, 300);
    snprintf(spec, sizeof spec, "mnist:%s?split=test", again);
    same_samples(ctx, "digits:?size=2500&split=test&subset=100:400", spec);
    test_folder_remove(folder);
    test_folder_remove(again);
    stk_context_destroy(&ctx);
}

static void test_refusals(void **state)
{
    char folder[256], file[300];
    stk_convert_options options;
    stk_error err;
    stk_context *ctx = test_context();

    test_folder(folder);
    assert_fails(convert(ctx, "synthetic:?size=10&shape=8x8x3", folder, NULL, NULL, &err),
                 STK_ENOTSUP, &err, "more than one channel");
    assert_fails(convert(ctx, "nothing:", folder, NULL, NULL, &err), STK_ENOENT, &err, "nothing");
    assert_fails(convert(ctx, "digits:", "", NULL, NULL, &err), STK_EINVAL, &err, "empty");
    stk_convert_options_init(&options);
    options.num_workers = 3;
    assert_fails(convert(ctx, "digits:?size=10", folder, &options, NULL, &err), STK_EINVAL, &err,
                 "num_workers does nothing");
    stk_convert_options_init(&options);
    options.checkpoint = 0;
    assert_fails(convert(ctx, "digits:?size=10", folder, &options, NULL, &err), STK_EINVAL, &err,
                 "checkpoint");
    test_write(folder, "file", "x", 1);
    snprintf(file, sizeof file, "%s/file", folder);
    assert_int_not_equal(convert(ctx, "digits:?size=10", file, NULL, NULL, &err), STK_OK);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* What was stopped before its first file leaves no folder, nor one above it; those that were there
 * stay. */
static void test_leaves_nothing(void **state)
{
    static const char *const below[] = {"", "/sub", "//sub/sub/"};
    char folder[256], to[300], target[320];
    stk_conversion *conversion = NULL;
    stk_error err;
    stk_context *ctx = test_context();

    test_folder(folder);
    snprintf(to, sizeof to, "%s/new", folder);
    for (size_t i = 0; i < 2 * STK_COUNT(below); i++) {
        const bool there = i >= STK_COUNT(below);
        if (i == STK_COUNT(below))
            assert_int_equal(mkdir(to, 0777), 0);
        snprintf(target, sizeof target, "%s%s", to, below[i % STK_COUNT(below)]);
        assert_ok(stk_conversion_create(ctx, "digits:?size=10", target, &conversion, &err), &err);
        stk_conversion_cancel(conversion);
        assert_fails(stk_conversion_run(conversion, NULL, NULL, NULL, &err), STK_ECANCELED, &err,
                     "stopped");
        stk_conversion_destroy(&conversion);
        assert_int_equal(access(to, F_OK), there ? 0 : -1);
        snprintf(target, sizeof target, "%s/sub", to);
        assert_int_equal(access(target, F_OK), -1);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Into a store that is no folder, where what is there is not replaced either. */
static void test_elsewhere(void **state)
{
    stk_convert_options options;
    stk_error err;
    stk_context *ctx = test_context();

    assert_ok(convert(ctx, "digits:?size=50", "mem://a/b", NULL, NULL, &err), &err);
    same_samples(ctx, "digits:?size=50", "mnist:mem://a/b");
    assert_ok(convert(ctx, "digits:?size=50", "idx:slow+mem://a/b?latency=0", NULL, NULL, &err),
              &err);
    assert_fails(convert(ctx, "digits:?size=50&seed=1", "mem://a/b", NULL, NULL, &err), STK_EINVAL,
                 &err, "of other data");
    same_samples(ctx, "digits:?size=50", "mnist:mem://a/b");
    stk_convert_options_init(&options);
    options.overwrite = true;
    assert_ok(convert(ctx, "digits:?size=50&seed=1", "mem://a/b", &options, NULL, &err), &err);
    same_samples(ctx, "digits:?size=50&seed=1&split=test", "mnist:mem://a/b?split=test");
    assert_fails(convert(ctx, "digits:?size=50", "idx:mem://a/b?level=1", NULL, NULL, &err),
                 STK_EINVAL, &err, "level");
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves_nothing),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
