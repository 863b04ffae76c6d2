/* SPDX-License-Identifier: Apache-2.0 */
/* Opening TFRecord shards: while the n-th allocation fails, for every n until all succeed. */
#include "torture/dataset/opening.h"

#define GOLDEN "tfrecord:" TESTS_DIR "/golden/tfrecord/"

static void test_schemas(void **state)
{
    (void)state;
    torture(GOLDEN "examples-{00000..00001}-of-00002?index=none");
    torture(GOLDEN "examples-{00000..00001}-of-00002?index=none&pad=1&"
                   "schema=text:bytes,x=image/class/label:int64,embedding:float[4]");
}

static void test_list(void **state)
{
    char folder[256], spec[400];
    unsigned char record[1024];
    size_t size;

    (void)state;
    test_folder(folder);
    FILE *file = fopen(TESTS_DIR "/golden/tfrecord/sequences.tfrecord", "rb");
    assert_non_null(file);
    size = fread(record, 1, sizeof record, file);
    fclose(file);
    assert_in_range(size, 1, sizeof record - 1);
    const size_t first = 16 + record[0], second = 16 + record[first];
    test_write(folder, "a.tfrecord", record, size);
    snprintf(spec, sizeof spec, "0 %zu\n%zu %zu\n%zu %zu\n", first, first, second, first + second,
             size - first - second);
    test_write(folder, "a.tfrecord.idx", spec, strlen(spec));
    snprintf(spec, sizeof spec, "tfrecord:%s?index=none", folder);
    torture(spec);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
