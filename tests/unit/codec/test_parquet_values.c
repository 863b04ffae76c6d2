/* SPDX-License-Identifier: Apache-2.0 */
/* The encodings of Parquet: the examples of Encodings.md, random values packed here, and damage. */
#include <stdlib.h>

#include "codec/parquet.h"
#include "codec/parquet_kernels.h"
#include "support/support.h"

static stk_context *context;
static stk__codec_state *codecs;

/* "The numbers 0 through 7 using bit width 3" [Encodings.md]. */
static void test_example_bits(void **state)
{
    const uint8_t packed[] = {0x88, 0xc6, 0xfa};
    uint32_t out[8];

    (void)state;
    stk__parquet_unpack_bits(stk__parquet_kernels_of(context), packed, sizeof packed, 3, out, 8);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(out[i], i);
}

/* Least bit first, a bit at a time. */
static uint64_t bits_at(const uint8_t *data, size_t size, uint64_t bit, unsigned width)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < width; i++, bit++)
        if (bit / 8 < size && data[bit / 8] >> bit % 8 & 1)
            x |= UINT64_C(1) << i;
    return x;
}

static void test_all_widths(void **state)
{
    enum { COUNT = 77, BYTES = COUNT * 8 };
    uint8_t *data = malloc(BYTES);
    uint32_t narrow[COUNT];
    uint64_t wide[COUNT], seed = 5;

    (void)state;
    for (unsigned i = 0; i < BYTES; i++)
        data[i] = (uint8_t)test_random(&seed);
    for (unsigned width = 0; width <= 64; width++) {
        const size_t size = (COUNT * width + 7) / 8;
        uint8_t *just = malloc(size ? size : 1); /* a sanitizer sees what is read beyond */
        memcpy(just, data, size);
        stk__parquet_unpack_wide(just, size, width, wide, COUNT);
        if (width <= 32)
            stk__parquet_unpack_bits(stk__parquet_kernels_of(context), just, size, width, narrow,
                                     COUNT);
        for (unsigned i = 0; i < COUNT; i++) {
            assert_true(wide[i] == bits_at(just, size, (uint64_t)i * width, width));
            if (width <= 32)
                assert_true(narrow[i] == wide[i]);
        }
        free(just);
    }
    free(data);
}

static void test_runs(void **state)
{
    /* 5 times 3, then 0 to 7 packed, then 300 times 1; 3 bits each. */
    const uint8_t data[] = {10, 3, 3, 0x88, 0xc6, 0xfa, 0xd8, 4, 1};
    stk__parquet_runs runs;
    uint32_t out[400];

    (void)state;
    for (unsigned step = 1; step <= 313; step += 13) {
        assert_null(stk__parquet_runs_begin(&runs, codecs, data, sizeof data, 3));
        for (unsigned at = 0; at < 313; at += step)
            assert_null(stk__parquet_runs_take(&runs, out + at, STK_MIN(step, 313 - at)));
        for (unsigned i = 0; i < 313; i++)
            assert_int_equal(out[i], i < 5 ? 3 : i < 13 ? i - 5 : 1);
    }
    assert_non_null(stk__parquet_runs_take(&runs, out, 1));
    assert_non_null(stk__parquet_runs_begin(&runs, codecs, data, sizeof data, 33));
}

static void test_levels(void **state)
{
    const uint8_t good[] = {8, 1, 6, 0}, high[] = {8, 2}, none[] = {0, 1, 0, 1};
    const uint8_t wrong[] = {8, 4};
    uint8_t out[8];

    (void)state;
    assert_null(stk__parquet_levels(codecs, good, sizeof good, 1, out, 7));
    assert_memory_equal(out, "\1\1\1\1\0\0\0", 7);
    assert_string_equal(stk__parquet_levels(codecs, high, sizeof high, 1, out, 4),
                        "its runs end before its last value");
    assert_null(stk__parquet_levels(codecs, high, sizeof high, 2, out, 4));
    assert_string_equal(stk__parquet_levels(codecs, (const uint8_t[]){8, 3}, 2, 2, out, 4),
                        "a level is beyond those of the schema");
    assert_non_null(stk__parquet_levels(codecs, wrong, sizeof wrong, 2, out, 4));
    assert_string_equal(stk__parquet_levels(codecs, none, sizeof none, 1, out, 1),
                        "its runs end before its last value");
}

/* The second example of Encodings.md, in a block of a size that is valid. */
static void test_delta(void **state)
{
    static const int32_t wanted[] = {7, 5, 3, 1, 2, 3, 4, 5};
    uint8_t data[64] = {0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f};
    int32_t out[8];
    int64_t wide[8];
    uint64_t used = 0;

    (void)state;
    assert_null(stk__parquet_delta(codecs, data, 17, 4, out, 8, &used));
    assert_int_equal(used, 17);
    assert_memory_equal(out, wanted, sizeof wanted);
    assert_null(stk__parquet_delta(codecs, data, 17, 8, wide, 8, &used));
    for (int i = 0; i < 8; i++)
        assert_int_equal(wide[i], wanted[i]);
    assert_non_null(stk__parquet_delta(codecs, data, 17, 4, out, 7, &used));
    for (uint64_t cut = 0; cut < 12; cut++)
        assert_non_null(stk__parquet_delta(codecs, data, cut, 4, out, 8, &used));
    data[6] = 33; /* bits of a miniblock */
    assert_string_equal(stk__parquet_delta(codecs, data, sizeof data, 4, out, 8, &used),
                        "a delta of its values has too many bits");
    data[0] = 0x81;
    assert_string_equal(stk__parquet_delta(codecs, data, sizeof data, 4, out, 8, &used),
                        "the head of its delta encoded values is damaged");
}

static void test_strings(void **state)
{
    const uint8_t plain[] = {2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 1, 0, 0, 0, 'c'};
    uint32_t offsets[5];
    uint8_t bytes[32];
    const stk__parquet_strings out = {offsets, bytes, 3}, short_out = {offsets, bytes, 2};

    (void)state;
    assert_null(stk__parquet_strings_plain(plain, sizeof plain, &out, 3));
    assert_memory_equal(bytes, "abc", 3);
    assert_true(offsets[1] == 2 && offsets[2] == 2 && offsets[3] == 3);
    assert_non_null(stk__parquet_strings_plain(plain, sizeof plain, &short_out, 3));
    for (uint64_t cut = 0; cut < sizeof plain; cut++)
        assert_non_null(stk__parquet_strings_plain(plain, cut, &out, 3));
}

static void test_booleans(void **state)
{
    const uint8_t data[] = {0x05, 0x01};
    uint8_t out[9];

    (void)state;
    assert_null(stk__parquet_booleans(data, 2, out, 9));
    assert_memory_equal(out, "\1\0\1\0\0\0\0\0\1", 9);
    assert_non_null(stk__parquet_booleans(data, 1, out, 9));
}

static int open_codecs(void **state)
{
    (void)state;
    context = test_context();
    return stk__codec_state_create(context, &codecs, NULL) == STK_OK ? 0 : -1;
}

static int close_codecs(void **state)
{
    (void)state;
    stk__codec_state_destroy(&codecs);
    stk_context_destroy(&context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example_bits), cmocka_unit_test(test_all_widths),
        cmocka_unit_test(test_runs),         cmocka_unit_test(test_levels),
        cmocka_unit_test(test_delta),        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_booleans),
    };

    return cmocka_run_group_tests(tests, open_codecs, close_codecs);
}
