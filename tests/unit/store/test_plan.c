/* SPDX-License-Identifier: Apache-2.0 */
/* The read planner against an oracle that tries every plan. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

#define MAX_WANTS 40

/* The order asked for, written down once more and plainly. */
static int by_rule(const void *a, const void *b)
{
    const stk__want *x = a, *y = b;
    const uint64_t left[] = {x->length != 0, x->object, x->offset, x->length, x->tag};
    const uint64_t right[] = {y->length != 0, y->object, y->offset, y->length, y->tag};

    for (size_t i = 0; i < STK_COUNT(left); i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

/* Whether wants[i..j] may be one request by the rules of store.h. */
static bool may_share(const stk__want *wants, size_t i, size_t j, const stk_store_limits *limits)
{
    uint64_t begin = wants[i].offset, end = begin + wants[i].length, longest = 0;

    for (size_t k = i; k <= j; k++) {
        if (wants[k].object != wants[i].object)
            return false;
        if (wants[k].offset > end && wants[k].offset - end > limits->coalesce_gap)
            return false;
        end = STK_MAX(end, wants[k].offset + wants[k].length);
        longest = STK_MAX(longest, wants[k].length);
    }
    return limits->max_read == 0 || end - begin <= limits->max_read || end - begin == longest;
}

/* Fewest requests that serve sorted, non-empty wants, over all ways of cutting the list. */
static size_t fewest(const stk__want *wants, size_t n, const stk_store_limits *limits)
{
    size_t best[MAX_WANTS + 1];

    best[0] = 0;
    for (size_t j = 0; j < n; j++) {
        best[j + 1] = SIZE_MAX;
        for (size_t i = 0; i <= j; i++)
            if (best[i] + 1 < best[j + 1] && may_share(wants, i, j, limits))
                best[j + 1] = best[i] + 1;
    }
    return best[n];
}

static void check_case(stk__want *wants, size_t n, const stk_store_limits *limits)
{
    stk__want sorted[MAX_WANTS], before[MAX_WANTS];
    stk__request requests[MAX_WANTS];
    size_t empty = 0;

    memcpy(before, wants, n * sizeof *wants);
    memcpy(sorted, wants, n * sizeof *wants);
    qsort(sorted, n, sizeof *sorted, by_rule);
    while (empty < n && sorted[empty].length == 0)
        empty++;
    size_t count = stk__plan_reads(wants, n, limits, requests);
    assert_memory_equal(wants, sorted, n * sizeof *wants);
    assert_int_equal(count, fewest(sorted + empty, n - empty, limits));

    size_t next = empty;
    for (size_t r = 0; r < count; r++) {
        const stk__request *q = &requests[r];
        assert_int_equal(q->first, next);
        assert_true(q->count > 0);
        next += q->count;
        uint64_t covered = q->offset, longest = 0;
        for (size_t i = q->first; i < next; i++) {
            assert_int_equal(wants[i].object, q->object);
            assert_true(wants[i].offset >= q->offset);
            assert_true(wants[i].offset + wants[i].length <= q->offset + q->length);
            assert_true(wants[i].offset <= covered ||
                        wants[i].offset - covered <= limits->coalesce_gap);
            covered = STK_MAX(covered, wants[i].offset + wants[i].length);
            longest = STK_MAX(longest, wants[i].length);
        }
        /* No byte before the first want or after the last is read. */
        assert_int_equal(wants[q->first].offset, q->offset);
        assert_int_equal(covered, q->offset + q->length);
        if (limits->max_read)
            assert_true(q->length <= limits->max_read || q->length == longest);
        if (r > 0)
            assert_true(requests[r - 1].object < q->object || requests[r - 1].offset <= q->offset);
    }
    assert_int_equal(next, n);

    /* The same wants in another order make the same plan. */
    stk__request again[MAX_WANTS];
    for (size_t i = 0; i < n; i++)
        sorted[i] = before[n - 1 - i];
    assert_int_equal(stk__plan_reads(sorted, n, limits, again), count);
    if (count)
        assert_memory_equal(again, requests, count * sizeof *again);
}

static void test_against_oracle(void **state)
{
    uint64_t seed = 1;

    for (int round = 0; round < 6000; round++) {
        stk__want wants[MAX_WANTS];
        memset(wants, 0, sizeof wants);
        size_t n = test_random(&seed) % (MAX_WANTS + 1);
        uint64_t span = 1 + test_random(&seed) % 300, most = 1 + test_random(&seed) % 60;
        stk_store_limits limits = {.coalesce_gap = test_random(&seed) % 12,
                                   .max_read =
                                       test_random(&seed) % 4 ? 1 + test_random(&seed) % 80 : 0};
        for (size_t i = 0; i < n; i++)
            wants[i] = (stk__want){.object = test_random(&seed) % 3,
                                   .offset = test_random(&seed) % span,
                                   .length = test_random(&seed) % (most + 1),
                                   .tag = (uint32_t)i};
        for (size_t i = n; i-- > 1 && round % 2;) /* many that are alike */
            if (test_random(&seed) % 3 == 0) {
                uint32_t tag = wants[i].tag;
                wants[i] = wants[i - 1];
                wants[i].tag = tag;
            }
        check_case(wants, n, &limits);
    }
}

static int by_offset(const void *a, const void *b)
{
    return by_rule(a, b);
}

/* Shapes on which a careless quicksort takes quadratic time or overflows its stack; also large n.
 */
static void test_sorting_of_many(void **state)
{
    enum { N = 20000 };
    stk__want *wants = calloc(N, sizeof *wants), *sorted = calloc(N, sizeof *sorted);
    stk__request *requests = calloc(N, sizeof *requests);
    stk_store_limits limits = {.coalesce_gap = 0, .max_read = 0};
    uint64_t seed = 5;

    for (int shape = 0; shape < 6; shape++) {
        for (uint32_t i = 0; i < N; i++) {
            const uint64_t offsets[] = {i,
                                        N - i,
                                        i < N / 2 ? i : N - i,
                                        i % 7,
                                        test_random(&seed) % N,
                                        (uint64_t)i * 7919 % N};
            wants[i] = (stk__want){.offset = 10 * offsets[shape], .length = 5, .tag = i};
        }
        memcpy(sorted, wants, N * sizeof *wants);
        qsort(sorted, N, sizeof *sorted, by_offset);
        size_t count = stk__plan_reads(wants, N, &limits, requests);
        assert_memory_equal(wants, sorted, N * sizeof *wants);
        size_t expected = 1;
        for (size_t i = 1; i < N; i++)
            expected += sorted[i].offset != sorted[i - 1].offset;
        assert_int_equal(count, expected);
    }
    free(requests);
    free(sorted);
    free(wants);
}

static void test_named_cases(void **state)
{
    stk_store_limits limits = {.coalesce_gap = 10, .max_read = 100};
    stk__request requests[4];

    assert_int_equal(stk__plan_reads(NULL, 0, &limits, requests), 0);
    stk__want longer[] = {{1, 0, 500, 0}, {1, 100, 10, 1}, {1, 505, 5, 2}};
    assert_int_equal(stk__plan_reads(longer, 3, &limits, requests), 2);
    assert_int_equal(requests[0].length, 500);
    assert_int_equal(requests[0].count, 2);
    /* Offsets from a hostile index: nothing wraps. */
    stk__want hostile[] = {
        {1, UINT64_MAX - 5, 100, 0}, {1, 3, 4, 1}, {1, UINT64_MAX, UINT64_MAX, 2}};
    size_t count = stk__plan_reads(hostile, 3, &limits, requests);
    assert_true(count >= 2);
    assert_int_equal(requests[0].offset, 3);
    assert_int_equal(requests[0].length, 4);
    for (size_t i = 0; i < count; i++)
        assert_true(requests[i].length <= UINT64_MAX - requests[i].offset);
    stk__want nothing[] = {{1, 7, 0, 0}, {0, 9, 0, 1}};
    assert_int_equal(stk__plan_reads(nothing, 2, &limits, requests), 0);
}

static void test_pieces(void **state)
{
    const uint64_t cases[][2] = {{0, 0},     {1, 0},    {100, 0}, {100, 100},
                                 {101, 100}, {1000, 7}, {99, 100}};

    for (size_t c = 0; c < STK_COUNT(cases); c++) {
        size_t n = stk__plan_pieces(cases[c][0], cases[c][1]);
        uint64_t at = 12, offset, length;
        assert_true(n >= 1);
        for (size_t i = 0; i < n; i++) {
            stk__plan_split(12, cases[c][0], cases[c][1], i, &offset, &length);
            assert_int_equal(offset, at);
            assert_true(cases[c][1] == 0 || length <= cases[c][1]);
            assert_true(length > 0 || cases[c][0] == 0);
            at += length;
        }
        assert_int_equal(at, 12 + cases[c][0]);
    }
}

/* Object 1 lies near, object 2 far away, object 3 takes short reads. */
static void limits_of_object(void *user, uint64_t object, stk_store_limits *out)
{
    ++*(int *)user;
    *out = (stk_store_limits){.struct_size = sizeof *out,
                              .coalesce_gap = object == 2 ? 100 : 0,
                              .max_read = object == 3 ? 15 : 0};
}

/* Each object is planned by the limits of its own store, asked for where they matter. */
static void test_several_stores(void **state)
{
    stk__want wants[8];
    stk__request requests[8];
    int asked = 0;

    (void)state;
    for (uint32_t i = 0; i < 6; i++) /* two ranges of 10 bytes of each, 50 or 0 apart */
        wants[i] = (stk__want){1 + i % 3, i < 3 ? 0 : i == 5 ? 10 : 60, 10, i};
    wants[6] = (stk__want){7, 0, 10, 6};
    wants[7] = (stk__want){8, 0, 10, 7};
    assert_int_equal(stk__plan_reads_of(wants, 8, limits_of_object, &asked, requests), 7);
    assert_int_equal(asked, 3);
    assert_int_equal(requests[2].object, 2);
    assert_int_equal(requests[2].length, 70);
    assert_int_equal(requests[2].count, 2);
    for (int i = 3; i < 5; i++) {
        assert_int_equal(requests[i].object, 3);
        assert_int_equal(requests[i].length, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_oracle), cmocka_unit_test(test_sorting_of_many),
        cmocka_unit_test(test_named_cases),    cmocka_unit_test(test_several_stores),
        cmocka_unit_test(test_pieces),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
