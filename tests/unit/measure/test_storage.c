/* SPDX-License-Identifier: Apache-2.0 */
/* What a store answers like, and what follows from it. */
#include "support/support.h"

#include "base/base.h"
#include "measure/verdict.h"

static void test_kinds(void **state)
{
    static const struct {
        double latency, overlap;
        stk_storage storage;
    } rows[] = {
        {0, 0, STK_STORAGE_UNKNOWN},
        {10e-6, 1.5, STK_STORAGE_MEMORY},
        {80e-6, 25, STK_STORAGE_SSD},
        {0.9e-3, 30, STK_STORAGE_SSD},
        /* One head gives a little more where it may choose the order, no more. */
        {8e-3, 1.8, STK_STORAGE_DISK},
        {30e-3, 1.2, STK_STORAGE_DISK},
        {8e-3, 0, STK_STORAGE_DISK},
        /* As late, but many at once. */
        {8e-3, 20, STK_STORAGE_NETWORK},
        {60e-3, 30, STK_STORAGE_OBJECTS},
        {60e-3, 0, STK_STORAGE_OBJECTS},
        {60e-3, 1.5, STK_STORAGE_OBJECTS},
    };

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++)
        assert_int_equal(stk__storage_of(rows[i].latency, rows[i].overlap), rows[i].storage);
    assert_string_equal(stk_storage_name(STK_STORAGE_DISK), "a hard disk");
    assert_string_equal(stk_storage_name((stk_storage)77), "unknown");
}

static stk_storage_answer judge(double latency, double overlap, double in_order, double random)
{
    stk_storage_answer answer = {.struct_size = sizeof answer};

    stk_storage_judge(&(stk_storage_figures){.struct_size = sizeof(stk_storage_figures),
                                             .latency = latency,
                                             .one_per_s = 1 / latency,
                                             .many_per_s = overlap / latency,
                                             .in_order_bytes = in_order,
                                             .random_bytes = random,
                                             .small = 4096,
                                             .many = 32},
                      &answer);
    assert_int_equal(answer.struct_size, sizeof answer);
    return answer;
}

static void test_answers(void **state)
{
    (void)state;
    /* 125 reads a second, 160 MB/s in order, 60 MB/s at random. */
    stk_storage_answer disk = judge(8e-3, 1.8, 160e6, 60e6);
    assert_int_equal(disk.storage, STK_STORAGE_DISK);
    assert_int_equal(disk.io_depth, 2);
    assert_true(disk.in_order && disk.pack);
    /* Ten at a time fill it: 16 is enough. */
    stk_storage_answer ssd = judge(100e-6, 10, 500e6, 480e6);
    assert_int_equal(ssd.storage, STK_STORAGE_SSD);
    assert_int_equal(ssd.io_depth, 16);
    assert_true(!ssd.in_order && !ssd.pack);
    /* As many at once as were tried: more may give more. */
    stk_storage_answer far = judge(40e-3, 31, 300e6, 290e6);
    assert_int_equal(far.storage, STK_STORAGE_OBJECTS);
    assert_int_equal(far.io_depth, 64);
    assert_true(!far.in_order && far.pack);
    /* Nothing was measured. */
    stk_storage_answer none = {.struct_size = sizeof none};
    stk_storage_judge(&(stk_storage_figures){.struct_size = sizeof(stk_storage_figures)}, &none);
    assert_int_equal(none.storage, STK_STORAGE_UNKNOWN);
    assert_true(!none.in_order && !none.pack);
}

/* 20 ms a read; bandwidth by reads at once, of which 64 may be. */
static stk_storage_answer judge_far(const double *rates, uint32_t n, double overlap,
                                    uint64_t throttled)
{
    stk_storage_answer answer = {.struct_size = sizeof answer};
    stk_storage_figures f = {.struct_size = sizeof f,
                             .latency = 20e-3,
                             .one_per_s = 50,
                             .many_per_s = 50 * overlap,
                             .small = 4096,
                             .many = 32,
                             .most = 64,
                             .num_steps = n,
                             .network = {.reads = 1000,
                                         .requests = 1000 + throttled,
                                         .throttled = throttled,
                                         .connections = 64,
                                         .window = 64}};

    for (uint32_t i = 0; i < n; i++)
        f.steps[i] = (stk_storage_step){.depth = 1u << i, .bytes_per_s = rates[i]};
    stk_storage_judge(&f, &answer);
    return answer;
}

static void test_far(void **state)
{
    const double full[] = {10e6, 20e6, 40e6, 76e6, 80e6, 79e6}, growing[] = {10e6, 20e6, 40e6};
    (void)state;
    /* Eight fill its bandwidth; many small reads want more, if there are many. */
    stk_storage_answer a = judge_far(full, 6, 5, 0);
    assert_int_equal(a.filled, 8);
    assert_int_equal(a.io_depth, 8);
    assert_false(a.grows);
    assert_int_equal(a.connections, 0);
    a = judge_far(full, 6, 31, 0);
    assert_int_equal(a.io_depth, 64);
    assert_int_equal(a.connections, 0);
    /* The last step gave as much more as the others: go on. */
    a = judge_far(growing, 3, 3, 0);
    assert_true(a.grows);
    assert_int_equal(a.filled, 4);
    assert_int_equal(a.io_depth, 8);
    /* A server that throttles is asked for what it gives best with, by whoever asks. */
    a = judge_far(full, 6, 31, 100);
    assert_int_equal(a.connections, 8);
    assert_int_equal(a.io_depth, 8);
    /* One refusal among thousands is none. */
    assert_int_equal(judge_far(full, 6, 31, 1).connections, 0);
    /* Over the network nothing seeks, however few reads at once it gives. */
    assert_int_equal(judge_far(full, 6, 1.2, 0).storage, STK_STORAGE_NETWORK);
}

/* More at once than there are connections. */
static void test_far_connections(void **state)
{
    stk_storage_answer a = {.struct_size = sizeof a};

    (void)state;
    stk_storage_judge(&(stk_storage_figures){.struct_size = sizeof(stk_storage_figures),
                                             .latency = 20e-3,
                                             .one_per_s = 50,
                                             .many_per_s = 1500,
                                             .small = 4096,
                                             .many = 32,
                                             .most = 32,
                                             .num_steps = 1},
                      &a);
    assert_int_equal(a.io_depth, 64);
    assert_int_equal(a.connections, 64);
}

/* The examples of the guides: 1 to 2 cores stay free for each accelerator. */
static void test_workers(void **state)
{
    static const struct {
        uint32_t usable, compute, ranks, workers;
    } rows[] = {
        {20, 1, 1, 18}, {60, 1, 3, 18}, {160, 1, 8, 18}, /* 18, 54 and 144 in all */
        {1, 1, 1, 1},   {2, 1, 1, 1},   {4, 1, 1, 3},    {15, 1, 1, 14},
        {16, 1, 1, 14}, {20, 4, 1, 16}, {4, 8, 1, 1},    {8, 1, 16, 1},
    };

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        const uint32_t workers = stk__cores_workers(rows[i].usable, rows[i].compute, rows[i].ranks);
        assert_int_equal(workers, rows[i].workers);
        /* Never more threads than cores, but where there are fewer cores than ranks. */
        assert_true(rows[i].usable < 2 * rows[i].ranks || workers * rows[i].ranks < rows[i].usable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),   cmocka_unit_test(test_answers),
        cmocka_unit_test(test_far),     cmocka_unit_test(test_far_connections),
        cmocka_unit_test(test_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
