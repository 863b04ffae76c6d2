/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option `timeout`: it holds between the tasks of a consumer that works alone, and counts from
 * the first of several calls that gave nothing.
 */
#include "loader/parts.h"

#include "support/support.h"

enum { BATCH = 512, SLOW_NS = 1000000 };

static atomic_uint prepared;
static atomic_bool open_gate;

static void close_dataset(stk_dataset *dataset)
{
    (void)dataset;
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        stk__sleep_until(stk__now_ns() + SLOW_NS, NULL);
        memcpy(samples[i].values[0].out, &samples[i].index, sizeof samples[i].index);
        atomic_fetch_add(&prepared, 1);
    }
}

static void prepare_gated(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    while (!atomic_load(&open_gate))
        stk__sleep_until(stk__now_ns() + SLOW_NS, NULL);
    prepare(dataset, samples, n);
}

static void set_up(stk_dataset *dataset, stk_dataset_ops *ops, const stk_field *field,
                   int64_t workers, stk_loader **loader)
{
    stk_loader_options o;
    stk_error err;

    atomic_store(&prepared, 0);
    atomic_store(&open_gate, false);
    stk__dataset_init(dataset, ops, test_context(), BATCH, field, 1);
    stk_loader_options_init(&o);
    o.batch_size = workers ? 4 : BATCH;
    o.num_workers = workers;
    o.timeout = 0.02;
    o.epochs = 1;
    assert_ok(stk_loader_create(dataset, &o, loader, &err), &err);
}

/* A batch takes the consumer half a second: that is given up after 20 ms and some tasks, and goes
 * on with the next call. */
static void test_alone(void **state)
{
    const stk_field field = stk__field("x", STK_INT64, (const int64_t[]){-1}, false);
    stk_dataset_ops ops = {.struct_size = sizeof ops,
                           .name = "slow",
                           .doc = "For tests.",
                           .close = close_dataset,
                           .prepare = prepare};
    stk_dataset dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_status status;
    stk_error err;
    uint32_t before = 0, times = 0;

    (void)state;
    set_up(&dataset, &ops, &field, 0, &loader);
    while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_ETIMEDOUT) {
        assert_true(atomic_load(&prepared) > before);
        before = atomic_load(&prepared);
        times++;
    }
    assert_ok(status, &err);
    assert_true(times > 0);
    assert_int_equal(stk_batch_count(batch), BATCH);
    assert_int_equal(atomic_load(&prepared), BATCH);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_context_destroy(&dataset.context);
}

/* Each call looks for a moment only, and yet the timeout comes; then it counts anew. */
static void test_in_pieces(void **state)
{
    const stk_field field = stk__field("x", STK_INT64, (const int64_t[]){-1}, false);
    stk_dataset_ops ops = {.struct_size = sizeof ops,
                           .name = "gated",
                           .doc = "For tests.",
                           .close = close_dataset,
                           .prepare = prepare_gated};
    stk_dataset dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_status status;
    stk_error err;

    (void)state;
    set_up(&dataset, &ops, &field, 1, &loader);
    for (int round = 0; round < 2; round++) {
        const uint64_t since = stk__now_ns();
        uint64_t asked = 0;
        while ((status = stk_loader_next(loader, 1, &batch, &err)) == STK_EAGAIN) {
            /* The wait began with the first of these calls. */
            assert_true(loader->asked_ns >= since);
            assert_true(asked == 0 || asked == loader->asked_ns);
            asked = loader->asked_ns;
        }
        assert_true(loader->asked_ns == 0);
        assert_fails(status, STK_ETIMEDOUT, &err, "timeout");
        assert_true(stk__now_ns() - since >= 20 * UINT64_C(1000000));
    }
    atomic_store(&open_gate, true);
    while ((status = stk_loader_next(loader, -1, &batch, &err)) == STK_ETIMEDOUT)
        continue;
    assert_ok(status, &err);
    stk_batch_release(&batch);
    stk_loader_destroy(&loader);
    stk_context_destroy(&dataset.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_in_pieces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
