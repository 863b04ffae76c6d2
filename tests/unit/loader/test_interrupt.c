/* SPDX-License-Identifier: Apache-2.0 */
/* A wait for a batch that a signal ends at once, without looking from time to time. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "loader/parts.h"
#include "support/support.h"

static stk_loader *interrupted;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void end_wait(int number)
{
    (void)number;
    stk_loader_cancel(interrupted);
}

/* Nothing is ready before the gate is opened. */
static void prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    pthread_mutex_lock(&gate);
    for (size_t i = 0; i < n; i++) {
        stk_value *value = stk_sample_value(stk_sample_at(samples, i), 0);

        memset(value->out, 0, value->capacity);
        value->data = value->out;
    }
    pthread_mutex_unlock(&gate);
}

static void close_nothing(stk_dataset *dataset)
{
}

static bool consumer_waits(void)
{
    pthread_mutex_lock(&interrupted->ring->lock);
    const bool waits = interrupted->ring->waits;
    pthread_mutex_unlock(&interrupted->ring->lock);
    return waits;
}

/* The signal goes to this thread, not to the one that waits. */
static void *signal_when_it_waits(void *user)
{
    while (!consumer_waits())
        sched_yield();
    assert_int_equal(pthread_kill(pthread_self(), SIGUSR1), 0);
    return NULL;
}

static void a_signal_ends_the_wait(void **state)
{
    static const stk_dataset_ops ops = {
        .struct_size = sizeof ops, .name = "gate", .close = close_nothing, .prepare = prepare};
    const stk_field field = {.struct_size = sizeof field, .name = "x", .dtype = STK_UINT8};
    const stk_dataset_info info = {
        .struct_size = sizeof info, .fields = &field, .num_fields = 1, .size = 100};
    const struct sigaction action = {.sa_handler = end_wait};
    stk_context *ctx = test_context();
    stk_dataset *dataset = NULL;
    stk_loader_options options;
    stk_batch *batch = NULL;
    pthread_t thread;
    stk_error err;

    stk_loader_options_init(&options);
    options.num_workers = 1;
    options.watchdog = 0;
    assert_ok(stk_dataset_create(ctx, &ops, NULL, &info, &dataset, &err), &err);
    pthread_mutex_lock(&gate);
    assert_ok(stk_loader_create(dataset, &options, &interrupted, &err), &err);
    interrupted->look_ns = UINT64_C(3600) * 1000000000; /* it never looks by itself */
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, signal_when_it_waits, NULL), 0);
    assert_fails(stk_loader_next(interrupted, -1, &batch, &err), STK_ECANCELED, &err, "canceled");
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&gate);
    stk_loader_destroy(&interrupted);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_signal_ends_the_wait)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
