/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels against formulas written out once more here, and the AVX2 table against the C table:
 * all bits, also of NaN, infinities, subnormal numbers and negative zero; error bound 0. Sources
 * begin at odd addresses; bytes beyond the destination must stay.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/kernels/kernels.h"

#define GUARD 0xa5
#define ROOM  (1 << 16)

static unsigned char source[ROOM + STK_TAIL + 8];
static unsigned char plain[8 * ROOM + 64], fast[8 * ROOM + 64];

static const size_t sizes[STK__VALUE_COUNT] = {1, 2, 4, 8, 1, 1, 1, 4};

static bool is_copy(stk__value value)
{
    return value <= STK__COPY8;
}

static size_t out_size(stk__value value)
{
    return is_copy(value) ? sizes[value] : sizeof(float);
}

/* An affine of `count` channels with the pattern that the tables want. */
typedef struct pattern {
    stk_transform_affine affine;
    float scale[STK__LANES * 16], shift[STK__LANES * 16];
} pattern;

static void make_pattern(pattern *p, uint32_t count, uint64_t *random)
{
    for (uint32_t c = 0; c < count; c++) {
        float scale = (float)(test_random(random) % 2000) / 700.0f - 1.1f;
        float shift = (float)(test_random(random) % 2000) / 300.0f - 2.7f;

        for (uint32_t i = c; i < STK__LANES * count; i += count) {
            p->scale[i] = scale;
            p->shift[i] = shift;
        }
    }
    p->affine = (stk_transform_affine){.count = count, .scale = p->scale, .shift = p->shift};
}

static void fill_source(stk__value value, uint64_t *random)
{
    static const uint32_t special[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0x00000001, 0x807fffff, 0x7f7fffff, 0x3f800000, 0x4b000001};

    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(test_random(random) >> 24);
    for (size_t i = 0; value == STK__AFFINE_F32 && i + 8 < sizeof source;
         i += 4 * (1 + test_random(random) % 9))
        memcpy(source + i, &special[test_random(random) % STK_COUNT(special)], 4);
}

/* What element (pixel p, channel c) becomes, written down independently of the kernels. */
static void expected(stk__value value, const unsigned char *src, size_t from,
                     const stk_transform_affine *a, uint32_t c, unsigned char *out)
{
    volatile float product, sum;
    float x, scale = 1, shift = 0;

    if (is_copy(value)) {
        memcpy(out, src + from * sizes[value], sizes[value]);
        return;
    }
    if (a) {
        scale = a->scale[a->count == 1 ? 0 : c];
        shift = a->shift[a->count == 1 ? 0 : c];
    }
    if (value == STK__AFFINE_F32)
        memcpy(&x, src + from * 4, 4);
    else
        x = value == STK__AFFINE_U8 ? (float)src[from] : (float)((double)src[from] / 255.0);
    product = x * scale;
    sum = value == STK__UNIT ? x : product + shift;
    memcpy(out, (const void *)&sum, 4);
}

static void check_formula(stk__arrange arrange, stk__value value, const unsigned char *src,
                          size_t pixels, uint32_t channels, size_t plane,
                          const stk_transform_affine *a)
{
    unsigned char want[8] = {0};
    size_t item = out_size(value);

    for (size_t p = 0; p < pixels; p++) {
        for (uint32_t c = 0; c < channels; c++) {
            size_t interleaved = p * channels + c, planar = c * plane + p;
            size_t from = arrange == STK__INTERLEAVED ? planar : interleaved;
            size_t to = arrange == STK__PLANAR ? planar : interleaved;
            float x, y;

            expected(value, src, from, a, c, want);
            if (memcmp(want, plain + to * item, item) == 0)
                continue;
            memcpy(&x, want, 4);
            memcpy(&y, plain + to * item, 4);
            /* A sum of several NaN may keep either. */
            if (is_copy(value) || !isnan(x) || !isnan(y))
                fail_msg("arrange %d value %d pixel %zu of %zu channel %u of %u", arrange, value, p,
                         pixels, c, channels);
        }
    }
}

static void check_convert(const stk__kernels *other, stk__arrange arrange, stk__value value,
                          uint64_t *random)
{
    uint32_t channels = 1 + (uint32_t)(test_random(random) % (test_random(random) % 4 ? 4 : 9));
    size_t pixels = test_random(random) % (test_random(random) % 3 ? 40 : 1000);
    size_t plane = pixels + test_random(random) % 7, item = out_size(value);
    size_t extent =
        arrange == STK__PLANAR && pixels ? (channels - 1) * plane + pixels : pixels * channels;
    const unsigned char *src = source + test_random(random) % 5;
    pattern p;

    if ((channels * plane + 8) * sizes[value] > ROOM)
        return;
    fill_source(value, random);
    make_pattern(&p, test_random(random) % 2 ? channels : 1, random);
    const stk_transform_affine *a = is_copy(value) || value == STK__UNIT ? NULL : &p.affine;
    memset(plain, GUARD, extent * item + 64);
    memset(fast, GUARD, extent * item + 64);
    stk__kernels_c.convert[arrange][value](src, plain, pixels, channels, plane, a);
    check_formula(arrange, value, src, pixels, channels, plane, a);
    other->convert[arrange][value](src, fast, pixels, channels, plane, a);
    assert_memory_equal(plain, fast, extent * item + 64);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(plain[extent * item + i], GUARD);
}

/* What a context takes that may use all of the machine. */
static const stk__kernels *other_table(void)
{
    stk_context *context = test_context();
    const stk__kernels *kernels = stk__kernels_of(context);

    stk_context_destroy(&context);
    return kernels;
}

static void test_convert(void **state)
{
    const stk__kernels *other = other_table();
    uint64_t random = 0x5eed0001;

    for (int round = 0; round < 200; round++)
        for (int arrange = 0; arrange < STK__ARRANGE_COUNT; arrange++)
            for (int value = 0; value < STK__VALUE_COUNT; value++)
                check_convert(other, (stk__arrange)arrange, (stk__value)value, &random);
}

static void test_unit_is_the_quotient(void **state)
{
    unsigned char bytes[256 + STK_TAIL] = {0};
    float out[256];

    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    other_table()->convert[STK__FLAT][STK__UNIT](bytes, out, 256, 1, 0, NULL);
    for (int i = 0; i < 256; i++) {
        float want = (float)i / 255.0f;

        assert_memory_equal(&out[i], &want, sizeof want);
    }
}

static void test_reverse(void **state)
{
    const stk__kernels *tables[] = {&stk__kernels_c, other_table()};
    uint64_t random = 0x5eed0002;

    for (int round = 0; round < 3000; round++) {
        size_t unit = 1 + test_random(&random) % 16, pixels = test_random(&random) % 120;
        const unsigned char *src = source + test_random(&random) % 7;

        fill_source(STK__COPY1, &random);
        for (size_t t = 0; t < 2; t++) {
            memset(plain, GUARD, pixels * unit + 64);
            tables[t]->reverse(src, plain, pixels, unit);
            for (size_t i = 0; i < pixels; i++)
                assert_memory_equal(plain + i * unit, src + (pixels - 1 - i) * unit, unit);
            for (size_t i = 0; i < 64; i++)
                assert_int_equal(plain[pixels * unit + i], GUARD);
        }
        if (round > 300)
            round += 9; /* filling the source is the slow part */
    }
}

static void test_mix_f32(void **state)
{
    const stk__kernels *tables[] = {&stk__kernels_c, other_table()};
    float a[2][300], b[2][300];
    uint64_t random = 0x5eed0003;

    for (int round = 0; round < 400; round++) {
        size_t n = test_random(&random) % 300;
        float own = (float)(test_random(&random) % 1001) / 1000.0f, other = 1.0f - own;

        for (size_t i = 0; i < n; i++) {
            a[0][i] = a[1][i] = (float)(int)(test_random(&random) % 20001) / 777.0f - 10.0f;
            b[0][i] = b[1][i] = (float)(int)(test_random(&random) % 20001) / 555.0f - 10.0f;
        }
        for (size_t i = 0; i < n; i++) {
            volatile float x = a[0][i] * own, y = b[0][i] * other, u = b[0][i] * own,
                           v = a[0][i] * other;

            ((volatile float *)plain)[2 * i] = x + y;
            ((volatile float *)plain)[2 * i + 1] = u + v;
        }
        for (size_t t = 0; t < 2; t++) {
            tables[t]->mix_f32(a[t], b[t], n, own, other);
            for (size_t i = 0; i < n; i++) {
                assert_memory_equal(&a[t][i], (float *)plain + 2 * i, 4);
                assert_memory_equal(&b[t][i], (float *)plain + 2 * i + 1, 4);
            }
        }
    }
}

static void test_mix_u8(void **state)
{
    const stk__kernels *tables[] = {&stk__kernels_c, other_table()};
    static unsigned char a[2][65536], b[2][65536];

    /* All pairs of values, for weights of which some make ties. */
    const float weights[] = {0.0f, 0.5f, 0.25f, 0.3f, 0.874321f, 1.0f};
    for (size_t w = 0; w < STK_COUNT(weights); w++) {
        float own = weights[w], other = 1.0f - own;

        for (size_t t = 0; t < 2; t++) {
            for (int i = 0; i < 65536; i++) {
                a[t][i] = (unsigned char)i;
                b[t][i] = (unsigned char)(i >> 8);
            }
            tables[t]->mix_u8(a[t], b[t], 65536, own, other);
        }
        for (int i = 0; i < 65536; i++) {
            float x = (float)(i & 255), y = (float)(i >> 8);
            volatile float xo = x * own, yo = y * own, xp = x * other, yp = y * other;

            for (size_t t = 0; t < 2; t++) {
                assert_int_equal(a[t][i], (int)nearbyintf(xo + yp));
                assert_int_equal(b[t][i], (int)nearbyintf(yo + xp));
            }
        }
    }
}

static void test_mask_chooses_the_table(void **state)
{
    stk_context_options options;
    stk_context *context = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.instructions = STK_INSTRUCTIONS_PLAIN;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    assert_ptr_equal(stk__kernels_of(context), &stk__kernels_c);
    stk_context_destroy(&context);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        assert_ptr_not_equal(other_table(), &stk__kernels_c);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convert), cmocka_unit_test(test_unit_is_the_quotient),
        cmocka_unit_test(test_reverse), cmocka_unit_test(test_mix_f32),
        cmocka_unit_test(test_mix_u8),  cmocka_unit_test(test_mask_chooses_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
