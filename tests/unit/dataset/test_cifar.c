/* SPDX-License-Identifier: Apache-2.0 */
/* cifar10, cifar100: against records made here; the layout that the format's page describes. */
#include "dataset/dataset.h"
#include "dataset/planes.h"

#include <stdio.h>

#include "samples.h"

enum { RECORD = 3073, EACH = 4, FILES = 5 };

/* Byte of plane c at (y, x) of sample i, a label before: values that no swap of axes keeps. */
static unsigned char pixel(uint64_t i, int c, int y, int x)
{
    return (unsigned char)(i * 101 + (uint64_t)c * 71 + (uint64_t)y * 7 + (uint64_t)x * 3);
}

static int64_t label(uint64_t i)
{
    return (int64_t)(i * 3 % 10);
}

static void make_file(unsigned char *data, uint64_t first)
{
    for (uint64_t i = first; i < first + EACH; i++) {
        *data++ = (unsigned char)label(i);
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < 32; y++)
                for (int x = 0; x < 32; x++)
                    *data++ = pixel(i, c, y, x);
    }
}

static void write_files(const char *folder, const char *below)
{
    unsigned char data[EACH * RECORD];
    char name[128];

    for (int f = 0; f < FILES; f++) {
        make_file(data, (uint64_t)f * EACH);
        snprintf(name, sizeof name, "%sdata_batch_%d.bin", below, f + 1);
        test_write(folder, name, data, sizeof data);
    }
    make_file(data, 100);
    snprintf(name, sizeof name, "%stest_batch.bin", below);
    test_write(folder, name, data, sizeof data);
}

static stk_status open_spec(stk_context *ctx, const char *folder, const char *query,
                            stk_dataset **out, stk_error *err)
{
    char spec[400];

    snprintf(spec, sizeof spec, "cifar10:%s%s", folder, query);
    stk_error_init(err);
    return stk_dataset_open(ctx, spec, out, err);
}

static void check(stk_dataset *d, uint64_t first, bool needs)
{
    samples *s = samples_range(d, 0, d->size);

    assert_int_equal(s->located, needs ? d->size : 0);
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->sample[i].status, STK_OK);
        assert_int_equal(s->label[i], label(first + i));
        for (int y = 0; y < 32; y++)
            for (int x = 0; x < 32; x++)
                for (int c = 0; c < 3; c++)
                    assert_int_equal(s->data[i][(y * 32 + x) * 3 + c], pixel(first + i, c, y, x));
    }
    samples_free(s);
}

static void test_read(void **state)
{
    static const struct {
        const char *below, *query;
        bool needs;
    } cases[] = {{"", "", true}, {"", "?memory=true", false}, {"cifar-10-batches-bin/", "", true}};
    stk_context *ctx = test_context();
    uint64_t fingerprint = 0;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char folder[256];
        stk_dataset *d = NULL;
        test_folder(folder);
        write_files(folder, cases[i].below);
        assert_ok(open_spec(ctx, folder, cases[i].query, &d, &err), &err);
        assert_int_equal(d->size, EACH * FILES);
        assert_true(d->fields[0].picture && d->fields[0].rank == 3);
        assert_int_equal(d->fields[0].shape[2], 3);
        assert_int_equal(d->num_classes, 10);
        assert_string_equal(d->classes[0], "airplane");
        assert_string_equal(d->classes[9], "truck");
        check(d, 0, cases[i].needs);
        if (i)
            assert_int_equal(d->fingerprint, fingerprint);
        fingerprint = d->fingerprint;
        stk_dataset_close(&d);
        test_folder_remove(folder);
    }
    stk_context_destroy(&ctx);
}

static void test_split_and_names(void **state)
{
    static const char names[] = "a\nb\nc\r\nd\ne\nf\ng\nh\ni\nlast one\n\n";
    stk_context *ctx = test_context();
    char folder[256];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    write_files(folder, "");
    test_write(folder, "batches.meta.txt", names, sizeof names - 1);
    assert_ok(open_spec(ctx, folder, "?split=test", &d, &err), &err);
    assert_int_equal(d->size, EACH);
    assert_string_equal(d->classes[2], "c");
    assert_string_equal(d->classes[9], "last one");
    check(d, 100, true);
    stk_dataset_close(&d);
    /* Recognised without a prefix. */
    assert_ok(stk_dataset_open(ctx, folder, &d, &err), &err);
    assert_string_equal(d->ops->name, "cifar10");
    stk_dataset_close(&d);
    test_write(folder, "batches.meta.txt", names, 9);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_EFORMAT, &err, "names");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_bad_files(void **state)
{
    stk_context *ctx = test_context();
    unsigned char data[EACH * RECORD];
    char folder[256], path[300];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_ENOENT, &err, "data_batch_1.bin");
    assert_fails(open_spec(ctx, folder, "?split=test", &d, &err), STK_ENOENT, &err, "test_batch");
    write_files(folder, "");
    snprintf(path, sizeof path, "%s/data_batch_4.bin", folder);
    assert_int_equal(remove(path), 0);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_ENOENT, &err, "data_batch_4.bin");
    make_file(data, 0);
    test_write(folder, "data_batch_4.bin", data, sizeof data - 1);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_EFORMAT, &err, "no whole number");
    assert_int_equal(err.offset, (EACH - 1) * RECORD);
    test_write(folder, "data_batch_4.bin", "", 0);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_EFORMAT, &err, "0 bytes");
    data[0] = 10;
    test_write(folder, "data_batch_4.bin", data, sizeof data);
    assert_fails(open_spec(ctx, folder, "", &d, &err), STK_EFORMAT, &err, "label 10");
    /* A bad label further on is a bad sample, and the others go on. */
    data[0] = 0;
    data[2 * RECORD] = 200;
    test_write(folder, "data_batch_4.bin", data, sizeof data);
    assert_ok(open_spec(ctx, folder, "", &d, &err), &err);
    samples *s = samples_range(d, 0, d->size);
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(s->sample[i].status, i == 3 * EACH + 2 ? STK_EFORMAT : STK_OK);
    assert_non_null(strstr(s->sample[3 * EACH + 2].reason, "label"));
    samples_free(s);
    stk_dataset_close(&d);
    assert_null(d);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* CIFAR-100's files have names that any file may have: what is in them, and next to them, counts.
 */
static void test_hundred(void **state)
{
    stk_context *ctx = test_context();
    unsigned char data[3 * 3074];
    char folder[256], spec[400];
    stk_dataset *d = NULL;
    stk_error err;

    test_folder(folder);
    snprintf(spec, sizeof spec, "cifar100:%s", folder);
    memset(data, 1, sizeof data);
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_ENOENT, &err,
                 "no train.bin and no train");
    test_write(folder, "train", "a text", 6);
    test_write(folder, "meta", "a text", 6);
    assert_fails(stk_dataset_open(ctx, folder, &d, &err), STK_EFORMAT, &err, "no kind of dataset");
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_EKIND, &err, "'train' is no pickle");
    test_write(folder, "train.bin", data, sizeof data);
    assert_fails(stk_dataset_open(ctx, folder, &d, &err), STK_EFORMAT, &err, "no kind of dataset");
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_ENOENT, &err,
                 "fine_label_names.txt with the names of the classes is missing next to train.bin");
    test_write(folder, "train.bin", data, sizeof data - 1);
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_EFORMAT, &err, "records of 3074");
    assert_int_equal(err.offset, 2 * 3074);
    data[1] = 100;
    test_write(folder, "train.bin", data, sizeof data);
    assert_fails(stk_dataset_open(ctx, spec, &d, &err), STK_EFORMAT, &err, "label 100");
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Labels of a file of Python are kept, and count. */
static void test_held(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_error err;

    assert_ok(
        stk_dataset_open(ctx, "cifar100:" TESTS_DIR "/golden/cifar/cifar-100-python", &d, &err),
        &err);
    assert_int_equal(d->held_bytes, 2);
    stk_dataset_close(&d);
    assert_ok(stk_dataset_open(ctx,
                               "cifar100:" TESTS_DIR "/golden/cifar/cifar-100-python?memory=true",
                               &d, &err),
              &err);
    assert_true(d->held_bytes > 2 * 3072);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* Every kernel gives what the definition says, for all lengths around its vectors. */
static void test_interleave(void **state)
{
    enum { MOST = 100 };
    stk_context *ctx = test_context();
    stk__planes_fn *kernels[] = {stk__planes_interleave3_c, stk__planes_interleave3(ctx)};
    unsigned char planes[3 * MOST];
    uint64_t seed = 17;

    for (size_t i = 0; i < sizeof planes; i++)
        planes[i] = (unsigned char)test_random(&seed);
    for (size_t k = 0; k < STK_COUNT(kernels); k++)
        for (size_t pixels = 0; pixels <= MOST; pixels++) {
            unsigned char out[3 * MOST + 1];
            memset(out, 0xa5, sizeof out);
            kernels[k](planes, pixels, out);
            for (size_t i = 0; i < pixels; i++)
                for (size_t c = 0; c < 3; c++)
                    assert_int_equal(out[3 * i + c], planes[c * pixels + i]);
            assert_int_equal(out[3 * pixels], 0xa5);
        }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),      cmocka_unit_test(test_split_and_names),
        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_hundred),
        cmocka_unit_test(test_held),      cmocka_unit_test(test_interleave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
