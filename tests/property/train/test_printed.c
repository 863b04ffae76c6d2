/* SPDX-License-Identifier: Apache-2.0 */
/* What a training prints is what the file that it names gives, over drawn configurations: means,
 * schedules, precisions, kept checkpoints, where epochs end and validation comes, and runs that
 * were interrupted and went on. */
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "unit/recipe/recipes.h"

enum { DRAWS = 12, TEXT = 4096, LEAST_STEPS = 6 };

typedef struct draw {
    uint64_t number, next;
} draw;

static uint32_t below(draw *d, uint32_t n)
{
    uint32_t words[4];

    stk__draw(d->number, 0, d->next++, STK_DRAW_DATA, words, 4);
    return words[0] % n;
}

#define PICK(d, list) (list)[below(d, sizeof(list) / sizeof *(list))]

typedef struct drawn {
    char text[TEXT]; /* of the configuration, but for the folder */
    bool named;      /* the checkpoints have the loss that was validated in their names */
    bool to_the_end; /* the newest is of the last step: what training leaves is in it */
} drawn;

static void draw_config(draw *d, drawn *out)
{
    static const char *const models[] = {
        "flatten, 'a=linear(12), relu', linear(10)",
        "flatten, a=linear(12), relu, dropout(0.3), linear(10)",
        "'a=conv2d(3, 3), an=batch_norm2d', relu, global_avg_pool2d, flatten, linear(10)"};
    static const char *const optimizers[] = {"name: sgd, momentum: 0.9, lr: 0.02",
                                             "name: adam, lr: 0.01", "name: adamw, lr: 0.005"};
    static const char *const schedules[] = {
        "constant",
        "step, step_size: 3",
        "exponential, gamma: 0.9",
        "cosine",
        "one_cycle",
        "reduce_on_plateau, patience: 0",
        "linear",
        "polynomial, power: 2",
    };
    enum { CONSTANT = 0, PLATEAU = 5 };
    static const char *const intervals[] = {"epoch", "step", "step, frequency: 2"};
#ifdef STK_WITH_ONEDNN
    static const char *const precisions[] = {"32-true", "bf16-mixed", "64-true"};
#else
    static const char *const precisions[] = {"64-true"};
#endif
    static const char *const kept[] = {"monitor=val_loss", "monitor=val_acc, mode=max",
                                       "monitor=val_loss, save_top_k=2, save_last=true",
                                       "every_n_train_steps=3", "save_last=link"};
    static const char *const more[] = {"",
                                       "'ema(0.8)', ",
                                       "'ema(0.5, update_every_n_steps=2)', ",
                                       "'early_stopping(monitor=val_loss, patience=1)', ",
                                       "'ema(0.9)', 'early_stopping(monitor=val_acc, mode=max)', ",
                                       "'ema(0.7, update_starting_at_epoch=1)', ",
                                       "'weight_averaging', ",
                                       "'weight_averaging(interval=epoch)', "};
    /* Where validation comes, but once an epoch; or the end, but with an epoch. */
    static const char *const times[] = {"", "", "val_check_interval: 0.5, ",
                                        "val_check_interval: 2, ", "check_val_every_n_epoch: 2, "};
    enum { SELDOM = 4 };
    /* A second one that saves, without which weights alone would be all there is. */
    static const char *const second[] = {"", "",
                                         "'model_checkpoint(%severy_n_train_steps=2, "
                                         "filename=\"often-{step}\")', "};
    static const char *const parts[] = {
        "", "", "'backbone_finetuning(pattern=a*, unfreeze_backbone_at_epoch=1)', "};
    const uint32_t which = below(d, 5), schedule = below(d, STK_COUNT(schedules));
    const bool warms_up = below(d, 3) == 0, versions = below(d, 2);
    const uint32_t also = below(d, STK_COUNT(second)), extra = below(d, STK_COUNT(more));
    uint32_t when = below(d, STK_COUNT(times));
    const bool cut = when != SELDOM && below(d, 2);
    /* What the second saved knows nothing of later weights, and behind a cut nothing follows it. */
    const char *alone = *second[also] && !cut && below(d, 2) ? ", save_weights_only=true" : "";
    const char *to = versions ? "" : "dirpath=@/kept, ";
    char steps[32] = "", others[128];
    /* A schedule of a metric moves where that is there, and one that is none does not move. */
    const uint32_t interval =
        schedule == PLATEAU || (schedule == CONSTANT && !warms_up) ? 0 : below(d, 3);

    /* A training has some steps. */
    if ((when == SELDOM && schedule == PLATEAU) ||
        (when != SELDOM && strstr(more[extra], "early_stopping")))
        when = 0;
    /* After the first validation. */
    if (cut)
        snprintf(steps, sizeof steps, "max_steps: %u, ", LEAST_STEPS + below(d, 5));
    snprintf(others, sizeof others, second[also], to);
    out->named = which == 0 || which == 2;
    out->to_the_end = which == 4 && when != SELDOM && !cut;
    snprintf(
        out->text, sizeof out->text,
        "data: {dataset: 'digits:?size=128', val_split: 32, test: 'digits:?split=test&size=48'}\n"
        "loader: {batch_size: 16, num_workers: 0, shuffle: true, seed: %u,\n"
        "         transforms: to_float}\n"
        "model: {layers: [%s]}\noptimizer: {%s}\nlr_scheduler: {name: %s%s}\n"
        "module: {interval: %s}\n"
        "trainer: {max_epochs: %u, precision: %s, seed_everything: %u, logger: '%s', %s%s\n"
        "          accumulate_grad_batches: %u, gradient_clip_val: %s,\n"
        "          num_sanity_val_steps: %u, enable_progress_bar: false,\n"
        "          enable_model_summary: false}\n"
        "callbacks: [%s%s'model_checkpoint(%s%s%s%s)', %s]\n",
        below(d, 9), PICK(d, models), PICK(d, optimizers), schedules[schedule],
        warms_up ? ", warmup_steps: 2" : "", intervals[interval], 2 + below(d, 3),
        PICK(d, precisions), below(d, 1000), versions ? "csv" : "false", times[when], steps,
        1 + below(d, 2), below(d, 2) ? "0.5" : "0", below(d, 3), more[extra], PICK(d, parts), to,
        kept[which], out->named ? ", filename=\"{epoch}-{step}-{val_loss:.12f}\"" : "", alone,
        others);
}

/* The folder in the place of '@'. */
static void load(made *m, stk_context *ctx, const char *text, const char *folder)
{
    char whole[2 * TEXT];
    size_t used = 0;

    for (const char *c = text; *c; c++)
        used += (size_t)snprintf(whole + used, sizeof whole - used, *c == '@' ? "%s" : "%.1s",
                                 *c == '@' ? folder : c);
    made_load(m, ctx, whole);
    made_set(m, "trainer.default_root_dir", folder);
}

static double metric_of(const made *m, const char *name)
{
    double value = NAN;

    return stk_trainer_metric(m->parts.trainer, name, &value) ? value : NAN;
}

/* ---- Interruptions --------------------------------------------------------------------------- */

static uint64_t stop_after; /* steps */

static stk_status maybe_stop(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                             stk_error *err)
{
    if (stk_trainer_global_step(t) == stop_after)
        stk_trainer_stop(t);
    return STK_OK;
}

static stk_status stop_create(stk_context *ctx, const void *options, stk_callback **out,
                              stk_error *err);

static void stop_destroy(stk_callback *callback)
{
    free(callback);
}

static const stk_callback_ops stop_ops = {.struct_size = sizeof stop_ops,
                                          .name = "stop",
                                          .doc = "stops after a step",
                                          .create = stop_create,
                                          .destroy = stop_destroy,
                                          .on_train_batch_end = maybe_stop};

static stk_status stop_create(stk_context *ctx, const void *options, stk_callback **out,
                              stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&stop_ops, ctx};
    return STK_OK;
}

static stk_status add_stop(void *user, stk_trainer *t, stk_error *err)
{
    return stk_trainer_add_callback(t, &stop_ops, NULL, NULL, err);
}

/* ---- The property ---------------------------------------------------------------------------- */

typedef struct printed {
    char path[STK_MAX_OBJECT_KEY];
    double val, test, accuracy;
} printed;

static void same(const drawn *c, const printed *a, const printed *b)
{
    if (memcmp(&a->val, &b->val, sizeof a->val) || memcmp(&a->test, &b->test, sizeof a->test) ||
        memcmp(&a->accuracy, &b->accuracy, sizeof a->accuracy))
        fail_msg("%s: %.17g, %.17g, %.17g and then %.17g, %.17g, %.17g; of:\n%s", a->path, a->val,
                 a->test, a->accuracy, b->val, b->test, b->accuracy, c->text);
}

static void evaluate(made *m, const char *path, printed *out)
{
    const stk_recipe_parts *p = &m->parts;

    assert_ok(stk_trainer_validate(p->trainer, p->module, p->data, path, &m->err), &m->err);
    out->val = metric_of(m, "val_loss");
    assert_ok(stk_trainer_test(p->trainer, p->module, p->data, path, &m->err), &m->err);
    out->test = metric_of(m, "test_loss");
    out->accuracy = metric_of(m, "test_acc");
    assert_true(isfinite(out->test));
}

/* The files below a folder that nftw() has found, each behind a zero byte. */
static char files[1 << 16];
static size_t files_used;

static int note_file(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    if (kind == FTW_F && strstr(path, ".safetensors"))
        files_used +=
            (size_t)snprintf(files + files_used, sizeof files - files_used, "%s%c", path, 0);
    assert_true(files_used < sizeof files);
    return 0;
}

/* The file that is named has the weights tested; where none is, none has them. */
static void what_was_tested(made *m, const drawn *c, const char *folder)
{
    stk_recipe_tested tested = {.struct_size = sizeof tested};
    printed again;

    assert_ok(stk_recipe_test(m->recipe, &tested, &m->err), &m->err);
    const double loss = metric_of(m, "test_loss");
    assert_true(tested.path || !(c->to_the_end || c->named || tested.best));
    if (tested.path) {
        evaluate(m, tested.path, &again);
        if (memcmp(&again.test, &loss, sizeof loss))
            fail_msg("%s: %.17g in place of %.17g; of:\n%s", tested.path, again.test, loss,
                     c->text);
        return;
    }
    files_used = 0;
    assert_int_equal(nftw(folder, note_file, 16, FTW_PHYS), 0);
    for (const char *path = files; path < files + files_used; path += strlen(path) + 1) {
        evaluate(m, path, &again);
        if (memcmp(&again.test, &loss, sizeof loss) == 0)
            fail_msg("%s gives %.17g and is not named; of:\n%s", path, loss, c->text);
    }
}

/* Train, from the newest checkpoint where there is one; what is said of the best at the end. */
static void train(stk_context *ctx, const drawn *c, const char *folder, printed *out)
{
    printed left;
    made m;

    load(&m, ctx, c->text, folder);
    made_set(&m, "ckpt_path", "last");
    assert_ok(made_create(&m, NULL), &m.err);
    const stk_recipe_parts *p = &m.parts;
    assert_ok(stk_trainer_fit(p->trainer, p->module, p->data, p->ckpt_path, &m.err), &m.err);
    snprintf(out->path, sizeof out->path, "%s", stk_trainer_best_model_path(p->trainer));
    what_was_tested(&m, c, folder);
    if (c->to_the_end)
        evaluate(&m, NULL, &left);
    evaluate(&m, "best", out);
    if (c->to_the_end)
        same(c, out, &left);
    made_release(&m);
}

static void interrupt(stk_context *ctx, const char *text, const char *folder, uint64_t steps)
{
    const stk_recipe_options options = {.struct_size = sizeof options, .prepare = add_stop};
    made m;

    stop_after = steps;
    load(&m, ctx, text, folder);
    assert_ok(made_create(&m, &options), &m.err);
    const stk_recipe_parts *p = &m.parts;
    assert_int_equal(stk_trainer_fit(p->trainer, p->module, p->data, NULL, &m.err), STK_ECANCELED);
    made_release(&m);
}

/* Another process, which knows the file alone. */
static void look_again(const drawn *c, const char *folder, const printed *first, const char *path)
{
    stk_context *ctx = test_context();
    const stk_recipe_options options = {.struct_size = sizeof options,
                                        .tasks = STK_RECIPE_VALIDATE | STK_RECIPE_TEST};
    printed again;
    made m;

    load(&m, ctx, c->text, folder);
    assert_ok(made_create(&m, &options), &m.err);
    evaluate(&m, path, &again);
    same(c, first, &again);
    made_release(&m);
    stk_context_destroy(&ctx);
}

static void one_draw(uint64_t number)
{
    draw d = {.number = number};
    char folder[256], other[256], spelt[264];
    printed straight, resumed;
    drawn c;

    draw_config(&d, &c);
    stk_context *ctx = test_context();
    test_folder(folder);
    test_folder(other);
    snprintf(spelt, sizeof spelt, "%s/.", other);
    train(ctx, &c, folder, &straight);
    if (c.named) {
        const char *value = strstr(straight.path, "val_loss=");
        assert_non_null(value);
        if (!(fabs(strtod(value + strlen("val_loss="), NULL) - straight.val) <= 1e-11))
            fail_msg("%s gives %.17g; of:\n%s", straight.path, straight.val, c.text);
    }
    look_again(&c, folder, &straight, straight.path);
    look_again(&c, folder, &straight, "best");
    /* Cut somewhere, and gone on with. */
    interrupt(ctx, c.text, other, 1 + below(&d, LEAST_STEPS - 2));
    train(ctx, &c, below(&d, 2) ? other : spelt, &resumed);
    assert_string_equal(strrchr(straight.path, '/'), strrchr(resumed.path, '/'));
    same(&c, &straight, &resumed);
    look_again(&c, other, &straight, "best");
    /* The same line again, and its folder in other words. */
    for (int i = 0; i < 2; i++) {
        train(ctx, &c, i ? spelt : other, &resumed);
        same(&c, &straight, &resumed);
    }
    stk_context_destroy(&ctx);
    test_folder_remove(folder);
    test_folder_remove(other);
}

static void what_is_printed_is_reproduced(void **state)
{
    const char *given = getenv("STOKER_TEST_DRAWS");
    const uint64_t draws = given ? strtoull(given, NULL, 10) : DRAWS;

    for (uint64_t i = 0; i < draws; i++)
        one_draw(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_is_reproduced),
    };

    return cmocka_run_group_tests_name("train/printed", tests, NULL, NULL);
}
