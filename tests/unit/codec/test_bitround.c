/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that are seldom used. bitround of all float types: the nearest value with that many bits
 * of fraction, ties to the even one [Klöwer et al. 2021]. Held against arithmetic on the values,
 * not on their bits. */
#include "codec/codec.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "codec/number.h"
#include "support/support.h"

enum { COUNT = 1000 };

/* Encode COUNT elements of a type, in place. */
static void encode(stk_context *ctx, stk_dtype dtype, int keep, void *data)
{
    static const int64_t shape = COUNT;
    const uint32_t item = (uint32_t)stk_dtype_size(dtype);
    json_t *filters = json_pack("[{s:s,s:i}]", "id", "bitround", "keepbits", keep);
    stk__codec_state *state = NULL;
    stk__chain *chain = NULL;
    uint8_t out[COUNT * 8];
    const char *reason = NULL;
    uint64_t length = 0;
    stk__chain_spec spec;
    stk_error err;

    stk__chain_spec_init(&spec);
    spec.dtype = dtype;
    spec.itemsize = spec.swap_size = item;
    spec.rank = 1;
    spec.shape = &shape;
    spec.filters = filters;
    assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    assert_int_equal(stk__chain_encode(chain, state, data, (uint64_t)COUNT * item, out, sizeof out,
                                       &length, &reason),
                     STK_OK);
    assert_int_equal(length, (uint64_t)COUNT * item);
    memcpy(data, out, length);
    stk__codec_state_destroy(&state);
    stk__chain_destroy(&chain);
    json_decref(filters);
}

/* The nearest multiple of x's exponent / 2^keep; nearbyint() takes the even one of two. */
static double rounded(double x, int keep)
{
    int exponent;

    frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(x, keep + 1 - exponent)), exponent - keep - 1);
}

static double value_of(size_t i, int keep, uint64_t *seed)
{
    double x = 1 + (double)(test_random(seed) % 4096) / 4096;

    if (i % 3 == 0) /* a tie, of an even or an odd neighbour */
        x = 1 + ((double)(test_random(seed) % (1u << keep)) + 0.5) / (double)(1u << keep);
    return ldexp(i & 1 ? -x : x, (int)(i % 8) - 4);
}

static void test_types(void **unused)
{
    stk_context *ctx = test_context();
    uint64_t seed = 3;

    for (int keep = 1; keep <= 9; keep += 2) {
        static double given[COUNT], wide[COUNT];
        static float single[COUNT];
        static uint16_t half[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            double x = value_of(i, keep, &seed);
            half[i] = stk__double_to_half(x);
            single[i] = (float)x;
            wide[i] = given[i] = x;
        }
        double halves[COUNT];
        for (size_t i = 0; i < COUNT; i++)
            halves[i] = stk__half_to_double(half[i]);
        encode(ctx, STK_FLOAT64, keep, wide);
        encode(ctx, STK_FLOAT32, keep, single);
        encode(ctx, STK_FLOAT16, keep, half);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(wide[i] == rounded(given[i], keep));
            assert_true(single[i] == (float)rounded(given[i], keep));
            assert_true(stk__half_to_double(half[i]) == rounded(halves[i], keep));
        }
    }
    stk_context_destroy(&ctx);
}

/* Keeping all bits changes none. */
static void test_all_bits(void **unused)
{
    stk_context *ctx = test_context();
    uint64_t seed = 5;
    uint16_t half[COUNT], before[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        half[i] = before[i] = (uint16_t)test_random(&seed);
    encode(ctx, STK_FLOAT16, 10, half);
    assert_memory_equal(half, before, sizeof half);
    stk_context_destroy(&ctx);
}

/* packbits says how many bits of its last byte are none: a wrong number is damage. */
static void test_padding(void **unused)
{
    static const int64_t shape = 13;
    stk_context *ctx = test_context();
    json_t *filters = json_pack("[{s:s}]", "id", "packbits");
    stk__codec_state *state = NULL;
    stk__chain *chain = NULL;
    uint8_t bits[13] = {1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1}, out[13], packed[16];
    const char *reason = NULL;
    uint64_t length = 0;
    stk__chain_spec spec;
    stk_error err;

    stk__chain_spec_init(&spec);
    spec.dtype = STK_BOOL;
    spec.rank = 1;
    spec.shape = &shape;
    spec.filters = filters;
    assert_ok(stk__chain_create(ctx, &spec, &chain, &err), &err);
    assert_ok(stk__codec_state_create(ctx, &state, &err), &err);
    assert_int_equal(
        stk__chain_encode(chain, state, bits, 13, packed, sizeof packed, &length, &reason), STK_OK);
    /* numpy.packbits() of them, behind the count. */
    assert_int_equal(length, 3);
    assert_memory_equal(packed, ((uint8_t[]){3, 0xb1, 0xc8}), 3);
    assert_int_equal(stk__chain_decode(chain, state, packed, 3, out, 13, &reason), STK_OK);
    assert_memory_equal(out, bits, 13);
    packed[0] = 4;
    assert_int_equal(stk__chain_decode(chain, state, packed, 3, out, 13, &reason), STK_EFORMAT);
    assert_non_null(strstr(reason, "damaged"));
    /* Nothing at all, where the first values are enough: not even the count is there. */
    packed[0] = 3;
    assert_int_equal(stk__chain_decode_prefix(chain, state, packed, 0, out, 13, 5, &reason),
                     STK_ETRUNCATED);
    assert_int_equal(stk__chain_decode_prefix(chain, state, packed, 2, out, 13, 5, &reason),
                     STK_OK);
    assert_memory_equal(out, bits, 5);
    stk__codec_state_destroy(&state);
    stk__chain_destroy(&chain);
    json_decref(filters);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_all_bits),
        cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
