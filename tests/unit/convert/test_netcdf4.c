/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions to NetCDF-4: what comes back, what is refused, and that an interrupted one leaves
 * nothing. That others read it equal is held by parity/convert/netcdf4.
 */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "convert/netcdf4.h"

#define ROWS    20
#define COLUMNS 12

static float values[ROWS * COLUMNS];

/* An array "t2m" in the group mem://SOURCE, of some type and names. */
static void make_source(stk_context *ctx, const char *url, stk_dtype dtype, const char *name)
{
    static const char *const names[] = {"y", "x"};
    const int64_t shape[] = {ROWS, COLUMNS}, chunk[] = {6, 5};
    const char *const other[] = {"y", name};
    stk_array_writer_options o;
    stk_array_writer *w = NULL;
    stk_error err;

    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (float)i / 4;
    stk_array_writer_options_init(&o);
    o.dtype = dtype;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.dimension_names = name ? other : names;
    o.attributes = "{\"units\": \"K\"}";
    assert_ok(stk_array_writer_create(ctx, url, &o, &w, &err), &err);
    if (dtype == STK_FLOAT32)
        assert_ok(stk_array_writer_write(w, NULL, NULL, values, &err), &err);
    assert_ok(stk_array_writer_finish(&w, &err), &err);
}

static stk_status convert(stk_context *ctx, const char *source, const char *target,
                          const stk_convert_arrays_options *own, bool overwrite, stk_error *err)
{
    stk_convert_options options;
    stk_conversion *conversion = NULL;

    stk_convert_options_init(&options);
    options.overwrite = overwrite;
    stk_status status = stk_conversion_create(ctx, source, target, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &options, own, NULL, err);
    stk_conversion_destroy(&conversion);
    return status;
}

static void own_init(stk_convert_arrays_options *own)
{
    stk_options_init(stk_option_table_find("arrays"), own, sizeof *own);
}

/* Names in a folder, hidden ones too, but for "." and "..". */
static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

static void expect_equal(stk_context *ctx, const char *target, const char *path)
{
    float got[ROWS * COLUMNS];
    stk_array *array = NULL;
    char url[500];
    stk_error err;

    snprintf(url, sizeof url, "%s/%s?format=libhdf5", target, path);
    assert_ok(stk_array_open(ctx, url, NULL, &array, &err), &err);
    assert_string_equal(stk_array_get_info(array)->dimension_names[1], "x");
    assert_string_equal(stk_array_text(array, "units"), "K");
    assert_ok(stk_array_read(array, NULL, got, sizeof got, NULL, -1, &err), &err);
    assert_memory_equal(got, values, sizeof got);
    stk_array_close(&array);
}

static void test_there_and_back(void **state)
{
    stk_context *ctx = *state;
    stk_convert_arrays_options own;
    char folder[256], target[300];
    stk_error err;

    make_source(ctx, "mem://good/t2m", STK_FLOAT32, NULL);
    assert_ok(stk_group_consolidate(ctx, "mem://good", "{\"a\": 1}", &err), &err);
    snprintf(target, sizeof target, "%s/x.nc", test_folder(folder));
    assert_ok(convert(ctx, "mem://good", target, NULL, false, &err), &err);
    expect_equal(ctx, target, "t2m");
    /* It is not written over by mistake, and nothing is left of the attempt. */
    assert_fails(convert(ctx, "mem://good", target, NULL, false, &err), STK_EEXIST, &err,
                 "--overwrite");
    assert_int_equal(entries(folder), 1);
    own_init(&own);
    own.codec = 0;
    own.checksum = true;
    own.chunks = "y:4,x:12";
    assert_ok(convert(ctx, "mem://good/t2m", target, &own, true, &err), &err);
    expect_equal(ctx, target, "t2m");
    assert_int_equal(entries(folder), 1);
    test_folder_remove(folder);
}

static void test_refused_options(void **state)
{
    stk_convert_arrays_options own[8];
    static const char *const why[] = {
        "none or zlib", "levels from 1 to 9", "none or byte",        "zarr_format", "parts",
        "shards",       "dimension 'z'",      "shuffle does nothing"};
    stk_conversion *conversion = NULL;
    stk_convert_options common;
    char folder[256], target[300];
    stk_error err;

    make_source(*state, "mem://options/t2m", STK_FLOAT32, NULL);
    snprintf(target, sizeof target, "%s/x.nc", test_folder(folder));
    for (size_t i = 0; i < STK_COUNT(own); i++)
        own_init(&own[i]);
    own[0].codec = 1;
    own[1].level = 22;
    own[2].shuffle = 3;
    own[3].zarr_format = 1;
    own[4].part = "1/2";
    own[5].shards = "y:12";
    own[6].unlimited = "y, z";
    own[7].codec = 0;
    own[7].shuffle = 2;
    for (size_t i = 0; i < STK_COUNT(own); i++) {
        const stk_status status =
            convert(*state, "mem://options/t2m", target, &own[i], false, &err);
        assert_int_not_equal(status, STK_OK);
        assert_non_null(strstr(err.text, why[i]));
        assert_int_equal(entries(folder), 0);
    }
    stk_convert_options_init(&common);
    common.checkpoint = 3;
    assert_ok(stk_conversion_create(*state, "mem://options/t2m", target, &conversion, &err), &err);
    assert_fails(stk_conversion_run(conversion, &common, NULL, NULL, &err), STK_EINVAL, &err,
                 "checkpoint does nothing");
    stk_conversion_destroy(&conversion);
    own_init(&own[0]);
    own[0].unlimited = "y";
    assert_fails(convert(*state, "mem://options/t2m", "mem://options/x.zarr", &own[0], false, &err),
                 STK_EINVAL, &err, "arrays.unlimited");
    test_folder_remove(folder);
}

static void make_texts(stk_context *ctx, const char *url)
{
    const int64_t shape = 2;
    stk_array_writer_options options;
    stk_array_writer *writer = NULL;
    stk_error err;

    stk_array_writer_options_init(&options);
    options.type_name = "string";
    options.rank = 1;
    options.shape = options.chunk_shape = &shape;
    assert_ok(stk_array_writer_create(ctx, url, &options, &writer, &err), &err);
    assert_ok(stk_array_writer_finish(&writer, &err), &err);
}

static void test_refused_arrays(void **state)
{
    stk_context *ctx = *state;
    char folder[256], target[300];
    stk_error err;

    snprintf(target, sizeof target, "%s/x.nc", test_folder(folder));
    make_source(ctx, "mem://half/t2m", STK_FLOAT16, NULL);
    assert_fails(convert(ctx, "mem://half/t2m", target, NULL, false, &err), STK_EKIND, &err,
                 "'t2m' is float16, which NetCDF-4 does not have: choose astype");
    make_source(ctx, "mem://complex/t2m", STK_COMPLEX64, NULL);
    assert_fails(convert(ctx, "mem://complex/t2m", target, NULL, false, &err), STK_EKIND, &err,
                 "complex64, which NetCDF-4 does not have: leave it out");
    make_texts(ctx, "mem://texts/t2m");
    assert_fails(convert(ctx, "mem://texts/t2m", target, NULL, false, &err), STK_EKIND, &err,
                 "string of varying length");
    make_source(ctx, "mem://names/a", STK_FLOAT32, "y");
    assert_fails(convert(ctx, "mem://names/a", target, NULL, false, &err), STK_EINVAL, &err,
                 "a name has one length");
    make_source(ctx, "mem://good2/t2m", STK_FLOAT32, NULL);
    assert_fails(convert(ctx, "mem://good2/t2m", "mem://there/x.nc", NULL, false, &err),
                 STK_ENOTSUP, &err, "written to local files");
    assert_int_equal(entries(folder), 0);
    test_folder_remove(folder);
}

/* Two variables along one unlimited dimension: libhdf5 does not make the shorter one as long. */
static void test_lengths(void **state)
{
    static const char file[] = TESTS_DIR "/golden/array/libhdf5/lengths.nc";
    stk_array *array = NULL;
    char url[500];
    stk_error err;

    snprintf(url, sizeof url, "%s?format=libhdf5", file);
    assert_fails(convert(*state, url, "mem://lengths/a.zarr", NULL, false, &err), STK_EINVAL, &err,
                 "3 and 2 elements along the dimension 'time'");
    assert_ok(convert(*state, file, "mem://lengths/b.zarr", NULL, false, &err), &err);
    assert_ok(stk_array_open(*state, "mem://lengths/b.zarr/short", NULL, &array, &err), &err);
    assert_int_equal(stk_array_get_info(array)->shape[0], 3);
    stk_array_close(&array);
}

/* ---- The target alone ---- */

static bool never(const stk_conversion_job *job)
{
    (void)job;
    return false;
}

static bool at_once(const stk_conversion_job *job)
{
    (void)job;
    return true;
}

static const int64_t side[1] = {4};
static const char *const side_name[1] = {"x"};
#define LINE(where, names_, ...)                                                                   \
    {                                                                                              \
        .path = where, .is_array = true, .dtype = STK_INT8, .type_name = "int8", .itemsize = 1,    \
        .rank = 1, .shape = side, .chunk_shape = side, .object_shape = side,                       \
        .dimension_names = names_, __VA_ARGS__                                                     \
    }

static const stk__target_node pair[2] = {
    {.path = "", .attributes = "{}"},
    LINE("v", side_name, .attributes = "{}", .fill_value = values)};

/* The only child of this process, 0: there is none. */
static pid_t only_child(void)
{
    char text[32] = "";

    FILE *file = fopen("/proc/thread-self/children", "r");
    if (!file)
        return 0;
    (void)!fgets(text, sizeof text, file);
    fclose(file);
    return (pid_t)strtol(text, NULL, 10);
}

/* A group has the dimensions of those above it, but for those whose coordinate it has itself. */
static void test_dimensions_of_groups(void **state)
{
    static const char *const y[1] = {"y"};
    static const stk__target_node nodes[] = {LINE("g/own/v", side_name), LINE("g/own/x", side_name),
                                             LINE("g/v", side_name),     LINE("g/w", y),
                                             LINE("x", side_name),       LINE("y", side_name)};
    stk__netcdf4_plan plan;
    stk_error err;

    assert_ok(stk__netcdf4_plan_make(*state, nodes, STK_COUNT(nodes), "data", &plan, &err), &err);
    assert_int_equal(plan.num_dimensions, 3);
    assert_string_equal(plan.dimensions[0].path, "x");
    assert_string_equal(plan.dimensions[1].path, "g/y");
    assert_string_equal(plan.dimensions[2].path, "g/own/x");
    for (size_t i = 0; i < plan.num_variables; i++) {
        const stk__netcdf4_variable *v = &plan.variables[i];
        const char *path = nodes[v->node].path;
        const size_t of = strncmp(path, "g/own/", 6) == 0 ? 2 : strcmp(path, "g/w") == 0 ? 1 : 0;
        assert_int_equal(v->dimensions[0], of);
        assert_string_equal(v->path, path);
        assert_int_equal(v->scale, strcmp(path, "x") == 0         ? 0
                                   : strcmp(path, "g/own/x") == 0 ? 2
                                                                  : SIZE_MAX);
    }
    /* Those without a variable come first. */
    assert_int_equal(plan.dimensions[1].number, 0);
    stk__netcdf4_plan_release(&plan);
}

/* Killed before, between and after what is written: an error, and no file. */
static void test_killed_in_the_middle(void **state)
{
    const int64_t start[1] = {0}, strides[1] = {1};
    const stk__target_box box = {.start = start, .shape = side, .data = "abcd", .strides = strides};
    const stk__target_part all = {0};
    stk_convert_options options;
    stk_convert_arrays_options own;
    char folder[256], target[300];
    stk_error err;

    snprintf(target, sizeof target, "%s/x.nc", test_folder(folder));
    stk_convert_options_init(&options);
    own_init(&own);
    stk_conversion_job job = {.struct_size = sizeof job,
                              .context = *state,
                              .source = "mem://x",
                              .target = target,
                              .options = &options,
                              .own = &own,
                              .canceled = never};
    const stk__array_target_ops *ops = &stk__array_target_netcdf4;
    for (int after = 0; after < 3; after++) {
        stk__array_target *t = NULL;
        assert_ok(ops->open(&job, pair, 2, &all, 1, &t, &err), &err);
        if (after == 1)
            assert_ok(ops->write(t, 0, 1, &box, &err), &err);
        const pid_t child = only_child();
        if (after < 2) {
            if (!child) {
                ops->close(t);
                skip();
            }
            assert_int_equal(kill(child, SIGKILL), 0);
            assert_fails(after ? ops->finish(t, &err) : ops->write(t, 0, 1, &box, &err),
                         STK_ESYSTEM, &err, "SIGKILL");
        } else {
            job.canceled = at_once;
            assert_int_equal(kill(child, SIGSTOP), 0);
            assert_int_equal(ops->write(t, 0, 1, &box, &err), STK_ECANCELED);
        }
        ops->close(t);
        assert_int_equal(entries(folder), 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    test_folder_remove(folder);
}

/* What a kill of the whole conversion has left is taken away by the next. */
static void test_begins_again(void **state)
{
    char folder[256], target[300];
    stk_error err;

    make_source(*state, "mem://again/t2m", STK_FLOAT32, NULL);
    snprintf(target, sizeof target, "%s/x.nc", test_folder(folder));
    test_write(folder, ".stoker-put-x.nc", "half", 4);
    assert_ok(convert(*state, "mem://again/t2m", target, NULL, false, &err), &err);
    expect_equal(*state, target, "t2m");
    assert_int_equal(entries(folder), 1);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_refused_arrays), cmocka_unit_test(test_killed_in_the_middle),
        cmocka_unit_test(test_begins_again),   cmocka_unit_test(test_dimensions_of_groups),
        cmocka_unit_test(test_lengths),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
