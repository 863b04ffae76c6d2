/* SPDX-License-Identifier: Apache-2.0 */
/* Widening with AVX2 gives what the definition gives, for any length and place. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_widen)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
