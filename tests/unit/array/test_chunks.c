/* SPDX-License-Identifier: Apache-2.0 */
/* Counting chunks: the published table cell by cell, and brute force over every window. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/chunks_advise.h"

/* ---- Helpers --------------------------------------------------------------------------------- */

static uint64_t seed = 1;

/* A number in [low, high], the same ones in every run. */
static int64_t draw(int64_t low, int64_t high)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (int64_t)((seed >> 33) % (uint64_t)(high - low + 1));
}

static stk_chunks_question ask(uint32_t rank, const int64_t *window)
{
    stk_chunks_question q;

    stk_chunks_question_init(&q);
    q.rank = rank;
    memcpy(q.window, window, rank * sizeof *window);
    return q;
}

static stk_chunks_counts count(const stk_chunks_question *q, const int64_t *chunk)
{
    stk_chunks_counts c;
    stk_error err;

    assert_int_equal(stk_chunks_count(q, chunk, &c, &err), STK_OK);
    return c;
}

static void assert_near(double a, double b)
{
    double size = b > 1 ? b : 1;

    if (a - b > 1e-12 * size || b - a > 1e-12 * size)
        fail_msg("%.17g is not %.17g", a, b);
}

/* ---- The published table --------------------------------------------------------------------- */

static void test_published(void **state)
{
    static const struct {
        int64_t side;
        uint64_t min_chunks, max_chunks, min_bytes, max_bytes;
        const char *expected;
        uint64_t expected_bytes;
    } rows[] = {
        {8, 64, 81, 4096, 5184, "78.77", 5041},
        {16, 16, 25, 4096, 6400, "24.38", 6241},
        {32, 4, 9, 4096, 9216, "8.81", 9025},
        {64, 1, 4, 4096, 16384, "3.94", 16129},
        {128, 1, 4, 16384, 65536, "2.23", 36481},
        {256, 1, 4, 65536, 262144, "1.55", 101761},
        {512, 1, 4, 262144, 1048576, "1.26", 330625},
        {1024, 1, 4, 1048576, 4194304, "1.13", 1181569},
    };
    stk_chunks_question q = ask(2, (int64_t[]){64, 64});
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stk_chunks_counts c = count(&q, (int64_t[]){rows[i].side, rows[i].side});
        assert_int_equal(c.least_chunks, rows[i].min_chunks);
        assert_int_equal(c.most_chunks, rows[i].max_chunks);
        assert_int_equal(c.least_bytes, rows[i].min_bytes);
        assert_int_equal(c.most_bytes, rows[i].max_bytes);
        snprintf(text, sizeof text, "%.2f", c.expected_chunks);
        assert_string_equal(text, rows[i].expected);
        assert_true(c.expected_bytes == (double)rows[i].expected_bytes);
    }
}

/* Least, most and expected of all offsets, for every pair below 130 and 140; the simpler maximum,
 * ceil(L / c) + 1, is wrong where L mod c = 1 or c = 1. */
static void test_every_pair(void **state)
{
    unsigned simple_is_wrong = 0;

    (void)state;
    for (int64_t window = 1; window < 130; window++)
        for (int64_t chunk = 1; chunk < 140; chunk++) {
            int64_t least = INT64_MAX, most = 0, sum = 0;
            for (int64_t o = 0; o < chunk; o++) {
                int64_t n = (o + window - 1) / chunk + 1;
                least = n < least ? n : least;
                most = n > most ? n : most;
                sum += n;
            }
            stk_chunks_question q = ask(1, &window);
            stk_chunks_counts c = count(&q, &chunk);
            assert_int_equal(c.least_chunks, least);
            assert_int_equal(c.most_chunks, most);
            assert_near(c.expected_chunks, (double)sum / (double)chunk);
            simple_is_wrong += most != (window + chunk - 1) / chunk + 1;
        }
    assert_int_equal(simple_is_wrong, 784);
}

/* ---- Brute force ----------------------------------------------------------------------------- */

#define MAX_CELLS 20000

/* Walks over a box of indices. */
static bool next_index(int64_t *at, const int64_t *shape, uint32_t rank)
{
    for (uint32_t i = rank; i-- > 0;) {
        if (++at[i] < shape[i])
            return true;
        at[i] = 0;
    }
    return false;
}

struct brute {
    uint64_t windows, least, most, sum; /* chunks of one window */
    uint64_t distinct, blocks, spanned;
    uint64_t swept[STK_MAX_RANK]; /* chunks read by a sweep that begins anew at each place of the
                                     first m axes */
};

/* Set `stamp` for the chunks of one window; how many had another. */
static uint64_t touch(const int64_t *from, const int64_t *shape, const int64_t *grid, uint32_t rank,
                      uint32_t *cells, uint32_t stamp)
{
    int64_t at[STK_MAX_RANK] = {0};
    uint64_t fresh = 0;

    do {
        size_t cell = 0;
        for (uint32_t i = 0; i < rank; i++)
            cell = cell * (size_t)grid[i] + (size_t)(from[i] + at[i]);
        assert_true(cell < MAX_CELLS);
        fresh += cells[cell] != stamp;
        cells[cell] = stamp;
    } while (next_index(at, shape, rank));
    return fresh;
}

static void enumerate(const stk_chunks_question *q, const int64_t *chunk, struct brute *out)
{
    static uint32_t once[MAX_CELLS], cells[STK_MAX_RANK][MAX_CELLS], spans[MAX_CELLS];
    int64_t places[STK_MAX_RANK], grid[STK_MAX_RANK], at[STK_MAX_RANK] = {0};
    uint32_t stamp[STK_MAX_RANK];
    size_t num_cells = 1;

    *out = (struct brute){.least = UINT64_MAX};
    for (uint32_t i = 0; i < q->rank; i++) {
        places[i] = (q->extent[i] - q->window[i]) / q->stride[i] + 1;
        grid[i] = (q->extent[i] + chunk[i] - 1) / chunk[i];
        num_cells *= (size_t)grid[i];
        stamp[i] = 0;
    }
    assert_true(num_cells <= MAX_CELLS);
    memset(once, 0, sizeof once);
    memset(cells, 0, sizeof cells);
    do {
        int64_t from[STK_MAX_RANK], shape[STK_MAX_RANK];
        uint64_t n = 1;
        for (uint32_t i = 0; i < q->rank; i++) {
            int64_t start = at[i] * q->stride[i];
            from[i] = start / chunk[i];
            shape[i] = (start + q->window[i] - 1) / chunk[i] - from[i] + 1;
            n *= (uint64_t)shape[i];
        }
        out->windows++;
        out->sum += n;
        out->least = n < out->least ? n : out->least;
        out->most = n > out->most ? n : out->most;
        out->distinct += touch(from, shape, grid, q->rank, once, 1);
        for (uint32_t m = 0; m < q->rank; m++) {
            bool begins = true; /* a new place of the first m axes */
            for (uint32_t i = m; i < q->rank; i++)
                begins &= at[i] == 0;
            stamp[m] += begins;
            out->swept[m] += touch(from, shape, grid, q->rank, cells[m], stamp[m]);
        }
    } while (next_index(at, places, q->rank));

    /* Blocks: for each chunk, the union of what the windows that begin in it touch. */
    memset(spans, 0, sizeof spans);
    int64_t block[STK_MAX_RANK] = {0};
    uint32_t number = 0;
    do {
        bool any = false;
        number++;
        memset(at, 0, sizeof at);
        do {
            int64_t from[STK_MAX_RANK], shape[STK_MAX_RANK];
            bool here = true;
            for (uint32_t i = 0; i < q->rank; i++) {
                int64_t start = at[i] * q->stride[i];
                from[i] = start / chunk[i];
                shape[i] = (start + q->window[i] - 1) / chunk[i] - from[i] + 1;
                here &= from[i] == block[i];
            }
            if (here)
                out->spanned += touch(from, shape, grid, q->rank, spans, number);
            any |= here;
        } while (next_index(at, places, q->rank));
        out->blocks += any;
    } while (next_index(block, grid, q->rank));
}

static void check_case(const stk_chunks_question *question, const int64_t *chunk)
{
    stk_chunks_question q = *question;
    stk_chunks_cost cost;
    struct brute b;
    stk_error err;

    enumerate(&q, chunk, &b);
    stk_chunks_counts c = count(&q, chunk);
    assert_int_equal(c.least_chunks, b.least);
    assert_int_equal(c.most_chunks, b.most);
    assert_near(c.expected_chunks, (double)b.sum / (double)b.windows);
    assert_true(c.windows == (double)b.windows);
    assert_int_equal(c.least_bytes, b.least * c.chunk_bytes);
    assert_int_equal(c.most_bytes, b.most * c.chunk_bytes);

    q.access = STK_CHUNKS_RANDOM;
    assert_int_equal(stk_chunks_predict(&q, chunk, &cost, &err), STK_OK);
    assert_near(cost.requests, c.expected_chunks);
    assert_near(cost.memory, (double)(b.most * c.chunk_bytes));

    q.access = STK_CHUNKS_BLOCK;
    assert_int_equal(stk_chunks_predict(&q, chunk, &cost, &err), STK_OK);
    assert_near(cost.requests, (double)b.spanned / (double)b.windows);
    assert_true(cost.blocks == (double)b.blocks);
    uint64_t held = b.blocks < q.shuffle_buffer ? b.blocks : q.shuffle_buffer;
    assert_near(cost.memory,
                (double)held * (double)c.chunk_bytes * ((double)b.spanned / (double)b.blocks));

    /* With memory for all a sweep reads each chunk once; with less, the inner axes stay so. */
    q.access = STK_CHUNKS_SEQUENTIAL;
    q.memory_budget = UINT64_C(1) << 40;
    assert_int_equal(stk_chunks_predict(&q, chunk, &cost, &err), STK_OK);
    assert_near(cost.requests, (double)b.distinct / (double)b.windows);
    assert_int_equal(b.distinct, b.swept[0]);
    for (uint32_t m = 1; m < q.rank; m++) {
        q.memory_budget = (uint64_t)cost.memory - 1;
        assert_int_equal(stk_chunks_predict(&q, chunk, &cost, &err), STK_OK);
        bool one = false;
        for (uint32_t k = 1; k < q.rank; k++)
            one |= cost.requests > (double)b.swept[k] / (double)b.windows - 1e-9 &&
                   cost.requests < (double)b.swept[k] / (double)b.windows + 1e-9;
        assert_true(one);
    }
}

static void test_brute_force(void **state)
{
    static const int64_t longest[] = {0, 60, 24, 12, 8}; /* extents, by rank */
    static const int rounds[] = {0, 2000, 300, 120, 60};

    (void)state;
    for (uint32_t rank = 1; rank <= 4; rank++)
        for (int round = 0; round < rounds[rank]; round++) {
            int64_t window[STK_MAX_RANK], chunk[STK_MAX_RANK];
            stk_chunks_question q = {0};
            for (uint32_t i = 0; i < rank; i++)
                window[i] = draw(1, longest[rank]);
            q = ask(rank, window);
            q.itemsize = (uint64_t)draw(1, 8);
            for (uint32_t i = 0; i < rank; i++) {
                q.extent[i] = draw(window[i], longest[rank]);
                q.stride[i] = draw(1, draw(0, 3) ? 5 : longest[rank]);
                /* Also longer than the array, where there is one chunk. */
                chunk[i] = draw(1, draw(0, 3) ? longest[rank] / 2 : longest[rank] + 3);
                if (rank == 4 && chunk[i] == 1)
                    chunk[i] = 2;
            }
            check_case(&q, chunk);
        }
}

/* Without an end: every offset of one period, as a long array has them. */
static void test_without_end(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        int64_t window = draw(1, 50), chunk = draw(1, 40), stride = draw(1, 60);
        stk__chunks_axis without, with;
        stk__chunks_axis_count(window, chunk, 0, stride, &without);
        /* A thousand periods: edges no longer count. */
        int64_t places = (int64_t)without.positions * 1000;
        stk__chunks_axis_count(window, chunk, (places - 1) * stride + window, stride, &with);
        assert_int_equal(with.positions, places);
        assert_true(with.touched == without.touched * 1000);
        assert_int_equal(with.high, without.high * 1000);
        assert_int_equal(with.low, without.low);
        double span = (double)with.spanned / 1000 - (double)without.spanned;
        double distinct = (double)with.distinct / 1000 - (double)without.distinct;
        assert_true(span > -0.1 && span < 0.1 && distinct > -0.1 && distinct < 0.1);
    }
}

static void test_floor_sum(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        uint64_t m = (uint64_t)draw(1, 50), n = (uint64_t)draw(0, 80);
        uint64_t a = (uint64_t)draw(0, (int64_t)m - 1), b = (uint64_t)draw(0, (int64_t)m - 1),
                 sum = 0;
        for (uint64_t k = 0; k < n; k++)
            sum += (a * k + b) / m;
        assert_true(stk__chunks_floor_sum(n, m, a, b) == sum);
    }
}

/* ---- Large numbers, ratio, errors ------------------------------------------------------------ */

static void test_large(void **state)
{
    int64_t side = INT64_C(1) << 32;
    stk__chunks_axis axis;

    (void)state;
    /* One window in 2^32 lies across an edge. */
    stk__chunks_axis_count(2, side, side * 1000 + 1, 1, &axis);
    assert_true(axis.positions == (uint64_t)side * 1000);
    assert_int_equal(axis.high, 1000);
    /* An odd stride meets each offset once in 2^32 windows. */
    stk__chunks_axis_count(2, side, (side * 7 - 1) * 12345 + 2, 12345, &axis);
    assert_true(axis.positions == (uint64_t)side * 7);
    assert_int_equal(axis.high, 7);
    /* The longest array there is, in aligned windows and in one window. */
    stk__chunks_axis_count(side, side, INT64_MAX, side, &axis);
    assert_int_equal(axis.high, 0);
    assert_int_equal(axis.low, 1);
    assert_true(axis.blocks == axis.positions && axis.spanned == axis.positions);
    stk__chunks_axis_count(INT64_MAX, 1, INT64_MAX, INT64_MAX, &axis);
    assert_int_equal(axis.positions, 1);
    assert_true(axis.touched == INT64_MAX && axis.distinct == INT64_MAX);
    stk__chunks_axis_count(INT64_MAX, INT64_MAX, 0, INT64_MAX - 1, &axis);
    assert_true(axis.positions == INT64_MAX && axis.high == INT64_MAX - 1);
}

static void test_ratio(void **state)
{
    stk_chunks_question q = ask(1, (int64_t[]){10});
    stk_chunks_counts plain, packed;

    (void)state;
    q.itemsize = 4;
    plain = count(&q, (int64_t[]){7});
    assert_int_equal(plain.chunk_bytes, 28);
    assert_int_equal(plain.window_bytes, 40);
    assert_int_equal(plain.least_bytes, 56);
    q.ratio = 3;
    packed = count(&q, (int64_t[]){7});
    assert_int_equal(packed.least_bytes, 19); /* 18.67 */
    assert_int_equal(packed.most_bytes, 28);
    assert_near(packed.expected_bytes, plain.expected_bytes / 3);
    assert_int_equal(packed.chunk_bytes, 28);
}

static void refuse(const stk_chunks_question *q, const int64_t *chunk, stk_status status,
                   const char *part)
{
    stk_chunks_counts c;
    stk_error err;

    assert_int_equal(stk_chunks_count(q, chunk, &c, &err), status);
    assert_int_equal(err.status, status);
    assert_int_equal(err.stage, STK_STAGE_ARRAY);
    if (!strstr(err.text, part))
        fail_msg("'%s' does not say '%s'", err.text, part);
    assert_int_equal(stk_chunks_count(q, chunk, &c, NULL), status);
}

static void test_errors(void **state)
{
    const int64_t window[] = {4, 6}, chunk[] = {2, 2}, zero[] = {2, 0};
    const stk_chunks_question good = ask(2, window);
    stk_chunks_question q = good;

    (void)state;
    refuse(&q, zero, STK_EINVAL, "the chunk is 0 on axis 1");
    q.extent[1] = 5;
    refuse(&q, chunk, STK_EINVAL, "larger than the array on axis 1: 6 of 5");
    q.extent[1] = -1;
    refuse(&q, chunk, STK_EINVAL, "extent is -1 on axis 1");
    q = good, q.window[0] = 0;
    refuse(&q, chunk, STK_EINVAL, "window is 0 on axis 0");
    q = good, q.stride[0] = -3;
    refuse(&q, chunk, STK_EINVAL, "stride is -3 on axis 0");
    q = good, q.rank = 0;
    refuse(&q, chunk, STK_EINVAL, "0 axes");
    q.rank = STK_MAX_RANK + 1;
    refuse(&q, chunk, STK_EINVAL, "9 axes");
    q = good, q.itemsize = 0;
    refuse(&q, chunk, STK_EINVAL, "0 bytes");
    q = good, q.ratio = 0;
    refuse(&q, chunk, STK_EINVAL, "ratio is 0");
    q.ratio = (double)NAN;
    refuse(&q, chunk, STK_EINVAL, "ratio is");
    q = good, q.window[0] = q.window[1] = INT64_MAX;
    refuse(&q, chunk, STK_ELIMIT, "2^63 - 1");
    q = good, q.window[0] = INT64_C(1) << 62;
    q.window[1] = 1;
    refuse(&q, (int64_t[]){INT64_C(1) << 61, 8}, STK_ELIMIT, "2^63 - 1");
    q = good, q.itemsize = UINT64_MAX;
    refuse(&q, chunk, STK_ELIMIT, "2^63 - 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),   cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_brute_force), cmocka_unit_test(test_without_end),
        cmocka_unit_test(test_floor_sum),   cmocka_unit_test(test_large),
        cmocka_unit_test(test_ratio),       cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
