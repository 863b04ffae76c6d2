/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that a module says to be complete are combined while it computes the others: earlier,
 * with the same sums in the same order. */
#include "unit/train/line.h"

enum { SECONDS = 20 };

static run *run_of(stk_module *module)
{
    return (run *)(void *)((char *)module - offsetof(run, module));
}

typedef struct saying {
    stk_trainer *t;
    size_t n, left; /* `left`: gradients before the last ones, of which is said nothing */
    stk_state_tensor all[4];
} saying;

static stk_status note(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                       stk_error *err)
{
    saying *s = user;

    s->all[s->n++] = *tensor;
    return STK_OK;
}

static stk_status say_all(stk_module *module, size_t left, stk_error *err)
{
    saying s = {.t = run_of(module)->t};

    STK_TRY(module->ops->state(module, STK_STATE_GRADIENT, note, &s, err));
    for (; s.n > left; s.n--)
        STK_TRY(stk_trainer_gradient_done(s.t, &s.all[s.n - 1], err));
    return STK_OK;
}

static stk_status says_all(stk_module *module, const stk_loss *loss, double scale, stk_error *err)
{
    STK_TRY(line_backward(module, loss, scale, err));
    return say_all(module, 0, err);
}

static stk_status says_some(stk_module *module, const stk_loss *loss, double scale, stk_error *err)
{
    STK_TRY(line_backward(module, loss, scale, err));
    return say_all(module, 1, err);
}

static void all_said(run *one)
{
    one->module.ops.backward = says_all;
}

static void some_said(run *one)
{
    one->module.ops.backward = says_some;
}

static void all_said_to_one_thread(run *one)
{
    all_said(one);
    one->self.one_thread = true;
}

static void some_said_far(run *one)
{
    some_said(one);
    one->module.far = true;
}

static void accumulates(run *one)
{
    one->b.options.accumulate_grad_batches = 3;
}

static void accumulates_said(run *one)
{
    all_said(one);
    accumulates(one);
}

/* The last step has a row for one rank alone: the others have no backward pass in it. */
static void few_rows(run *one)
{
    bench *b = &one->b;

    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "synthetic:?size=37&shape=2x2x1", &b->dataset, &b->err),
              &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
}

static void few_rows_said(run *one)
{
    all_said(one);
    few_rows(one);
}

/* ---- The same sums --------------------------------------------------------------------------- */

/* `early`: steps whose sums have come from the thread, each with two of them at least. */
static void the_same_bits(prepare_fn *plain, prepare_fn *said, uint64_t early)
{
    char folder[256];
    run before[MAX_RANKS], now[MAX_RANKS];
    ranks shared;

    for (uint64_t world = 2; world <= MAX_RANKS; world++) {
        test_folder(folder);
        run_all(before, world, folder, NULL, plain, &shared);
        test_folder_remove(folder);
        test_folder(folder);
        run_all(now, world, folder, NULL, said, &shared);
        test_folder_remove(folder);
        for (uint64_t i = 0; i < world; i++) {
            assert_ok(before[i].status, &before[i].err);
            assert_ok(now[i].status, &now[i].err);
            assert_memory_equal(now[i].module.weights, before[i].module.weights,
                                sizeof now[i].module.weights);
            assert_memory_equal(now[i].module.more, before[i].module.more,
                                sizeof now[i].module.more);
            assert_int_equal(now[i].module.updates, before[i].module.updates);
            assert_int_equal(before[i].self.elsewhere, 0);
            assert_int_equal(now[i].self.elsewhere, 2 * early);
        }
    }
}

static void same_sums(void **state)
{
    /* In the first step nobody knows yet that the module says anything. */
    the_same_bits(NULL, all_said, 3 * STEPS - 1);
    the_same_bits(NULL, some_said, 3 * STEPS - 1);
    the_same_bits(NULL, all_said_to_one_thread, 0);
    the_same_bits(NULL, some_said_far, 0);
    the_same_bits(few_rows, few_rows_said, 3 * STEPS - 1);
    /* Two steps of the optimizer in an epoch; of the first batches nothing is combined. */
    the_same_bits(accumulates, accumulates_said, 3 * 2);
}

/* ---- Early ----------------------------------------------------------------------------------- */

/* The first bucket, of one type, is with the others while this pass is not over. */
static stk_status waits_for_sums(stk_module *module, const stk_loss *loss, double scale,
                                 stk_error *err)
{
    const run *one = run_of(module);
    const uint64_t end = stk__now_ns() + SECONDS * UINT64_C(1000000000);
    uint64_t sums = 0;

    STK_TRY(line_backward(module, loss, scale, err));
    STK_TRY(say_all(module, 0, err));
    while (one->module.updates && sums < 2 * one->module.updates - 1) {
        pthread_mutex_lock(&gate.shared->lock);
        sums = one->self.elsewhere;
        pthread_mutex_unlock(&gate.shared->lock);
        if (stk__now_ns() > end)
            return stk__fail(err, STK_ETIMEDOUT, STK_STAGE_TRAIN, "nothing is combined");
        sched_yield();
    }
    return STK_OK;
}

static void waits(run *one)
{
    one->module.ops.backward = waits_for_sums;
}

static void sums_begin_within_backward(void **state)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;

    test_folder(folder);
    run_all(all, 2, folder, NULL, waits, &shared);
    for (int i = 0; i < 2; i++) {
        assert_ok(all[i].status, &all[i].err);
        assert_true(all[i].times.comm_hidden > 0);
        assert_true(all[i].times.comm <= all[i].times.step);
    }
    test_folder_remove(folder);
}

/* Who looks at the gradients of this rank after its pass finds them as it made them. */
static stk_status look(stk_module *module, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    const line *self = (const line *)module;

    return self->more_gradients[4] == self->more_gradients[0] * 5
               ? STK_OK
               : stk__fail(err, STK_EFORMAT, STK_STAGE_TRAIN, "another's gradients");
}

static void looks(run *one)
{
    all_said(one);
    one->module.ops.on_after_backward = look;
}

static void anomalies(run *one)
{
    all_said(one);
    one->b.options.detect_anomaly = true;
}

static void hooks_see_their_own(void **state)
{
    the_same_bits(NULL, looks, 0);
    the_same_bits(NULL, anomalies, 0);
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static stk_status says_in_disorder(stk_module *module, const stk_loss *loss, double scale,
                                   stk_error *err)
{
    line *self = (line *)module;
    const stk_state_tensor head = {"head", STK_FLOAT32, 1, {2}, &self->more_gradients[0], 8};

    STK_TRY(line_backward(module, loss, scale, err));
    return stk_trainer_gradient_done(run_of(module)->t, &head, err);
}

static void disorder(run *one)
{
    one->module.ops.backward = says_in_disorder;
}

static stk_status fails_after_saying(stk_module *module, const stk_loss *loss, double scale,
                                     stk_error *err)
{
    run *one = run_of(module);

    STK_TRY(line_backward(module, loss, scale, err));
    STK_TRY(say_all(module, 1, err));
    return one->self.number == 1 && one->module.updates == 2
               ? stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "rank 1 fails on purpose")
               : STK_OK;
}

static void fails_within(run *one)
{
    one->module.ops.backward = fails_after_saying;
}

/* The other calls of the step would not. */
static void sum_fails(run *one)
{
    all_said(one);
    one->self.fails_at = 4;
}

static void failures_are_told(void **state)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;

    test_folder(folder);
    run_all(all, 2, folder, NULL, disorder, &shared);
    for (int i = 0; i < 2; i++)
        assert_fails(all[i].status, STK_EINVAL, &all[i].err, "in another order");
    run_all(all, 3, folder, NULL, fails_within, &shared);
    assert_fails(all[1].status, STK_EIO, &all[1].err, "on purpose");
    for (int i = 0; i < 3; i += 2)
        assert_fails(all[i].status, STK_EIO, &all[i].err, "another rank is gone");
    run_all(all, 2, folder, NULL, sum_fails, &shared);
    for (int i = 0; i < 2; i++) {
        assert_fails(all[i].status, STK_EIO, &all[i].err, "a sum fails");
        assert_int_equal(all[i].self.elsewhere, 4);
        assert_int_equal(all[i].module.updates, 2);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_sums),
        cmocka_unit_test(sums_begin_within_backward),
        cmocka_unit_test(hooks_see_their_own),
        cmocka_unit_test(failures_are_told),
    };

    return cmocka_run_group_tests_name("train/overlap", tests, NULL, NULL);
}
