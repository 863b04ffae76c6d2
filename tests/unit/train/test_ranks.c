/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks with uneven shares of a batch, and one whose data are late: what they come to is what one
 * process does, also where a run goes on with others. */
#include "unit/train/line.h"

/* ---- Uneven shares --------------------------------------------------------------------------- */

static void reopen(run *one, const char *path)
{
    bench *b = &one->b;

    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, path, &b->dataset, &b->err), &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
}

/* Steps of 12, 12, 12 and 1: ranks but the first have no row of the last. */
static void a_row_too_many(run *one)
{
    reopen(one, "synthetic:?size=37&shape=2x2x1");
}

static void a_row(run *one)
{
    reopen(one, "synthetic:?size=1&shape=2x2x1");
}

static void rows_that_do_not_count(run *one)
{
    one->module.ignores = 3;
}

static void rows_that_do_not_count_far(run *one)
{
    rows_that_do_not_count(one);
    one->module.far = true;
}

static void the_same_weights(prepare_fn *prepare, uint64_t steps, double rows)
{
    char one_folder[256], folder[256];
    run alone[1], all[MAX_RANKS];
    ranks shared;

    test_folder(one_folder);
    run_all(alone, 1, one_folder, NULL, prepare, &shared);
    assert_ok(alone->status, &alone->err);
    for (uint64_t world = 2; world <= MAX_RANKS; world++) {
        test_folder(folder);
        run_all(all, world, folder, NULL, prepare, &shared);
        for (uint64_t i = 0; i < world; i++) {
            assert_ok(all[i].status, &all[i].err);
            assert_int_equal(all[i].module.updates, steps);
            for (int k = 0; k < 2; k++)
                assert_close(all[i].module.weights[k], alone->module.weights[k]);
            assert_close(all[i].loss, alone->loss);
            assert_close(all[i].rows, rows);
            assert_close(all[i].val, alone->val);
        }
        test_folder_remove(folder);
    }
    test_folder_remove(one_folder);
}

static void uneven_shares(void **state)
{
    the_same_weights(a_row_too_many, 3 * STEPS, 37);
    the_same_weights(a_row, 3, 1);
    the_same_weights(rows_that_do_not_count, 3 * STEPS, 40 - 14);
    the_same_weights(rows_that_do_not_count_far, 3 * STEPS, 40 - 14);
}

/* ---- Whose time it is ------------------------------------------------------------------------ */

static void slow_data_of_the_second(run *one)
{
    reopen(one, one->self.number == 1 ? "synthetic:?size=40&shape=2x2x1&delay=3ms"
                                      : "synthetic:?size=40&shape=2x2x1");
}

/* A rank whose batch is there waits for the others in its step, not for its data. */
static void waits_for_others(void **state)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;

    test_folder(folder);
    run_all(all, 2, folder, NULL, slow_data_of_the_second, &shared);
    for (int i = 0; i < 2; i++) {
        const stk_trainer_times *t = &all[i].times;
        assert_ok(all[i].status, &all[i].err);
        assert_true(t->comm > 0 && t->comm <= t->step);
        assert_true(t->data_wait + t->transfer + t->step + t->validation + t->callbacks +
                        t->logging + t->checkpoint + t->other ==
                    t->wall);
    }
    /* It sleeps 18 ms for each of its 12 batches. */
    assert_true(all[1].times.data_wait > UINT64_C(12) * 15000000);
    assert_true(all[0].times.comm > all[1].times.comm);
    assert_true(all[0].times.data_wait < all[1].times.data_wait);
    test_folder_remove(folder);
    run_all(all, 1, folder, NULL, slow_data_of_the_second, &shared);
    assert_int_equal(all[0].times.comm, 0);
    test_folder_remove(folder);
}

/* ---- Names of checkpoints -------------------------------------------------------------------- */

static void without_logs(run *one)
{
    one->b.options.logger = "false";
}

/* Another process is writing a file of the name that this run would take, which no look at the
 * folder shows: all ranks save under the name that is found instead. */
static void the_same_name(void **state)
{
    const stk_store_call call = {.struct_size = sizeof call, .no_replace = true};
    char folder[256], path[400];
    run all[MAX_RANKS];
    ranks shared;
    stk_put *put;
    stk_error err;

    stk_context *ctx = test_context();
    test_folder(folder);
    snprintf(path, sizeof path, "%s/checkpoints/epoch=2-step=12.safetensors", folder);
    assert_ok(stk_put_open(ctx, path, &call, &put, &err), &err);
    run_all(all, MAX_RANKS, folder, NULL, without_logs, &shared);
    put->ops->abandon(put);
    snprintf(path, sizeof path, "%s/checkpoints/epoch=2-step=12-v1.safetensors", folder);
    for (size_t i = 0; i < MAX_RANKS; i++) {
        assert_ok(all[i].status, &all[i].err);
        assert_string_equal(all[i].best, path);
    }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- A stop while data are late -------------------------------------------------------------- */

static void late_data(run *one)
{
    static const stk_dataset_ops ops = {
        .struct_size = sizeof ops, .name = "gate", .close = gate_close, .prepare = gate_prepare};
    const stk_field field = {.struct_size = sizeof field, .name = "x", .dtype = STK_UINT8};
    const stk_dataset_info info = {
        .struct_size = sizeof info, .fields = &field, .num_fields = 1, .size = 40};
    bench *b = &one->b;

    assert_ok(stk_dataset_create(b->ctx, &ops, &one->self.number, &info, &one->data, &b->err),
              &b->err);
    b->train.dataset = one->data;
    b->loader.num_workers = 1;
    b->loader.watchdog = 0;
    b->options.max_epochs = 1;
    b->options.accumulate_grad_batches = 4;
}

/* In the middle of an epoch and of a window: its means and gradients are those of all ranks, and
 * others than these may go on from them. */
static void stops_in_a_wait(void **state)
{
    char folder[256], one_folder[256];
    run alone[1], all[MAX_RANKS];
    ranks shared;

    atomic_store(&gate.closed, false);
    test_folder(one_folder);
    run_all(alone, 1, one_folder, NULL, late_data, &shared);
    assert_ok(alone->status, &alone->err);
    assert_int_equal(alone->module.updates, 1);
    for (uint64_t later = 1; later <= MAX_RANKS; later++) {
        test_folder(folder);
        atomic_store(&gate.prepared, 0);
        atomic_store(&gate.closed, true);
        run_all(all, 2, folder, NULL, late_data, &shared);
        assert_false(atomic_load(&gate.late));
        for (int i = 0; i < 2; i++) {
            assert_fails(all[i].status, STK_ECANCELED, &all[i].err, "waiting for data");
            assert_int_equal(all[i].module.steps, 2);
        }
        run_all(all, later, folder, "last", late_data, &shared);
        for (uint64_t i = 0; i < later; i++) {
            assert_ok(all[i].status, &all[i].err);
            assert_int_equal(all[i].module.steps, 2);
            for (int k = 0; k < 2; k++)
                assert_close(all[i].module.weights[k], alone->module.weights[k]);
            assert_close(all[i].loss, alone->loss);
            assert_close(all[i].rows, 40);
        }
        test_folder_remove(folder);
    }
    test_folder_remove(one_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_shares),
        cmocka_unit_test(waits_for_others),
        cmocka_unit_test(the_same_name),
        cmocka_unit_test(stops_in_a_wait),
    };

    return cmocka_run_group_tests_name("train/ranks", tests, NULL, NULL);
}
