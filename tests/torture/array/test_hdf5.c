/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing and reading HDF5 files while the n-th allocation fails, for every n until all succeed:
 * STK_ENOMEM or success, the right values, nothing left behind.
 */
#include "golden/array/pack.h"
#include "support/faults.h"

/* What is tortured: a file of the pack, and an array of it with its values. */
static const struct {
    const char *pack, *file, *array, *expected;
} programs[] = {
    {"hdf5_chunks", "files/masks_old.h5", "masks", "masks_old.masks/expected"},
    {"hdf5_chunks", "files/masks_new.h5", "masks", "masks_new.masks/expected"},
    {"hdf5", "files/shared.h5", "y", "shared.y/expected"},
    {"hdf5", "files/netcdf.h5", "t2m", "netcdf.t2m/expected"},
    {"hdf5", "files/groups_new.h5", "a/b/soft", "groups_new.a.b.soft/expected"},
    {"hdf5_chunks", "files/absent_latest.h5", "never", "absent_latest.never/expected"},
};

typedef struct tortured {
    char *file, *expected;
    uint64_t file_bytes, bytes;
    const char *array;
} tortured;

/* The array of a group; one that is reached by a soft link is no node. */
static stk_status open_array(stk_context *ctx, const tortured *t, stk_array **out, stk_error *err)
{
    char url[128];

    snprintf(url, sizeof url, "mem://t/a.h5/%s?num_threads=1", t->array);
    return stk_array_open(ctx, url, NULL, out, err);
}

static stk_status use(stk_context *ctx, const tortured *t, stk_error *err)
{
    char *out = malloc(t->bytes + 1);
    stk_group *g = NULL;
    stk_array *a = NULL;

    assert_non_null(out);
    stk_status status = stk_group_open(ctx, "mem://t/a.h5", &g, err);
    if (status == STK_OK)
        status = open_array(ctx, t, &a, err);
    if (status == STK_OK)
        status = stk_array_read(a, NULL, out, t->bytes, NULL, -1, err);
    if (status == STK_OK)
        assert_memory_equal(out, t->expected, t->bytes);
    stk_array_close(&a);
    stk_group_close(&g);
    free(out);
    return status;
}

/* True when no allocation failed. */
static bool run(const tortured *t, int64_t n, bool for_good)
{
    faults f = {.left = FAULTS_NONE, .for_good = for_good};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_store *store = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_ok(stk_store_open(ctx, "mem://t", &store, NULL, 0, &err), &err);
    assert_ok(stk_store_put(store, "a.h5", t->file, t->file_bytes, NULL, &err), &err);
    f.left = n;
    const stk_status status = use(ctx, t, &err);
    const bool all = !fault_struck(&f);
    f.left = FAULTS_NONE;
    if (status != STK_OK && status != STK_ENOMEM)
        fail_msg("%s, allocation %lld: %s: %s", t->array, (long long)n, stk_status_name(status),
                 err.text);
    if (all)
        assert_int_equal(status, STK_OK);
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    return all;
}

static void test_allocations(void **state)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        tortured t = {.array = programs[i].array};
        t.file = pack_find(programs[i].pack, programs[i].file, &t.file_bytes);
        t.expected = pack_find(programs[i].pack, programs[i].expected, &t.bytes);
        for (int for_good = 0; for_good < 2; for_good++) {
            int64_t n = 0;
            while (!run(&t, n, for_good)) {
                n += 1 + n / 64; /* all of the first, then some */
                assert_true(n < 200000);
            }
            assert_true(n > 20);
        }
        free(t.file);
        free(t.expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
