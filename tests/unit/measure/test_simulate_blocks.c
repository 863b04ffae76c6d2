/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are read page by page: what is not known of it, by itself. */
#include <math.h>

#include "measure/simulate_shared.h"
#include "unit/measure/near.h"

/* Four pages of a sixteenth of a block each: where no link is known, a read takes from as long as
 * it did to as its bytes do. */
static void test_reads_of_pages(void **state)
{
    const double found = 0;
    stk_error err;
    float latency = 16e-3f, bytes = 1e6f;
    stk__stages s = {
        .reads = 1,
        .num_reads = 1,
        .latency = &latency,
        .bytes = &bytes,
        .read_bytes = 1e6,
        .bandwidth = INFINITY,
        .mean_prepare = 2e-3,
        .sharing = {.chunks = 100,
                    .seconds = 1e-3,
                    .decoded = 1e6,
                    .num_kinds = 1,
                    .kinds = {{.rows = 1, .needs = 4, .read = 62500, .decoded = 125e3}}}};
    stk__setting set = {.workers = 1};

    (void)state;
    assert_ok(stk__blocks_change(&s, &set, false, &found, &err), &err);
    assert_near(s.reads, 4, 1e-9);
    assert_near(bytes, 62500, 1e-6);
    assert_near(latency, 4e-3, 1e-6);
    stk__stages_bound(&s, 1);
    assert_near(latency, 16e-3, 1e-6);
    stk__stages_bound(&s, -2);
    assert_near(latency, 1e-3, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_of_pages)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
