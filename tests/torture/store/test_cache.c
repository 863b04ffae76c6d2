/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache, opened and read while the n-th allocation or thread start fails, for every n until all
 * succeed: the status of that or success, the right bytes, nothing left behind.
 */
#include "support/faulty_threads.h"

#include "support/cached.h"
#include "support/faults.h"

static void no_line(void *user, const char *name, const char *value)
{
}

/* All that a cache does, cold and warm. */
static stk_status use(const cached *c, stk_context *ctx, stk_error *err)
{
    static const char *const wrappers[] = {"", "slow+", ""};
    stk_status status = STK_OK;

    for (int i = 0; i < 3 && status == STK_OK; i++) {
        stk_store *store = NULL;
        unsigned char got[CACHED_SIZE];
        status = cached_try(c, ctx, wrappers[i], i == 1 ? "&latency=10us" : "", &store, err);
        if (status == STK_OK)
            status = stk_store_read(store, "x", 5, 3 * CACHED_BLOCK, got, err);
        if (status == STK_OK) {
            assert_memory_equal(got, c->bytes + 5, 3 * CACHED_BLOCK);
            status = stk_store_read(store, "x", 0, CACHED_SIZE, got, err);
        }
        if (status == STK_OK) {
            assert_memory_equal(got, c->bytes, CACHED_SIZE);
            status = stk_store_describe(store, "", no_line, NULL, err);
        }
        if (status == STK_OK && i == 2)
            status = stk_store_put(store, "y", got, 10, NULL, err);
        stk_store_close(&store);
    }
    return status;
}

/* True when nothing failed. */
static bool run(cached *c, faults *f, faults *memory, stk_status allowed, int64_t n)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    test_folder_remove(c->dir);
    assert_int_equal(mkdir(c->dir, 0700), 0);
    stk_context_options_init(&options);
    options.io_engine = STK_IO_THREADS;
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, memory};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    counted_add(ctx);
    f->left = n;
    stk_error_init(&err);
    const stk_status status = use(c, ctx, &err);
    const bool all = !fault_struck(f);
    f->left = FAULTS_NONE;
    if (status != STK_OK && status != allowed)
        fail_msg("call %lld: %s: %s", (long long)n, stk_status_name(status), err.text);
    if (all)
        assert_int_equal(status, STK_OK);
    stk_context_destroy(&ctx);
    assert_int_equal(memory->held, 0);
    return all;
}

static void test_allocations(void **state)
{
    for (int for_good = 0; for_good < 2; for_good++) {
        faults f = {.left = FAULTS_NONE, .for_good = for_good};
        int64_t n = 0;
        while (!run(*state, &f, &f, STK_ENOMEM, n)) {
            n = fault_next(n);
            assert_true(n < 10000);
        }
        assert_true(n > 20);
    }
}

static void test_threads(void **state)
{
    for (int for_good = 0; for_good < 2; for_good++) {
        faults memory = {.left = FAULTS_NONE};
        int64_t n = 0;
        thread_faults.for_good = for_good;
        while (!run(*state, &thread_faults, &memory, STK_ETHREAD, n))
            assert_true(n++ < 100);
        assert_true(n > 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_allocations, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(test_threads, cached_set_up, cached_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
