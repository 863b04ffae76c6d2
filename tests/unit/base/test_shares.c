/* SPDX-License-Identifier: Apache-2.0 */
/* A budget that is divided: shares that were worked out by hand, and what always holds. */
#include "support/support.h"

#include "base/shares.h"

#define MIB (UINT64_C(1) << 20)

static stk__demand plain(uint64_t bytes)
{
    return (stk__demand){.bytes = bytes,
                         .slab = 1000,
                         .step = 100,
                         .worker = 10000,
                         .fixed = 50000,
                         .most_read = 1000,
                         .horizon = 5,
                         .workers = 4,
                         .slabs = 9,
                         .reads = true};
}

/* The base is 50,000 + 2 x 10,000 + 2 x 1,100. */
static void test_by_hand(void **state)
{
    stk__demand c = plain(1000000);

    (void)state;
    assert_int_equal(stk__shares_base(&c), 72200);
    assert_int_equal(stk__shares_pool(&c, 927800), 463900);
    stk__shares s = stk__shares_divide(&c);
    assert_true(s.workers == 4 && s.slabs == 9 && s.steps == 14 && s.spare == 0);
    assert_true(s.pool == 889600 && s.fixed == 110400 && s.cache == 0);
    /* 4,000 of 8,000 for batches: 5 of them leave room for 7 records, and none for a worker. */
    c = plain(72200 + 8000);
    s = stk__shares_divide(&c);
    assert_true(s.workers == 1 && s.slabs == 5 && s.steps == 10);
    assert_int_equal(s.pool, 8000 - 3 * 1100 - 5 * 100);
    /* A sample that was probed wants more than the half. */
    c.most_read = 7000;
    s = stk__shares_divide(&c);
    assert_true(s.slabs == 2 && s.steps == 7 && s.pool == 8000 - 500);
    /* Without reads there is no pool, and nothing is ahead without workers. */
    c = plain(1000000);
    c.reads = false;
    c.workers = 0;
    s = stk__shares_divide(&c);
    assert_true(s.pool == 0 && s.workers == 0 && s.steps == s.slabs && s.slabs == 9);
}

/* What comes on top where the number of workers moves costs none of the others. */
static void test_spare(void **state)
{
    stk__demand c = plain(1000000);

    (void)state;
    c.spare = 4;
    c.spare_slabs = 8;
    stk__shares s = stk__shares_divide(&c);
    assert_true(s.workers == 4 && s.spare == 4 && s.slabs == 9 && s.spare_slabs == 8);
    assert_true(s.steps == 22 && s.fixed == 110400 + 4 * 10000 + 8 * 1100);
    assert_int_equal(s.fixed + s.pool, 1000000);
    /* 8,200 of 17,000 are for 9 batches and the records ahead; a quarter of the rest for two. */
    c.bytes = 72200 + 34000;
    c.workers = 1;
    s = stk__shares_divide(&c);
    assert_true(s.slabs == 9 && s.spare_slabs == 2 && s.steps == 16);
    /* Where there is no room for what was asked for there is none for more. */
    c.bytes = 72200 + 8000;
    s = stk__shares_divide(&c);
    assert_true(s.slabs == 5 && s.spare_slabs == 0);
    /* Records that are there already are no more than they are. */
    c.bytes = 1000000;
    c.steps = 16;
    s = stk__shares_divide(&c);
    assert_true(s.slabs == 9 && s.steps == 16 && s.spare_slabs == 2);
}

static void test_caches(void **state)
{
    stk__demand c = plain(10 * MIB);

    (void)state;
    c.caches = true;
    const stk__shares s = stk__shares_divide(&c);
    assert_true(s.cache > 4 * MIB && s.pool > 4 * MIB);
    assert_int_equal(s.fixed + s.pool + s.cache, c.bytes);
    /* Less than the least one is none. */
    c.bytes = 900000;
    assert_int_equal(stk__shares_divide(&c).cache, 0);
}

/* A thread's room for pictures grows with the budget, from 256 KiB to 4 MiB. */
static void test_pictures(void **state)
{
    stk__demand c = plain(MIB);
    uint64_t each, most;

    (void)state;
    c.pictures = true;
    stk__shares_decoding(&c, &each, &most);
    assert_true(each == 256 << 10 && most == 256 << 10);
    c.bytes = 64 * MIB;
    stk__shares_decoding(&c, &each, &most);
    assert_true(each == 2 * MIB && most == 8 * MIB);
    assert_int_equal(stk__shares_base(&c), 72200 + 2 * 2 * MIB + 8 * MIB);
    c.bytes = 1024 * MIB;
    stk__shares_decoding(&c, &each, &most);
    assert_true(each == 4 * MIB && most == 128 * MIB);
}

/* All of it is given out and no more; with more of it there are no fewer workers nor, with as many
 * workers, fewer batches. */
static void test_all(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 16; kind++) {
        stk__shares before = {0};
        for (uint64_t bytes = 80000; bytes < 64 * MIB; bytes += bytes / 7) {
            stk__demand c = plain(bytes);
            c.ragged = kind & 1;
            c.decodes = kind & 2;
            c.caches = kind & 4;
            c.most_read = kind & 8 ? 3 * MIB : 1000;
            const stk__shares s = stk__shares_divide(&c);
            assert_int_equal(s.fixed + s.pool + s.cache, bytes);
            assert_true(s.workers >= 1 && s.workers <= 4 && s.slabs >= 2 && s.slabs <= 9);
            assert_true(s.steps >= s.slabs && s.steps <= s.slabs + c.horizon);
            c.spare_slabs = 8;
            const stk__shares more = stk__shares_divide(&c);
            assert_int_equal(more.fixed + more.pool + more.cache, bytes);
            assert_true(more.workers == s.workers && more.slabs == s.slabs);
            assert_true(more.spare_slabs <= 8 && more.steps == s.steps + more.spare_slabs);
            assert_true(kind & 8 || s.workers >= before.workers);
            assert_true(kind & 8 || s.workers > before.workers || s.slabs >= before.slabs);
            before = s;
        }
    }
}

static void test_horizon(void **state)
{
    (void)state;
    /* Four times as many reads as are under way; all of the blocks at hand. */
    assert_int_equal(stk__shares_horizon(16, 10, 0, 10), 7);
    assert_int_equal(stk__shares_horizon(1, 100, 0, 100), 1);
    assert_int_equal(stk__shares_horizon(16, 10, 1024, 10), 103);
    assert_int_equal(stk__shares_horizon(16, 10, 1024, 40), 26);
    assert_int_equal(stk__shares_horizon(64, 2, 20, 2), 129);
    assert_true(stk__shares_hold_blocks(2000, 10, 100));
    assert_false(stk__shares_hold_blocks(1999, 10, 100));
    assert_false(stk__shares_hold_blocks(UINT64_MAX, UINT64_MAX, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_spare),
        cmocka_unit_test(test_caches),  cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_all),     cmocka_unit_test(test_horizon)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
