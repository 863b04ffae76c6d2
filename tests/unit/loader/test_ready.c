/* SPDX-License-Identifier: Apache-2.0 */
/* How full the ring is, as the log tells it with every step. */
#include "support/counting.h"

#include "base/base.h"

static stk_loader *open_loader(stk_dataset *dataset, int64_t workers)
{
    stk_loader_options options;
    stk_loader *loader;
    stk_error err;

    stk_loader_options_init(&options);
    options.batch_size = 8;
    options.num_workers = workers;
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    return loader;
}

static uint64_t ready(const stk_loader *loader)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};

    stk_loader_get_stats(loader, &stats);
    assert_true(stats.ready <= stats.depth + 1);
    return stats.ready;
}

/* Nobody takes a batch: it fills. The epoch's last batches are taken: it is empty. */
static void fills_and_empties(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 80});
    stk_loader *loader = open_loader(dataset, 2);
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_batch *batch;
    stk_error err;

    stk_loader_get_stats(loader, &stats);
    assert_true(stats.depth > 1);
    for (uint64_t until = stk__now_ns() + 20000000000u;
         ready(loader) <= stats.depth && stk__now_ns() < until;)
        stk__sleep_until(stk__now_ns() + 1000000, NULL);
    assert_int_equal(ready(loader), stats.depth + 1);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    /* Its place is still held. */
    assert_int_equal(ready(loader), stats.depth);
    stk_batch_release(&batch);
    for (int i = 1; i < 10; i++) {
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        stk_batch_release(&batch);
    }
    assert_int_equal(stk_loader_next(loader, -1, &batch, &err), STK_EOS);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Without workers nothing is prepared ahead. */
static void without_workers(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 80});
    stk_loader *loader = open_loader(dataset, 0);
    stk_batch *batch;
    stk_error err;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(ready(loader), 0);
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        stk_batch_release(&batch);
    }
    assert_int_equal(ready(loader), 0);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_and_empties),
        cmocka_unit_test(without_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
