/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks train as one: the same weights as one process with the same global batch, the same
 * metrics everywhere, one writer, one decision to stop. */
#include "unit/train/line.h"

static uint64_t files_below(const char *folder, const char *name)
{
    char command[700];
    unsigned long found = 0;

    snprintf(command, sizeof command, "find '%s' -name '%s' | wc -l", folder, name);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_int_equal(fscanf(out, "%lu", &found), 1);
    pclose(out);
    return found;
}

/* 40 rows in steps of 12, 12, 12 and 4: the last of them is shared out unevenly. */
static void the_same_as_one(void **state)
{
    char one_folder[256], folder[256];
    run alone[1], all[MAX_RANKS];
    ranks shared;

    test_folder(one_folder);
    run_all(alone, 1, one_folder, NULL, NULL, &shared);
    assert_ok(alone->status, &alone->err);
    /* Alone, the strategy is not asked at all. */
    assert_int_equal(shared.reduces[0] + shared.broadcasts + shared.barriers, 0);
    for (uint64_t world = 2; world <= MAX_RANKS; world++) {
        test_folder(folder);
        run_all(all, world, folder, NULL, NULL, &shared);
        for (uint64_t i = 0; i < world; i++) {
            assert_ok(all[i].status, &all[i].err);
            assert_int_equal(all[i].module.updates, 3 * STEPS);
            for (int k = 0; k < 2; k++) {
                assert_close(all[i].module.weights[k], alone->module.weights[k]);
                /* The ranks among themselves are the same to the bit. */
                assert_true(all[i].module.weights[k] == all[0].module.weights[k]);
            }
            for (int k = 0; k < 5; k++)
                if (k != 2) /* it belongs to no tensor */
                    assert_true(fabsf(all[i].module.more[k] - alone->module.more[k]) <= 1e-5f);
            assert_close(all[i].loss, alone->loss);
            assert_close(all[i].rows, 40);
            assert_close(all[i].val, alone->val);
            assert_true(all[i].least <= alone->least && all[i].least == all[0].least);
            assert_true(all[i].most >= alone->most && all[i].most == all[0].most);
            assert_string_equal(all[i].log_dir, all[0].log_dir);
            assert_true(i == 0 ? all[i].lines > 0 : all[i].lines == 0);
            assert_int_equal(shared.reduces[i], shared.reduces[0]);
        }
        assert_int_equal(shared.aborts, 0);
        assert_true(shared.barriers > 0);
        /* One writer. */
        assert_int_equal(files_below(folder, "metrics.csv"), 1);
        assert_int_equal(files_below(folder, "*.safetensors"), 1);
        test_folder_remove(folder);
    }
    test_folder_remove(one_folder);
}

/* What rank 0 has written is what all of them go on from. */
static void goes_on(void **state)
{
    char folder[256], one_folder[256];
    run alone[1], all[MAX_RANKS];
    ranks shared;

    test_folder(one_folder);
    run_all(alone, 1, one_folder, NULL, NULL, &shared);
    assert_ok(alone->status, &alone->err);
    test_folder(folder);
    run_all(all, 2, folder, NULL, NULL, &shared);
    assert_ok(all[0].status, &all[0].err);
    /* Three ranks find that all is done. */
    run_all(all, 3, folder, "last", NULL, &shared);
    for (int i = 0; i < 3; i++) {
        assert_ok(all[i].status, &all[i].err);
        assert_int_equal(all[i].module.updates, 0);
        assert_close(all[i].module.weights[0], alone->module.weights[0]);
    }
    test_folder_remove(folder);
    test_folder_remove(one_folder);
}

/* ---- One decision ---------------------------------------------------------------------------- */

static void stop_one(run *one)
{
    one->module.stop_at = one->self.number == 1 ? 3 : 0;
}

static void wish_one(run *one)
{
    one->module.wish_at = one->self.number == 1 ? 2 : 0;
}

static void nan_one(run *one)
{
    one->module.nan_at = one->self.number == 1 ? 2 : 0;
    one->b.options.nan_policy = STK_NAN_SKIP;
}

static void nan_stops(run *one)
{
    one->module.nan_at = one->self.number == 1 ? 2 : 0;
}

static void skip_one(run *one)
{
    one->module.skip_at = one->self.number == 0 ? 2 : 0;
}

static void fail_one(run *one)
{
    one->module.fail_at = one->self.number == 1 ? 3 : 0;
}

static void no_time(run *one)
{
    one->b.options.max_time = one->self.number == 1 ? "00:00:00:01" : "10:00:00:00";
    one->b.options.max_epochs = -1;
}

static void time_to_validate(run *one)
{
    one->b.options.val_check_interval = one->self.number ? "00:00:00:01" : "10:00:00:00";
    one->b.options.max_epochs = 1;
}

static void decide(prepare_fn *prepare, stk_status status, uint64_t updates, uint64_t steps)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;

    test_folder(folder);
    run_all(all, 2, folder, NULL, prepare, &shared);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(all[i].status, status);
        assert_int_equal(all[i].module.updates, updates);
        assert_int_equal(all[i].module.steps, steps);
        assert_true(all[i].module.weights[0] == all[0].module.weights[0]);
    }
    test_folder_remove(folder);
}

static void stops_together(void **state)
{
    decide(stop_one, STK_ECANCELED, 3, 3);
    decide(wish_one, STK_OK, 2, 2);
    decide(nan_one, STK_OK, 3 * STEPS - 1, 3 * STEPS);
    decide(nan_stops, STK_EFORMAT, 1, 2);
    decide(skip_one, STK_OK, 3 * STEPS - 1, 3 * STEPS);
}

static void time_is_one(void **state)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;

    test_folder(folder);
    run_all(all, 2, folder, NULL, no_time, &shared);
    assert_ok(all[0].status, &all[0].err);
    assert_ok(all[1].status, &all[1].err);
    assert_int_equal(all[0].module.updates, all[1].module.updates);
    run_all(all, 2, folder, NULL, time_to_validate, &shared);
    assert_ok(all[0].status, &all[0].err);
    assert_ok(all[1].status, &all[1].err);
    assert_int_equal(all[0].module.updates, STEPS);
    test_folder_remove(folder);
}

/* A rank that fails is not waited for. */
static void a_failure_is_told(void **state)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;

    test_folder(folder);
    run_all(all, 3, folder, NULL, fail_one, &shared);
    assert_int_equal(all[1].status, STK_EIO);
    assert_non_null(strstr(all[1].err.text, "on purpose"));
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(all[i].status, STK_EIO);
        assert_non_null(strstr(all[i].err.text, "another rank is gone"));
    }
    assert_true(shared.aborts >= 1);
    test_folder_remove(folder);
}

static stk_status log_another(stk_module *module, stk_trainer *t, const stk_moment *at,
                              stk_loss *loss, stk_error *err)
{
    STK_TRY(stk_trainer_log(t, "own", 1, STK_ON_EPOCH, 0, err));
    return line_step(module, t, at, loss, err);
}

static void log_more(run *one)
{
    if (one->self.number)
        one->module.ops.training_step = log_another;
}

static void refused(void **state)
{
    char folder[256];
    run all[MAX_RANKS];
    ranks shared;
    bench b;
    stk_trainer *t;
    double number = 2;

    test_folder(folder);
    run_all(all, 2, folder, NULL, log_more, &shared);
    assert_int_equal(all[0].status, STK_EMISMATCH);
    assert_non_null(strstr(all[0].err.text, "metrics of different names"));
    assert_int_equal(all[1].status, STK_EMISMATCH);
    test_folder_remove(folder);

    bench_open(&b);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    rank self = {.all = &shared, .number = 2};
    stk_strategy s = ranks_strategy(&self);
    assert_fails(stk_trainer_set_strategy(t, &s, &b.err), STK_EINVAL, &b.err, "rank 2 of 2");
    s.rank = 0;
    s.barrier = NULL;
    assert_fails(stk_trainer_set_strategy(t, &s, &b.err), STK_EINVAL, &b.err, "barrier");
    /* One rank is nobody to ask. */
    s = ranks_strategy(&self);
    s.rank = 0;
    s.world_size = 1;
    assert_ok(stk_trainer_set_strategy(t, &s, &b.err), &b.err);
    assert_ok(stk_trainer_reduce(t, &number, 1, STK_COMBINE_SUM, &b.err), &b.err);
    assert_true(number == 2);
    stk_trainer_destroy(&t);
    b.options.strategy = "single_device";
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_fails(stk_trainer_set_strategy(t, &s, &b.err), STK_EINVAL, &b.err, "contradict");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_as_one),   cmocka_unit_test(goes_on),
        cmocka_unit_test(stops_together),    cmocka_unit_test(time_is_one),
        cmocka_unit_test(a_failure_is_told), cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests_name("train/strategy", tests, NULL, NULL);
}
