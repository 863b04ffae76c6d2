/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversion to NetCDF-4 while the n-th allocation fails, for every n until all succeed: the file
 * is whole or not there, no memory is kept and no process is left.
 */
#include "support/support.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/faults.h"

#define N 12

static stk_status make_source(stk_context *ctx, stk_error *err)
{
    static const char *const names[2] = {"y", "x"};
    static uint16_t values[N * N];
    const int64_t shape[2] = {N, N}, chunk[2] = {5, 5};
    stk_array_writer_options o;
    stk_array_writer *w = NULL;

    for (int i = 0; i < N * N; i++)
        values[i] = (uint16_t)(i + 1);
    stk_array_writer_options_init(&o);
    o.dtype = STK_UINT16;
    o.rank = 2;
    o.shape = shape;
    o.chunk_shape = chunk;
    o.dimension_names = names;
    o.attributes = "{\"a\": [1, 2], \"b\": \"text\", \"c\": [\"x\", \"y\"], \"_FillValue\": 7}";
    stk_status status = stk_array_writer_create(ctx, "mem://t/v", &o, &w, err);
    if (status == STK_OK)
        status = stk_array_writer_write(w, NULL, NULL, values, err);
    return status == STK_OK ? stk_array_writer_finish(&w, err) : status;
}

static stk_status convert(stk_context *ctx, const char *target, stk_error *err)
{
    stk_convert_options options;
    stk_conversion *conversion = NULL;

    stk_convert_options_init(&options);
    options.num_workers = 0;
    stk_status status = stk_conversion_create(ctx, "mem://t/v", target, &conversion, err);
    if (status == STK_OK)
        status = stk_conversion_run(conversion, &options, NULL, NULL, err);
    stk_conversion_destroy(&conversion);
    return status;
}

/* One run; true: an allocation failed. */
static bool run(int64_t n, const char *target, bool for_good)
{
    faults f = {.left = FAULTS_NONE, .for_good = for_good};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_ok(make_source(ctx, &err), &err);
    const int64_t held = f.held;
    f.left = n;
    const stk_status status = convert(ctx, target, &err);
    const bool struck = fault_struck(&f);
    f.left = FAULTS_NONE;
    assert_int_equal(f.held, held);
    assert_true(status == STK_OK || struck);
    assert_int_equal(access(target, F_OK) == 0, status == STK_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    unlink(target);
    stk_context_destroy(&ctx);
    return struck;
}

static void test_memory(void **state)
{
    char folder[256], target[300];

    (void)state;
    snprintf(target, sizeof target, "%s/x.nc", test_folder(folder));
    for (int for_good = 0; for_good < 2; for_good++)
        for (int64_t n = 0; run(n, target, for_good); n += n < 40 ? 1 : 7)
            ;
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
