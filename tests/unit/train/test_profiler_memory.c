/* SPDX-License-Identifier: Apache-2.0 */
/* Fail each allocation of a profile in turn: the fit goes on, the status says what is missing. */
#include "support/faults.h"
#include "unit/train/profiles.h"

static void each_fails(void **state)
{
    stk_profile_options o;
    stk_context_options c;
    stk_profile *p;
    stk_trainer *t;
    bench b;
    tiny m;
    int64_t n = -1;
    faults f = {.left = FAULTS_NONE};

    bench_open(&b);
    stk_dataset_close(&b.dataset);
    stk_context_destroy(&b.ctx);
    stk_context_options_init(&c);
    c.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    for (bool reached = true; reached;) {
        stk_context *ctx;
        stk_dataset *dataset;
        n++;
        assert_ok(stk_context_create(&c, &ctx, &b.err), &b.err);
        assert_ok(stk_dataset_open(ctx, "synthetic:?size=40&shape=2x2x1", &dataset, &b.err),
                  &b.err);
        b.train.dataset = b.val.dataset = dataset;
        assert_ok(stk_trainer_create(ctx, &b.options, &t, &b.err), &b.err);
        listen_to(t);
        profile_options(&o, "simple,advanced,trace", b.folder, NULL);
        o.max_events = 100;
        tiny_init(&m);
        f.left = n;
        stk_status status = stk_profile_create(t, &o, &p, &b.err);
        if (status == STK_OK) {
            status = stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err);
            stk_status closed = stk_profile_close(&p, status == STK_OK ? &b.err : NULL);
            status = status == STK_OK ? closed : status;
        }
        reached = fault_struck(&f);
        f.left = FAULTS_NONE;
        if (reached && status != STK_OK)
            assert_int_equal(status, STK_ENOMEM);
        if (!reached)
            assert_int_equal(status, STK_OK);
        stk_trainer_destroy(&t);
        stk_dataset_close(&dataset);
        stk_context_destroy(&ctx);
        assert_int_equal(f.held, 0);
    }
    assert_true(n > 100);
    test_folder_remove(b.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_fails)};

    return cmocka_run_group_tests_name("train/profiler_memory", tests, NULL, NULL);
}
