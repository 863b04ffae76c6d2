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
    snprintf(spec, sizeof spec, "csv:%s?categories=t,x&types=x:text", folder);
    torture(spec);
    test_folder_remove(folder);
}

static void test_folders(void **state)
{
    char folder[256], spec[500];

    (void)state;
    test_folder(folder);
    test_write(folder, "s=a/y=1/a.csv", "x\n1\n2\n", 6);
    test_write(folder, "s=b/y=2/a.csv", "x\n3\n4\n", 6);
    snprintf(spec, sizeof spec, "csv:%s?nulls=mask&categories=s:a|b&where=s == 'b' or x > 1",
             folder);
    torture(spec);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_folders)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
