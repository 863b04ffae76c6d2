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
#include "support/faulty_context.h"

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

/* Which program, and the values. */
typedef struct given {
    stk_context *ctx;
    size_t which;
    const char *wanted;
    uint64_t bytes;
} given;

static stk_status use(void *user, stk_error *err)
{
    const given *const v = user;
    stk_context *const ctx = v->ctx;
    const size_t which = v->which;
    const uint64_t bytes = v->bytes;
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
        assert_memory_equal(out, v->wanted, bytes);
    stk_array_close(&a);
    stk_group_close(&g);
    free(out);
    return status;
}

static void test_allocations(void **state)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int for_good = 0; for_good < 2; for_good++) {
            faults f = {.left = FAULTS_NONE, .for_good = for_good};
            given v = {.ctx = faulty_context(&f), .which = i};
            stk_store *store = NULL;
            pack_load(v.ctx, "netcdf3", &store);
            char *wanted = pack_find("netcdf3", programs[i].expected, &v.bytes);
            v.wanted = wanted;
            assert_true(faulty_each(&f, programs[i].array, 100000, use, &v) > 20);
            free(wanted);
            stk_store_close(&store);
            stk_context_destroy(&v.ctx);
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
