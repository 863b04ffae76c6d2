/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation fails while windows are selected by coordinates of a group, or of what lies
 * beside an array: what fails says so, and what does not selects the same. */
#include "torture/dataset/opening.h"
#include "unit/dataset/windows.h"

static char folder[256];

static void each_allocation_fails(void **state)
{
    static const char *const specs[] = {
        "array:%s/g?variables=t2m&select=time=2000-01-02:2000-01-05,y=3:6",
        "array:%s/g/t2m?select=time=2000-01-02:,x=5",
    };
    char spec[400];

    (void)state;
    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        snprintf(spec, sizeof spec, specs[i], folder);
        torture(spec);
    }
}

int main(void)
{
    static const double values[8] = {0, 1, 2, 3, 4, 5, 6, 7}, down[8] = {7, 6, 5, 4, 3, 2, 1, 0};
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails)};
    const made a = {.dtype = STK_FLOAT32, .shape = {8, 8, 8}, .chunk = {4, 4, 8}};
    stk_context *ctx = test_context();
    stk_error err;
    char url[300];

    test_folder(folder);
    snprintf(url, sizeof url, "%s/g/t2m", folder);
    make_array(ctx, url, &a);
    snprintf(url, sizeof url, "%s/g/time", folder);
    make_coordinate(ctx, url, "time", STK_INT64, NULL, "{\"units\": \"days since 2000-01-01\"}",
                    values, 8);
    snprintf(url, sizeof url, "%s/g/y", folder);
    make_coordinate(ctx, url, "y", STK_FLOAT32, NULL, NULL, down, 8);
    snprintf(url, sizeof url, "%s/g/x", folder);
    make_coordinate(ctx, url, "x", STK_INT16, NULL, NULL, values, 8);
    snprintf(url, sizeof url, "%s/g", folder);
    assert_ok(stk_group_consolidate(ctx, url, NULL, &err), &err);
    stk_context_destroy(&ctx);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
