/* SPDX-License-Identifier: Apache-2.0 */
/* Widening with AVX2 gives what the definition gives, for any length and place; int32 what int64
 * has. */
#include <stdlib.h>
#include <string.h>

#include "dataset/widen.h"
#include "support/support.h"

static void test_widen(void **state)
{
    static const stk_dtype types[] = {STK_UINT16, STK_UINT32};
    static unsigned char from[4 * 300 + 8];
    static int64_t want[301], got[301];
    stk_context *ctx = test_context();
    uint64_t seed = 5;

    (void)state;
    for (int t = 0; t < 2; t++)
        for (size_t n = 0; n < 300; n++) {
            size_t shift = n % 5;
            stk__dataset_widen_fn *fast = stk__widen(ctx, types[t]);
            for (size_t i = 0; i < sizeof from; i++)
                from[i] = (unsigned char)test_random(&seed);
            memset(want, 0x55, sizeof want);
            memset(got, 0x55, sizeof got);
            stk__widen_c(types[t])(from + shift, n, want);
            fast(from + shift, n, got);
            assert_memory_equal(want, got, sizeof want); /* nothing beyond the end either */
        }
    stk_context_destroy(&ctx);
}

/* What fits into int32 is what int64 has; one value that does not, at any place, is told. */
static void test_narrow(void **state)
{
    static const stk_dtype types[] = {STK_BOOL,  STK_UINT8,  STK_INT8,  STK_UINT16,
                                      STK_INT16, STK_UINT32, STK_INT32, STK_INT64};
    static unsigned char from[8 * 40 + 8];
    int64_t wide[40];
    int32_t narrow[40];
    unsigned misfits = 0;
    uint64_t seed = 6;

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t n = 0; n < 40; n++) {
            const size_t size = stk_dtype_size(types[t]), shift = n % 5;
            bool fits = true;
            for (size_t i = 0; i < sizeof from; i++)
                from[i] = (unsigned char)test_random(&seed);
            /* Small numbers of both signs, and beyond int32 in one place now and then. */
            for (size_t i = 0; size == 8 && i < n; i++) {
                const int64_t small = (int32_t)test_random(&seed);
                memcpy(from + shift + 8 * i, &small, 8);
            }
            for (size_t i = 0; size == 4 && i < n; i++)
                from[shift + 4 * i + 3] &= 0x7f;
            if (size >= 4 && n && n % 2) {
                const uint64_t high = test_random(&seed) % n;
                from[shift + size * high + size - 1] = 0x80;
            }
            stk__widen_c(types[t])(from + shift, n, wide);
            const bool said = stk__narrow(types[t])(from + shift, n, narrow);
            for (size_t i = 0; i < n; i++)
                fits &= wide[i] >= INT32_MIN && wide[i] <= INT32_MAX;
            assert_int_equal(said, fits);
            for (size_t i = 0; fits && i < n; i++)
                assert_int_equal(narrow[i], wide[i]);
            misfits += !fits;
        }
    assert_int_equal(misfits, 40); /* of uint32 and int64 */
    assert_null(stk__narrow(STK_FLOAT32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_widen), cmocka_unit_test(test_narrow)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
