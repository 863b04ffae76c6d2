/* SPDX-License-Identifier: Apache-2.0 */
/* What a group has read of its file serves all of its arrays, as long as the file is the same. */
#include "unit/array/faulty.h"
#include "unit/array/packed.h"

#define REFERENCES(type)                                                                           \
    "{\"version\": 1, \"refs\": {\".zgroup\": {\"zarr_format\": 2}, \"v/.zarray\": "               \
    "{\"zarr_format\": 2, \"shape\": [4], \"chunks\": [2], \"dtype\": \"" type                     \
    "\", \"compressor\": null, \"filters\": null, \"order\": \"C\", \"fill_value\": 9}, "          \
    "\"v/0\": [\"x.bin\", 0, 8]}}"

static int set_up(void **state)
{
    stk_error err;

    open_pack("netcdf3");
    assert_ok(stk_driver_add(context, STK_DRIVER_STORE, &faulty_ops, &err), &err);
    return 0;
}

/* Open a group of one array, with it twice, and once more when `after` is in place of `before`. */
static void check(const char *name, const void *before, uint64_t size, const char *type,
                  const void *after, uint64_t after_size, const char *after_type)
{
    char url[64];
    stk_group *g = NULL;
    stk_error err;

    snprintf(url, sizeof url, "faulty://pack/%s", name);
    test_put(store, name, before, size);
    assert_ok(stk_group_open(context, url, &g, &err), &err);
    for (int i = 0; i < 3; i++) {
        stk_array *a = NULL;
        if (i == 2)
            test_put(store, name, after, after_size);
        faulty_reset();
        assert_ok(stk_group_array(g, "v", NULL, &a, &err), &err);
        assert_string_equal(stk_array_get_info(a)->type_name, i == 2 ? after_type : type);
        assert_true((atomic_load(&faulty.reads) > 0) == (i == 2));
        stk_array_close(&a);
    }
    stk_group_close(&g);
}

static void test_references(void **state)
{
    static const char before[] = REFERENCES("<i4"), after[] = REFERENCES("<u4");

    (void)state;
    test_put(store, "x.bin", "12345678", 8);
    check("kept.json", before, sizeof before - 1, "int32", after, sizeof after - 1, "uint32");
}

static void test_header(void **state)
{
    uint64_t before_size = 0, after_size = 0;
    uint8_t *before = test_get(store, "files/alone_i2.nc", &before_size);
    uint8_t *after = test_get(store, "files/alone_i1.nc", &after_size);

    (void)state;
    check("kept.nc", before, before_size, "int16", after, after_size, "int8");
    free(before);
    free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_references),
                                       cmocka_unit_test(test_header)};

    return cmocka_run_group_tests(tests, set_up, close_packs);
}
