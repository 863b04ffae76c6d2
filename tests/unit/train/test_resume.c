/* SPDX-License-Identifier: Apache-2.0 */
/* A run that was cut at any step and goes on ends with the same bits. */
#include <dirent.h>

#include "unit/train/tiny.h"

typedef struct checkpoint_options {
    const char *dirpath;
    uint64_t every_n_train_steps;
} checkpoint_options;

/* EMA, early stopping and a plateau all have something to remember. */
static void add_callbacks(bench *b, stk_trainer *t, void *user)
{
    const checkpoint_options *o = user;
    uint64_t room[64];

    stk_options_init(stk__callback_ema.options, room, sizeof room);
    assert_ok(stk_options_set(stk__callback_ema.options, room, "decay", "0.9", &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, &stk__callback_ema, room, NULL, &b->err), &b->err);
    stk_options_init(stk__callback_early_stopping.options, room, sizeof room);
    assert_ok(stk_options_set(stk__callback_early_stopping.options, room, "monitor",
                              "train_loss_epoch", &b->err),
              &b->err);
    assert_ok(stk_options_set(stk__callback_early_stopping.options, room,
                              "check_on_train_epoch_end", "true", &b->err),
              &b->err);
    assert_ok(stk_trainer_add_callback(t, &stk__callback_early_stopping, room, NULL, &b->err),
              &b->err);
    if (!o)
        return;
    char every[32];
    snprintf(every, sizeof every, "%llu", (unsigned long long)o->every_n_train_steps);
    const stk_option_table *table = stk__callback_model_checkpoint.options;
    stk_options_init(table, room, sizeof room);
    assert_ok(stk_options_set(table, room, "dirpath", o->dirpath, &b->err), &b->err);
    assert_ok(stk_options_set(table, room, "every_n_train_steps", every, &b->err), &b->err);
    assert_ok(stk_options_set(table, room, "save_top_k", "-1", &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, &stk__callback_model_checkpoint, room, NULL, &b->err),
              &b->err);
}

static void set_up(bench *b)
{
    bench_open(b);
    b->options.max_epochs = 3;
    b->options.accumulate_grad_batches = 3;
    b->options.gradient_clip_val = 0.5;
    b->options.val_check_interval = "4";
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    b->prepare = add_callbacks;
}

static void schedules(tiny *m)
{
    m->schedulers[0] = (stk_lr_scheduler){.every_step = true, .frequency = 2};
    m->schedulers[1] = (stk_lr_scheduler){
        .every_step = false, .reduce_on_plateau = true, .monitor = "train_loss_epoch"};
    m->num_schedulers = 2;
}

typedef struct result {
    float weight[TINY_SIZE], velocity[TINY_SIZE], lr;
    double step, epoch, plateau;
    uint64_t drawn;
} result;

static void finish(bench *b, tiny *m, const char *from, result *out)
{
    stk_trainer *t;

    schedules(m);
    assert_ok(bench_fit(b, m, from, &t), &b->err);
    memset(out, 0, sizeof *out);
    memcpy(out->weight, m->weight, sizeof m->weight);
    memcpy(out->velocity, m->velocity, sizeof m->velocity);
    out->lr = m->lr;
    out->drawn = m->drawn;
    out->plateau = m->last_metric;
    assert_true(stk_trainer_metric(t, "train_loss_step", &out->step));
    assert_true(stk_trainer_metric(t, "train_loss_epoch", &out->epoch));
    assert_int_equal(stk_trainer_global_step(t), 12);
    stk_trainer_destroy(&t);
}

static void from_another_start(tiny *m)
{
    tiny_init(m);
    for (int i = 0; i < TINY_SIZE; i++)
        m->weight[i] = -3;
    m->lr = 77;
}

static void stopped_at_every_step(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    result straight, resumed;

    set_up(&b);
    tiny_init(&m);
    finish(&b, &m, NULL, &straight);
    for (uint64_t k = 1; k < 30; k++) {
        char root[300];
        snprintf(root, sizeof root, "%s/%llu", b.folder, (unsigned long long)k);
        b.options.default_root_dir = root;
        tiny_init(&m);
        schedules(&m);
        m.stop_at = k;
        assert_fails(bench_fit(&b, &m, NULL, &t), STK_ECANCELED, &b.err, "stopped");
        /* The step is finished, and the window it is in. */
        assert_true(m.train_steps >= k && m.train_steps < k + 3);
        stk_trainer_destroy(&t);
        from_another_start(&m);
        b.loader.num_workers = (int64_t)(k % 3); /* any number of them gives the same */
        finish(&b, &m, "last", &resumed);
        assert_memory_equal(&straight, &resumed, sizeof straight);
    }
    bench_close(&b);
}

static stk_status stop_at_epoch_1(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                                  stk_error *err)
{
    if (at->epoch == 1)
        stk_trainer_stop(trainer);
    return STK_OK;
}

/* An epoch that was begun without a batch counts once. */
static void stopped_before_the_first_batch(void **state)
{
    stk_trainer_progress straight = {.struct_size = sizeof straight}, resumed = straight;
    stk_trainer *t;
    bench b;
    tiny m;

    set_up(&b);
    tiny_init(&m);
    schedules(&m);
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    stk_trainer_get_progress(t, &straight);
    stk_trainer_destroy(&t);
    for (int run = 0; run < 2; run++) {
        char root[300];
        snprintf(root, sizeof root, "%s/begun", b.folder);
        b.options.default_root_dir = root;
        tiny_init(&m);
        schedules(&m);
        if (run == 0) {
            m.ops.on_train_epoch_start = stop_at_epoch_1;
            assert_fails(bench_fit(&b, &m, NULL, &t), STK_ECANCELED, &b.err, "stopped");
        } else {
            assert_ok(bench_fit(&b, &m, "last", &t), &b.err);
            stk_trainer_get_progress(t, &resumed);
        }
        stk_trainer_destroy(&t);
    }
    assert_int_equal(straight.epochs.total.ready, 3);
    assert_memory_equal(&straight.epochs, &resumed.epochs, sizeof straight.epochs);
    assert_memory_equal(&straight.train_batches.total, &resumed.train_batches.total,
                        sizeof straight.train_batches.total);
    bench_close(&b);
}

/* As after a kill: from each checkpoint of a run that was saved after every step. */
static void from_every_checkpoint(void **state)
{
    bench b;
    tiny m;
    result straight, resumed;
    char dir[300], path[700];
    int found = 0;

    set_up(&b);
    snprintf(dir, sizeof dir, "%s/kept", b.folder);
    checkpoint_options keep = {dir, 1};
    b.user = &keep;
    tiny_init(&m);
    finish(&b, &m, NULL, &straight);
    char other[300];
    snprintf(other, sizeof other, "%s/other", b.folder);
    keep.dirpath = other;
    DIR *folder = opendir(dir);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strstr(entry->d_name, ".safetensors"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        from_another_start(&m);
        finish(&b, &m, path, &resumed);
        assert_memory_equal(&straight, &resumed, sizeof straight);
        found++;
    }
    closedir(folder);
    assert_int_equal(found, 12);
    bench_close(&b);
}

/* Saved when validation ends, which here is in the middle of an accumulation window. */
static void from_within_a_window(void **state)
{
    bench b;
    tiny m;
    result straight, resumed;
    char path[700];
    stk_trainer *t;

    set_up(&b);
    tiny_init(&m);
    b.options.val_check_interval = "5";
    b.options.check_val_every_n_epoch = 0;
    finish(&b, &m, NULL, &straight);
    tiny_init(&m);
    schedules(&m);
    m.fail_at = 7;
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EIO, &b.err, "on purpose");
    snprintf(path, sizeof path, "%s", stk_trainer_best_model_path(t));
    stk_trainer_destroy(&t);
    from_another_start(&m);
    finish(&b, &m, path, &resumed);
    assert_memory_equal(&straight, &resumed, sizeof straight);
    bench_close(&b);
}

/* A run that ended by max_steps goes on within its epoch. */
static void after_max_steps(void **state)
{
    bench b;
    tiny m;
    result straight, resumed;
    stk_trainer *t;

    set_up(&b);
    b.prepare = NULL;
    tiny_init(&m);
    finish(&b, &m, NULL, &straight);
    for (int64_t steps = 1; steps < 12; steps++) {
        char root[300];
        snprintf(root, sizeof root, "%s/%lld", b.folder, (long long)steps);
        b.options.default_root_dir = root;
        b.options.max_steps = steps;
        b.options.val_check_interval = "1.0";
        tiny_init(&m);
        schedules(&m);
        assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
        assert_int_equal(m.optimizer_steps, steps);
        stk_trainer_destroy(&t);
        b.options.max_steps = -1;
        b.options.val_check_interval = "4";
        from_another_start(&m);
        finish(&b, &m, "last", &resumed);
        assert_memory_equal(straight.weight, resumed.weight, sizeof straight.weight);
    }
    bench_close(&b);
}

static void what_is_refused(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    char path[700];

    set_up(&b);
    tiny_init(&m);
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    snprintf(path, sizeof path, "%s", stk_trainer_best_model_path(t));
    stk_trainer_destroy(&t);
    /* Another order of the data. */
    b.loader.batch_size = 5;
    b.options.max_epochs = 4;
    tiny_init(&m);
    m.stop_at = 2;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_trainer_validate(t, &m.base, &b.data, path, &b.err), &b.err);
    /* It is that of the run before. */
    assert_ok(stk_trainer_test(t, &m.base, &b.data, "best", &b.err), &b.err);
    stk_trainer_destroy(&t);
    tiny_init(&m);
    assert_fails(bench_fit(&b, &m, "/nowhere/x.safetensors", &t), STK_ENOENT, &b.err, "/nowhere");
    stk_trainer_destroy(&t);
    /* Nothing to go on from yet: it begins. */
    char root[300];
    snprintf(root, sizeof root, "%s/new", b.folder);
    b.options.default_root_dir = root;
    b.options.max_epochs = 1;
    tiny_init(&m);
    assert_ok(bench_fit(&b, &m, "last", &t), &b.err);
    assert_true(m.train_steps == 8);
    assert_fails(stk_trainer_validate(t, &m.base, &b.data, "/nowhere", &b.err), STK_ENOENT, &b.err,
                 "/nowhere");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* At the beginning of an epoch no place has to be found, but other data are noticed all the same.
 */
static void other_data_at_an_epoch(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    char path[700];

    set_up(&b);
    b.prepare = NULL;
    b.options.val_check_interval = "1.0";
    tiny_init(&m);
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    snprintf(path, sizeof path, "%s", stk_trainer_best_model_path(t));
    stk_trainer_destroy(&t);
    b.options.max_epochs = 5;
    b.options.enable_checkpointing = STK_SWITCH_FALSE;
    const stk_loader_options as_it_was = b.loader;
    for (int other = 0; other < 3; other++) {
        static const char *const said[] = {"another on_error", "other transforms",
                                           "global_batch_size"};
        b.loader = as_it_was;
        if (other == 0)
            b.loader.on_error = STK_ON_ERROR_SKIP;
        else if (other == 1)
            b.loader.transforms = "to_float";
        else
            b.loader.batch_size = 5;
        tiny_init(&m);
        assert_fails(bench_fit(&b, &m, path, &t), STK_EMISMATCH, &b.err, said[other]);
        assert_int_equal(m.train_steps, 0);
        assert_non_null(strstr(b.err.text, path));
        stk_trainer_destroy(&t);
        b.loader.on_state_mismatch = STK_MISMATCH_WARN;
        tiny_init(&m);
        assert_ok(bench_fit(&b, &m, path, &t), &b.err);
        assert_true(m.train_steps > 0);
        stk_trainer_destroy(&t);
    }
    bench_close(&b);
}

static stk_status other_state(stk_module *module, uint32_t kinds, stk_state_visit *visit,
                              void *user, stk_error *err)
{
    static float values[3];
    const stk_state_tensor tensor = {"layer.weight", STK_FLOAT32, 1, {3}, values, sizeof values};

    return kinds & STK_STATE_PARAMETER ? visit(user, STK_STATE_PARAMETER, &tensor, err) : STK_OK;
}

static stk_status renamed_state(stk_module *module, uint32_t kinds, stk_state_visit *visit,
                                void *user, stk_error *err)
{
    static float values[3];
    const stk_state_tensor tensor = {"other", STK_FLOAT32, 1, {3}, values, sizeof values};

    return kinds & STK_STATE_PARAMETER ? visit(user, STK_STATE_PARAMETER, &tensor, err) : STK_OK;
}

static void another_model(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    char path[700];

    set_up(&b);
    b.prepare = NULL;
    tiny_init(&m);
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    snprintf(path, sizeof path, "%s", stk_trainer_best_model_path(t));
    stk_trainer_destroy(&t);
    tiny_init(&m);
    m.ops.state = other_state;
    assert_fails(bench_fit(&b, &m, path, &t), STK_EMISMATCH, &b.err, "float32[6]");
    stk_trainer_destroy(&t);
    m.ops.state = renamed_state;
    assert_fails(bench_fit(&b, &m, path, &t), STK_EMISMATCH, &b.err, "has no 'other'");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_at_every_step), cmocka_unit_test(from_every_checkpoint),
        cmocka_unit_test(from_within_a_window),  cmocka_unit_test(after_max_steps),
        cmocka_unit_test(what_is_refused),       cmocka_unit_test(other_data_at_an_epoch),
        cmocka_unit_test(another_model),         cmocka_unit_test(stopped_before_the_first_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
