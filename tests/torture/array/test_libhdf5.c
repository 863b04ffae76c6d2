/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file read by stoker-hdf5 while the n-th allocation of this process fails, or the n-th read of
 * the store, for every n until all succeed: the failure is told, nothing is left behind, and no
 * process.
 */
#include "support/support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/faults.h"

#define FILE_ TESTS_DIR "/golden/array/libhdf5/kinds.h5/chunked?format=libhdf5&num_threads=1"

static stk_status read_all(stk_context *ctx, const char *url, stk_error *err)
{
    int64_t out[70] = {0};
    stk_array *array = NULL;

    stk_status status = stk_array_open(ctx, url, NULL, &array, err);
    if (status == STK_OK)
        status = stk_array_read(array, NULL, out, sizeof out, NULL, -1, err);
    for (int i = 0; status == STK_OK && i < 70; i++)
        assert_int_equal(out[i], i);
    stk_array_close(&array);
    return status;
}

static void no_child_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void test_memory(void **state)
{
    faults f = {.left = FAULTS_NONE};
    stk_context_options options;
    stk_context *ctx = NULL;
    bool struck = true;
    stk_error err;

    (void)state;
    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    options.io_engine = STK_IO_THREADS;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    const int64_t held = f.held;
    for (int n = 0; struck; n++) {
        f.left = n;
        const stk_status status = read_all(ctx, FILE_, &err);
        struck = fault_struck(&f);
        f.left = FAULTS_NONE;
        assert_true(status == STK_OK || status == STK_ENOMEM);
        assert_true(status == STK_OK || struck);
        assert_int_equal(f.held, held);
        no_child_is_left();
    }
    stk_context_destroy(&ctx);
}

/* A store that fails: what was under way ends, and the process with it. */
static void test_reads(void **state)
{
    static const char *const kinds[] = {"timeout", "io"};
    char url[500];
    stk_error err;

    for (size_t i = 0; i < 2; i++) {
        snprintf(url, sizeof url, "slow+file:%s&fail=1&fail_kind=%s", FILE_, kinds[i]);
        assert_int_not_equal(read_all(*state, url, &err), STK_OK);
        assert_true(*err.text);
        no_child_is_left();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_reads)};

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
