/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics against plain loops: bins, the share of NaN, any number of threads, what is kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array/stats.h"
#include "support/support.h"

#define N 200000 /* several segments */

static double values[N];

static double draw(uint64_t *state)
{
    return (double)(test_random(state) >> 11) * 0x1p-53;
}

/* ---- Bins ---- */

/* The bins of a range, found by trying: the narrowest of a power of two that hold it. */
static int narrowest(const double *x, size_t n, int least, double *low)
{
    double from = INFINITY, to = -INFINITY, most = 0;

    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) {
            from = fmin(from, x[i]);
            to = fmax(to, x[i]);
            most = fmax(most, fabs(x[i]));
        }
    int power = least;
    /* A number of a bin is whole in a double. */
    while (ldexp(most, -power) >= 0x1p53 ||
           floor(ldexp(to, -power)) - floor(ldexp(from, -power)) > STK_ARRAY_BINS - 1)
        power++;
    *low = floor(ldexp(from, -power));
    return power;
}

static void check_bins(const stk__bins *bins, const double *x, size_t n, int least)
{
    uint64_t counts[STK_ARRAY_BINS] = {0};
    double low;

    const int power = narrowest(x, n, least, &low);
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            counts[(int)(floor(ldexp(x[i], -power)) - low)]++;
    assert_int_equal(bins->power, power);
    assert_true((double)bins->first == low);
    assert_memory_equal(bins->counts, counts, sizeof counts);
}

/* Values of many sizes and signs, taken in parts that are merged in any order: the same bins. */
static void test_bins(void **state)
{
    uint64_t random = 3;

    (void)state;
    for (int round = 0; round < 300; round++) {
        const bool integers = round % 3 == 0;
        const size_t n = 1 + test_random(&random) % 400;
        const double scale = integers ? ldexp(1, (int)(test_random(&random) % 30))
                                      : ldexp(1, (int)(test_random(&random) % 600) - 300),
                     shift = round % 2 ? 0 : scale * (draw(&random) - 0.5) * 1000;
        for (size_t i = 0; i < n; i++) {
            values[i] = shift + scale * (draw(&random) - (round % 5 ? 0.5 : 0));
            if (integers)
                values[i] = floor(values[i]);
            if (!integers && test_random(&random) % 50 == 0)
                values[i] = i % 2 ? INFINITY : -INFINITY;
        }
        stk__bins all, parts[4];
        stk__bins_init(&all, integers);
        for (int p = 0; p < 4; p++) {
            stk__bins_init(&parts[p], integers);
            stk__bins_add(&parts[p], values + n * (size_t)p / 4,
                          n * (size_t)(p + 1) / 4 - n * (size_t)p / 4);
        }
        for (int p = 0; p < 4; p++)
            stk__bins_merge(&all, &parts[(p * 3 + round) % 4]);
        bool any = false;
        for (size_t i = 0; i < n; i++)
            any |= isfinite(values[i]) != 0;
        if (any)
            check_bins(&all, values, n, integers ? 0 : -1022);
    }
}

static void test_extremes(void **state)
{
    static const double cases[][4] = {
        {0, 0, 0, 0},
        {-0.0, 0, 5e-324, -5e-324},
        {1e308, -1e308, 0, 1},
        {-1.5, -1.5, -1.5, -1.5},
        {1e17, 1e17, 1e17 + 16, 1e17},
        {0x1p-1050, 0x1p-1040, 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__bins bins;
        stk__bins_init(&bins, false);
        for (int k = 0; k < 4; k++)
            stk__bins_add(&bins, &cases[i][k], 1);
        check_bins(&bins, cases[i], 4, -1022);
    }
}

/* ---- Arrays ---- */

static void make(stk_context *ctx, const char *url, stk_dtype dtype)
{
    const int64_t shape[2] = {400, N / 400}, chunk[2] = {33, 100}, start[2] = {0};
    stk_array_writer_options o;
    stk_array_writer *writer;
    char *data = malloc(N * stk_dtype_size(dtype));
    stk_error err;

    assert_non_null(data);
    for (size_t i = 0; i < N; i++) {
        const float single = (float)values[i];
        const uint8_t byte = dtype == STK_UINT8 ? (uint8_t)values[i] : 0;
        if (dtype == STK_FLOAT32)
            memcpy(data + 4 * i, &single, 4);
        else if (dtype == STK_UINT8)
            memcpy(data + i, &byte, 1);
        else
            memcpy(data + 8 * i, &values[i], 8);
    }
    stk_array_writer_options_init(&o);
    o.dtype = dtype;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.attributes = "{\"missing_value\": 7}";
    assert_ok(stk_array_writer_create(ctx, url, &o, &writer, &err), &err);
    assert_ok(stk_array_writer_write(writer, start, shape, data, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
    free(data);
}

static stk_array_stats compute(stk_context *ctx, const char *url, int64_t threads)
{
    stk_array_stats stats = {.struct_size = sizeof stats};
    stk_array_options o;
    stk_array *a;
    stk_error err;

    stk_array_options_init(&o);
    o.num_threads = threads;
    assert_ok(stk_array_open(ctx, url, &o, &a, &err), &err);
    assert_ok(stk_array_stats_compute(a, NULL, NULL, &stats, &err), &err);
    stk_array_close(&a);
    return stats;
}

static void test_threads(void **state)
{
    stk_context *ctx = *state;
    uint64_t random = 11, nan = 0, missing = 0;
    double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < N; i++) {
        values[i] = 1e6 + 30 * draw(&random) * draw(&random);
        if (test_random(&random) % 10 == 0)
            values[i] = NAN;
        else if (test_random(&random) % 10 == 0)
            values[i] = 7;
        nan += isnan(values[i]) != 0;
        missing += values[i] == 7;
        if (isnan(values[i]) || values[i] == 7)
            continue;
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
        sum += values[i] - 1e6;
    }
    const double n = (double)(N - nan - missing), mean = sum / n + 1e6;
    for (size_t i = 0; i < N; i++)
        if (values[i] != 7 && !isnan(values[i]))
            squares += (values[i] - mean) * (values[i] - mean);
    make(ctx, "mem://a", STK_FLOAT64);
    const stk_array_stats one = compute(ctx, "mem://a", 1);
    assert_int_equal(one.nan, nan);
    assert_int_equal(one.missing, missing);
    assert_true(fabs(one.mean - mean) < 1e-9 * mean);
    assert_true(fabs(one.std - sqrt(squares / n)) < 1e-9 * one.std);
    assert_true(one.min == low && one.max == high);
    assert_true(one.nan_share == (double)nan / N);
    assert_true(one.num_bins > 32 && one.num_bins <= STK_ARRAY_BINS);
    for (uint32_t b = 0; b < one.num_bins; b++) {
        uint64_t count = 0;
        const double from = one.bin_low + b * one.bin_width;
        for (size_t i = 0; i < N; i++)
            count += values[i] >= from && values[i] < from + one.bin_width;
        assert_int_equal(one.bins[b], count);
    }
    for (int64_t threads = 2; threads < 9; threads += 3) {
        const stk_array_stats more = compute(ctx, "mem://a", threads);
        assert_memory_equal(&more, &one, sizeof one);
    }
}

/* An integer lies in a bin of its own as far as there are bins. */
static void test_integers(void **state)
{
    for (size_t i = 0; i < N; i++)
        values[i] = (double)(i % 40 + 10);
    make(*state, "mem://i", STK_UINT8);
    const stk_array_stats s = compute(*state, "mem://i", 2);
    assert_true(s.bin_low == 10 && s.bin_width == 1);
    assert_int_equal(s.num_bins, 40);
    for (int i = 0; i < 40; i++)
        assert_int_equal(s.bins[i], N / 40);
}

/* ---- Keeping ---- */

/* The kept file, with `from` in it replaced; it has to be there. */
static void rewrite(const char *folder, const char *from, const char *to)
{
    static char text[16384], out[16384];
    char path[300];

    snprintf(path, sizeof path, "%s/a/.stoker-stats.json", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *at = strstr(text, from);
    assert_non_null(at);
    const int length =
        snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    test_write(folder, "a/.stoker-stats.json", out, (size_t)length);
}

static void test_kept(void **state)
{
    stk_array_stats made = {.struct_size = sizeof made}, kept = made;
    char folder[256], url[300];
    stk_array *a;
    stk_error err;

    for (size_t i = 0; i < N; i++)
        values[i] = (double)i / 16;
    values[5] = NAN;
    test_folder(folder);
    snprintf(url, sizeof url, "%s/a", folder);
    make(*state, url, STK_FLOAT32);
    assert_ok(stk_array_open(*state, url, NULL, &a, &err), &err);
    assert_ok(stk_array_stats_compute(a, NULL, NULL, &made, &err), &err);
    assert_ok(stk_array_stats_save(a, NULL, &made, &err), &err);
    assert_ok(stk_array_stats_load(a, NULL, &kept, &err), &err);
    assert_memory_equal(&kept, &made, sizeof made);
    /* A caller of the version before knows less of it. */
    stk_array_stats old = {.struct_size = (uint32_t)offsetof(stk_array_stats, nan_share)};
    old.nan_share = 9;
    assert_ok(stk_array_stats_load(a, NULL, &old, &err), &err);
    assert_true(old.mean == made.mean && old.nan_share == 9);
    /* Files of the version before have no histogram. */
    rewrite(folder, "\"stoker_stats\": 2", "\"stoker_stats\": 1");
    rewrite(folder, "\"histogram\"", "\"some\"");
    assert_ok(stk_array_stats_load(a, NULL, &kept, &err), &err);
    assert_int_equal(kept.num_bins, 0);
    assert_true(kept.mean == made.mean && kept.nan_share == made.nan_share);
    /* Bins that there cannot be. */
    static const char *const damages[][2] = {
        {"\"stoker_stats\": 2", "\"stoker_stats\": 3"},
        {"\"histogram\"", "\"some\""},
        {"\"width\": ", "\"width\": -"},
        {"\"width\": ", "\"wide\": "},
        {"\"counts\": [", "\"counts\": [9000000000000000000, "},
        {"\"counts\": [", "\"counts\": [-1, "},
        {"\"counts\"", "\"count\""},
    };
    for (size_t i = 0; i < STK_COUNT(damages); i++) {
        assert_ok(stk_array_stats_save(a, NULL, &made, &err), &err);
        rewrite(folder, damages[i][0], damages[i][1]);
        assert_fails(stk_array_stats_load(a, NULL, &kept, &err), STK_ENOENT, &err, "statistics");
    }
    stk_array_close(&a);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bins),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test_setup_teardown(test_threads, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_integers, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_kept, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
