/* SPDX-License-Identifier: Apache-2.0 */
/* The loops for AVX2 against those in C, and those in C against their definitions. */
#include "codec/kernels.h"

#include <stdlib.h>

#include "support/support.h"

#define MOST  20000
#define GUARD 64

static uint8_t src[MOST + GUARD], a[MOST + GUARD], b[MOST + GUARD], room[MOST + GUARD];

static void fill(uint64_t seed)
{
    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)test_random(&seed);
}

static void clear(void)
{
    memset(a, 0x5a, sizeof a);
    memset(b, 0x5a, sizeof b);
}

/* The version for this machine, or C's where there is no other. */
static const stk__codec_kernels *fast(stk_context **ctx)
{
    *ctx = test_context();
    return stk__codec_kernels_of(*ctx);
}

static void test_shuffle(void **unused)
{
    static const size_t sizes[] = {1, 2, 3, 4, 5, 8, 12, 16, 24, 255};
    stk_context *ctx;
    const stk__codec_kernels *k = fast(&ctx);

    fill(1);
    for (size_t s = 0; s < STK_COUNT(sizes); s++)
        for (size_t count = 0; count * sizes[s] <= MOST; count = count * 5 / 4 + 1)
            for (int reverse = 0; reverse < 2; reverse++) {
                size_t size = sizes[s];
                clear();
                k->unshuffle(src + 1, a, count, size, reverse);
                stk__codec_kernels_c.unshuffle(src + 1, b, count, size, reverse);
                assert_memory_equal(a, b, sizeof a);
                for (size_t i = 0; i < count * size; i++) {
                    size_t plane = reverse ? size - 1 - i % size : i % size;
                    assert_int_equal(b[i], src[1 + plane * count + i / size]);
                }
                clear();
                k->shuffle(src + 3, a, count, size, reverse);
                stk__codec_kernels_c.shuffle(src + 3, b, count, size, reverse);
                assert_memory_equal(a, b, sizeof a);
                stk__codec_kernels_c.unshuffle(b, room, count, size, reverse);
                assert_memory_equal(room, src + 3, count * size);
            }
    stk_context_destroy(&ctx);
}

static void test_bits(void **unused)
{
    static const size_t sizes[] = {1, 2, 3, 4, 8, 16};
    stk_context *ctx;
    const stk__codec_kernels *k = fast(&ctx);

    fill(2);
    for (size_t s = 0; s < STK_COUNT(sizes); s++)
        for (size_t count = 0; count * sizes[s] <= MOST; count = (count * 5 / 4 + 8) / 8 * 8) {
            size_t size = sizes[s];
            clear();
            k->unbitshuffle(src, a, room, count, size);
            stk__codec_kernels_c.unbitshuffle(src, b, room, count, size);
            assert_memory_equal(a, b, sizeof a);
            for (size_t i = 0; i < count * size * 8; i++) {
                size_t element = i / (size * 8), bit = i % (size * 8);
                int want = src[bit * (count / 8) + element / 8] >> (element % 8) & 1;
                assert_int_equal(b[i / 8] >> (i % 8) & 1, want);
            }
        }
    stk_context_destroy(&ctx);
}

static void test_numbers(void **unused)
{
    stk_context *ctx;
    const stk__codec_kernels *k = fast(&ctx);

    fill(3);
    for (size_t size = 1; size <= 8; size *= 2)
        for (size_t count = 0; count * size <= MOST; count = count * 5 / 4 + 1) {
            if (size > 1) {
                clear();
                k->swap(src + 1, a, count, size);
                stk__codec_kernels_c.swap(src + 1, b, count, size);
                assert_memory_equal(a, b, sizeof a);
                for (size_t i = 0; i < count * size; i++)
                    assert_int_equal(b[i], src[1 + (i ^ (size - 1))]);
                k->swap(a, a, count, size);
                assert_memory_equal(a, src + 1, count * size);
            }
            clear();
            k->sum(src + 1, a, count, size);
            stk__codec_kernels_c.sum(src + 1, b, count, size);
            assert_memory_equal(a, b, sizeof a);
            memcpy(a, src + 1, count * size);
            k->sum(a, a, count, size);
            assert_memory_equal(a, b, sizeof a);
            uint64_t want = 0, got = 0;
            for (size_t i = 0; i < count; i++) {
                uint64_t x = 0;
                memcpy(&x, src + 1 + i * size, size);
                want += x;
            }
            if (count) {
                memcpy(&got, b + (count - 1) * size, size);
                assert_int_equal(got, want & (UINT64_MAX >> (64 - 8 * size)));
            }
        }
    stk_context_destroy(&ctx);
}

static uint32_t slow_crc32c(const uint8_t *data, size_t length)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void test_crc32c(void **unused)
{
    stk_context *ctx;
    const stk__codec_kernels *both[] = {fast(&ctx), &stk__codec_kernels_c};
    uint8_t up[32], down[32], zeros[32] = {0}, ones[32];

    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
        ones[i] = 0xff;
    }
    fill(4);
    for (int v = 0; v < 2; v++) {
        /* RFC 3720, B.4. */
        assert_int_equal(both[v]->crc32c(0, zeros, 32), 0x8a9136aa);
        assert_int_equal(both[v]->crc32c(0, ones, 32), 0x62a8ab43);
        assert_int_equal(both[v]->crc32c(0, up, 32), 0x46dd794e);
        assert_int_equal(both[v]->crc32c(0, down, 32), 0x113fdb5c);
        assert_int_equal(both[v]->crc32c(0, (const uint8_t *)"123456789", 9), 0xe3069283);
        for (size_t n = 0; n < MOST; n = n * 3 / 2 + 1) {
            uint32_t want = slow_crc32c(src + 1, n);
            assert_int_equal(both[v]->crc32c(0, src + 1, n), want);
            uint32_t half = both[v]->crc32c(0, src + 1, n / 3);
            assert_int_equal(both[v]->crc32c(half, src + 1 + n / 3, n - n / 3), want);
        }
    }
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shuffle), cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_crc32c)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
