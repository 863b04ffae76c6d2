/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NetCDF-3 files, files that are joined, and references, read and written, while the n-th
 * allocation fails, for every n until all succeed: STK_ENOMEM or success, the right values, nothing
 * left behind.
 */
#include <stdlib.h>
#include <string.h>

#include "array/kerchunk/kerchunk.h"
#include "golden/array/pack.h"
#include "support/faults.h"

static size_t whole; /* bytes of the references to a file; 0: not known yet */

/* What is read, after the group, and the file of the pack with its values. */
static const struct {
    const char *group, *array, *expected, *format;
} programs[] = {
    {"classic.nc", "classic.nc/record_i2", "classic.nc.record_i2/expected", "netcdf3"},
    {"cdf5.nc", "cdf5.nc/fixed_i8", "cdf5.nc.fixed_i8/expected", "netcdf3"},
    {NULL, "join_*.nc/t?concat=time", "join.t/expected", "netcdf3"},
    {NULL, "join_*.nc/f?concat=y", "join.f/expected", "netcdf3"},
    {"refs.json", "refs.json/rows", "refs.json.rows/expected", "kerchunk"},
    {"refs.json/sub", "refs.json/sub/b", "refs.json.sub.b/expected", "kerchunk"},
};

/* Whole references to a file, or none. */
static stk_status write_references(stk_context *ctx, stk_group *g, stk_error *err)
{
    stk__kerchunk_written written;
    stk__text text = {0};

    const stk_status status = stk__kerchunk_write(ctx, g, "classic.nc", &text, &written, err);
    if (status == STK_OK)
        assert_true(text.length == whole || !whole);
    whole = status == STK_OK ? text.length : whole;
    stk__text_release(&text);
    return status;
}

static stk_status use(stk_context *ctx, size_t which, const char *wanted, uint64_t bytes,
                      stk_error *err)
{
    char *out = malloc(bytes + 1), url[128];
    stk_status status = STK_OK;
    stk_group *g = NULL;
    stk_array *a = NULL;

    assert_non_null(out);
    snprintf(url, sizeof url, "mem://pack/files/%s", programs[which].group);
    if (programs[which].group)
        status = stk_group_open(ctx, url, &g, err);
    /* A format that could not look at the file left it to another, which names what it lacks. */
    if (status != STK_OK)
        status = STK_ENOMEM;
    if (status == STK_OK && which == 0)
        status = write_references(ctx, g, err);
    snprintf(url, sizeof url, "mem://pack/files/%s%cnum_threads=1&format=%s", programs[which].array,
             strchr(programs[which].array, '?') ? '&' : '?', programs[which].format);
    if (status == STK_OK)
        status = stk_array_open(ctx, url, NULL, &a, err);
    if (status == STK_OK)
        status = stk_array_read(a, NULL, out, bytes, NULL, -1, err);
    if (status == STK_OK)
        assert_memory_equal(out, wanted, bytes);
    stk_array_close(&a);
    stk_group_close(&g);
    free(out);
    return status;
}

/* True when no allocation failed. */
static bool run(stk_context *ctx, faults *f, size_t which, int64_t n, const char *wanted,
                uint64_t bytes)
{
    stk_error err;

    f->left = n;
    stk_error_init(&err);
    const stk_status status = use(ctx, which, wanted, bytes, &err);
    const bool all = !fault_struck(f);
    f->left = FAULTS_NONE;
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("%s, allocation %lld: %s: %s", programs[which].array, (long long)n,
                 stk_status_name(status), err.text);
    if (all)
        assert_int_equal(status, STK_OK);
    return all;
}

static void test_allocations(void **state)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int for_good = 0; for_good < 2; for_good++) {
            faults f = {.left = FAULTS_NONE, .for_good = for_good};
            stk_context_options options;
            stk_context *ctx = NULL;
            stk_store *store = NULL;
            uint64_t bytes;
            int64_t n = 0;
            stk_error err;
            stk_context_options_init(&options);
            options.io_engine = STK_IO_THREADS;
            options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
            assert_ok(stk_context_create(&options, &ctx, &err), &err);
            pack_load(ctx, "netcdf3", &store);
            char *wanted = pack_find("netcdf3", programs[i].expected, &bytes);
            while (!run(ctx, &f, i, n, wanted, bytes))
                assert_true(n++ < 100000);
            assert_true(n > 20);
            free(wanted);
            stk_store_close(&store);
            stk_context_destroy(&ctx);
            assert_int_equal(f.held, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
