/* SPDX-License-Identifier: Apache-2.0 */
/* What a live sheet says of the last seconds, of loaders that work. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "measure/live.h"

/* What is said of the seconds in which workers prepared 16 batches of samples that each sleep for a
 * millisecond. `cpu_ns` and `machine_ns`: what the process and the machine had used before, as the
 * first look shall have seen it: UINT64_MAX, so that nothing came since; 0, so that all did. The
 * window is twice the true one, as if half were steps, or a microsecond. */
static void look_at_sleepers(stk__live_watch *w, uint64_t cpu_ns, uint64_t machine_ns, bool brief)
{
    stk_loader_options options;
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    stk_loader_options_init(&options);
    options.batch_size = 4;
    options.num_workers = 4;
    assert_ok(stk_dataset_open(w->ctx, "synthetic:?delay=1ms", &dataset, &err), &err);
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    const uint64_t began = stk__now_ns();
    stk__live_watch_look(w, began);
    w->looks[0].cpu_ns = cpu_ns;
    w->looks[0].machine_ns = machine_ns;
    for (int i = 0; i < 16; i++) {
        assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
        stk_batch_release(&batch);
    }
    stk__live_event(w, &(stk__event){.kind = STK__EVENT_SAMPLE,
                                     .worker = 0,
                                     .start_ns = began,
                                     .end_ns = began + 1,
                                     .count = 64});
    stk__live_watch_look(w, brief ? began + 1000 : 2 * stk__now_ns() - began);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
}

/* Workers that are busy compute as much as the process was seen to, and others have the rest. */
static void test_sleepers(void **state)
{
    static const struct {
        uint64_t cpu_ns, machine_ns;
        bool brief;
    } cases[] = {
        {UINT64_MAX, UINT64_MAX, false}, /* no core is in use */
        {0, UINT64_MAX, true},           /* more than there are, all by this process */
        {UINT64_MAX, 0, true},           /* all by others */
    };
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(*state, &cores);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__live_watch *w = calloc(1, sizeof *w);
        assert_non_null(w);
        w->ctx = *state;
        look_at_sleepers(w, cases[i].cpu_ns, cases[i].machine_ns, cases[i].brief);
        const char *text = w->state.verdict;
        /* What others do on cores that this process may not use is not its. */
        const bool others = i == 2 && cores.all_usable == cores.online;
        assert_true(*text);
        assert_true((strstr(text, "All cores are busy") != NULL) == (i == 1 || others));
        assert_true((strstr(text, "Other programs keep") != NULL) == others);
        assert_true((strstr(text, "They compute only 0 %") != NULL) == (i != 1 && !others));
        /* The step is not taken to compute. */
        assert_true((strstr(text, "while 0 % of ") != NULL) == (i != 1 && !others));
        free(w);
    }
}

static void work(stk__live_watch *w, uint32_t worker, uint64_t at_ns)
{
    stk__live_event(w, &(stk__event){.kind = STK__EVENT_SAMPLE,
                                     .worker = worker,
                                     .start_ns = at_ns,
                                     .end_ns = at_ns + 100,
                                     .count = 1});
}

/* Of workers that a loader had, those that it has, and that did something, are shown; of batches
 * that are finished no more than wait: the next is the consumer's. */
static void test_what_is_there(void **state)
{
    stk__live_watch *w = calloc(1, sizeof *w);
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_loader_options options;
    stk_dataset *dataset;
    stk_loader *loader;
    stk_batch *batch;
    stk_error err;

    assert_non_null(w);
    w->ctx = *state;
    stk_loader_options_init(&options);
    options.batch_size = 4;
    options.num_workers = 2;
    assert_ok(stk_dataset_open(w->ctx, "synthetic:", &dataset, &err), &err);
    assert_ok(stk_loader_create(dataset, &options, &loader, &err), &err);
    assert_ok(stk_loader_next(loader, -1, &batch, &err), &err);
    stk_batch_release(&batch);
    do
        stk_loader_get_stats(loader, &stats);
    while (stats.ready <= stats.depth);
    stk__live_watch_look(w, 1000);
    work(w, 1, 1000);
    work(w, 7, 1000);
    stk__live_watch_look(w, 2000);
    assert_int_equal(w->state.num_workers, 8);
    assert_int_equal(w->state.ready, stats.depth);
    assert_int_equal(w->state.loaders[0].ready, stats.depth);
    for (uint64_t i = 0; i < STK__LIVE_LOOKS; i++)
        stk__live_watch_look(w, 3000 + i);
    assert_int_equal(w->state.num_workers, 2);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sleepers, test_context_open, test_context_close),
        cmocka_unit_test_setup_teardown(test_what_is_there, test_context_open, test_context_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
