/* SPDX-License-Identifier: Apache-2.0 */
/* spike_detection ends a training at Lightning's batches. */
#include "unit/train/said.h"

static double series[16];

static stk_status train_series(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                               stk_loss *loss, stk_error *err)
{
    *loss = (stk_loss){.value = {.value = 1}};
    return stk_trainer_log(trainer, "train_loss", series[at->batch_idx], STK_ON_STEP, 0, err);
}

/* The batches at which Lightning 2.6 raises. */
static void spikes(void **state)
{
    static const struct {
        double losses[10];
        const char *name, *value, *other, *other_value;
        int64_t batch; /* -1: none */
    } cases[] = {
        {{8, 7, 6.5, 6.6, 6.4, 18, 30, 1}, NULL, NULL, NULL, NULL, 6},
        {{8, 7, 6.5, 6.6, 6.4, 18, 30, 1}, "rtol", "1", NULL, NULL, 5},
        {{8, 7, NAN, 1}, NULL, NULL, NULL, NULL, 2},
        {{8, 7, NAN, 1}, "finite_only", "false", NULL, NULL, -1},
        {{1, 4, 9, 9, 40, 1}, "window", "2", "rtol", "1.5", 1},
        {{5, 4, 4.5, 9}, "atol", "6", "rtol", "0", -1},
        {{5, 4, 4.5, 11}, "atol", "6", "rtol", "0", 3},
        {{1, 2, 3, -5}, "mode", "max", NULL, NULL, 3},
        {{8, 7, 8, -30}, NULL, NULL, NULL, NULL, -1},
        {{40, 1, 30, 90}, "warmup", "3", NULL, NULL, 3},
    };
    bench b;
    tiny m;
    stk_trainer *t;
    char said_at[40];

    bench_open(&b);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        tiny_init(&m);
        m.ops.training_step = train_series;
        memcpy(series, cases[i].losses, sizeof cases[i].losses);
        assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
        add(&b, t, &stk__callback_spike_detection, cases[i].name, cases[i].value, cases[i].other,
            cases[i].other_value, NULL);
        const stk_status status = stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err);
        assert_int_equal(status, cases[i].batch < 0 ? STK_OK : STK_EFORMAT);
        snprintf(said_at, sizeof said_at, "in batch %d of epoch 0", (int)cases[i].batch);
        if (status != STK_OK && !strstr(b.err.text, said_at))
            fail_msg("case %zu: %s", i, b.err.text);
        stk_trainer_destroy(&t);
    }
    tiny_init(&m);
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    add(&b, t, &stk__callback_spike_detection, "monitor", "nothing", NULL);
    assert_fails(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), STK_EINVAL, &b.err,
                 "'nothing' is not logged after a batch");
    stk_trainer_destroy(&t);
    bench_close(&b);
}

/* A monitor that is given as none, as `null` in YAML, or left NULL by a program. */
static void spikes_of_nothing(void **state)
{
    static const char *const none[] = {NULL, ""};
    const stk_option_table *table = stk__callback_spike_detection.options;
    const stk_option *monitor = stk_options_find(table, "monitor");
    stk_callback *out = NULL;
    uint64_t room[64];
    bench b;

    bench_open(&b);
    for (size_t i = 0; i < STK_COUNT(none); i++) {
        stk_options_init(table, room, table->struct_size);
        memcpy((char *)room + monitor->offset, &none[i], sizeof none[i]);
        assert_fails(stk__callback_spike_detection.create(b.ctx, room, &out, &b.err), STK_EINVAL,
                     &b.err, "spike_detection.monitor: it has to be given, as train_loss");
        assert_null(out);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spikes),
        cmocka_unit_test(spikes_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
