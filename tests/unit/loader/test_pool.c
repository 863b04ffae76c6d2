/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that are kept for the next, and what is left of those that are given up. */
#include "loader/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/support.h"

enum { BUFFERS = 200 };
#define SIZE (UINT64_C(100) << 10)

/* Bytes of this process that are in memory. */
static uint64_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* One of another size needs their room: their pages are the system's again, also of those that
 * malloc has to keep, as something lies between them. */
static void test_pages_go_back(void **state)
{
    stk_context *ctx = test_context();
    stk__pool pool;
    void *buffers[BUFFERS], *between[BUFFERS];

    stk__pool_init(&pool, ctx, BUFFERS * stk__pool_cost(SIZE));
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = stk__pool_take(&pool, SIZE);
        between[i] = malloc(100);
        assert_non_null(buffers[i]);
        assert_non_null(between[i]);
        memset(buffers[i], i, SIZE);
    }
    for (int i = 0; i < BUFFERS; i++)
        stk__pool_give(&pool, buffers[i]);
    const uint64_t before = resident();
    void *large = stk__pool_take(&pool, BUFFERS / 10 * 9 * SIZE);
    assert_non_null(large);
    const uint64_t after = resident();
    print_message("%.1f MB of %.1f\n", (double)after / 1e6, (double)before / 1e6);
    assert_true(before > after && before - after > BUFFERS / 10 * 8 * SIZE);
    stk__pool_give(&pool, large);
    for (int i = 0; i < BUFFERS; i++)
        free(between[i]);
    stk__pool_destroy(&pool);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages_go_back)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
