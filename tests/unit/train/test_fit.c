/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: how often what is called, and each option that says so. */
#include <pthread.h>

#include "train/ledger.h"
#include "unit/train/tiny.h"

static void one_epoch(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    stk_trainer_progress p = {.struct_size = sizeof p};

    bench_open(&b);
    tiny_init(&m);
    b.options.max_epochs = 3;
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    assert_int_equal(m.train_steps, 30);
    assert_int_equal(m.backwards, 30);
    assert_int_equal(m.optimizer_steps, 30);
    assert_int_equal(m.zero_grads, 30);
    assert_int_equal(m.val_steps, 9);
    assert_true(m.training);
    assert_int_equal(stk_trainer_current_epoch(t), 3);
    assert_int_equal(stk_trainer_global_step(t), 30);
    stk_trainer_get_progress(t, &p);
    assert_int_equal(p.epochs.total.completed, 3);
    assert_int_equal(p.train_batches.total.ready, 30);
    assert_int_equal(p.train_batches.total.completed, 30);
    assert_int_equal(p.train_batches.current.completed, 10);
    assert_int_equal(p.optimizer_steps.total.completed, 30);
    assert_int_equal(p.val_batches.total.completed, 9);
    assert_int_equal(p.val_batches.current.completed, 3);
    double value;
    assert_true(stk_trainer_metric(t, "val_loss", &value));
    assert_true(value == 1);
    assert_true(stk_trainer_metric(t, "train_loss_step", &value));
    assert_true(value == m.loss);
    assert_true(stk_trainer_metric(t, "train_loss_epoch", &value));
    assert_false(stk_trainer_metric(t, "nothing", &value));
    stk_trainer_destroy(&t);
    assert_null(t);
    bench_close(&b);
}

static void limits(void **state)
{
    static const struct {
        const char *limit;
        uint64_t steps;
    } cases[] = {{"1.0", 10}, {"0.5", 5}, {"3", 3}, {"1", 1}, {"100", 10}, {"0", 0}, {"0.0", 0}};
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        b.options.limit_train_batches = cases[i].limit;
        bench_train(&b, &m);
        assert_int_equal(m.train_steps, cases[i].steps);
        assert_int_equal(m.val_steps, cases[i].steps ? 3 : 0);
    }
    b.options.limit_train_batches = "0.05";
    tiny_init(&m);
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "limit_train_batches");
    stk_trainer_destroy(&t);
    b.options.limit_train_batches = "1.0";
    b.options.limit_val_batches = "2";
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 2);
    b.options.limit_val_batches = "0";
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 0);
    bench_close(&b);
}

static void no_time(bench *b, stk_trainer *t, void *user)
{
    stk__timer_options options;

    stk_options_init(stk__callback_timer.options, &options, sizeof options);
    options.duration = "00:00:00:00";
    assert_ok(stk_trainer_add_callback(t, &stk__callback_timer, &options, NULL, &b->err), &b->err);
}

static void ends(void **state)
{
    bench b;
    tiny m;

    bench_open(&b);
    b.options.max_epochs = -2;
    b.options.max_steps = 23;
    bench_train(&b, &m);
    assert_int_equal(m.optimizer_steps, 23);
    b.options.max_epochs = 0;
    bench_train(&b, &m);
    assert_int_equal(m.train_steps, 0);
    b.options.max_epochs = 2;
    bench_train(&b, &m);
    assert_int_equal(m.optimizer_steps, 20);
    b.options.max_steps = 4;
    bench_train(&b, &m);
    assert_int_equal(m.optimizer_steps, 4);
    b.options.max_steps = -1;
    b.options.max_epochs = -1;
    b.options.max_time = "00:00:00:01";
    b.options.limit_val_batches = "0";
    bench_train(&b, &m);
    assert_true(m.optimizer_steps > 20);
    b.options.max_time = NULL;
    b.prepare = no_time;
    bench_train(&b, &m);
    assert_int_equal(m.optimizer_steps, 0);
    /* The least counts more than what would stop earlier. */
    b.options.min_epochs = 2;
    bench_train(&b, &m);
    assert_int_equal(m.optimizer_steps, 20);
    b.options.min_epochs = 0;
    b.options.min_steps = 7;
    bench_train(&b, &m);
    assert_int_equal(m.optimizer_steps, 7);
    bench_close(&b);
}

static void validation_points(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.options.val_check_interval = "0.25"; /* every 2 of 10 batches */
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 15);
    b.options.val_check_interval = "4";
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 6);
    /* Across epochs: 40 batches of training, every 7. */
    b.options.max_epochs = 4;
    b.options.check_val_every_n_epoch = 0;
    b.options.val_check_interval = "7";
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 15);
    b.options.check_val_every_n_epoch = 2;
    b.options.val_check_interval = "1.0";
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 6);
    b.options.check_val_every_n_epoch = 1;
    b.options.val_check_interval = "11";
    tiny_init(&m);
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "val_check_interval");
    stk_trainer_destroy(&t);
    /* By time: never within a test, unless the interval is as good as none. */
    b.options.val_check_interval = "01:00:00:00";
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 0);
    b.options.val_check_interval = "1.0";
    b.options.num_sanity_val_steps = 2;
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 14);
    b.options.num_sanity_val_steps = -1;
    bench_train(&b, &m);
    assert_int_equal(m.val_steps, 15);
    bench_close(&b);
}

static void accumulation(void **state)
{
    bench b;
    tiny m;

    bench_open(&b);
    b.options.accumulate_grad_batches = 4;
    bench_train(&b, &m);
    /* Two whole windows, and what is left at the end of the epoch. */
    assert_int_equal(m.optimizer_steps, 3);
    assert_int_equal(m.zero_grads, 3);
    assert_int_equal(m.backwards, 10);
    assert_true(m.last_scale == 0.25);
    b.options.max_steps = 2;
    bench_train(&b, &m);
    assert_int_equal(m.train_steps, 8);
    bench_close(&b);
}

static void run_with(bench *b, float out[TINY_SIZE])
{
    tiny m;

    bench_train(b, &m);
    memcpy(out, m.weight, sizeof m.weight);
}

static double norm_of_step(const bench *b, const float *weight, double lr)
{
    tiny m;
    double sum = 0;

    tiny_init(&m);
    for (int i = 0; i < TINY_SIZE; i++)
        sum += pow((double)(weight[i] - m.weight[i]) / lr, 2);
    return sqrt(sum);
}

static void clipping(void **state)
{
    bench b;
    float free_one[TINY_SIZE], norm[TINY_SIZE], value[TINY_SIZE];
    tiny m;

    bench_open(&b);
    b.options.limit_train_batches = "1";
    run_with(&b, free_one);
    assert_true(norm_of_step(&b, free_one, 0.01) > 0.05);
    b.options.gradient_clip_val = 0.05;
    run_with(&b, norm);
    assert_true(fabs(norm_of_step(&b, norm, 0.01) - 0.05) < 1e-3);
    b.options.gradient_clip_algorithm = STK_CLIP_VALUE;
    run_with(&b, value);
    tiny_init(&m);
    int bounded = 0;
    for (int i = 0; i < TINY_SIZE; i++) {
        /* Each by itself: those within the bound stay, the others keep their sign. */
        double step = (free_one[i] - m.weight[i]) / 0.01;
        double wanted = fmax(fmin(step, 0.05), -0.05);
        assert_true(fabs((value[i] - m.weight[i]) / 0.01 - wanted) < 1e-4);
        bounded += fabs(step) > 0.05;
    }
    assert_true(bounded > 0 && bounded < TINY_SIZE);
    bench_close(&b);
}

static void overfitting(void **state)
{
    bench b;
    tiny m;
    uint64_t seen;

    bench_open(&b);
    b.options.overfit_batches = "2";
    b.options.max_epochs = 2;
    bench_train(&b, &m);
    assert_int_equal(m.train_steps, 4);
    assert_int_equal(m.val_steps, 4);
    seen = 0;
    for (int epoch = 0; epoch < 2; epoch++)
        for (uint64_t k = 0; k < 8; k++)
            seen = seen * 1099511628211u + k + 1;
    assert_true(m.seen == seen);
    bench_close(&b);
}

static void dev_run(void **state)
{
    bench b;
    tiny m;

    bench_open(&b);
    b.options.max_epochs = 7;
    b.options.num_sanity_val_steps = 2;
    b.options.fast_dev_run = "true";
    bench_train(&b, &m);
    assert_int_equal(m.train_steps, 1);
    assert_int_equal(m.val_steps, 1);
    b.options.fast_dev_run = "3";
    bench_train(&b, &m);
    assert_int_equal(m.train_steps, 3);
    bench_close(&b);
}

static void seeds_and_sizes(void **state)
{
    bench b;
    tiny m, n;

    bench_open(&b);
    bench_train(&b, &m);
    b.options.seed_everything = 5;
    bench_train(&b, &n);
    assert_true(m.seen == n.seen);
    assert_int_equal(n.setup.seed, 5);
    b.options.seed_everything = 6;
    bench_train(&b, &n);
    assert_true(m.seen != n.seen);
    assert_int_equal(n.setup.batch_size, 4);
    assert_int_equal(n.setup.eval_batch_size, 16);
    assert_true(n.setup.training);
    assert_string_equal(n.setup.precision, "32-true");
    b.options.val_batch_size = 40;
    b.options.precision = "bf16";
    b.options.deterministic = true;
    bench_train(&b, &n);
    assert_int_equal(n.val_steps, 1);
    assert_int_equal(n.setup.eval_batch_size, 40);
    assert_string_equal(n.setup.precision, "bf16-mixed");
    assert_true(n.setup.deterministic);
    bench_close(&b);
}

static stk_status open_loader(void *user, stk_loader **out, stk_error *err)
{
    bench *b = user;

    b->loader.seed++;
    return stk_loader_create(b->dataset, &b->loader, out, err);
}

static void reloading(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    b.train = (stk_loader_source){.struct_size = sizeof b.train, .open = open_loader, .user = &b};
    b.options.max_epochs = 5;
    bench_train(&b, &m);
    assert_int_equal(b.loader.seed, 6);
    b.options.reload_dataloaders_every_n_epochs = 2;
    bench_train(&b, &m);
    assert_int_equal(b.loader.seed, 9);
    assert_int_equal(m.train_steps, 50);
    /* A loader of the caller's own cannot be made again. */
    stk_loader *loader;
    assert_ok(stk_loader_create(b.dataset, &b.loader, &loader, &b.err), &b.err);
    b.train = (stk_loader_source){.struct_size = sizeof b.train, .loader = loader};
    tiny_init(&m);
    assert_fails(bench_fit(&b, &m, NULL, &t), STK_EINVAL, &b.err, "reload_dataloaders");
    stk_trainer_destroy(&t);
    b.options.reload_dataloaders_every_n_epochs = 0;
    bench_train(&b, &m);
    assert_int_equal(m.train_steps, 50);
    stk_loader_destroy(&loader);
    bench_close(&b);
}

static void other_tasks(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    double value;

    bench_open(&b);
    tiny_init(&m);
    b.options.limit_test_batches = "2";
    b.options.limit_predict_batches = "1";
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_trainer_validate(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_int_equal(m.val_steps, 3);
    assert_false(m.setup.training);
    assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_int_equal(m.test_steps, 2);
    /* Batches 0 and 1 of 16 samples: the mean is weighted by size. */
    assert_true(stk_trainer_metric(t, "test_loss", &value));
    assert_true(value == 0.5);
    assert_ok(stk_trainer_predict(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_int_equal(m.predict_steps, 1);
    stk_trainer_destroy(&t);
    b.options.inference_mode = false;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_true(m.setup.training);
    m.ops.predict_step = NULL;
    assert_fails(stk_trainer_predict(t, &m.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err,
                 "predict_step");
    b.data.num_val = 0;
    assert_fails(stk_trainer_validate(t, &m.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err,
                 "no loader");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void times_add_up(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    stk_trainer_times times = {.struct_size = sizeof times};
    char text[600];

    bench_open(&b);
    tiny_init(&m);
    assert_ok(bench_fit(&b, &m, NULL, &t), &b.err);
    stk_trainer_get_times(t, &times);
    assert_int_equal(times.steps, 10);
    assert_int_equal(times.samples, 40);
    assert_true(times.step > 0 && times.data_wait > 0 && times.validation > 0);
    assert_true(times.wall == times.data_wait + times.transfer + times.step + times.validation +
                                  times.callbacks + times.logging + times.checkpoint + times.other);
    /* The parts are all the time there was. */
    assert_true(times.wall == t->ledger.last_ns - t->ledger.begin_ns);
    /* And so are the parts of the waits. */
    uint64_t waited = 0;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        waited += times.waits.parts_ns[i];
    assert_true(waited == times.data_wait && times.waits.total_ns == waited);
    assert_true(times.waits.batches >= times.steps);
    assert_true(stk__trainer_times_format(&times, text, sizeof text) > 0);
    assert_non_null(strstr(text, "10 training batches"));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void *stop_it(void *trainer)
{
    stk_trainer_stop(trainer);
    return NULL;
}

/* Another thread, or a signal, ends a run that has no end; it can be taken up again. */
static void stopped_from_another_thread(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;
    pthread_t thread;

    bench_open(&b);
    tiny_init(&m);
    m.noise = 0;
    b.loader.num_workers = 2;
    b.options.max_epochs = -1;
    b.options.num_sanity_val_steps = 2;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    for (int k = 0; k < 20; k++) {
        assert_int_equal(pthread_create(&thread, NULL, stop_it, t), 0);
        assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_ECANCELED, &b.err,
                     "stopped");
        pthread_join(thread, NULL);
        assert_fails(stk_trainer_validate(t, &m.base, &b.data, NULL, &b.err), STK_ECANCELED, &b.err,
                     "stopped");
        stk_trainer_resume(t);
    }
    stk_trainer_destroy(&t);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_epoch),
        cmocka_unit_test(limits),
        cmocka_unit_test(ends),
        cmocka_unit_test(validation_points),
        cmocka_unit_test(accumulation),
        cmocka_unit_test(clipping),
        cmocka_unit_test(overfitting),
        cmocka_unit_test(dev_run),
        cmocka_unit_test(reloading),
        cmocka_unit_test(seeds_and_sizes),
        cmocka_unit_test(other_tasks),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(stopped_from_another_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
