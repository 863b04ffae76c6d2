/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files and streams of Arrow IPC: while the n-th allocation fails, for every n until all
 * succeed. */
#include "torture/dataset/opening.h"

#define GOLDEN "arrow:" TESTS_DIR "/golden/arrow/"

static void test_files(void **state)
{
    (void)state;
    torture(GOLDEN "types.arrow");
    torture(GOLDEN "types_zstd.arrow?columns=s,li,cat");
}

static void test_streams(void **state)
{
    (void)state;
    torture(GOLDEN "nulls_lz4.arrows?nulls=zero");
    torture(GOLDEN "nulls_lz4.arrows?nulls=drop&columns=v,st,cat");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
