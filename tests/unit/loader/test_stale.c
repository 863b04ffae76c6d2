/* SPDX-License-Identifier: Apache-2.0 */
/* A batch that was given back is not to be looked at: a build with AddressSanitizer ends there. */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/loader/run.h"

#if defined(__SANITIZE_ADDRESS__)
#define GUARDED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDED 1
#endif
#endif
#ifndef GUARDED
#define GUARDED 0
#endif

static void count(const stk_batch *batch)
{
    stk_batch_count(batch);
}

static void epoch(const stk_batch *batch)
{
    stk_batch_epoch(batch);
}

static void step(const stk_batch *batch)
{
    stk_batch_step(batch);
}

static void positions(const stk_batch *batch)
{
    stk_batch_positions(batch);
}

static void field(const stk_batch *batch)
{
    stk_tensor tensor = {.struct_size = sizeof tensor};

    assert_int_equal(stk_batch_field(batch, 0, &tensor), STK_OK);
}

static void find(const stk_batch *batch)
{
    stk_tensor tensor = {.struct_size = sizeof tensor};

    assert_int_equal(stk_batch_find(batch, "index", &tensor), STK_OK);
}

static void get_state(const stk_batch *batch)
{
    stk_loader_state state;

    stk_batch_get_state(batch, &state);
}

/* Look at a batch, after it was given back or before. In a process of its own, which made all of
 * it. */
static int look(void (*how)(const stk_batch *batch), bool given_back)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        stk_context *ctx = test_context();
        stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 100});
        stk_loader_options o = base_options();
        stk_batch *batch;
        stk_error err;

        dup2(open("/dev/null", O_WRONLY), 2);
        o.num_workers = 0;
        stk_loader *loader = open_loader(dataset, &o);
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        const stk_batch *stale = batch;
        if (given_back)
            stk_batch_release(&batch);
        how(stale);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void stale_handles_are_caught(void **state)
{
    void (*const ways[])(const stk_batch *batch) = {count, epoch, step,     positions,
                                                    field, find,  get_state};

    for (size_t i = 0; i < STK_COUNT(ways); i++) {
        assert_int_equal(look(ways[i], false), 0);
        assert_int_equal(look(ways[i], true) != 0, GUARDED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stale_handles_are_caught)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
