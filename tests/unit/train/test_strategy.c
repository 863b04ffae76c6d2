/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks train as one: the same weights as one process with the same global batch, the same
 * metrics everywhere, one writer, one decision to stop. */
#include "unit/train/ranks.h"

enum { GLOBAL = 12, STEPS = 4 };

/* A line a x + b through what the indices say, in double: its gradient is the mean over the rows.
 */
typedef struct line {
    stk_module base;
    stk_module_ops ops;
    double weights[2], gradients[2], mean; /* `mean`: a buffer, of this rank's rows */
    float more[5], more_gradients[5];      /* of another type */
    double sums[2];
    uint64_t rank, steps, updates, nan_at, skip_at, stop_at, wish_at, fail_at;
} line;

static stk_status line_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                            stk_loss *loss, stk_error *err)
{
    line *self = (line *)module;
    const double n = (double)stk_batch_count(at->batch);
    stk_tensor index = {.struct_size = sizeof index};
    double sum = 0;

    self->steps++;
    if (self->fail_at == self->steps)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "rank %d fails on purpose",
                         (int)self->rank);
    assert_int_equal(stk_batch_find(at->batch, "index", &index), STK_OK);
    self->sums[0] = self->sums[1] = 0;
    for (uint64_t i = 0; i < stk_batch_count(at->batch); i++) {
        const double x = (double)((const uint64_t *)index.data)[i] / TINY_SAMPLES;
        const double error = self->weights[0] * x + self->weights[1] - (3 * x - 1);
        self->sums[0] += error * x / n;
        self->sums[1] += error / n;
        sum += 0.5 * error * error;
    }
    self->mean = sum / n + (double)self->rank;
    *loss = (stk_loss){.value = {.value = self->nan_at == self->steps ? NAN : sum / n},
                       .skip = self->skip_at == self->steps};
    if (self->stop_at == self->steps)
        stk_trainer_stop(t);
    if (self->wish_at == self->steps)
        stk_trainer_should_stop(t);
    STK_TRY(stk_trainer_log(t, "rows", n, STK_ON_EPOCH | STK_REDUCE_SUM, 0, err));
    STK_TRY(stk_trainer_log(t, "least", sum / n, STK_ON_EPOCH | STK_REDUCE_MIN, 0, err));
    STK_TRY(stk_trainer_log(t, "most", sum / n, STK_ON_EPOCH | STK_REDUCE_MAX, 0, err));
    return stk_trainer_log(t, "train_loss", sum / n, STK_ON_STEP | STK_ON_EPOCH, 0, err);
}

static stk_status line_backward(stk_module *module, const stk_loss *loss, double scale,
                                stk_error *err)
{
    line *self = (line *)module;

    for (int i = 0; i < 2; i++)
        self->gradients[i] += scale * self->sums[i];
    for (int i = 0; i < 5; i++)
        self->more_gradients[i] += (float)(scale * (i + 1));
    return STK_OK;
}

static stk_status line_update(stk_module *module, const stk_moment *at, stk_error *err)
{
    line *self = (line *)module;

    self->updates++;
    for (int i = 0; i < 2; i++)
        self->weights[i] -= 0.5 * self->gradients[i];
    for (int i = 0; i < 5; i++)
        self->more[i] -= 0.125f * self->more_gradients[i];
    return STK_OK;
}

static stk_status line_validate(stk_module *module, stk_trainer *t, const stk_moment *at,
                                stk_error *err)
{
    const line *self = (const line *)module;

    /* The statistics are those of rank 0. */
    return stk_trainer_log(t, "val_loss", self->weights[0] + self->mean - self->mean, 0, 0, err);
}

static stk_status line_state(stk_module *module, uint32_t kinds, stk_state_visit *visit, void *user,
                             stk_error *err)
{
    line *self = (line *)module;
    const struct {
        stk_state_kind kind;
        stk_state_tensor tensor;
    } all[] = {
        {STK_STATE_PARAMETER, {"slope", STK_FLOAT64, 0, {0}, &self->weights[0], 8}},
        {STK_STATE_PARAMETER, {"offset", STK_FLOAT64, 0, {0}, &self->weights[1], 8}},
        {STK_STATE_PARAMETER, {"head", STK_FLOAT32, 1, {2}, &self->more[0], 8}},
        {STK_STATE_PARAMETER, {"tail", STK_FLOAT32, 1, {2}, &self->more[3], 8}},
        {STK_STATE_BUFFER, {"mean", STK_FLOAT64, 0, {0}, &self->mean, 8}},
        {STK_STATE_GRADIENT, {"slope", STK_FLOAT64, 0, {0}, &self->gradients[0], 8}},
        {STK_STATE_GRADIENT, {"offset", STK_FLOAT64, 0, {0}, &self->gradients[1], 8}},
        {STK_STATE_GRADIENT, {"head", STK_FLOAT32, 1, {2}, &self->more_gradients[0], 8}},
        {STK_STATE_GRADIENT, {"tail", STK_FLOAT32, 1, {2}, &self->more_gradients[3], 8}},
    };

    for (size_t i = 0; i < STK_COUNT(all); i++)
        if (kinds & all[i].kind)
            STK_TRY(visit(user, all[i].kind, &all[i].tensor, err));
    return STK_OK;
}

static void line_init(line *self, uint64_t number)
{
    *self = (line){.rank = number};
    self->ops = (stk_module_ops){.struct_size = sizeof self->ops,
                                 .name = "Line",
                                 .training_step = line_step,
                                 .backward = line_backward,
                                 .optimizer_step = line_update,
                                 .validation_step = line_validate,
                                 .state = line_state};
    self->base.ops = &self->ops;
    /* Not the same at first: rank 0's are taken. */
    self->weights[0] = 0.25 + (double)number;
}

typedef struct run run;
typedef void prepare_fn(run *one);

/* One rank of a run, and what it came to. */
struct run {
    rank self;
    uint64_t world;
    prepare_fn *prepare;
    const char *folder, *ckpt_path;
    bench b;
    line module;
    stk_trainer *t;
    stk_status status;
    stk_error err;
    double loss, rows, least, most, val;
    char log_dir[512], best[512];
    uint64_t lines; /* of the console */
    pthread_t thread;
};

static void count_line(void *user, const char *text)
{
    ((run *)user)->lines++;
}

static double metric(const run *one, const char *name)
{
    double value = NAN;

    return stk_trainer_metric(one->t, name, &value) ? value : NAN;
}

static void *run_rank(void *argument)
{
    run *one = argument;
    bench *b = &one->b;
    const stk_console console = {.struct_size = sizeof console, .line = count_line, .user = one};

    b->loader.global_batch_size = GLOBAL;
    b->val_loader.global_batch_size = GLOBAL;
    b->options.max_epochs = 3;
    b->options.logger = "csv";
    b->options.log_every_n_steps = 1;
    b->options.default_root_dir = one->folder;
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    line_init(&one->module, one->self.number);
    if (one->prepare)
        one->prepare(one);
    one->status = stk_trainer_create(b->ctx, &b->options, &one->t, &one->err);
    if (one->status != STK_OK)
        return NULL;
    stk_trainer_set_console(one->t, &console);
    if (one->world > 1) {
        const stk_strategy strategy = ranks_strategy(&one->self);
        one->status = stk_trainer_set_strategy(one->t, &strategy, &one->err);
    }
    if (one->status == STK_OK)
        one->status =
            stk_trainer_fit(one->t, &one->module.base, &b->data, one->ckpt_path, &one->err);
    one->loss = metric(one, "train_loss_epoch");
    one->rows = metric(one, "rows");
    one->least = metric(one, "least");
    one->most = metric(one, "most");
    one->val = metric(one, "val_loss");
    snprintf(one->log_dir, sizeof one->log_dir, "%s", stk_trainer_log_dir(one->t));
    const char *best = stk_trainer_best_model_path(one->t);
    snprintf(one->best, sizeof one->best, "%s", best ? best : "");
    stk_trainer_destroy(&one->t);
    return NULL;
}

static void run_all(run *all, uint64_t world, const char *folder, const char *ckpt_path,
                    prepare_fn *prepare, ranks *shared)
{
    ranks_init(shared, world);
    for (uint64_t i = 0; i < world; i++) {
        all[i] = (run){.self = {shared, i},
                       .world = world,
                       .prepare = prepare,
                       .folder = folder,
                       .ckpt_path = ckpt_path};
        bench_open(&all[i].b);
    }
    for (uint64_t i = 0; i < world; i++)
        assert_int_equal(pthread_create(&all[i].thread, NULL, run_rank, &all[i]), 0);
    for (uint64_t i = 0; i < world; i++)
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
    for (uint64_t i = 0; i < world; i++)
        bench_close(&all[i].b);
    ranks_release(shared);
}

static void assert_close(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fmax(1, fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

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
    rank self = {&shared, 2};
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
