/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of a training goes. Everything that a trainer calls sleeps for a while and notes
 * how long: each part is at least what was slept in it, and all parts are the time there was. So
 * nothing can stand in a part that it does not belong to, however late the machine wakes a thread.
 */
#include <time.h>

#include "unit/train/tiny.h"

enum { NAP_US = 500, EPOCHS = 3 };

/* What was slept where, ns. */
static uint64_t slept[STK__PARTS], first_nap_ns, last_nap_ns;

static void nap(enum stk__part part)
{
    const uint64_t from = stk__now_ns();

    nanosleep(&(struct timespec){.tv_nsec = NAP_US * 1000}, NULL);
    last_nap_ns = stk__now_ns();
    slept[part] += last_nap_ns - from;
    if (first_nap_ns == 0)
        first_nap_ns = from;
}

static uint64_t slept_optimizer; /* at least */
static stk_status optimizer(stk_module *module, const stk_moment *at, stk_error *err);

static stk_status step(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                       stk_loss *loss, stk_error *err)
{
    nap(STK__PART_STEP);
    return tiny_training_step(module, trainer, at, loss, err);
}

static stk_status validation(stk_module *module, stk_trainer *trainer, const stk_moment *at,
                             stk_error *err)
{
    nap(STK__PART_VALIDATION);
    return tiny_validation_step(module, trainer, at, err);
}

static stk_status transfer(stk_module *module, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    nap(at->phase == STK_PHASE_TRAIN ? STK__PART_TRANSFER : STK__PART_VALIDATION);
    return STK_OK;
}

/* ---- A callback that takes its time in every hook -------------------------------------------- */

static bool live; /* the times were looked at while the training went on */

static uint64_t sum_of(const stk_trainer_times *times)
{
    return times->data_wait + times->transfer + times->step + times->validation + times->callbacks +
           times->logging + times->checkpoint + times->other;
}

static stk_status on_batch(stk_callback *self, stk_trainer *t, const stk_moment *at, stk_error *err)
{
    stk_loader_stats begin = {.struct_size = sizeof begin}, end = {.struct_size = sizeof end};
    stk_trainer_times times = {.struct_size = sizeof times};

    nap(STK__PART_CALLBACKS);
    stk_trainer_get_times(t, &times);
    stk_trainer_get_loader_stats(t, &begin, &end);
    assert_true(times.wall == sum_of(&times));
    assert_int_equal(times.steps, t->loop.total_done);
    /* The loader has handed out this batch, also where it is not the first that there was. */
    assert_int_equal(end.waits.batches - begin.waits.batches, t->loop.total_done);
    assert_int_equal(times.waits.batches, t->loop.total_done);
    assert_true(times.step >= slept[STK__PART_STEP]);
    live = true;
    return STK_OK;
}

static stk_status on_validation_end(stk_callback *self, stk_trainer *t, const stk_moment *at,
                                    stk_error *err)
{
    stk_trainer_times before = {.struct_size = sizeof before},
                      after = {.struct_size = sizeof after};
    const uint64_t slept_before = slept[STK__PART_CHECKPOINT];
    char path[512];

    nap(STK__PART_VALIDATION);
    snprintf(path, sizeof path, "%s/a.safetensors", t->options.default_root_dir);
    stk_trainer_get_times(t, &before);
    stk_status status = stk_trainer_save(t, path, false, NULL, err);
    stk_trainer_get_times(t, &after);
    assert_true(slept[STK__PART_CHECKPOINT] > slept_before);
    assert_true(after.checkpoint - before.checkpoint >= slept[STK__PART_CHECKPOINT] - slept_before);
    nap(STK__PART_VALIDATION);
    return status;
}

static stk_status state_dict(stk_callback *self, stk_saver *to, stk_error *err)
{
    nap(STK__PART_CHECKPOINT);
    return stk_saver_text(to, "slow", "yes", err);
}

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err);

static void destroy(stk_callback *callback)
{
    free(callback);
}

static const stk_callback_ops slow_ops = {.struct_size = sizeof slow_ops,
                                          .name = "slow",
                                          .doc = "takes its time",
                                          .create = create,
                                          .destroy = destroy,
                                          .state_dict = state_dict,
                                          .on_train_batch_end = on_batch,
                                          .on_validation_end = on_validation_end};

static stk_status create(stk_context *ctx, const void *options, stk_callback **out, stk_error *err)
{
    *out = calloc(1, sizeof **out);
    **out = (stk_callback){&slow_ops, ctx};
    return STK_OK;
}

static void add_slow(bench *b, stk_trainer *t, void *user)
{
    assert_ok(stk_trainer_add_callback(t, &slow_ops, NULL, NULL, &b->err), &b->err);
}

/* ---- The parts ------------------------------------------------------------------------------- */

/* Fit; the times. The ledger begins before anything that the trainer calls, and ends behind it. */
static void fit(bench *b, stk_trainer_times *times)
{
    stk_trainer *t;
    tiny m;

    memset(slept, 0, sizeof slept);
    live = false;
    first_nap_ns = last_nap_ns = 0;
    tiny_init(&m);
    m.ops.training_step = step;
    m.ops.validation_step = validation;
    m.ops.optimizer_step = optimizer;
    m.ops.on_before_batch_transfer = transfer;
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    add_slow(b, t, NULL);
    const uint64_t from = stk__now_ns();
    assert_ok(stk_trainer_fit(t, &m.base, &b->data, NULL, &b->err), &b->err);
    const uint64_t until = stk__now_ns();
    stk_trainer_get_times(t, times);
    const stk__ledger *ledger = &t->ledger;
    assert_true(from <= ledger->begin_ns && ledger->begin_ns <= first_nap_ns);
    assert_true(last_nap_ns <= ledger->last_ns && ledger->last_ns <= until);
    /* What the ledger's own stamps say, to the nanosecond, and nothing beside it. */
    assert_true(times->wall == ledger->last_ns - ledger->begin_ns);
    assert_true(times->wall == sum_of(times));
    stk_trainer_destroy(&t);
    assert_true(live);
}

static void parts_hold_what_was_done(void **state)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    bench b;

    bench_open(&b);
    b.options.max_epochs = EPOCHS;
    b.options.num_sanity_val_steps = 1;
    fit(&b, &times);
    assert_int_equal(times.steps, EPOCHS * 10);
    assert_true(times.step >= slept[STK__PART_STEP] && slept[STK__PART_STEP] > 0);
    assert_true(times.transfer >= slept[STK__PART_TRANSFER] && slept[STK__PART_TRANSFER] > 0);
    assert_true(times.callbacks >= slept[STK__PART_CALLBACKS]);
    assert_true(times.validation >= slept[STK__PART_VALIDATION]);
    /* Those made in the middle of validation, too: after each epoch's and the sanity check's. */
    assert_true(times.checkpoint >= slept[STK__PART_CHECKPOINT]);
    assert_true(slept[STK__PART_CHECKPOINT] >= (EPOCHS + 1) * NAP_US * UINT64_C(1000));
    assert_true(times.validation <= times.wall - times.step - times.checkpoint);
    bench_close(&b);
}

static stk_status optimizer(stk_module *module, const stk_moment *at, stk_error *err)
{
    nap(STK__PART_STEP);
    slept_optimizer += NAP_US * UINT64_C(1000);
    return tiny_optimizer_step(module, at, err);
}

/* Where batches accumulate, the optimizer's steps are counted and are a part of the step's time. */
static void accumulation_is_told(void **state)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    char text[1200];
    bench b;

    bench_open(&b);
    b.options.max_epochs = EPOCHS;
    fit(&b, &times);
    assert_true(times.optimizer_steps == 0 && times.optimizer == 0);
    b.options.accumulate_grad_batches = 4;
    slept_optimizer = 0;
    fit(&b, &times);
    assert_int_equal(times.optimizer_steps, EPOCHS * 3);
    assert_true(slept_optimizer == times.optimizer_steps * NAP_US * UINT64_C(1000));
    assert_true(times.optimizer >= slept_optimizer && times.optimizer < times.step);
    stk__trainer_times_format(&times, text, sizeof text);
    assert_non_null(strstr(text, "30 training batches, 9 steps of the optimizer ("));
    /* What a cache saved is said last. */
    assert_null(strstr(text, "the cache saved"));
    times.tiers.of[STK_TIER_DISK] = (stk_tier){.reads = 1, .bytes = 1 << 20, .ns = 1};
    stk__trainer_times_format(&times, text, sizeof text);
    assert_non_null(strstr(text, ". Of 1 MiB that were read, 100.0 % came from the disk"));
    bench_close(&b);
}

/* A loader that is made anew counts from 0; the waits of the one before are not forgotten. */
static void reloaded_loaders_are_counted_on(void **state)
{
    stk_trainer_times times = {.struct_size = sizeof times};
    bench b;

    bench_open(&b);
    b.options.max_epochs = EPOCHS;
    b.options.reload_dataloaders_every_n_epochs = 1;
    fit(&b, &times);
    assert_int_equal(times.waits.batches, EPOCHS * 10);
    uint64_t sum = 0;
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        sum += times.waits.parts_ns[i];
    assert_true(sum == times.data_wait && times.waits.total_ns == times.data_wait);
    assert_true(times.waits.parts_ns[STK_WAIT_EPOCH_TURN] > 0);
    bench_close(&b);
}

/* Whatever is marked, and however deep: no nanosecond is lost or counted twice. */
static void marks_conserve_time(void **state)
{
    uint64_t seed = 20260114;

    for (int round = 0; round < 200; round++) {
        stk__ledger ledger;
        stk__ledger_begin(&ledger);
        for (int i = 0; i < 100; i++) {
            const uint64_t r = test_random(&seed);
            ledger.depth = (r >> 8) % 3;
            const uint64_t validated = ledger.parts[STK__PART_VALIDATION], last = ledger.last_ns;
            stk__ledger_mark(&ledger, (enum stk__part)(r % STK__PARTS));
            if (ledger.depth)
                assert_true(ledger.parts[STK__PART_VALIDATION] - validated ==
                            ledger.last_ns - last);
        }
        uint64_t sum = 0;
        for (int i = 0; i < STK__PARTS; i++)
            sum += ledger.parts[i];
        assert_true(sum == ledger.last_ns - ledger.begin_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_hold_what_was_done),
        cmocka_unit_test(accumulation_is_told),
        cmocka_unit_test(reloaded_loaders_are_counted_on),
        cmocka_unit_test(marks_conserve_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
