/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/measure.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-12 * fabs((double)(b)) + 1e-15)

static void test_spread(void **state)
{
    /* numpy.percentile([15, 20, 35, 40, 50], [50, 95, 99]) = 35, 48, 49.6 */
    double values[] = {40, 15, 50, 35, 20};
    stk_spread s;

    stk_spread_of(values, 5, &s);
    assert_int_equal(s.n, 5);
    NEAR(s.p50, 35);
    NEAR(s.p95, 48);
    NEAR(s.p99, 49.6);
    NEAR(s.mean, 32);
    NEAR(s.sum, 160);
    NEAR(s.min, 15);
    NEAR(s.max, 50);
    /* numpy.percentile([1, 2], 95) = 1.95 */
    double two[] = {2, 1};
    stk_spread_of(two, 2, &s);
    NEAR(s.p95, 1.95);
    double one[] = {7};
    stk_spread_of(one, 1, &s);
    NEAR(s.p50, 7);
    NEAR(s.p99, 7);
    stk_spread_of(NULL, 0, &s);
    assert_int_equal(s.n, 0);
    NEAR(s.max, 0.0);
}

#define MIB (UINT64_C(1) << 20)

static double slope(const uint64_t *bytes, uint64_t n)
{
    uint64_t epochs[1000];

    for (uint64_t i = 0; i < n; i++)
        epochs[i] = i;
    return stk__memory_slope(epochs, bytes, n);
}

static void test_leaks(void **state)
{
    uint64_t bytes[1000];

    for (int i = 0; i < 1000; i++)
        bytes[i] = 100 * MIB + (uint64_t)i * 3 * MIB;
    assert_true(fabs(slope(bytes, 5) - 3.0 * MIB) < 1);
    assert_true(fabs(slope(bytes, 1000) - 3.0 * MIB) < 1);
    assert_true(slope(bytes, 4) == 0);
    /* Noise on the steps does not move the median slope far. */
    uint64_t seed = 1;
    for (int i = 1; i < 20; i++)
        bytes[i] = bytes[i - 1] + MIB + test_random(&seed) % (4 * MIB);
    assert_true(slope(bytes, 20) > 2.0 * MIB && slope(bytes, 20) < 4.0 * MIB);
    /* Epochs that were not seen count. */
    uint64_t apart[] = {0, 10, 20, 30, 40, 50};
    for (int i = 0; i < 6; i++)
        bytes[i] = (uint64_t)i * 10 * MIB;
    assert_true(fabs(stk__memory_slope(apart, bytes, 6) - 1.0 * MIB) < 1);
}

static void test_no_leaks(void **state)
{
    uint64_t flat[20], filling[20], saw[20], small[20];

    for (int i = 0; i < 20; i++) {
        flat[i] = 100 * MIB;
        filling[i] = i < 10 ? (uint64_t)i * 10 * MIB : 90 * MIB + (uint64_t)i * 70000;
        saw[i] = 100 * MIB + (uint64_t)i * 3 * MIB - (i == 10 ? 4 * MIB : 0);
        small[i] = 100 * MIB + (uint64_t)i * 60000;
    }
    assert_true(slope(flat, 20) == 0);
    assert_true(slope(filling, 20) == 0);
    assert_true(slope(saw, 20) == 0);
    assert_true(slope(small, 20) == 0);
}

static void test_numbers(void **state)
{
    /* repr() of Python of each. */
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {0, "0.0"},
        {2, "2.0"},
        {-1.5, "-1.5"},
        {1.0 / 3, "0.3333333333333333"},
        {5e-05, "5e-05"},
        {0.0001, "0.0001"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1.2345678e+20, "1.2345678e+20"},
        {123456789.125, "123456789.125"},
        {1709567890.1234567, "1709567890.1234567"},
        {5e-324, "5e-324"},
        {INFINITY, "null"},
        {NAN, "null"},
    };
    char text[32];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(stk_number_format(cases[i].value, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = test_random(&seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        stk_number_format(value, text);
        assert_true(strtod(text, NULL) == value);
    }
}

/* The integer forms are the shortest ones of the nearest double, like stk_number_format(). */
static void test_times(void **state)
{
    char ours[STK__NUMBER], theirs[32];
    uint64_t seed = 3;

    for (int i = 0; i < 100000; i++) {
        uint64_t ns = test_random(&seed) >> (test_random(&seed) % 48 + 15);
        char *end = stk__put_seconds(ours, ns);
        assert_int_equal(end - ours, strlen(ours));
        if (ns >= UINT64_C(1000000000000000))
            continue;
        stk_number_format((double)ns / 1e9, theirs);
        assert_string_equal(ours, theirs);
        uint64_t us = UINT64_C(1700000000000000) + test_random(&seed) % UINT64_C(1000000000000000);
        end = stk__put_wall(ours, us);
        assert_int_equal(end - ours, strlen(ours));
        stk_number_format((double)us / 1e6, theirs);
        assert_string_equal(ours, theirs);
    }
    stk__put_seconds(ours, 0);
    assert_string_equal(ours, "0.0");
    stk__put_seconds(ours, 1);
    assert_string_equal(ours, "1e-09");
    stk__put_seconds(ours, 50000);
    assert_string_equal(ours, "5e-05");
    stk__put_seconds(ours, 99999);
    assert_string_equal(ours, "9.9999e-05");
    stk__put_seconds(ours, 1500000000);
    assert_string_equal(ours, "1.5");
}

static void test_thinner(void **state)
{
    stk__thinner t;
    uint64_t now = UINT64_C(5000000000), passed = 0;

    /* Exactly the rate, in lumps: nothing is dropped. */
    stk__thinner_init(&t, 10000);
    for (int i = 0; i < 100; i++, now += 50000000)
        assert_int_equal(stk__thinner_pass(&t, 500, now), 500);
    assert_int_equal(stk__thinner_take(&t), 0);
    /* Ten times the rate for ten seconds: a tenth passes, and all are accounted for. */
    stk__thinner_init(&t, 10000);
    for (int i = 0; i < 10000; i++, now += 1000000)
        passed += stk__thinner_pass(&t, 100, now);
    assert_in_range(passed, 99900, 110000);
    assert_int_equal(stk__thinner_take(&t), 1000000 - passed);
    assert_int_equal(stk__thinner_take(&t), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),   cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_no_leaks), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_times),    cmocka_unit_test(test_thinner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
