/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that come while a model computes: their handlers find a stack. oneDNN's products keep an
 * address in the stack pointer; a handler's frame there would overwrite the heap. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "unit/nn/models.h"

static uintptr_t stack_from, stack_to;
static atomic_ulong taken, astray;
static atomic_bool done;

static void on_signal(int number)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    atomic_fetch_add(&taken, 1);
    if (here < stack_from || here >= stack_to)
        atomic_fetch_add(&astray, 1);
}

static void *send_signals(void *thread)
{
    while (!atomic_load(&done))
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

static void find_stack(void)
{
    pthread_attr_t attr;
    void *from;
    size_t size;

    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    assert_int_equal(pthread_attr_getstack(&attr, &from, &size), 0);
    pthread_attr_destroy(&attr);
    stack_from = (uintptr_t)from;
    stack_to = stack_from + size;
}

static void handlers_have_a_stack(void **state)
{
    enum { ROWS = 64, STEPS = 400 };
    static float input[ROWS * 784];
    static int64_t labels[ROWS];
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    const int64_t shape[] = {1, 28, 28};
    stk_context *ctx = test_context();
    stk_model_options options;
    pthread_t self = pthread_self(), sender;
    stk_error err;

    stk_model_options_init(&options);
    options.batch_size = ROWS;
#ifndef STK_WITH_ONEDNN
    options.precision = STK_PRECISION_64_TRUE;
#endif
    stk_model *model =
        model_make(ctx, "flatten, linear(128), relu, linear(10)", shape, 3, &options);
    const stk_model_batch batch = {.struct_size = sizeof batch,
                                   .count = ROWS,
                                   .dtype = STK_FLOAT32,
                                   .input = input,
                                   .target = labels};
    stk_model_result result = {.struct_size = sizeof result};
    for (size_t i = 0; i < ROWS * 784; i++)
        input[i] = (float)(i % 255) / 255;
    find_stack();
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_create(&sender, NULL, send_signals, &self), 0);
    for (int i = 0; i < STEPS || (atomic_load(&taken) < 50 && i < 1000 * STEPS); i++) {
        assert_ok(stk_model_forward(model, &batch, true, &result, &err), &err);
        assert_ok(stk_model_backward(model, 1, &err), &err);
    }
    atomic_store(&done, true);
    pthread_join(sender, NULL);
    assert_true(atomic_load(&taken) >= 50);
    assert_int_equal(atomic_load(&astray), 0);
    stk_model_destroy(&model);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(handlers_have_a_stack)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
