/* SPDX-License-Identifier: Apache-2.0 */
/* Opening tables of lines: while the n-th allocation fails, for every n until all succeed. */
#include "torture/dataset/opening.h"

static void test_tables(void **state)
{
    char folder[256], spec[500];
    const char *a = "id,t,x\n1,a,\n2,\"b\",0.5\n", *b = "x,id,t\n1,2,c\n";

    (void)state;
    test_folder(folder);
    test_write(folder, "a.csv", a, strlen(a));
    test_write(folder, "b.csv", b, strlen(b));
    snprintf(spec, sizeof spec, "csv:%s", folder);
    torture(spec);
    snprintf(spec, sizeof spec, "csv:%s?columns=id,x&nulls=drop&where=t in ('a','b') or x > 0.7",
             folder);
    torture(spec);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
