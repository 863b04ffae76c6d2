/* SPDX-License-Identifier: Apache-2.0 */
/* Opening tables of JSON lines: while the n-th allocation fails, for every n until all succeed. */
#include "torture/dataset/opening.h"

static void test_tables(void **state)
{
    char folder[256], spec[500];
    const char *a = "{\"id\":1,\"t\":\"a\",\"l\":[1,2]}\n{\"id\":2,\"t\":\"b\",\"l\":[]}\n",
               *b = "{\"l\":[3],\"id\":3,\"t\":null}\n";

    (void)state;
    test_folder(folder);
    test_write(folder, "a.jsonl", a, strlen(a));
    test_write(folder, "b.jsonl", b, strlen(b));
    snprintf(spec, sizeof spec, "jsonl:%s", folder);
    torture(spec);
    snprintf(spec, sizeof spec, "jsonl:%s?columns=id,t&nulls=drop&types=id:int8", folder);
    torture(spec);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
