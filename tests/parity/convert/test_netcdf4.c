/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of every kind of array that the NetCDF-4 target takes, held against netCDF4-python, xarray
 * and h5py (netcdf4.py).
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "convert/netcdf4.h"

#define SCRIPT TESTS_DIR "/parity/convert/netcdf4.py"

/* Elements are what the script computes: of numbers their place, counted in C order. */
static const char root[] =
    "{\"title\": \"h\\u00e4llo\", \"n\": 3, \"x\": 2.5, \"list\": [1, 2], \"reals\": [1.5, NaN], "
    "\"words\": [\"a\", \"b\\u00e9\"], \"empty\": \"\", \"yes\": true, \"nested\": {\"a\": [1]}, "
    "\"huge\": 18446744073709551615, \"NAME\": \"dropped\"}";

static const char *const time_names[] = {"time"};
static const char *const lat_names[] = {"lat"};
static const char *const cube_names[] = {"time", "lat", "lon"};
static const char *const matrix_names[] = {"lev", "lon"};
static const char *const bare_names[] = {"bare", "lon"};
static const char *const other_names[] = {"lon"};
static const int64_t shapes[][3] = {{3}, {4}, {3, 4, 5}, {2, 5}, {7, 5}, {6}, {0}, {1}};
static const int64_t chunks[][3] = {{2}, {4}, {2, 3, 5}, {1, 5}, {4, 5}, {6}, {1}, {1}};

enum { TIME, LAT, CUBE, MATRIX, BARE, SIX, NOTHING, ONE };

#define NODE(path_, dtype_, type, size, rank_, which, names, attributes_, fill)                    \
    {                                                                                              \
        .path = path_, .attributes = attributes_, .is_array = true, .dtype = dtype_,               \
        .type_name = type, .itemsize = size, .rank = rank_, .shape = shapes[which],                \
        .chunk_shape = chunks[which], .object_shape = chunks[which], .dimension_names = names,     \
        .fill_value = zeros, .missing_value = fill                                                 \
    }

static const char zeros[16];
static const int16_t minus = -99;
static const float nothing = 7;
static const stk__target_node nodes[] = {
    {.path = "", .attributes = root},
    {.path = "g", .attributes = "{\"of\": \"a group\"}"},
    NODE("g/h/deep", STK_INT32, "int32", 4, 1, LAT, lat_names, "{}", NULL),
    NODE("g/lon", STK_FLOAT64, "float64", 8, 1, SIX, other_names, "{}", NULL),
    NODE("g/w", STK_UINT64, "uint64", 8, 1, SIX, other_names, "{}", NULL),
    {.path = "g/h", .attributes = "{}"},
    NODE("bytes", STK_DTYPE_NONE, "S3", 3, 1, LAT, lat_names, "{}", NULL),
    NODE("char", STK_DTYPE_NONE, "S1", 1, 1, LAT, lat_names, "{}", NULL),
    NODE("flag", STK_BOOL, "bool", 1, 1, LAT, lat_names, "{}", NULL),
    NODE("floats", STK_FLOAT32, "float32", 4, 2, BARE, bare_names, "{\"valid_min\": 0}", &nothing),
    NODE("lat", STK_FLOAT32, "float32", 4, 1, LAT, lat_names,
         "{\"units\": \"degrees_north\", \"bounds\": null}", NULL),
    NODE("lev", STK_INT8, "int8", 1, 2, MATRIX, matrix_names, "{}", NULL),
    NODE("lon", STK_INT64, "int64", 8, 1, LAT, lat_names, "{}", NULL), /* no coordinate */
    NODE("none", STK_INT16, "int16", 2, 1, NOTHING, NULL, "{}", NULL),
    NODE("scalar", STK_UINT8, "uint8", 1, 0, ONE, NULL, "{\"a\": 1}", NULL),
    NODE("span", STK_INT64, "timedelta64[s]", 8, 1, TIME, time_names, "{}", NULL),
    NODE("t2m", STK_INT16, "int16", 2, 3, CUBE, cube_names,
         "{\"missing_value\": -99, \"scale_factor\": 0.5, \"flags\": [1, 2]}", &minus),
    NODE("text", STK_DTYPE_NONE, "U4", 16, 1, LAT, lat_names, "{}", NULL),
    NODE("time", STK_INT64, "datetime64[ns]", 8, 1, TIME, time_names, "{}", NULL),
    NODE("u16", STK_UINT16, "uint16", 2, 1, LAT, lat_names, "{}", NULL),
    NODE("u32", STK_UINT32, "uint32", 4, 1, LAT, NULL, "{}", NULL),
};

static void put(const stk__target_node *n, uint64_t i, unsigned char *to)
{
    static const char *const texts[] = {"a", "b\xc3\xa9", "", "xyz"};
    static const uint32_t wide[][4] = {{'a'}, {'b', 0xe9}, {0}, {'x', 'y', 0x1f600}};
    const int64_t integer = (int64_t)i;
    const double real = (double)i;
    const float small = (float)i;

    if (n->dtype == STK_FLOAT64)
        memcpy(to, &real, sizeof real);
    else if (n->dtype == STK_FLOAT32)
        memcpy(to, &small, sizeof small);
    else if (n->dtype == STK_BOOL)
        *to = i & 1;
    else if (n->dtype != STK_DTYPE_NONE)
        memcpy(to, &integer, n->itemsize);
    else if (*n->type_name == 'U')
        memcpy(to, wide[i], sizeof wide[i]);
    else
        memcpy(to, texts[i], strnlen(texts[i], n->itemsize));
}

static uint64_t count(const stk__target_node *n)
{
    uint64_t total = 1;

    for (uint32_t d = 0; d < n->rank; d++)
        total *= (uint64_t)n->shape[d];
    return total;
}

/* Write one array, object by object, from a whole that lies in memory. */
static void write_array(stk__array_target *t, size_t node)
{
    const stk__target_node *n = &nodes[node];
    const uint64_t total = count(n);
    unsigned char *values = calloc(total + 1, n->itemsize);
    int64_t start[3] = {0}, shape[3], strides[3];
    stk__target_box box = {.start = start, .shape = shape, .strides = strides};
    stk_error err;

    assert_non_null(values);
    for (uint64_t i = 0; i < total; i++)
        put(n, i, values + i * n->itemsize);
    int64_t stride = (int64_t)n->itemsize;
    for (uint32_t d = n->rank; d-- > 0; stride *= n->shape[d])
        strides[d] = stride;
    for (bool more = total > 0; more; box.number++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < n->rank; d++) {
            const int64_t left = n->shape[d] - start[d];
            shape[d] = left < n->object_shape[d] ? left : n->object_shape[d];
            at += start[d] * strides[d];
        }
        box.data = values + at;
        assert_ok(t->ops->write(t, 0, node, &box, &err), &err);
        more = false;
        for (uint32_t d = n->rank; d-- > 0 && !more;) {
            start[d] += n->object_shape[d];
            more = start[d] < n->shape[d];
            if (!more)
                start[d] = 0;
        }
    }
    free(values);
}

static void test_against_netcdf4(void **state)
{
    const char *python = test_python("netCDF4, xarray, h5py");
    stk_convert_options options;
    stk_convert_arrays_options own;
    const stk__target_part all = {0};
    char folder[256], target[300], command[1200];
    stk__array_target *t = NULL;
    stk_error err;

    (void)state;
    if (!python)
        skip();
    stk_context *ctx = test_context();
    test_folder(folder);
    snprintf(target, sizeof target, "%s/out.nc", folder);
    stk_convert_options_init(&options);
    stk_options_init(stk_option_table_find("arrays"), &own, sizeof own);
    own.unlimited = "time, lev";
    const stk_conversion_job job = {.struct_size = sizeof job,
                                    .context = ctx,
                                    .source = "all.zarr",
                                    .target = target,
                                    .options = &options,
                                    .own = &own};
    const stk__array_target_ops *ops = &stk__array_target_netcdf4;
    assert_ok(ops->open(&job, nodes, STK_COUNT(nodes), &all, 1, &t, &err), &err);
    for (size_t i = 0; i < STK_COUNT(nodes); i++)
        if (nodes[i].is_array)
            write_array(t, i);
    assert_ok(ops->finish(t, &err), &err);
    ops->close(t);
    snprintf(command, sizeof command, "'%s' '%s' '%s'", python, SCRIPT, target);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_netcdf4)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
