/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of HDF5 files: chunks that were written without some filters, chunks that never were, and
 * all variables of a NetCDF file, held against what h5py and netCDF4 read. */
#include "golden/array/pack.h"
#include "unit/dataset/windows.h"

/* Every element of every window of 3 x 4 x 5 of an array of int32, by place. */
static void check_windows(const char *pack, const char *path, const char *expected_key,
                          const char *options, int32_t itemsize)
{
    enum { WT = 3, WY = 4, WX = 5, T = 11, Y = 9, X = 7 };
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    uint64_t bytes = 0, windows = 0;
    char spec[256];
    stk_error err;

    pack_load(ctx, pack, &store);
    char *expected = pack_find(pack, expected_key, &bytes);
    assert_int_equal(bytes, T * Y * X * itemsize);
    snprintf(spec, sizeof spec, "array:mem://pack/files/%s?window=3x4x5&%s", path, options);
    stk_dataset *dataset = open_windows(ctx, spec);
    stk_loader_options o = window_options();
    o.batch_size = 1;
    o.shuffle = STK_SHUFFLE_NONE;
    stk_loader *loader = NULL;
    stk_batch *batch;
    assert_ok(stk_loader_create(dataset, &o, &loader, &err), &err);
    stk_status status;
    while ((status = stk_loader_next(loader, 30000, &batch, &err)) == STK_OK) {
        stk_tensor field = {.struct_size = sizeof field};
        assert_int_equal(stk_batch_find(batch, "data", &field), STK_OK);
        const char *data = field.data;
        int found = 0;
        /* Where it lies follows from its values alone: windows do not overlap. */
        for (int t = 0; t + WT <= T; t += WT)
            for (int y = 0; y + WY <= Y; y += WY)
                for (int x = 0; x + WX <= X; x += WX) {
                    bool same = true;
                    for (int i = 0; i < WT * WY && same; i++)
                        same =
                            memcmp(data + (size_t)(i * WX * itemsize),
                                   expected + (size_t)((((t + i / WY) * Y + y + i % WY) * X + x) *
                                                       itemsize),
                                   (size_t)(WX * itemsize)) == 0;
                    found += same;
                }
        assert_int_equal(found, 1);
        windows++;
        stk_batch_release(&batch);
    }
    assert_int_equal(status, STK_EOS);
    assert_int_equal(windows, (T / WT) * (Y / WY) * (X / WX));
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    free(expected);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

static void test_masks(void **state)
{
    check_windows("hdf5_chunks", "masks_old.h5/masks", "masks_old.masks/expected", "missing=error",
                  4);
    check_windows("hdf5_chunks", "masks_new.h5/masks", "masks_new.masks/expected", "missing=error",
                  4);
    check_windows("hdf5_chunks", "edges.h5/edges_fixed", "edges.edges_fixed/expected",
                  "missing=error", 4);
}

static void test_layouts(void **state)
{
    check_windows("hdf5_chunks", "indexes_latest.h5/contiguous",
                  "indexes_latest.contiguous/expected", "missing=error", 2);
    check_windows("hdf5_chunks", "indexes_latest.h5/grows_last",
                  "indexes_latest.grows_last/expected", "missing=error", 2);
    check_windows("hdf5_chunks", "indexes_earliest.h5/filtered",
                  "indexes_earliest.filtered/expected", "missing=error", 2);
    check_windows("hdf5_chunks", "early.h5/implicit", "early.implicit/expected", "missing=error",
                  4);
}

static void test_never_written(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;
    stk_dataset *dataset;
    stk_error err;

    pack_load(ctx, "hdf5_chunks", &store);
    dataset = open_windows(ctx, "array:mem://pack/files/absent_latest.h5/sparse?window=6x5");
    delivery d = first_batch(dataset, NULL);
    stk_tensor field = {.struct_size = sizeof field};
    const int16_t *values = field_of(&d, "data", &field);
    for (int i = 0; i < 6 * 5; i++) /* the window at 0, 0 */
        assert_int_equal(values[i], -300);
    close_batch(&d);
    stk_dataset_close(&dataset);
    assert_fails(stk_dataset_open(
                     ctx, "array:mem://pack/files/absent_latest.h5/sparse?window=6x5&missing=error",
                     &dataset, &err),
                 STK_ENOENT, &err, "missing");
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

/* Variables of one file over common dimensions; those that are no numbers are left out. */
static void test_variables(void **state)
{
    stk_context *ctx = test_context();
    stk_store *store = NULL;

    pack_load(ctx, "hdf5", &store);
    stk_dataset *dataset = open_windows(
        ctx, "array:mem://pack/files/netcdf.h5?variables=t2m,xy&window=lat:4,lon:5,time:2");
    stk_dataset_info info = {.struct_size = sizeof info};
    stk_dataset_get_info(dataset, &info);
    assert_int_equal(info.num_fields, 2);
    stk_dataset_close(&dataset);
    dataset = open_windows(ctx, "array:mem://pack/files/netcdf.h5/forecast?window=2x3");
    stk_dataset_close(&dataset);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_never_written),
        cmocka_unit_test(test_variables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
