/* SPDX-License-Identifier: Apache-2.0 */
/* Any samples as shards of WebDataset, and back. */
#include "../dataset/shards.h"

#include <unistd.h>

static char folder[256];
static stk_context *ctx;
static shard_sample sample;

static int begin(void **state)
{
    ctx = test_context();
    test_folder(folder);
    return 0;
}

static int end(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

static stk_status convert(const char *source, const char *target, bool overwrite, stk_error *err)
{
    stk_conversion_report report = {.struct_size = sizeof report};
    stk_conversion *conversion = NULL;
    stk_convert_options options;
    char to[600];

    stk_error_init(err);
    stk_convert_options_init(&options);
    options.overwrite = overwrite;
    snprintf(to, sizeof to, "webdataset:%s/%s", folder, target);
    STK_TRY(stk_conversion_create(ctx, source, to, &conversion, err));
    const stk_status status = stk_conversion_run(conversion, &options, NULL, &report, err);
    if (status == STK_OK)
        assert_true(report.total > 0 && report.bytes_after % 512 == 0);
    stk_conversion_destroy(&conversion);
    return status;
}

static bool is_there(const char *name)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Shards of other sizes have the same samples; old shards that are left go. */
static void test_again(void **state)
{
    char source[600], journal[600];
    stk_error err;

    shard_numbers(folder, "a/a.tar", 0, 30);
    snprintf(source, sizeof source, "webdataset:%s/a", folder);
    assert_ok(convert(source, "b?shard_size=8192", false, &err), &err);
    assert_true(is_there("b/shard-000007.tar") && !is_there("b/shard-000008.tar"));
    stk_dataset *d = shards_open_good(ctx, folder, "b");
    assert_int_equal(d->size, 30);
    for (int i = 0; i < 30; i++)
        shard_check_number(d, (uint64_t)i, i);
    stk_dataset_close(&d);
    assert_fails(convert(source, "b?shard_size=16KiB", false, &err), STK_EMISMATCH, &err,
                 "begun as a conversion with shard_size=");
    snprintf(journal, sizeof journal, "%s/b/.stoker-convert", folder);
    assert_int_equal(unlink(journal), 0);
    assert_fails(convert(source, "b?shard_size=16KiB", false, &err), STK_EEXIST, &err,
                 "has shards already");
    assert_ok(convert(source, "b?shard_size=16KiB", true, &err), &err);
    assert_true(is_there("b/shard-000003.tar") && !is_there("b/shard-000004.tar"));
    d = shards_open_good(ctx, folder, "b?index=none");
    assert_int_equal(d->size, 30);
    shard_check_number(d, 29, 29);
    stk_dataset_close(&d);
}

/* Fields of each kind keep their names, types and values. */
static void test_fields(void **state)
{
    static const char png[] = "\x89PNG\r\n\x1a\n and so on",
                      npy[] = "\x93NUMPY\x01\x00\x76\x00"
                              "{'descr': '<i2', 'fortran_order': False,"
                              " 'shape': (%d, 2), }";
    tar_bytes t = {NULL, 0};
    char source[600], array[256], name[128];
    stk_error err;

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%d.png", i);
        tar_file(&t, name, png, sizeof png - 1);
        snprintf(name, sizeof name, "%d.meta.json", i);
        tar_file(&t, name, "{}", (size_t)(2 * i));
        snprintf(name, sizeof name, "%d.cls", i);
        shard_text(&t, name, i ? "-7" : "9");
        memset(array, ' ', sizeof array);
        memcpy(array, npy, 10);
        const int n = snprintf(array + 10, 100, npy + 10, i + 1);
        array[10 + n] = ' ';
        array[127] = '\n';
        memcpy(array + 128, "\1\0\2\0\3\0\4\0", 8);
        snprintf(name, sizeof name, "%d.box.npy", i);
        tar_file(&t, name, array, (size_t)(132 + 4 * i));
    }
    tar_end(&t);
    shard_write(folder, "f/a.tar", &t);
    snprintf(source, sizeof source, "webdataset:%s/f", folder);
    assert_ok(convert(source, "g", false, &err), &err);
    stk_dataset *d = shards_open_good(ctx, folder, "g");
    assert_int_equal(d->size, 2);
    assert_int_equal(d->num_fields, 4);
    assert_int_equal(d->fields[shard_field(d, "box")].layout, STK_RAGGED);
    assert_int_equal(d->fields[shard_field(d, "box")].dtype, STK_INT16);
    for (uint64_t i = 0; i < 2; i++) {
        shard_take(d, i, &sample);
        shard_check(d, &sample, "image", png, sizeof png - 1);
        shard_check(d, &sample, "meta.json", "{}", 2 * i);
        shard_check(d, &sample, "box", "\1\0\2\0\3\0\4\0", 4 + 4 * i);
        shard_check_label(d, &sample, i ? -7 : 9);
    }
    stk_dataset_close(&d);
}

/* Pictures of one shape become arrays, which are pictures again. */
static void test_digits(void **state)
{
    stk_dataset *d, *digits = NULL;
    stk_error err;

    assert_ok(convert("digits:?size=7", "d", false, &err), &err);
    d = shards_open_good(ctx, folder, "d");
    assert_ok(stk_dataset_open(ctx, "digits:?size=7", &digits, &err), &err);
    assert_int_equal(d->size, 7);
    assert_true(d->fields[0].picture && d->fields[0].layout == STK_FIXED);
    for (uint64_t i = 0; i < 7; i++) {
        unsigned char picture[784];
        int64_t label;
        stk_value values[2] = {{picture, 784, NULL, 784}, {&label, 8, NULL, 8}};
        stk_sample one = {.index = i, .values = values};
        digits->ops->prepare(digits, &one, 1);
        shard_take(d, i, &sample);
        shard_check(d, &sample, "image", values[0].data, 784);
        shard_check(d, &sample, "label", values[1].data, 8);
    }
    stk_dataset_close(&digits);
    stk_dataset_close(&d);
}

static void test_refused(void **state)
{
    char source[600];
    tar_bytes t = {NULL, 0};
    stk_error err;

    shard_text(&t, "a.jpg", "no picture");
    tar_end(&t);
    shard_write(folder, "r/a.tar", &t);
    snprintf(source, sizeof source, "webdataset:%s/r", folder);
    assert_fails(convert(source, "s", false, &err), STK_EFORMAT, &err, "sample 0: 'image' is no");
    assert_false(is_there("s/shard-000000.tar"));
    assert_fails(convert("digits:", "s?shard_size=0", false, &err), STK_EINVAL, &err, "shard_size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
