/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of texts and bytes of varying length that zarr-python wrote (scripts/make_texts_golden.py)
 * read equal, whole and in boxes. */
#include <string.h>

#include "golden/array/pack.h"

#define ARRAYS 21

typedef struct expected {
    char data[PACK_PART];
    uint64_t count;
    const char *at[512];
    uint32_t length[512];
} expected;

static void load_expected(stk_store *store, const char *name, expected *e)
{
    uint64_t size = pack_read(store, name, "expected", e->data), at = 0;

    for (e->count = 0; at < size; e->count++) {
        assert_true(e->count < 512);
        memcpy(&e->length[e->count], e->data + at, 4);
        e->at[e->count] = e->data + at + 4;
        at += 4 + e->length[e->count];
    }
}

static void assert_element(const char *name, const stk_array_texts *texts, uint64_t i,
                           const expected *e, uint64_t at)
{
    uint64_t length = texts->offsets[i + 1] - texts->offsets[i];

    assert_true(at < e->count);
    if (length != e->length[at] || memcmp(texts->values + texts->offsets[i], e->at[at], length))
        fail_msg("%s: element %llu differs", name, (unsigned long long)at);
}

static void check_box(stk_array *a, const char *name, const expected *e, uint64_t *seed)
{
    const stk_array_info *info = stk_array_get_info(a);
    int64_t start[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK], step[STK_ARRAY_MAX_RANK];
    const stk_array_box box = {start, shape, step};
    stk_array_texts *texts = NULL;
    stk_error err;

    const uint64_t count = pack_draw_box(info, seed, start, shape, step);
    assert_ok(stk_array_read_texts(a, &box, -1, &texts, &err), &err);
    assert_int_equal(texts->count, count);
    for (uint64_t i = 0; i < count; i++)
        assert_element(name, texts, i, e, pack_element(info, &box, i));
    stk_array_texts_destroy(&texts);
    assert_null(texts);
}

static void check_array(stk_context *ctx, stk_store *store, const char *prefix, const char *name)
{
    static expected e;
    static char about[PACK_PART];
    char shown[256], url[128];
    stk_array_texts *texts = NULL;
    stk_array *a = NULL;
    uint64_t seed = 42;
    stk_error err;

    load_expected(store, name, &e);
    pack_read(store, name, "about", about);
    snprintf(url, sizeof url, "%smem://pack/%s", prefix, name);
    assert_ok(stk_array_open(ctx, url, NULL, &a, &err), &err);
    const stk_array_info *info = stk_array_get_info(a);
    int n = snprintf(shown, sizeof shown, "%s", info->type_name);
    for (uint32_t d = 0; d < info->rank; d++)
        n += snprintf(shown + n, sizeof shown - (size_t)n, " %lld", (long long)info->shape[d]);
    assert_string_equal(shown, about);
    assert_int_equal(info->itemsize, 0);
    assert_int_equal(info->bytes, 0);
    if (stk_array_read_texts(a, NULL, -1, &texts, &err) != STK_OK)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(texts->count, e.count);
    for (uint64_t i = 0; i < texts->count; i++)
        assert_element(name, texts, i, &e, i);
    stk_array_texts_destroy(&texts);
    for (int i = 0; i < 20; i++)
        check_box(a, name, &e, &seed);
    stk_array_close(&a);
}

static void test_arrays(void **unused)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    static pack_names n;

    pack_load(ctx, "texts", &store);
    pack_list(store, &n);
    assert_int_equal(n.count, ARRAYS);
    for (size_t i = 0; i < n.count; i++) {
        check_array(ctx, store, "", n.list[i]);
        check_array(ctx, store, "slow+", n.list[i]);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arrays)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
