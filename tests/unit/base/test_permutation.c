/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/random.h"
#include "support/support.h"

static void check_bijection(uint64_t size, uint64_t seed)
{
    uint8_t *seen = calloc(size, 1);
    stk__permutation p;

    stk__permutation_init(&p, size, seed, seed / 3, 1);
    for (uint64_t i = 0; i < size; i++) {
        uint64_t v = stk__permutation_at(&p, i);
        assert_true(v < size);
        assert_false(seen[v]);
        seen[v] = 1;
        assert_int_equal(stk__permutation_inverse(&p, v), i);
    }
    free(seen);
}

static void every_size_to_2000(void **state)
{
    for (uint64_t size = 1; size <= 2000; size++)
        check_bijection(size, size * 31);
}

static void random_sizes(void **state)
{
    uint64_t random = 99;

    for (int i = 0; i < 4; i++)
        check_bijection(test_random(&random) % 1000000 + 1, (uint64_t)i);
}

/* Too large to visit: inverse and range at random places, forwards and backwards. */
static void huge_sizes(void **state)
{
    uint64_t random = 5;

    for (int i = 0; i < 200; i++) {
        uint64_t size = (test_random(&random) >> (16 + i % 16)) + 1;
        stk__permutation p;
        stk__permutation_init(&p, i ? size : STK_PERMUTATION_MAX, (uint64_t)i, 0, 0);
        for (int k = 0; k < 100; k++) {
            uint64_t x = test_random(&random) % p.size, y = stk__permutation_at(&p, x);
            assert_true(y < p.size);
            assert_int_equal(stk__permutation_inverse(&p, y), x);
        }
    }
}

static void many_equals_one_by_one(void **state)
{
    uint64_t positions[300], values[300];
    stk__permutation p;

    stk_context *ctx = test_context();

    /* Sizes of odd and even bits, up to and beyond what the vector kernel takes. */
    for (uint64_t size = 1; size < UINT64_C(1) << 40; size = size * 3 + 1)
        for (int avx2 = 0; avx2 <= stk__cpu_has_avx2(ctx); avx2++) {
            stk__permutation_init(&p, size, size, 9, 0);
            for (uint64_t i = 0; i < 300; i++)
                positions[i] = i * 233 % size;
            stk__permutation_many(&p, positions, values, 300 - size % 9, avx2);
            for (uint64_t i = 0; i < 300 - size % 9; i++)
                assert_int_equal(values[i], stk__permutation_at(&p, positions[i]));
        }
    stk_context_destroy(&ctx);
}

/* Each value is equally likely at each position: chi-square over many keys, small sizes included.
 */
static void positions_are_uniform(void **state)
{
    const uint64_t sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64, 100};

    for (size_t s = 0; s < STK_COUNT(sizes); s++) {
        const uint64_t n = sizes[s], keys = 2000 * n;
        double *counts = calloc(n * n, sizeof *counts), chi = 0;
        for (uint64_t key = 0; key < keys; key++) {
            stk__permutation p;
            stk__permutation_init(&p, n, key, 0, 0);
            for (uint64_t i = 0; i < n; i++)
                counts[i * n + stk__permutation_at(&p, i)]++;
        }
        double expected = (double)keys / (double)n;
        for (uint64_t i = 0; i < n * n; i++)
            chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        /* A doubly stochastic table has (n - 1)^2 degrees of freedom; five standard deviations. */
        double freedom = (double)(n - 1) * (double)(n - 1);
        assert_true(fabs(chi - freedom) < 5 * sqrt(2 * freedom) + 5);
        free(counts);
    }
}

/* Every order of few samples is equally likely. */
static void orders_are_uniform(void **state)
{
    uint64_t orders = 1;

    for (uint64_t n = 2; n <= 6; n++) {
        orders *= n;
        const uint64_t keys = 200 * orders;
        double *counts = calloc(orders, sizeof *counts), chi = 0;
        for (uint64_t key = 0; key < keys; key++) {
            stk__permutation p;
            uint64_t values[6], number = 0;
            stk__permutation_init(&p, n, key, 0, 0);
            for (uint64_t i = 0; i < n; i++)
                values[i] = stk__permutation_at(&p, i);
            for (uint64_t i = 0; i < n; i++) { /* Lehmer's code */
                uint64_t smaller = 0;
                for (uint64_t k = i + 1; k < n; k++)
                    smaller += values[k] < values[i];
                number = number * (n - i) + smaller;
            }
            counts[number]++;
        }
        for (uint64_t i = 0; i < orders; i++)
            chi += (counts[i] - 200) * (counts[i] - 200) / 200;
        double freedom = (double)orders - 1;
        assert_true(fabs(chi - freedom) < 5 * sqrt(2 * freedom) + 5);
        free(counts);
    }
}

/* Half of the orders of a size that is a power of two are odd. */
static void odd_as_often_as_even(void **state)
{
    const uint64_t sizes[] = {2, 4, 64, 256, 4096};
    enum { KEYS = 2000 };
    static uint8_t seen[4096];

    for (size_t s = 0; s < STK_COUNT(sizes); s++) {
        uint64_t odd = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            stk__permutation p;
            uint64_t transpositions = sizes[s];
            stk__permutation_init(&p, sizes[s], 1, key, 0);
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < sizes[s]; i++) {
                transpositions -= !seen[i]; /* one less than its length for each cycle */
                for (uint64_t at = i; !seen[at]; at = stk__permutation_at(&p, at))
                    seen[at] = 1;
            }
            odd += transpositions % 2;
        }
        /* Five standard deviations. */
        assert_true(fabs((double)odd - KEYS / 2.0) < 5 * sqrt(KEYS / 4.0));
    }
}

/* Neighbours in the order are no neighbours in the data: correlation of successive values, and of
 * value and place. */
static void no_serial_correlation(void **state)
{
    const uint64_t sizes[] = {1000, 60000, 65536, 100003};

    for (size_t s = 0; s < STK_COUNT(sizes); s++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            const uint64_t n = sizes[s];
            double mean = (double)(n - 1) / 2, variance = ((double)n * (double)n - 1) / 12;
            stk__permutation p;
            stk__permutation_init(&p, n, seed, 1, 0);
            for (uint64_t lag = 1; lag <= 3; lag++) {
                double serial = 0, place = 0;
                for (uint64_t i = 0; i + lag < n; i++) {
                    double a = (double)stk__permutation_at(&p, i) - mean;
                    serial += a * ((double)stk__permutation_at(&p, i + lag) - mean);
                    place += a * ((double)i - mean);
                }
                assert_true(fabs(serial / variance / (double)n) < 5 / sqrt((double)n));
                assert_true(fabs(place / variance / (double)n) < 5 / sqrt((double)n));
            }
        }
}

/* Another epoch, seed or stream is another order. */
static void keys_matter(void **state)
{
    stk__permutation a, others[3];

    stk__permutation_init(&a, 10000, 1, 1, 1);
    stk__permutation_init(&others[0], 10000, 2, 1, 1);
    stk__permutation_init(&others[1], 10000, 1, 2, 1);
    stk__permutation_init(&others[2], 10000, 1, 1, 2);
    for (int k = 0; k < 3; k++) {
        int same = 0;
        for (uint64_t i = 0; i < 10000; i++)
            same += stk__permutation_at(&a, i) == stk__permutation_at(&others[k], i);
        assert_in_range(same, 0, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_to_2000),
        cmocka_unit_test(random_sizes),
        cmocka_unit_test(huge_sizes),
        cmocka_unit_test(many_equals_one_by_one),
        cmocka_unit_test(positions_are_uniform),
        cmocka_unit_test(orders_are_uniform),
        cmocka_unit_test(odd_as_often_as_even),
        cmocka_unit_test(no_serial_correlation),
        cmocka_unit_test(keys_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
