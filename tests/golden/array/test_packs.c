/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that zarr-python, tensorstore and zarrs wrote (scripts/make_array_golden.py), h5py and
 * netCDF4 (scripts/make_hdf5_golden.py), and netCDF4 and scipy (scripts/make_netcdf3_golden.py,
 * with files that are joined and references of kerchunk), read equal: from a folder and from zip
 * archives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/array/pack.h"
#include "support/zips.h"

/* A box of every shape and step, cut from the expected values element by element. */
static void check_box(stk_array *a, const char *name, const char *expected, uint64_t *seed)
{
    const stk_array_info *info = stk_array_get_info(a);
    int64_t start[STK_ARRAY_MAX_RANK], shape[STK_ARRAY_MAX_RANK], step[STK_ARRAY_MAX_RANK];
    const stk_array_box box = {start, shape, step};
    static char out[PACK_PART];
    uint64_t bytes = 0;
    stk_error err;

    const uint64_t count = pack_draw_box(info, seed, start, shape, step);
    assert_ok(stk_array_box_bytes(a, &box, &bytes, &err), &err);
    assert_int_equal(bytes, count * info->itemsize);
    assert_ok(stk_array_read(a, &box, out, bytes, NULL, -1, &err), &err);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = pack_element(info, &box, i);
        if (memcmp(out + i * info->itemsize, expected + at * info->itemsize, info->itemsize) != 0)
            fail_msg("%s: element %llu of a box differs", name, (unsigned long long)i);
    }
}

/* `folder`: URL of one that holds what is in `store`. */
static void check_array(stk_context *ctx, stk_store *store, const char *folder, const char *name)
{
    static char expected[PACK_PART], about[PACK_PART], out[PACK_PART], shown[256], path[PACK_PART];
    stk_object_info there = {.struct_size = sizeof there};
    char url[256];
    uint64_t size = pack_read(store, name, "expected", expected), seed = 42;
    stk_array *a = NULL;
    stk_error err;

    pack_read(store, name, "about", about);
    snprintf(url, sizeof url, "%s/path", name);
    if (stk_store_stat(store, url, NULL, &there, NULL) == STK_OK)
        path[pack_read(store, name, "path", path)] = 0;
    else
        snprintf(path, sizeof path, "%s", name);
    snprintf(url, sizeof url, "%s/%.200s", folder, path);
    stk_error_init(&err);
    if (stk_array_open(ctx, url, NULL, &a, &err) != STK_OK)
        fail_msg("%s: %s", name, err.text);
    const stk_array_info *info = stk_array_get_info(a);
    int n = snprintf(shown, sizeof shown, "%s", info->type_name);
    for (uint32_t d = 0; d < info->rank; d++)
        n += snprintf(shown + n, sizeof shown - (size_t)n, " %lld", (long long)info->shape[d]);
    if (strcmp(shown, about) != 0)
        fail_msg("%s is '%s' and should be '%s'", name, shown, about);
    assert_int_equal(info->bytes, size);
    memset(out, 0x55, sizeof out);
    if (stk_array_read(a, NULL, out, size, NULL, -1, &err) != STK_OK)
        fail_msg("%s: %s", name, err.text);
    if (memcmp(out, expected, size) != 0)
        fail_msg("%s: the values differ", name);
    for (int i = 0; i < 20; i++)
        check_box(a, name, expected, &seed);
    stk_array_close(&a);
}

static void check_pack(const char *pack, size_t at_least)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL, *packed = NULL;
    static pack_names n;
    stk_error err;

    pack_load(ctx, pack, &store);
    pack_list(store, &n);
    assert_true(n.count >= at_least);
    assert_ok(stk_store_open(ctx, "mem://packed", &packed, NULL, 0, &err), &err);
    zip_all(store, packed, "s.zip", false);
    zip_all(store, packed, "d.zip", true);
    for (size_t i = 0; i < n.count; i++) {
        check_array(ctx, store, "mem://pack", n.list[i]);
        check_array(ctx, store, "zip:mem://packed/d.zip!", n.list[i]);
        check_array(ctx, store, "mem://packed/s.zip", n.list[i]);
        if (i % 8 == 0)
            check_array(ctx, store, "slow+mem://pack", n.list[i]);
    }
    stk_store_close(&packed);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_v3(void **state)
{
    check_pack("zarr_v3", 80);
}

static void test_shards(void **state)
{
    check_pack("shards", 11);
}

static void test_v2(void **state)
{
    check_pack("zarr_v2", 90);
}

static void test_others(void **state)
{
    check_pack("others", 19);
}

static void test_hdf5(void **state)
{
    check_pack("hdf5_chunks", 51);
    check_pack("hdf5", 56);
}

static void test_netcdf3(void **state)
{
    check_pack("netcdf3", 66);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v3),   cmocka_unit_test(test_shards),
        cmocka_unit_test(test_v2),   cmocka_unit_test(test_others),
        cmocka_unit_test(test_hdf5), cmocka_unit_test(test_netcdf3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
