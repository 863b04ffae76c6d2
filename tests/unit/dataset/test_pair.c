/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets side by side: the fields of each are what it delivers alone. */
#include <string.h>

#include "dataset/dataset.h"
#include "numbered.h"
#include "windows.h"

enum { MOST = 300 };

/* The bytes of a field of all samples, by index. */
typedef struct column {
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

static void same_bytes(stk_context *ctx, const char *spec, const char *field, const char *alone,
                       const char *inner)
{
    column expected = read_column(ctx, alone, inner, 0, STK_CACHE_NONE);

    for (int workers = 0; workers < 3; workers++)
        for (int cache = STK_CACHE_NONE; cache <= STK_CACHE_DECODED; cache++) {
            column got = read_column(ctx, spec, field, workers, cache);
            assert_int_equal(got.n, expected.n);
            assert_int_equal(got.bytes, expected.bytes);
            assert_memory_equal(got.data, expected.data, got.n * got.bytes);
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

#define ONE "(digits:?size=40)"
#define TWO "(digits:?size=40&seed=9)"

static void test_names(void **state)
{
    check_fields(*state, "pair:" ONE "," TWO, "a_image,a_label,b_image,b_label");
    check_fields(*state, "pair:" ONE "," TWO "?prefixes=x,right",
                 "x_image,x_label,right_image,right_label");
    check_fields(*state, "pair:(digits:?size=40&keep=image)," TWO, "a_image,b_image,label");
    check_fields(*state, "pair:(digits:?size=4&rename=image:x,label:y),(digits:?size=4)",
                 "x,y,image,label");
    check_fields(*state, "pair:" ONE, "image,label");
    check_fields(*state, "pair:" ONE "," TWO "?keep=b_label&rename=b_label:label", "label");
}

static void test_values(void **state)
{
    static const char spec[] = "pair:" ONE "," TWO;

    same_bytes(*state, spec, "a_image", "digits:?size=40", "image");
    same_bytes(*state, spec, "a_label", "digits:?size=40", "label");
    same_bytes(*state, spec, "b_image", "digits:?size=40&seed=9", "image");
    same_bytes(*state, spec, "b_label", "digits:?size=40&seed=9", "label");
}

static double square_number(int64_t place)
{
    return (double)(place * 7 % 1000) + 5000;
}

/* The needs of a sample are those of all: of the middle one none, or several. */
static void test_needs(void **state)
{
    static const made cube = {.dtype = STK_FLOAT32, .shape = {16, 16, 16}, .chunk = {8, 8, 8}};
    static const made squares = {
        .dtype = STK_FLOAT32, .shape = {16, 16, 16}, .chunk = {8, 8, 8}, .value = square_number};
    static const char windows[] = "array:mem://p?window=6x8x8&stride=2x8x8";
    char folder[256], first[400], second[400], spec[2000];
    stk_dataset *d;

    numbered_write(test_folder(folder), "one", 0, 24);
    numbered_write(folder, "two", 500, 24);
    numbered_spec(folder, "one", first, sizeof first);
    numbered_spec(folder, "two", second, sizeof second);
    make_array(*state, "mem://p", &cube);
    d = numbered_open(*state, windows);
    assert_int_equal(d->size, 24);
    stk_dataset_close(&d);
    snprintf(spec, sizeof spec, "pair:(%s),(%s),(digits:?size=24),(%s)", first, windows, second);
    same_bytes(*state, spec, "a_tokens", first, "tokens");
    same_bytes(*state, spec, "d_tokens", second, "tokens");
    same_bytes(*state, spec, "data", windows, "data");
    same_bytes(*state, spec, "label", "digits:?size=24", "label");
    /* The first has no store of which a loader could ask. */
    snprintf(spec, sizeof spec, "pair:(digits:?size=24),(%s)", second);
    same_bytes(*state, spec, "tokens", second, "tokens");
    /* And in place. */
    snprintf(spec, sizeof spec, "pair:(%s&subset=0:8),(array:mem://p?window=8x8x8)", first);
    same_bytes(*state, spec, "data", "array:mem://p?window=8x8x8", "data");
    make_array(*state, "mem://q", &squares);
    for (int k = 0; k < 2; k++)
        same_bytes(*state, "pair:(array:mem://p?window=8x8x8),(array:mem://q?window=8x8x8)",
                   k ? "b_data" : "a_data",
                   k ? "array:mem://q?window=8x8x8" : "array:mem://p?window=8x8x8", "data");
    test_folder_remove(folder);
}

static void test_refused(void **state)
{
    static const struct {
        const char *spec, *part;
    } bad[] = {
        {"pair:" ONE ",(digits:?size=41)", "has 41"},
        {"pair:" ONE "," TWO "?prefixes=x,x", "other prefixes"},
        {"pair:" ONE ",(digits:?size=40&rename=image:a_image,label:b_label),(digits:?size=40)",
         "other prefixes"},
        {"pair:" ONE "," TWO "?prefix=x", "'prefixes'"},
        {"pair:2*" ONE, "no '('"},
    };
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(bad); i++)
        if (stk_dataset_open(*state, bad[i].spec, &d, &err) != STK_EINVAL || d ||
            !strstr(err.text, bad[i].part))
            fail_msg("%s: %s", bad[i].spec, err.text);
}

static void test_identity(void **state)
{
    static const char *const specs[] = {"pair:" ONE "," TWO, "pair:" TWO "," ONE, "pair:" ONE,
                                        "pair:" ONE "," TWO "?prefixes=x,y"};
    uint64_t seen[STK_COUNT(specs)];

    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        stk_dataset *d = numbered_open(*state, specs[i]);
        seen[i] = d->fingerprint;
        assert_int_equal(d->num_classes, 10);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(seen[i], seen[k]);
        stk_dataset_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_values),
        cmocka_unit_test(test_needs),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_identity),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
