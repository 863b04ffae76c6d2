/* SPDX-License-Identifier: Apache-2.0 */
/* What is written as TFRecord is what its reader gives back; the oracle of the reader is
 * unit/dataset/tfrecord. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/dataset.h"
#include "support/support.h"

#define GOLDEN "tfrecord:" TESTS_DIR "/golden/tfrecord/"

static stk_status convert(stk_context *ctx, const char *source, const char *target, bool overwrite,
                          stk_conversion_report *report, stk_error *err)
{
    stk_conversion *conversion = NULL;
    stk_convert_options options;

    stk_convert_options_init(&options);
    options.overwrite = overwrite;
    stk_error_init(err);
    stk_status status = stk_conversion_create(ctx, source, target, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &options, NULL, report, err);
    stk_conversion_destroy(&conversion);
    return status;
}

static void same_field(const stk_batch *a, const stk_batch *b, const char *name)
{
    stk_tensor t[2] = {{.struct_size = sizeof *t}, {.struct_size = sizeof *t}};

    assert_int_equal(stk_batch_find(a, name, &t[0]), STK_OK);
    assert_int_equal(stk_batch_find(b, name, &t[1]), STK_OK);
    assert_int_equal(t[0].layout, t[1].layout);
    assert_int_equal(t[0].dtype, t[1].dtype);
    assert_int_equal(t[0].rank, t[1].rank);
    uint64_t count = stk_batch_count(a);
    if (t[0].layout == STK_FIXED) {
        for (uint32_t k = 1; k < t[0].rank; k++) {
            assert_int_equal(t[0].shape[k], t[1].shape[k]);
            count *= (uint64_t)t[0].shape[k];
        }
    } else {
        assert_memory_equal(t[0].offsets, t[1].offsets, (count + 1) * sizeof *t[0].offsets);
        count = t[0].offsets[count];
    }
    assert_memory_equal(t[0].data, t[1].data, count * stk_dtype_size(t[0].dtype));
}

/* All fields of the first, which the second has, too. */
static uint64_t same_samples(stk_context *ctx, const char *a, const char *b)
{
    const char *const specs[2] = {a, b};
    stk_dataset *dataset[2];
    stk_loader *loader[2];
    stk_batch *batch[2];
    stk_loader_options options;
    stk_status status[2];
    stk_error err;
    uint64_t rows = 0;

    stk_loader_options_init(&options);
    options.num_workers = 0;
    options.epochs = 1;
    for (int i = 0; i < 2; i++) {
        assert_ok(stk_dataset_open(ctx, specs[i], &dataset[i], &err), &err);
        assert_ok(stk_loader_create(dataset[i], &options, &loader[i], &err), &err);
    }
    assert_int_equal(dataset[0]->size, dataset[1]->size);
    assert_int_equal(dataset[0]->num_fields, dataset[1]->num_fields);
    for (;;) {
        for (int i = 0; i < 2; i++)
            status[i] = stk_loader_next(loader[i], -1, &batch[i], &err);
        assert_int_equal(status[0], status[1]);
        if (status[0] != STK_OK)
            break;
        assert_int_equal(stk_batch_count(batch[0]), stk_batch_count(batch[1]));
        for (uint32_t f = 0; f < dataset[0]->num_fields; f++)
            same_field(batch[0], batch[1], dataset[0]->fields[f].name);
        rows += stk_batch_count(batch[0]);
        stk_batch_release(&batch[0]);
        stk_batch_release(&batch[1]);
    }
    assert_ok(status[0] == STK_EOS ? STK_OK : status[0], &err);
    for (int i = 0; i < 2; i++) {
        stk_loader_destroy(&loader[i]);
        stk_dataset_close(&dataset[i]);
    }
    return rows;
}

static bool is_there(const char *folder, const char *name)
{
    char path[900];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

/* Every kind of field, whatever the size of the shards. */
static void test_round_trips(void **state)
{
    static const struct {
        const char *source, *schema;
        uint64_t rows;
    } cases[] = {
        {GOLDEN "examples-{00000..00001}-of-00002?index=none", NULL, 6},
        {GOLDEN "examples-{00000..00001}-of-00002?index=none&schema=tokens:int32[],"
                "short=image/class/label:int16,image=image/encoded:bytes,embedding:float[3]",
         "tokens:int32[],short:int16,image:bytes,embedding:float[3]", 6},
        {"digits:?size=10", "image_raw:raw_uint8[28,28,1],label:int64", 10},
        {"digits:?size=10&subset=3:8", "image_raw:raw_uint8[28,28,1],label:int64", 5},
    };
    static const char *const sizes[] = {"1", "2KiB", "256MiB"};
    char folder[256], target[400], spec[600];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < 3; k++) {
            test_folder(folder);
            snprintf(target, sizeof target, "tfrecord:%s?shard_size=%s", folder, sizes[k]);
            assert_ok(convert(*state, cases[i].source, target, false, &report, &err), &err);
            assert_int_equal(report.total, cases[i].rows);
            snprintf(spec, sizeof spec, "tfrecord:%s?index=none%s%s", folder,
                     cases[i].schema ? "&schema=" : "", cases[i].schema ? cases[i].schema : "");
            assert_int_equal(same_samples(*state, cases[i].source, spec), cases[i].rows);
            assert_int_equal(is_there(folder, "shard-000001.tfrecord"),
                             k == 0 || (k == 1 && i > 1));
            if (k == 0) {
                snprintf(spec, sizeof spec, "shard-%06d.tfrecord", (int)cases[i].rows - 1);
                assert_true(is_there(folder, spec));
            }
            test_folder_remove(folder);
        }
}

/* Numbers that no list holds lie in bytes. */
static void test_other_types(void **state)
{
    static const char npy[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, "
                              "'shape': (2, 3), }";
    const double values[] = {1.5, -2, 1e300, 0, 4, 5};
    unsigned char bytes[128 + sizeof values];
    char folder[256], target[400], source[400], spec[600];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;

    test_folder(folder);
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, npy, sizeof npy - 1);
    bytes[127] = '\n';
    memcpy(bytes + 128, values, sizeof values);
    test_write(folder, "a.npy", bytes, sizeof bytes);
    snprintf(source, sizeof source, "npy:%s/a.npy", folder);
    snprintf(target, sizeof target, "tfrecord:%s", folder);
    assert_ok(convert(*state, source, target, false, &report, &err), &err);
    snprintf(spec, sizeof spec, "tfrecord:%s?index=none&schema=data:raw_float64[3]", folder);
    assert_int_equal(same_samples(*state, source, spec), 2);
    test_folder_remove(folder);
}

/* Shards of another conversion are replaced where that is asked for, all of them. */
static void test_overwrite(void **state)
{
    char folder[256], target[400], spec[600];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;

    test_folder(folder);
    snprintf(target, sizeof target, "tfrecord:%s?shard_size=1", folder);
    snprintf(spec, sizeof spec,
             "tfrecord:%s?index=none&schema=image_raw:raw_uint8[28,28,1],label:int64", folder);
    assert_ok(convert(*state, "digits:?size=9", target, false, &report, &err), &err);
    assert_fails(convert(*state, "digits:?size=5", target, false, &report, &err), STK_EMISMATCH,
                 &err, "of ?size=9 and not of ?size=5");
    assert_int_equal(same_samples(*state, "digits:?size=9", spec), 9);
    assert_ok(convert(*state, "digits:?size=5", target, true, &report, &err), &err);
    assert_int_equal(same_samples(*state, "digits:?size=5", spec), 5);
    assert_false(is_there(folder, "shard-000005.tfrecord"));
    test_folder_remove(folder);
}

/* A bad sample ends it, and a shard that was begun has no name. */
static void test_bad_sample(void **state)
{
    char folder[256], target[400];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;

    test_folder(folder);
    snprintf(target, sizeof target, "tfrecord:%s", folder);
    assert_fails(convert(*state, "synthetic:?size=40&fail=0.5", target, false, &report, &err),
                 STK_EFORMAT, &err, "sample");
    assert_false(is_there(folder, "shard-000000.tfrecord"));
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_overwrite),
        cmocka_unit_test(test_bad_sample),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
