/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files joined along a dimension: windows across their edges, each chunk decoded once, and files
 * that do not go together. That boxes of them read equal is golden/array/packs.
 */
#include "golden/array/pack.h"
#include "support/objects.h"
#include "unit/dataset/windows.h"

#define STEPS 9 /* of files of 5, 1, 0 and 3 */
#define PLACE (4 * 6)

static float *expected(stk_store *store)
{
    uint64_t size;
    float *values = test_get(store, "join.t/expected", &size);

    assert_int_equal(size, STEPS * PLACE * sizeof *values);
    return values;
}

static void test_windows(void **state)
{
    static const char *const queries[] = {"window=time:3&stride=time:1",
                                          "window=time:4,y:2,x:5&stride=time:1,y:1,x:1",
                                          "window=time:9", "window=time:2&range=time:4:8"};
    stk_context *ctx = test_context();
    stk_store *store;
    char spec[256];

    pack_load(ctx, "netcdf3", &store);
    float *values = expected(store);
    for (size_t q = 0; q < STK_COUNT(queries); q++) {
        snprintf(spec, sizeof spec, "array:mem://pack/files/join_*.nc/t?concat=time&%s",
                 queries[q]);
        stk_dataset *d = open_windows(ctx, spec);
        stk_loader_options o = window_options();
        stk_tensor data = {.struct_size = sizeof data};
        o.batch_size = (int64_t)d->size;
        delivery b = first_batch(d, &o);
        const float *at = field_of(&b, "data", &data);
        for (uint64_t i = 0; i < d->size; i++) {
            int64_t start[STK__WINDOW_DIMS];
            stk__window_start((stk__window *)d, i, start);
            for (int64_t t = 0; t < data.shape[1]; t++)
                for (int64_t y = 0; y < data.shape[2]; y++)
                    for (int64_t x = 0; x < data.shape[3]; x++)
                        assert_true(*at++ ==
                                    values[((start[0] + t) * 4 + start[1] + y) * 6 + start[2] + x]);
        }
        close_batch(&b);
        stk_dataset_close(&d);
    }
    free(values);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Windows that overlap, over all files in one batch: each of the 9 records is decoded once. */
static void test_once(void **state)
{
    stk_context *ctx = test_context();
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_store *store;

    pack_load(ctx, "netcdf3", &store);
    stk_dataset *d = open_windows(
        ctx, "array:mem://pack/files/join_*.nc/t?concat=time&window=time:3&stride=time:1");
    stk_loader_options o = window_options();
    o.batch_size = (int64_t)d->size;
    delivery b = first_batch(d, &o);
    stk_loader_get_stats(b.loader, &stats);
    assert_int_equal(d->size, 7);
    assert_int_equal(stats.chunks_needed, 21);
    assert_int_equal(stats.chunks_decoded, STEPS);
    close_batch(&b);
    stk_dataset_close(&d);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Several variables of the same files. */
static void test_variables(void **state)
{
    stk_context *ctx = test_context();
    stk_tensor t = {.struct_size = sizeof t}, time = {.struct_size = sizeof time};
    stk_store *store;

    pack_load(ctx, "netcdf3", &store);
    float *values = expected(store);
    stk_dataset *d = open_windows(ctx, "array:mem://pack/files/join_*.nc?concat=time&"
                                       "variables=t,time&window=time:9");
    delivery b = first_batch(d, NULL);
    const double *at = field_of(&b, "t", &t); /* the type of both is that of the wider */
    for (size_t i = 0; i < STEPS * PLACE; i++)
        assert_true(at[i] == (double)values[i]);
    at = field_of(&b, "time", &time);
    for (size_t i = 0; i < STEPS; i++)
        assert_true(at[i] == (double)i);
    close_batch(&b);
    stk_dataset_close(&d);
    free(values);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* By the coordinate in all files, of one array and of several, which make no group. */
static void test_select(void **state)
{
    static const char *const specs[] = {
        "array:mem://pack/files/join_*.nc/t?concat=time&window=time:2&select=time=3:6",
        "array:mem://pack/files/join_*.nc?concat=time&variables=t&window=time:2&select=time=3:6"};
    stk_context *ctx = test_context();
    stk_store *store;

    pack_load(ctx, "netcdf3", &store);
    for (size_t i = 0; i < STK_COUNT(specs); i++) {
        int64_t start[STK__WINDOW_DIMS];
        stk_dataset *d = open_windows(ctx, specs[i]);
        assert_int_equal(d->size, 2);
        stk__window_start((stk__window *)d, 1, start);
        assert_int_equal(start[0], 5);
        stk_dataset_close(&d);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    static const struct {
        const char *url;
        stk_status status;
        const char *says;
    } cases[] = {
        {"join_*.nc/t?concat=depth", STK_EINVAL, "no dimension 'depth', but: time, y, x"},
        {"join_*.nc/t?concat=3", STK_EINVAL, "no dimension '3'"},
        {"join_0.nc/t?concat=time", STK_EINVAL, "names one file"},
        {"nothing_*.nc/t?concat=time", STK_ENOENT, "no file fits 'nothing_*.nc'"},
        {"join_*.nc/u?concat=time", STK_ENOENT, "no variable 'u'"},
        {"join_1.nc,join_0.nc/t?concat=time", STK_EMISMATCH, "join_0.nc: the coordinate"},
        {"join_0.nc,join_0.nc/t?concat=time", STK_EMISMATCH, "join_0.nc: the coordinate"},
        {"alone_i2.nc,alone_i4.nc/v?concat=time", STK_EMISMATCH,
         "alone_i4.nc has another type or byte order than alone_i2.nc"},
        {"classic.nc,offset64.nc/one_i2?concat=0", STK_EINVAL, "no dimension along which"},
        {"classic.nc,join_0.nc/time?concat=time", STK_ENOENT, "no variable 'time'"},
        {"classic.nc,other.nc/fixed_i2?concat=x", STK_EMISMATCH, "another fill value"},
        {"classic.nc,units.nc/fixed_i4?concat=x", STK_EMISMATCH, "another 'units'"},
        {"refs.json,old.json/whole?concat=0", STK_ENOTSUP, "are not joined"},
    };
    stk_context *ctx = test_context();
    stk_store *store;
    stk_array *a = NULL;
    stk_error err;
    char url[128];
    uint64_t size;

    pack_load(ctx, "netcdf3", &store);
    /* The same file with another _FillValue, which is the only 7 of a short. */
    uint8_t *file = test_get(store, "files/classic.nc", &size);
    for (uint64_t i = 0; i + 24 < size; i++)
        if (memcmp(file + i, "_FillValue", 10) == 0)
            file[i + 21] = 8;
    test_put(store, "files/other.nc", file, size);
    for (uint64_t i = 0; i + 24 < size; i++)
        if (memcmp(file + i, "units", 5) == 0)
            file[i + 16] = 'C';
    test_put(store, "files/units.nc", file, size);
    free(file);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        snprintf(url, sizeof url, "mem://pack/files/%s", cases[i].url);
        stk_error_init(&err);
        assert_fails(stk_array_open(ctx, url, NULL, &a, &err), cases[i].status, &err,
                     cases[i].says);
        assert_null(a);
    }
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Files that do not fit make no group, either: the reason is theirs. */
static void test_reason(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_store *store;
    stk_error err;

    pack_load(ctx, "netcdf3", &store);
    stk_error_init(&err);
    assert_fails(
        stk_dataset_open(ctx, "array:mem://pack/files/join_1.nc,join_0.nc/t?concat=time", &d, &err),
        STK_EMISMATCH, &err, "join_0.nc: the coordinate");
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),   cmocka_unit_test(test_once),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_select),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
