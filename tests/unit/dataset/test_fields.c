/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields kept, dropped, renamed and cast: what is delivered is what the inner dataset delivers,
 * with threads and without, decoded in place or not.
 */
#include <string.h>

#include "dataset/dataset.h"
#include "numbered.h"
#include "windows.h"

enum { MOST = 300 };

/* The bytes of a field of all samples, by index. */
typedef struct column {
    stk_dtype dtype;
    uint64_t n, bytes; /* of a sample */
    char *data;
} column;

static column read_column(stk_context *ctx, const char *spec, const char *field, int workers,
                          int cache)
{
    stk_dataset *d = numbered_open(ctx, spec);
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;
    stk_status status;
    column c = {.n = d->size};

    assert_in_range(d->size, 1, MOST);
    stk_loader_options_init(&o);
    o.batch_size = 13;
    o.shuffle = STK_SHUFFLE_FULL;
    o.epochs = 1;
    o.num_workers = workers;
    o.cache = cache;
    o.memory_budget = 32 << 20;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_OK) {
        stk_tensor t = {.struct_size = sizeof t}, index = {.struct_size = sizeof index};
        assert_int_equal(stk_batch_find(batch, field, &t), STK_OK);
        assert_int_equal(stk_batch_find(batch, "index", &index), STK_OK);
        c.dtype = t.dtype;
        c.bytes = stk_dtype_size(t.dtype);
        for (uint32_t k = 1; k < t.rank; k++)
            c.bytes *= (uint64_t)t.shape[k];
        if (!c.data)
            c.data = calloc(c.n, c.bytes);
        for (uint64_t r = 0; r < stk_batch_count(batch); r++)
            memcpy(c.data + ((uint64_t *)index.data)[r] * c.bytes, (char *)t.data + r * c.bytes,
                   c.bytes);
        stk_batch_release(&batch);
    }
    assert_ok(status == STK_EOS ? STK_OK : status, &err);
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    return c;
}

static double number_at(const column *c, uint64_t i)
{
    return stk__element_as_double(c->data + i * stk_dtype_size(c->dtype), c->dtype);
}

/* Whether field `name` of `spec` with the options has the numbers that `inner` has without. */
static void same_numbers(stk_context *ctx, const char *spec, const char *options, const char *name,
                         const char *inner, stk_dtype dtype)
{
    char whole[1500];

    snprintf(whole, sizeof whole, "%s%s%s", spec, spec[strlen(spec) - 1] == ')' ? "?" : "&",
             options);
    column expected = read_column(ctx, spec, inner, 0, STK_CACHE_NONE);
    for (int workers = 0; workers < 3; workers++)
        for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_DECODED; cache++) {
            column got = read_column(ctx, whole, name, workers, cache);
            const uint64_t n = expected.n * expected.bytes / stk_dtype_size(expected.dtype);
            assert_int_equal(got.dtype, dtype);
            assert_int_equal(got.n * got.bytes / stk_dtype_size(got.dtype), n);
            for (uint64_t i = 0; i < n; i++)
                assert_true(number_at(&got, i) == number_at(&expected, i));
            free(got.data);
        }
    free(expected.data);
}

static void check_fields(stk_context *ctx, const char *spec, const char *names)
{
    stk_dataset *d = numbered_open(ctx, spec);
    char found[200] = "";

    for (uint32_t f = 0; f < d->num_fields; f++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", f ? "," : "",
                 d->fields[f].name);
    assert_string_equal(found, names);
    stk_dataset_close(&d);
}

#define DIGITS "digits:?size=40"

static void test_names(void **state)
{
    check_fields(*state, DIGITS "&keep=label", "label");
    check_fields(*state, DIGITS "&drop=label", "image");
    check_fields(*state, DIGITS "&keep=label,image", "label,image");
    check_fields(*state, DIGITS "&rename=image:x,label:y", "x,y");
    check_fields(*state, DIGITS "&rename=image:label,label:image", "label,image");
    check_fields(*state, DIGITS "&keep=label&rename=label:y&cast=y:float32", "y");
}

static void test_values(void **state)
{
    same_numbers(*state, DIGITS, "keep=label", "label", "label", STK_INT64);
    same_numbers(*state, DIGITS, "drop=label", "image", "image", STK_UINT8);
    same_numbers(*state, DIGITS, "keep=label,image&rename=image:x", "x", "image", STK_UINT8);
    same_numbers(*state, DIGITS, "keep=label,image&rename=image:x", "label", "label", STK_INT64);
    same_numbers(*state, DIGITS, "cast=label:float32", "label", "label", STK_FLOAT32);
    same_numbers(*state, DIGITS, "cast=image:float64,label:int32", "label", "label", STK_INT32);
    same_numbers(*state, DIGITS, "cast=image:float32", "image", "image", STK_FLOAT32);
    same_numbers(*state, DIGITS, "rename=image:x&cast=x:int64", "x", "image", STK_INT64);
}

/* Bytes that are read from a file, and samples that others choose. */
static void test_of_files(void **state)
{
    char folder[256], spec[500];

    numbered_write(test_folder(folder), "numbers", 5, 200);
    snprintf(spec, sizeof spec,
             "tokens:%s/numbers?length=3&stride=2&target=true&dtype=int64&subset=7:90", folder);
    same_numbers(*state, spec, "keep=target", "target", "target", STK_INT64);
    same_numbers(*state, spec, "drop=target&cast=input:float32", "input", "input", STK_FLOAT32);
    same_numbers(*state, spec, "rename=target:input,input:target", "input", "target", STK_INT64);
    test_folder_remove(folder);
}

static double square_number(int64_t place)
{
    return (double)(place * 7 % 1000) + 5000;
}

/* Chunks that are decoded straight into their place, which is that of another field now. */
static void test_in_place(void **state)
{
    static const made cube = {.dtype = STK_FLOAT32, .shape = {16, 16, 16}, .chunk = {8, 8, 8}},
                      halves = {.dtype = STK_INT16, .shape = {16, 16, 16}, .chunk = {8, 8, 8}};
    static const made squares = {.dtype = STK_FLOAT32,
                                 .shape = {16, 16, 16},
                                 .chunk = {8, 8, 8},
                                 .value = square_number},
                      large = {.dtype = STK_FLOAT64, .shape = {16, 16, 16}, .chunk = {8, 8, 8}};
    static const char spec[] = "array:mem://g?variables=a,b&window=8x8x8&stride=8x8x8",
                      alike[] = "array:mem://g?variables=a,c&window=8x8x8&stride=8x8x8",
                      doubles[] = "array:mem://g?variables=d,a&window=8x8x8&stride=8x8x8";
    stk_error err;

    make_array(*state, "mem://g/a", &cube);
    make_array(*state, "mem://g/b", &halves);
    make_array(*state, "mem://g/c", &squares);
    make_array(*state, "mem://g/d", &large);
    assert_ok(stk_group_consolidate(*state, "mem://g", NULL, &err), &err);
    /* Where both are decoded in place, one must not lie in that of the other. */
    same_numbers(*state, alike, "keep=c,a", "a", "a", STK_FLOAT32);
    same_numbers(*state, alike, "keep=c,a", "c", "c", STK_FLOAT32);
    /* What is decoded is larger than its place. */
    same_numbers(*state, doubles, "cast=d:float32", "d", "d", STK_FLOAT32);
    same_numbers(*state, spec, "keep=b", "b", "b", STK_FLOAT32);
    same_numbers(*state, spec, "keep=b,a", "a", "a", STK_FLOAT32);
    same_numbers(*state, spec, "keep=b,a", "b", "b", STK_FLOAT32);
    same_numbers(*state, spec, "cast=b:float64&rename=a:c", "b", "b", STK_FLOAT64);
    same_numbers(*state, spec, "cast=a:float64", "a", "a", STK_FLOAT64);
}

/* The order still knows of the sources. */
static void test_of_a_mixture(void **state)
{
    stk_dataset *d = numbered_open(*state, "mix:(digits:?size=20),(digits:?size=20)?keep=label"),
                *plain = numbered_open(*state, "mix:(digits:?size=20),(digits:?size=20)");

    assert_non_null(d->mixture);
    assert_int_equal(d->mixture->slots, 2);
    assert_int_not_equal(d->fingerprint, plain->fingerprint);
    stk_dataset_close(&d);
    stk_dataset_close(&plain);
    same_numbers(*state, "mix:(digits:?size=20),(digits:?size=20&seed=1)", "keep=label", "label",
                 "label", STK_INT64);
}

static void test_too_large_is_bad(void **state)
{
    char folder[256], spec[500];
    stk_loader_options o;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    numbered_write(test_folder(folder), "numbers", (uint64_t)INT32_MAX - 4, 10);
    snprintf(spec, sizeof spec, "tokens:%s/numbers?length=1&stride=1&dtype=int64&cast=tokens:int32",
             folder);
    stk_dataset *d = numbered_open(*state, spec);
    stk_loader_options_init(&o);
    o.batch_size = 5;
    o.num_workers = 0;
    assert_ok(stk_loader_create(d, &o, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    stk_batch_release(&batch);
    assert_fails(stk_loader_next(loader, -1, &batch, &err), STK_EFORMAT, &err, "does not fit");
    stk_loader_destroy(&loader);
    stk_dataset_close(&d);
    test_folder_remove(folder);
}

static void test_class_names(void **state)
{
    char folder[256], spec[500];
    stk_dataset *d, *plain = numbered_open(*state, DIGITS);
    stk_error err;

    test_folder(folder);
    test_write(folder, "names.txt", "zero\r\none \ntwo", 14);
    test_write(folder, "hole.txt", "zero\n\ntwo\n", 10);
    test_write(folder, "empty.txt", "", 0);
    snprintf(spec, sizeof spec, DIGITS "&class_names=%s/names.txt", folder);
    d = numbered_open(*state, spec);
    assert_int_equal(d->num_classes, 3);
    assert_string_equal(d->classes[0], "zero");
    assert_string_equal(d->classes[1], "one");
    assert_string_equal(d->classes[2], "two");
    assert_int_equal(d->fingerprint, plain->fingerprint);
    stk_dataset_close(&d);
    stk_dataset_close(&plain);
    snprintf(spec, sizeof spec, DIGITS "&class_names=%s/hole.txt", folder);
    assert_fails(stk_dataset_open(*state, spec, &d, &err), STK_EFORMAT, &err, "line 2");
    snprintf(spec, sizeof spec, DIGITS "&class_names=%s/empty.txt", folder);
    assert_fails(stk_dataset_open(*state, spec, &d, &err), STK_EFORMAT, &err, "0 lines");
    snprintf(spec, sizeof spec, DIGITS "&class_names=%s/none.txt", folder);
    assert_fails(stk_dataset_open(*state, spec, &d, &err), STK_ENOENT, &err, "none.txt");
    test_folder_remove(folder);
}

static void test_refused(void **state)
{
    static const struct {
        const char *options, *part;
    } bad[] = {
        {"keep=labels", "image, label"},
        {"keep=label,label", "twice"},
        {"drop=image,label", "leaves no field"},
        {"keep=label&drop=image", "one of them"},
        {"rename=label", "OLD:NEW"},
        {"rename=label:", "OLD:NEW"},
        {"rename=label:image", "two fields"},
        {"drop=label&rename=label:y", "dropped"},
        {"cast=label", "FIELD:TYPE"},
        {"cast=label:int8", "int8"},
        {"cast=label:complex64", "complex64"},
        {"rename=label:y&cast=label:int64", "image, y"},
    };
    stk_dataset *d = NULL;
    stk_error err;
    char spec[200];

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        snprintf(spec, sizeof spec, DIGITS "&%s", bad[i].options);
        if (stk_dataset_open(*state, spec, &d, &err) != STK_EINVAL || d ||
            !strstr(err.text, bad[i].part))
            fail_msg("%s: %s", bad[i].options, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),        cmocka_unit_test(test_values),
        cmocka_unit_test(test_of_files),     cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_of_a_mixture), cmocka_unit_test(test_too_large_is_bad),
        cmocka_unit_test(test_class_names),  cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
