/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of Parquet's encodings for AVX2 against those in C, and those in C bit by bit. */
#include "codec/parquet_kernels.h"

#include <stdlib.h>

#include "support/support.h"

#define GROUPS 40
#define MOST   (8 * GROUPS)
#define GUARD  8

static uint32_t a[MOST + GUARD], b[MOST + GUARD];
static uint64_t wide_a[MOST + GUARD], wide_b[MOST + GUARD];

static void clear(void)
{
    memset(a, 0x5a, sizeof a);
    memset(b, 0x5a, sizeof b);
    memset(wide_a, 0x5a, sizeof wide_a);
    memset(wide_b, 0x5a, sizeof wide_b);
}

/* The version for this machine. */
static const stk__parquet_kernels *fast(stk_context **ctx)
{
    *ctx = test_context();
    if (stk__parquet_kernels_of(*ctx) == &stk__parquet_kernels_c) {
        stk_context_destroy(ctx);
        skip();
    }
    return stk__parquet_kernels_of(*ctx);
}

static uint32_t bits_at(const uint8_t *data, uint64_t bit, unsigned width)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < width; i++, bit++)
        x |= (uint64_t)(data[bit / 8] >> bit % 8 & 1) << i;
    return (uint32_t)x;
}

static void test_unpack(void **unused)
{
    uint64_t seed = 11;
    stk_context *ctx;
    const stk__parquet_kernels *k = fast(&ctx);

    (void)unused;
    for (unsigned width = 0; width <= 32; width++)
        for (size_t groups = 0; groups <= GROUPS; groups++) {
            /* Of just the size that may be looked at: a sanitizer sees what is read beyond. */
            const size_t size = groups * width + STK__PARQUET_BEYOND;
            uint8_t *data = malloc(size);
            assert_non_null(data);
            for (size_t i = 0; i < size; i++)
                data[i] = (uint8_t)test_random(&seed);
            clear();
            k->unpack(data, width, a, groups);
            stk__parquet_kernels_c.unpack(data, width, b, groups);
            assert_memory_equal(a, b, sizeof a);
            for (size_t i = 0; i < 8 * groups; i++)
                assert_int_equal(b[i], bits_at(data, i * width, width));
            free(data);
        }
    stk_context_destroy(&ctx);
}

static void test_codes(void **unused)
{
    static const size_t sizes[] = {1, 2, 3, 4, 8, 12, 16};
    enum { ENTRIES = 997 };
    static uint8_t entries[ENTRIES * 16], out_a[MOST * 16 + GUARD], out_b[MOST * 16 + GUARD];
    uint32_t codes[MOST];
    uint64_t seed = 12;
    stk_context *ctx;
    const stk__parquet_kernels *k = fast(&ctx);

    (void)unused;
    for (size_t i = 0; i < sizeof entries; i++)
        entries[i] = (uint8_t)test_random(&seed);
    for (size_t count = 0; count <= MOST; count = count * 5 / 4 + 1) {
        uint32_t most = 0;
        for (size_t i = 0; i < count; i++) {
            codes[i] = (uint32_t)(test_random(&seed) % ENTRIES);
            most = STK_MAX(most, codes[i]);
        }
        assert_int_equal(k->highest(codes, count), most);
        assert_int_equal(stk__parquet_kernels_c.highest(codes, count), most);
        if (count) { /* wherever it stands, and beyond what an int has */
            const size_t at = (size_t)(test_random(&seed) % count);
            const uint32_t was = codes[at];
            codes[at] = UINT32_C(0xfffffffe);
            assert_true(k->highest(codes, count) == codes[at]);
            codes[at] = was;
        }
        for (size_t s = 0; s < STK_COUNT(sizes); s++) {
            memset(out_a, 0x5a, sizeof out_a);
            memset(out_b, 0x5a, sizeof out_b);
            k->look_up(entries, codes, out_a, count, sizes[s]);
            stk__parquet_kernels_c.look_up(entries, codes, out_b, count, sizes[s]);
            assert_memory_equal(out_a, out_b, sizeof out_a);
            for (size_t i = 0; i < count; i++)
                assert_memory_equal(out_b + i * sizes[s], entries + codes[i] * sizes[s], sizes[s]);
        }
    }
    stk_context_destroy(&ctx);
}

static void test_differences(void **unused)
{
    uint32_t differences[MOST];
    uint64_t seed = 13;
    stk_context *ctx;
    const stk__parquet_kernels *k = fast(&ctx);

    (void)unused;
    for (size_t count = 0; count <= MOST; count += 1 + count / 7) {
        const uint64_t least = test_random(&seed), last = test_random(&seed);
        for (size_t i = 0; i < count; i++)
            differences[i] = (uint32_t)test_random(&seed);
        clear();
        const uint32_t narrow =
            k->add_up32(differences, (uint32_t)least, (uint32_t)last, (uint8_t *)a, count);
        assert_int_equal(narrow,
                         stk__parquet_kernels_c.add_up32(differences, (uint32_t)least,
                                                         (uint32_t)last, (uint8_t *)b, count));
        assert_memory_equal(a, b, sizeof a);
        const uint64_t wide = k->add_up64(differences, least, last, (uint8_t *)wide_a, count);
        assert_true(wide == stk__parquet_kernels_c.add_up64(differences, least, last,
                                                            (uint8_t *)wide_b, count));
        assert_memory_equal(wide_a, wide_b, sizeof wide_a);
        uint64_t sum = last;
        for (size_t i = 0; i < count; i++) {
            sum += least + differences[i];
            assert_true(wide_b[i] == sum && b[i] == (uint32_t)sum);
        }
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unpack), cmocka_unit_test(test_codes),
                                       cmocka_unit_test(test_differences)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
