/* SPDX-License-Identifier: Apache-2.0 */
/* Opening Parquet files: while the n-th allocation fails, for every n until all succeed. */
#include "torture/dataset/opening.h"

#define GOLDEN "parquet:" TESTS_DIR "/golden/parquet/"

static void test_open(void **state)
{
    (void)state;
    torture(GOLDEN "dictionary_index.parquet?columns=id,word,tokens,maybe&nulls=mask");
    torture(GOLDEN "delta_zstd.parquet?columns=word,blob,perhaps&nulls=zero");
    torture(GOLDEN "plain.parquet?columns=id,small,wide,f,d,flag&nulls=zero"); /* sheets */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_open)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
