/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet files byte for byte as a writer in Python makes them
 * (scripts/make_parquet_writer_golden.py); other programs read them in
 * interop/test_parquet_writer.py. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "convert/parquet.h"
#include "dataset/dataset.h"
#include "support/support.h"

#define GOLDEN  TESTS_DIR "/golden/parquet/"
#define SAMPLES "webdataset:" GOLDEN "samples.tar?index=none"
#define MOST    (1 << 20)

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

static size_t read_file(const char *path, uint8_t *bytes)
{
    FILE *file = fopen(path, "rb");

    if (!file)
        return 0;
    const size_t n = fread(bytes, 1, MOST, file);
    fclose(file);
    return n;
}

static bool is_there(const char *folder, const char *name)
{
    char path[900];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

/* Numbers, lists that may be empty, codes, bytes, pictures; pages and row groups of a few rows. */
static void test_golden(void **state)
{
    static uint8_t wanted[MOST], found[MOST];
    char folder[256], target[400], path[300];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/x.parquet", folder);
    snprintf(target, sizeof target, "parquet:%s?codec=none&page_size=40&row_group_rows=4", path);
    assert_ok(convert(*state, SAMPLES, target, false, &report, &err), &err);
    assert_int_equal(report.total, 9);
    const size_t n = read_file(GOLDEN "samples.parquet", wanted);
    assert_true(n > 0);
    assert_int_equal(report.bytes_after, n);
    assert_int_equal(read_file(path, found), n);
    assert_memory_equal(found, wanted, n);
    test_folder_remove(folder);
}

/* A file that is there is kept but for overwrite, and one that is not whole has no name. */
static void test_one_file(void **state)
{
    static uint8_t before[MOST], after[MOST];
    char folder[256], path[300];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/x.parquet", folder);
    assert_ok(convert(*state, "digits:?size=9", path, false, &report, &err), &err);
    const size_t n = read_file(path, before);
    assert_fails(convert(*state, "digits:?size=5", path, false, &report, &err), STK_EEXIST, &err,
                 "is there already: --overwrite replaces it");
    assert_fails(convert(*state, "synthetic:?size=40&fail=0.5", path, true, &report, &err),
                 STK_EFORMAT, &err, "sample");
    assert_int_equal(read_file(path, after), n);
    assert_memory_equal(before, after, n);
    assert_ok(convert(*state, "digits:?size=5", path, true, &report, &err), &err);
    assert_true(read_file(path, after) < n);
    test_folder_remove(folder);
}

static void test_shards(void **state)
{
    char folder[256], target[400];
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_error err;

    test_folder(folder);
    snprintf(target, sizeof target, "parquet:%s?shard_size=1", folder);
    assert_ok(convert(*state, "digits:?size=9", target, false, &report, &err), &err);
    assert_true(is_there(folder, "shard-000008.parquet"));
    assert_false(is_there(folder, "shard-000009.parquet"));
    assert_fails(convert(*state, "digits:?size=5", target, false, &report, &err), STK_EMISMATCH,
                 &err, "of ?size=9 and not of ?size=5");
    assert_ok(convert(*state, "digits:?size=5", target, true, &report, &err), &err);
    assert_true(is_there(folder, "shard-000004.parquet"));
    assert_false(is_there(folder, "shard-000005.parquet"));
    test_folder_remove(folder);
}

/* A chunk is compressed where that makes its first page smaller, and only there. */
static void test_codec(void **state)
{
    static const char *const settings[] = {"none", "zstd"};
    char folder[256], target[400];
    stk_conversion_report report[2] = {{.struct_size = sizeof *report},
                                       {.struct_size = sizeof *report}};
    stk_error err;

    for (int i = 0; i < 2; i++) {
        test_folder(folder);
        snprintf(target, sizeof target, "parquet:%s?codec=%s", folder, settings[i]);
        assert_ok(convert(*state, "digits:?size=50", target, false, &report[i], &err), &err);
        test_folder_remove(folder);
    }
    assert_true(report[1].bytes_after < report[0].bytes_after * 4 / 5);
}

/* What has no place in Parquet is refused, with a remedy. */
static void test_refuses(void **state)
{
    stk_field field = {.struct_size = sizeof field, .name = "x", .dtype = STK_BFLOAT16};

    (void)state;
    assert_non_null(strstr(stk__parquet_out_refuses(&field), "make it float32"));
    field.dtype = STK_COMPLEX64;
    assert_non_null(strstr(stk__parquet_out_refuses(&field), "complex"));
    for (int dtype = STK_BOOL; dtype < STK_BFLOAT16; dtype++) {
        field.dtype = (stk_dtype)dtype;
        assert_null(stk__parquet_out_refuses(&field));
    }
}

/* Bounds are without NaN, in the order of the type, and hold zeros of both signs. */
static void test_bounds(void **state)
{
    static const float reals[] = {NAN, 0, NAN};
    static const int8_t small[] = {-128, 5, 127};
    static const uint64_t large[] = {UINT64_MAX, 1};
    stk__parquet_out_bounds bounds = {0};
    uint8_t bytes[8];
    float real;

    (void)state;
    stk__parquet_out_bounds_take(STK_FLOAT32, reals, 1, &bounds);
    assert_false(bounds.any);
    stk__parquet_out_bounds_take(STK_FLOAT32, reals, 3, &bounds);
    assert_int_equal(stk__parquet_out_bound_put(STK_FLOAT32, &bounds, false, bytes), 4);
    memcpy(&real, bytes, 4);
    assert_true(real == 0 && signbit(real));
    stk__parquet_out_bound_put(STK_FLOAT32, &bounds, true, bytes);
    memcpy(&real, bytes, 4);
    assert_true(real == 0 && !signbit(real));
    bounds = (stk__parquet_out_bounds){0};
    stk__parquet_out_bounds_take(STK_INT8, small, 3, &bounds);
    assert_int_equal(stk__parquet_out_bound_put(STK_INT8, &bounds, false, bytes), 4);
    assert_memory_equal(bytes, "\x80\xff\xff\xff", 4);
    bounds = (stk__parquet_out_bounds){0};
    stk__parquet_out_bounds_take(STK_UINT64, large, 2, &bounds);
    assert_int_equal(stk__parquet_out_bound_put(STK_UINT64, &bounds, true, bytes), 8);
    assert_memory_equal(bytes, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
}

/* Any levels, as a reader by the text of Encodings.md gets them back. */
static void test_levels(void **state)
{
    uint8_t levels[300], got[320];
    uint64_t seed = 1;

    for (int round = 0; round < 500; round++) {
        stk__bytes out = {.ctx = *state};
        size_t count = 0, at = 0, done = 0;
        const unsigned width = 1 + (unsigned)round % 3;
        while (count < 280) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            const size_t run = 1 + (seed >> 33) % (round % 2 ? 3 : 17);
            memset(levels + count, (int)((seed >> 50) & ((1u << width) - 1)), run);
            count += run;
        }
        assert_true(stk__parquet_out_levels(&out, levels, count, width));
        const uint8_t *bytes = (const uint8_t *)out.data;
        while (at < out.length) {
            uint64_t head = 0;
            for (int shift = 0;; shift += 7) {
                head |= (uint64_t)(bytes[at] & 0x7f) << shift;
                if (bytes[at++] < 0x80)
                    break;
            }
            if (head & 1)
                for (uint64_t k = 0; k < head / 2 * 8; k++) {
                    unsigned value = 0;
                    for (unsigned b = 0; b < width; b++)
                        value |= (bytes[at + (k * width + b) / 8] >> ((k * width + b) % 8) & 1u)
                                 << b;
                    got[done++] = (uint8_t)value;
                }
            else
                for (uint64_t k = 0; k < head / 2; k++)
                    got[done++] = bytes[at];
            at += head & 1 ? head / 2 * width : 1;
        }
        assert_true(done >= count && done < count + 8);
        assert_memory_equal(levels, got, count);
        stk__bytes_release(&out);
    }
}

/* Ranges that samples share are decoded once, each its own: the values are those of a loader. */
static void test_decoded(void **state)
{
    const char *spec = "npz:" TESTS_DIR "/golden/rows/deflated.npz";
    stk_dataset *dataset = NULL;
    stk_loader *loader = NULL;
    stk_batch *batch = NULL;
    stk_loader_options options;
    stk__samples samples;
    stk_error err;

    stk_loader_options_init(&options);
    options.num_workers = 0;
    options.epochs = 1;
    options.batch_size = 1;
    assert_ok(stk_dataset_open(*state, spec, &dataset, &err), &err);
    assert_non_null(dataset->ops->decode);
    assert_true(dataset->size > 3);
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    assert_ok(stk__samples_init(dataset, 3, &samples, &err), &err);
    for (uint64_t i = 0; i < dataset->size; i++) {
        const size_t count = (size_t)STK_MIN(3, dataset->size - i);
        assert_ok(stk__samples_take(&samples, i, count, &err), &err);
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        for (uint32_t f = 0; f < dataset->num_fields; f++) {
            stk_tensor t = {.struct_size = sizeof t};
            assert_int_equal(stk_batch_find(batch, dataset->fields[f].name, &t), STK_OK);
            assert_memory_equal(stk__samples_value(&samples, 0, f), t.data,
                                stk__samples_size(&samples, 0, f));
        }
        stk_batch_release(&batch);
    }
    stk__samples_release(&samples);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_one_file),
        cmocka_unit_test(test_shards),  cmocka_unit_test(test_codec),
        cmocka_unit_test(test_refuses), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_levels),  cmocka_unit_test(test_decoded),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
