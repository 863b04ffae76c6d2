/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of the resampler: the C table against formulas written out once more here, and the AVX2
 * table against the C table, all bits. Random weights, also ones that no filter has, so that sums
 * beyond both ends are clipped. Bytes beyond the slack of each row must stay.
 */
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/resize/resize_kernels.h"

enum { GUARD = 0xa5, ROWS = 17, PIXELS = 64, GROUPS = 6, REACH = 400, ROOM = 8192 };

static uint8_t source[ROWS][ROOM];
static uint8_t plain[ROWS][ROOM], fast[ROWS][ROOM];
static int32_t plain_sums[ROOM], fast_sums[ROOM];

static const stk__resize_kernels *other_table(void)
{
#ifdef STK_WITH_AVX2
    if (__builtin_cpu_supports("avx2"))
        return &stk__resize_kernels_avx2;
#endif
    return &stk__resize_kernels_c;
}

/* Noise, and in a part of the cases only the ends of the range. */
static void fill(uint64_t *random)
{
    bool ends = test_random(random) % 4 == 0;

    for (size_t i = 0; i < sizeof source; i++) {
        uint8_t value = (uint8_t)(test_random(random) >> 24);

        ((uint8_t *)source)[i] = ends ? (value & 1) * 255 : value;
    }
    memset(plain, GUARD, sizeof plain);
    memset(fast, GUARD, sizeof fast);
}

/* Weights whose sum is about 1 << bits. */
static int16_t random_weight(uint64_t *random, uint32_t bits, uint32_t count)
{
    int32_t mean = (int32_t)((UINT32_C(1) << bits) / count);
    int32_t width = 2 * STK_MIN(mean, 12000) + 200;
    int32_t weight =
        STK_MIN(mean, 16000) + (int32_t)(test_random(random) % (uint64_t)width) * 2 - width;

    return (int16_t)STK_MAX(-32768, STK_MIN(weight, 32767));
}

static uint8_t rounded(int64_t sum, uint32_t bits)
{
    int64_t value = (sum + (INT64_C(1) << (bits - 1))) >> bits;

    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void check_guards(uint8_t (*rows)[ROOM], uint32_t count, size_t bytes)
{
    for (uint32_t row = 0; row < ROWS; row++)
        for (size_t i = row < count ? bytes + STK__RESIZE_SLACK : 0; i < ROOM; i++)
            if (rows[row][i] != GUARD)
                fail_msg("row %u of %u: byte %zu behind %zu was written", row, count, i, bytes);
}

static void check_across(const stk__resize_kernels *other, uint64_t *random)
{
    static int16_t weights[PIXELS * GROUPS * STK__ACROSS_TAPS];
    uint32_t start[PIXELS], bytes = 1 + (uint32_t)(test_random(random) % 4);
    uint8_t *to_plain[ROWS], *to_fast[ROWS];
    uint32_t rows = 1 + (uint32_t)(test_random(random) % ROWS);
    stk__across taps = {.pixels = 4 * (1 + (uint32_t)(test_random(random) % (PIXELS / 4))),
                        .groups = 1 + (uint32_t)(test_random(random) % GROUPS),
                        .bits = 14 + (uint32_t)(test_random(random) % 9),
                        .half_group = test_random(random) & 1,
                        .start = start,
                        .weights = weights};
    uint32_t count = taps.groups * STK__ACROSS_TAPS - (taps.half_group ? 2 : 0);

    fill(random);
    for (uint32_t i = 0; i < taps.pixels; i++) {
        start[i] = (uint32_t)(test_random(random) % REACH) * bytes;
        for (uint32_t k = 0; k < taps.groups * STK__ACROSS_TAPS; k++)
            weights[stk__across_at(taps.groups, i, k)] =
                k < count ? random_weight(random, taps.bits, count) : 0;
    }
    for (uint32_t row = 0; row < ROWS; row++) {
        to_plain[row] = plain[row];
        to_fast[row] = fast[row];
    }
    stk__resize_kernels_c.across[bytes](&taps, source[0] + 3, ROOM, to_plain, rows);
    other->across[bytes](&taps, source[0] + 3, ROOM, to_fast, rows);
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < taps.pixels * bytes; i++) {
            const uint8_t *from = source[row] + 3 + start[i / bytes] + i % bytes;
            int64_t sum = 0;

            for (uint32_t k = 0; k < count; k++)
                sum += from[(size_t)k * bytes] * weights[stk__across_at(taps.groups, i / bytes, k)];
            assert_int_equal(plain[row][i], rounded(sum, taps.bits));
            if (fast[row][i] != plain[row][i])
                fail_msg("%u bytes, %u groups, half %d, row %u of %u, byte %u: %u, C has %u", bytes,
                         taps.groups, taps.half_group, row, rows, i, fast[row][i], plain[row][i]);
        }
    }
    check_guards(plain, rows, (size_t)taps.pixels * bytes);
    check_guards(fast, rows, (size_t)taps.pixels * bytes);
}

static void test_across(void **state)
{
    uint64_t random = 20240717;

    for (int i = 0; i < 600; i++)
        check_across(other_table(), &random);
}

/* One row from several, at once and in parts. */
static void check_down(const stk__resize_kernels *other, uint64_t *random)
{
    uint32_t count = 1 + (uint32_t)(test_random(random) % ROWS), bits = 14 + count % 9;
    uint32_t cut = (uint32_t)(test_random(random) % count);
    size_t bytes = 1 + test_random(random) % (test_random(random) % 3 ? 300 : 2000);
    size_t sums = stk__round_up(bytes, 32) * sizeof *plain_sums, skew = test_random(random) % 5;
    const uint8_t *rows[ROWS];
    int16_t weights[ROWS];

    fill(random);
    for (uint32_t k = 0; k < count; k++) {
        rows[k] = source[test_random(random) % ROWS] + skew;
        weights[k] = random_weight(random, bits, count);
    }
    stk__resize_kernels_c.down(rows, weights, count, bits, bytes, plain[0]);
    other->down(rows, weights, count, bits, bytes, fast[0]);
    for (size_t i = 0; i < bytes; i++) {
        int64_t sum = 0;

        for (uint32_t k = 0; k < count; k++)
            sum += rows[k][i] * weights[k];
        assert_int_equal(plain[0][i], rounded(sum, bits));
    }
    memset(plain_sums, 0, sums);
    memset(fast_sums, 0, sums);
    for (uint32_t part = 0; part < 2; part++) {
        uint32_t from = part ? cut : 0, n = part ? count - cut : cut;

        if (n == 0)
            continue;
        stk__resize_kernels_c.add(rows + from, weights + from, n, bytes, plain_sums);
        other->add(rows + from, weights + from, n, bytes, fast_sums);
    }
    stk__resize_kernels_c.finish(plain_sums, bits, bytes, plain[1]);
    other->finish(fast_sums, bits, bytes, fast[1]);
    assert_memory_equal(plain[0], plain[1], bytes);
    assert_memory_equal(plain[0], fast[0], bytes);
    assert_memory_equal(plain[0], fast[1], bytes);
    check_guards(plain, 2, bytes);
    check_guards(fast, 2, bytes);
}

static void test_down(void **state)
{
    uint64_t random = 20240718;

    for (int i = 0; i < 600; i++)
        check_down(other_table(), &random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_across), cmocka_unit_test(test_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
