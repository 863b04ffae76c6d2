/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel `pack` (four bytes a pixel -> three, forwards and backwards): the C table against its
 * definition written out here, the AVX2 table against both; error bound 0. Sources begin at odd
 * addresses; bytes before and behind the destination must stay, whatever the byte that means
 * nothing.
 */
#include <string.h>

#include "support/support.h"
#include "transform/kernels/kernels.h"

enum { MOST = 1100, GUARD = 64 };

static unsigned char source[4 * MOST + STK_TAIL + 8], packed[3 * MOST + 2 * GUARD + 8];

static void check(const stk__kernels *kernels, const unsigned char *src, size_t offset,
                  size_t pixels, bool reversed)
{
    unsigned char *dst = packed + GUARD + offset;

    memset(packed, 0xa5, sizeof packed);
    kernels->pack(src, dst, pixels, reversed);
    for (size_t i = 0; i < pixels; i++) {
        const unsigned char *from = src + 4 * (reversed ? pixels - 1 - i : i);

        if (memcmp(dst + 3 * i, from, 3) != 0)
            fail_msg("pixel %zu of %zu, reversed %d", i, pixels, reversed);
    }
    for (size_t i = 0; i < GUARD; i++)
        if (dst[3 * pixels + i] != 0xa5 || *(dst - 1 - i) != 0xa5)
            fail_msg("%zu pixels, reversed %d: byte %zu beside them was written", pixels, reversed,
                     i);
}

static void test_pack(void **state)
{
    stk_context *context = test_context();
    const stk__kernels *tables[] = {&stk__kernels_c, stk__kernels_of(context)};
    uint64_t random = 0x5eed0004;

    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(test_random(&random) >> 24);
    for (size_t t = 0; t < 2; t++) {
        /* Every length that a vector may end in, at every place. */
        for (size_t pixels = 0; pixels < 40; pixels++)
            for (size_t offset = 0; offset < 8; offset++) {
                check(tables[t], source + offset % 5, offset, pixels, false);
                check(tables[t], source + offset % 5, offset, pixels, true);
            }
        for (int round = 0; round < 300; round++)
            check(tables[t], source + test_random(&random) % 7, test_random(&random) % 8,
                  test_random(&random) % MOST, round % 2 == 1);
    }
    stk_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pack)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
