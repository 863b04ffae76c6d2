/* SPDX-License-Identifier: Apache-2.0 */
/* The cache alone: parts of a blob, and where in it they are. */
#include "loader/cache.h"

#include "support/support.h"

static void parts_are_where_the_slices_say(void **state)
{
    static const char first[] = "seventeen letters", last[] = "three";
    const stk_slice parts[] = {{.data = first, .size = sizeof first},
                               {.data = NULL, .size = 0}, /* absent */
                               {.data = "", .size = 0},
                               {.data = last, .size = sizeof last}};
    stk_context *ctx = *state;
    stk__cache *cache;
    uint64_t size = 0;

    assert_int_equal(stk__cache_create(ctx, 1 << 20, 100, &cache), STK_OK);
    assert_null(stk__cache_get(cache, 0, 7, &size));
    stk__cache_put_slices(cache, 0, 7, parts, STK_COUNT(parts));
    stk__cache_put(cache, 1, 7, parts, STK_COUNT(parts));
    stk__cache_put_slices(cache, 0, 7, parts, 1); /* it is there already */
    const stk_slice *got = stk__cache_get(cache, 0, 7, &size);
    assert_non_null(got);
    assert_int_equal(size, sizeof parts + sizeof first + sizeof last);
    assert_string_equal(got[0].data, first);
    assert_null(got[1].data);
    assert_non_null(got[2].data);
    assert_string_equal(got[3].data, last);
    for (size_t i = 0; i < STK_COUNT(parts); i++)
        assert_int_equal(got[i].size, parts[i].size);
    assert_true((const char *)got[3].data + got[3].size == (const char *)got + size);
    const char *plain = stk__cache_get(cache, 1, 7, &size);
    assert_non_null(plain);
    assert_int_equal(size, sizeof first + sizeof last);
    assert_string_equal(plain + sizeof first, last);
    stk__cache_destroy(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        parts_are_where_the_slices_say, test_context_open, test_context_close)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
