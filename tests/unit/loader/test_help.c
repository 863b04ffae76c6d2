/* SPDX-License-Identifier: Apache-2.0 */
/* A long row of a later batch keeps the consumer once, and not soon again. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "loader/parts.h"
#include "support/support.h"

#define BATCH   16
#define STEPS   320
#define FIRST   8   /* its rows keep the worker while the consumer waits for them */
#define SECOND  300 /* the same when all rows have been cheap for long */
#define LATE_NS 100000000u

static pthread_t consumer;
/* Of the late batch and of the straggler after it, the first time and the second. */
static atomic_bool late[2], straggles[2], by_consumer[2], delivered[2];

static void wait_for(atomic_bool *flag, uint64_t ns)
{
    for (uint64_t until = stk__now_ns() + ns; !atomic_load(flag) && stk__now_ns() < until;)
        stk__sleep_until(stk__now_ns() + 1000000, NULL);
}

static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    (void)dataset;
    for (size_t i = 0; i < n; i++) {
        const uint64_t index = samples[i].index, step = index / BATCH;
        const int k = step >= SECOND;
        memcpy(samples[i].values[0].out, &index, sizeof index);
        if (index % BATCH)
            continue;
        if (step == FIRST || step == SECOND) {
            atomic_store(&late[k], true);
            wait_for(&straggles[k], LATE_NS);
        } else if (step == FIRST + 1 || step == SECOND + 1) {
            if (pthread_equal(pthread_self(), consumer))
                atomic_store(&by_consumer[k], true);
            atomic_store(&straggles[k], true);
            wait_for(&delivered[k], 2 * LATE_NS);
        }
    }
}

static void close_dataset(stk_dataset *dataset)
{
    (void)dataset;
}

static void take(stk_loader *loader, uint64_t step)
{
    stk_batch *batch;
    stk_error err;

    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    assert_int_equal(stk_batch_step(batch), step);
    stk_batch_release(&batch);
}

static void run(int64_t workers)
{
    const stk_field field = stk__field("x", STK_INT64, (const int64_t[]){-1}, false);
    const stk_dataset_ops ops = {.struct_size = sizeof ops,
                                 .name = "straggler",
                                 .doc = "For tests.",
                                 .close = close_dataset,
                                 .prepare = prepare};
    stk_dataset dataset;
    stk_loader_options o;
    stk_loader *loader;
    stk_error err;

    consumer = pthread_self();
    for (int k = 0; k < 2; k++) {
        atomic_store(&late[k], false);
        atomic_store(&straggles[k], false);
        atomic_store(&by_consumer[k], false);
        atomic_store(&delivered[k], false);
    }
    stk__dataset_init(&dataset, &ops, test_context(), (uint64_t)BATCH * STEPS, &field, 1);
    stk_loader_options_init(&o);
    o.batch_size = BATCH;
    o.num_workers = workers;
    o.epochs = 1;
    assert_ok(stk_loader_create(&dataset, &o, &loader, &err), &err);
    /* The consumer helps with datasets of our own alone. */
    loader->own = true;
    for (uint64_t step = 0; step < STEPS; step++) {
        const int k = step >= SECOND;
        const bool is_late = step == FIRST || step == SECOND;
        if (is_late && workers)
            wait_for(&late[k], 100 * (uint64_t)LATE_NS);
        take(loader, step);
        if (is_late)
            atomic_store(&delivered[k], true);
    }
    assert_true(atomic_load(&straggles[0]) && atomic_load(&straggles[1]));
    if (workers == 0)
        assert_true(atomic_load(&by_consumer[1]));
    else if (atomic_load(&by_consumer[0]))
        assert_false(atomic_load(&by_consumer[1]));
    stk_loader_destroy(&loader);
    stk_context_destroy(&dataset.context);
}

static void later_straggler(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 2; workers++)
        run(workers);
}

static void without_workers(void **state)
{
    (void)state;
    run(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_straggler),
        cmocka_unit_test(without_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
