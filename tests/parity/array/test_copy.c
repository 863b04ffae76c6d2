/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel for rows of a large destination copies what memcpy() does, and no byte more. */
#include <string.h>

#include "array/room.h"
#include "support/support.h"

static void test_rows(void **state)
{
#if STK_WITH_AVX2
    static unsigned char from[1024], to[1024], expected[1024];
    stk_context *ctx = test_context();
    uint64_t seed = 3;

    for (int round = 0; round < 3000 && stk__cpu_has_avx2(ctx); round++) {
        size_t a = test_random(&seed) % 64, b = test_random(&seed) % 64,
               n = test_random(&seed) % 800;
        for (size_t i = 0; i < sizeof from; i++)
            from[i] = (unsigned char)test_random(&seed);
        memset(to, round, sizeof to);
        memset(expected, round, sizeof expected);
        memcpy(expected + b, from + a, n);
        stk__copy_row_avx2(to + b, from + a, n);
        stk__copy_fence();
        assert_memory_equal(to, expected, sizeof to);
    }
    stk_context_destroy(&ctx);
#else
    skip();
#endif
}

/* A box that is large enough to take the kernel, from chunks of odd rows. */
static void test_large(void **state)
{
    enum { Y = 300, X = 30011 };
    int64_t shape[2] = {Y, X}, chunk[2] = {150, 601};
    stk_context *ctx = test_context();
    stk_array_writer_options o;
    stk_array_writer *w = NULL;
    stk_array *a = NULL;
    stk_error err;

    uint32_t *values = test_malloc(sizeof *values * Y * X), *out = test_malloc(sizeof *out * Y * X);
    for (uint32_t i = 0; i < Y * X; i++)
        values[i] = i * 2654435761u;
    stk_array_writer_options_init(&o);
    o.dtype = STK_UINT32;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.codec = "none";
    assert_ok(stk_array_writer_create(ctx, "mem://large/a", &o, &w, &err), &err);
    assert_ok(stk_array_writer_write(w, NULL, NULL, values, &err), &err);
    assert_ok(stk_array_writer_finish(&w, &err), &err);
    assert_ok(stk_array_open(ctx, "mem://large/a", NULL, &a, &err), &err);
    assert_ok(stk_array_read(a, NULL, out, sizeof *out * Y * X, NULL, -1, &err), &err);
    assert_memory_equal(out, values, sizeof *out * Y * X);
    stk_array_close(&a);
    test_free(out);
    test_free(values);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
