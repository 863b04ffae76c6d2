/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown: lines of the bar, the summary, the tables of results. */
#include "train/callbacks/progress_bar.h"
#include "unit/train/said.h"

static void numbers(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{2.34, "2.340"}, {0.5, "0.500"},     {1, "1.000"},    {100, "100.0"},
                 {0, "0.000"},    {1234, "1.23e+03"}, {1e-7, "1e-07"}, {-2.5, "-2.50"}};
    char text[40];

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__bar_number(text, sizeof text, cases[i].value);
        assert_string_equal(text, cases[i].text);
    }
}

/* The same as tqdm 4 draws in 100 columns, but for the last column, which stays free. */
static void lines(void **state)
{
    char text[2400];

    stk__bar_line(text, sizeof text, 0, "Epoch 0", 42, 100, 0.5, "v_num=0, x=1.000");
    assert_string_equal(text, "Epoch 0:  42%|\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88"
                              "\xe2\x96\x8f     | 42/100 [00:00<00:00, 84.00it/s, v_num=0, "
                              "x=1.000]");
    stk__bar_line(text, sizeof text, 60, "Sanity Checking DataLoader 0", 0, 2, 0, "");
    assert_string_equal(text, "Sanity Checking DataLoader 0:   0%|    | 0/2 [00:00<?, ?it/s]");
    stk__bar_line(text, sizeof text, 50, "E", 7200, 7200, 7200, "");
    assert_string_equal(text + strlen(text) - 34, "| 7200/7200 [2:00:00<00:00,  1.00it/s]" + 4);
}

static bool two_layers(const stk_module *module, size_t i, stk_layer *out)
{
    static const stk_layer layers[] = {
        {.name = "l1",
         .type = "Linear",
         .parameters = 100480,
         .trainable = 100480,
         .flops = 200704,
         .training = true,
         .depth = 1},
        {.name = "l1.inner", .type = "ReLU", .training = true, .depth = 2},
        {.name = "l2",
         .type = "Linear",
         .parameters = 1290,
         .trainable = 1290,
         .flops = 2560,
         .depth = 1}};

    if (i >= STK_COUNT(layers))
        return false;
    *out = layers[i];
    return true;
}

static void summary(void **state)
{
    static const char expected[] = "GPU available: False, used: False\n"
                                   "TPU available: False, using: 0 TPU cores\n"
                                   "  | Name | Type   | Params | Mode  | FLOPs\n"
                                   "------------------------------------------\n"
                                   "0 | l1   | Linear | 100 K  | train | 200 K\n"
                                   "1 | l2   | Linear | 1.3 K  | eval  | 2.6 K\n"
                                   "------------------------------------------\n"
                                   "6         Trainable params\n"
                                   "0         Non-trainable params\n"
                                   "6         Total params\n"
                                   "0.000     Total estimated model params size (MB)\n"
                                   "2         Modules in train mode\n"
                                   "1         Modules in eval mode\n"
                                   "203 K     Total Flops\n";
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    m.ops.layer = two_layers;
    b.options.enable_model_summary = STK_SWITCH_TRUE;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    listen_to(t);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    said[sizeof expected - 1] = 0;
    assert_string_equal(said, expected);
    stk_trainer_destroy(&t);
    b.options.enable_model_summary = STK_SWITCH_FALSE;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    listen_to(t);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_null(strstr(said, "Trainable"));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* A terminal: bars are drawn by another thread, one call at a time. */
static atomic_int bars, inside;
static char last_bar[2400];

static void show_bar(void *user, const char *text)
{
    assert_int_equal(atomic_fetch_add(&inside, 1), 0);
    if (text)
        snprintf(last_bar, sizeof last_bar, "%s", text);
    atomic_fetch_add(&bars, 1);
    atomic_fetch_sub(&inside, 1);
}

static void on_a_terminal(void **state)
{
    const stk_console console = {.struct_size = sizeof console, .line = say_line, .bar = show_bar};
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    b.options.enable_progress_bar = STK_SWITCH_TRUE;
    b.options.num_sanity_val_steps = 2;
    b.options.max_epochs = 2;
    b.options.seed_everything = 42;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    *said = 0;
    stk_trainer_set_console(t, &console);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_true(atomic_load(&bars) > 0);
    assert_non_null(strstr(said, "Seed set to 42\n"));
    assert_non_null(strstr(said, "Epoch 1: 100%|"));
    assert_non_null(strstr(said, "| 10/10 ["));
    assert_non_null(strstr(said, "val_loss=1.000"));
    assert_null(strstr(said, "Epoch 0:"));
    assert_non_null(strstr(said, "`Trainer.fit` stopped: `max_epochs=2` reached.\n"));
    *said = 0;
    assert_ok(stk_trainer_test(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_non_null(strstr(said, "Testing DataLoader 0: 100%|"));
    assert_non_null(strstr(said, "Test metric"));
    assert_non_null(strstr(said, "test_loss"));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void off_a_terminal(void **state)
{
    bench b;
    tiny m;
    stk_trainer *t;

    bench_open(&b);
    tiny_init(&m);
    b.options.enable_progress_bar = STK_SWITCH_TRUE;
    b.options.max_epochs = 2;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    listen_to(t);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_non_null(strstr(said, "Epoch 0: 100%|"));
    assert_non_null(strstr(said, "Epoch 1: 100%|"));
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* Numbers of an epoch that were shown; a step waits until its number had a chance to be. */
static atomic_int draws;
static bool shown[11];

static void note_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    if (strncmp(what, "Epoch", 5) == 0 && done <= 10)
        shown[done] = true;
    atomic_fetch_add(&draws, 1);
}

static stk_status wait_for_a_draw(stk_module *module, stk_trainer *t, const stk_moment *at,
                                  stk_loss *loss, stk_error *err)
{
    const int before = atomic_load(&draws);

    while (atomic_load(&draws) == before)
        sched_yield();
    return tiny_training_step(module, t, at, loss, err);
}

static void at_each_fourth_batch(void **state)
{
    const stk_console progress = {
        .struct_size = sizeof progress, .line = say_line, .progress = note_progress};
    bench b;
    tiny m;
    stk_trainer *t;

    for (int off = 0; off < 2; off++) {
        bench_open(&b);
        tiny_init(&m);
        if (!off)
            m.ops.training_step = wait_for_a_draw;
        b.data.num_val = 0;
        b.options.max_epochs = 1;
        assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
        stk_trainer_set_console(t, &progress);
        add(&b, t, &stk__callback_progress_bar, "refresh_rate", off ? "0" : "4", NULL);
        memset(shown, 0, sizeof shown);
        atomic_store(&draws, 0);
        assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
        for (int i = 0; i <= 10; i++)
            assert_int_equal(shown[i], !off && (i % 4 == 0 || i == 10));
        assert_int_equal(atomic_load(&draws) == 0, off);
        stk_trainer_destroy(&t);
        bench_close(&b);
    }
}

/* The bar has what is done of the epoch, also where another run did it. */
static stk_status look_at_the_bar(stk_module *module, stk_trainer *t, const stk_moment *at,
                                  stk_error *err)
{
    uint64_t done, total;

    stk_trainer_get_bar(t, STK_PHASE_TRAIN, &done, &total);
    assert_int_equal(done, at->batch_idx);
    assert_int_equal(total, 10);
    return STK_OK;
}

static void goes_on_where_it_was(void **state)
{
    stk_trainer *t;
    bench b;
    tiny m;

    bench_open(&b);
    b.options.enable_checkpointing = STK_SWITCH_TRUE;
    b.options.max_epochs = 2;
    for (int again = 0; again < 2; again++) {
        tiny_init(&m);
        m.ops.on_train_batch_start = look_at_the_bar;
        m.stop_at = again ? 0 : 13;
        assert_int_equal(bench_fit(&b, &m, again ? "last" : NULL, &t),
                         again ? STK_OK : STK_ECANCELED);
        stk_trainer_destroy(&t);
    }
    assert_int_equal(m.train_steps, 7);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(lines),
        cmocka_unit_test(summary),
        cmocka_unit_test(on_a_terminal),
        cmocka_unit_test(off_a_terminal),
        cmocka_unit_test(at_each_fourth_batch),
        cmocka_unit_test(goes_on_where_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
