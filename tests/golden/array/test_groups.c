/* SPDX-License-Identifier: Apache-2.0 */
/* Trees that zarr-python wrote: nodes, with and without consolidated metadata, and their arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/array/pack.h"

static void check_values(stk_group *g, const char *path)
{
    stk_array *a = NULL;
    int16_t out[12];
    stk_error err;

    assert_ok(stk_group_array(g, path, NULL, &a, &err), &err);
    assert_int_equal(stk_array_get_info(a)->dtype, STK_INT16);
    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    for (int i = 0; i < 12; i++)
        assert_int_equal(out[i], i);
    stk_array_close(&a);
}

static void check_tree(stk_context *ctx, const char *url, bool consolidated)
{
    static const stk_node expected[] = {
        {"surface", false}, {"surface/wind", true}, {"t2m", true}, {"void", false}};
    stk_group *g = NULL;
    stk_array *a = NULL;
    stk_error err;

    assert_ok(stk_group_open(ctx, url, &g, &err), &err);
    assert_int_equal(stk_group_is_consolidated(g), consolidated);
    assert_non_null(strstr(stk_group_attributes(g), "weather"));
    for (size_t i = 0; i < 4; i++) {
        const stk_node *node = stk_group_node(g, i);
        assert_non_null(node);
        assert_string_equal(node->path, expected[i].path);
        assert_int_equal(node->is_array, expected[i].is_array);
    }
    assert_null(stk_group_node(g, 4));
    check_values(g, "t2m");
    check_values(g, "surface/wind");
    assert_fails(stk_group_array(g, "surface", NULL, &a, &err), STK_EMISMATCH, &err, "is a group");
    assert_fails(stk_group_array(g, "wind", NULL, &a, &err), STK_ENOENT, &err, "no array 'wind'");
    assert_null(a);
    /* An array outlives its group. */
    assert_ok(stk_group_array(g, "t2m", NULL, &a, &err), &err);
    stk_group_close(&g);
    int16_t out[12];
    assert_ok(stk_array_read(a, NULL, out, sizeof out, NULL, -1, &err), &err);
    stk_array_close(&a);
}

static void check_version(const char *pack)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_group *g = NULL;
    stk_error err;

    pack_load(ctx, pack, &store);
    check_tree(ctx, "mem://pack/plain", false);
    check_tree(ctx, "mem://pack/consolidated", true);
    check_tree(ctx, "slow+mem://pack/plain?latency=1ms", false);
    assert_fails(stk_group_open(ctx, "mem://pack/plain/t2m", &g, &err),
                 pack[7] == '3' ? STK_EMISMATCH : STK_ENOENT, &err, NULL);
    assert_fails(stk_group_open(ctx, "mem://pack", &g, &err), STK_ENOENT, &err, "no Zarr group");
    assert_null(g);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_v2(void **state)
{
    check_version("group_v2");
}

static void test_v3(void **state)
{
    check_version("group_v3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v2),
        cmocka_unit_test(test_v3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
