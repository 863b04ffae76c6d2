/* SPDX-License-Identifier: Apache-2.0 */
/* After a power cut the newest checkpoint loads, and is no older than the last that was said to be
 * safe; of a training that said it is done, checkpoint and metrics are there. */
#include "support/powercut.h"

#include <glob.h>

#include "checkpoint/parts.h"
#include "unit/train/tiny.h"

enum { WEIGHTS = 600 };

static void save(stk__checkpoint_writer *writer, const char *folder, const char *file, int step,
                 const char *replaces)
{
    float weight[WEIGHTS];
    char path[400], old[400], text[16];
    const char *const olds[] = {old};
    stk_error err;

    for (int i = 0; i < WEIGHTS; i++)
        weight[i] = (float)(step * 1000 + i);
    snprintf(text, sizeof text, "%d", step);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    snprintf(old, sizeof old, "%s/%s", folder, replaces);
    const stk_state_tensor tensor = {"w", STK_FLOAT32, 1, {WEIGHTS}, weight, sizeof weight};
    const stk__checkpoint_text texts[] = {{STK__CHECKPOINT_STEP, text}};
    assert_ok(stk__checkpoint_save(writer, path, &tensor, 1, texts, 1, olds, replaces[0] ? 1 : 0,
                                   NULL, &err),
              &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    /* The caller is told that a checkpoint is safe when flush() returns. */
    cut_ack(step);
}

/* The range of a part, of two, and where it is the first the shape beside it. */
static void save_part(stk__checkpoint_writer *writer, const stk__checkpoint_part *part,
                      const char *path, int step, const char *replaces)
{
    int64_t shape[] = {WEIGHTS};
    float weight[WEIGHTS];
    char text[16];
    stk_error err;

    for (int i = 0; i < WEIGHTS; i++)
        weight[i] = (float)(step * 1000 + i);
    snprintf(text, sizeof text, "%d", step);
    const int from = part->number ? WEIGHTS / 3 : 0, to = part->number ? WEIGHTS : WEIGHTS / 3;
    const stk_state_tensor tensors[] = {
        {STK__CHECKPOINT_RANGE "w",
         STK_FLOAT32,
         1,
         {to - from},
         weight + from,
         (uint64_t)(to - from) * sizeof *weight},
        {STK__CHECKPOINT_SHAPE "w", STK_INT64, 1, {1}, shape, sizeof shape}};
    const stk__checkpoint_text texts[] = {{STK__CHECKPOINT_STEP, text}};
    assert_ok(stk__checkpoint_save_part(writer, part, path, tensors, part->number ? 1 : 2, texts, 1,
                                        &replaces, replaces ? 1 : 0, &err),
              &err);
}

/* By two writers at once, as ranks do. */
static void save_parts(stk__checkpoint_writer *const writers[2], const char *path, int step,
                       const char *replaces)
{
    stk__checkpoint_part part = {.count = 2};
    stk_error err;

    stk__checkpoint_part_draw(&part);
    for (; part.number < 2; part.number++)
        save_part(writers[part.number], &part, path, step, part.number ? NULL : replaces);
    for (int i = 0; i < 2; i++)
        assert_ok(stk__checkpoint_flush(writers[i], &err), &err);
    cut_ack(step);
}

/* Another process has got as far as the name of its part, whose folder is not safe yet. */
static void save_beside_a_slow_one(stk_context *ctx, stk__checkpoint_writer *writer,
                                   const char *root, const char *path, int step)
{
    stk__checkpoint_part part = {.number = 1, .count = 2};
    stk__checkpoint_writer *other = NULL;
    char aside[400];
    stk_error err;

    snprintf(aside, sizeof aside, "%s/aside.ckpt", root);
    assert_ok(stk__checkpoint_writer_create(ctx, &other, &err), &err);
    stk__checkpoint_part_draw(&part);
    save_part(other, &part, aside, step, NULL);
    stk__checkpoint_writer_destroy(&other);
    char *from = stk__part_path(ctx, aside, &part, 1), *to = stk__part_path(ctx, path, &part, 1);
    assert_int_equal(rename(from, to), 0);
    stk__free(ctx, from);
    stk__free(ctx, to);
    part.number = 0;
    save_part(writer, &part, path, step, NULL);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    cut_ack(step);
}

static void link_last(stk__checkpoint_writer *writer, const char *path, const char *last)
{
    stk_error err;

    assert_ok(stk__checkpoint_link(writer, path, last, &err), &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
}

/* A run in folders that it makes: saves, one over a name that is there, links, removals. */
static void run(const char *root)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = NULL;
    char folder[300], path[400], last[400];
    stk_error err;

    snprintf(folder, sizeof folder, "%s/logs/version_0/checkpoints", root);
    snprintf(path, sizeof path, "%s/b.ckpt", folder);
    snprintf(last, sizeof last, "%s/last.ckpt", folder);
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    save(writer, folder, "a.ckpt", 1, "");
    save(writer, folder, "b.ckpt", 2, "a.ckpt");
    link_last(writer, path, last);
    save(writer, folder, "b.ckpt", 3, "");
    link_last(writer, path, last);
    /* From here on the link alone holds step 3. */
    assert_int_equal(unlink(path), 0);
    save(writer, folder, "c.ckpt", 4, "last.ckpt");
    stk__checkpoint_writer_destroy(&writer);
    stk_context_destroy(&ctx);
}

/* The same in parts. */
static void run_in_parts(const char *root)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writers[2] = {NULL, NULL};
    char a[400], b[400], last[400];
    stk_error err;

    snprintf(a, sizeof a, "%s/logs/version_0/checkpoints/a.ckpt", root);
    snprintf(b, sizeof b, "%s/logs/version_0/checkpoints/b.ckpt", root);
    snprintf(last, sizeof last, "%s/logs/version_0/checkpoints/last.ckpt", root);
    for (int i = 0; i < 2; i++)
        assert_ok(stk__checkpoint_writer_create(ctx, &writers[i], &err), &err);
    save_parts(writers, a, 1, NULL);
    save_parts(writers, b, 2, a);
    link_last(writers[0], b, last);
    save_parts(writers, b, 3, NULL);
    link_last(writers[0], b, last);
    save_beside_a_slow_one(ctx, writers[0], root, b, 4);
    save_parts(writers, a, 5, b);
    for (int i = 0; i < 2; i++)
        stk__checkpoint_writer_destroy(&writers[i]);
    stk_context_destroy(&ctx);
}

static bool is_good(void *user, const char *folder, int acked)
{
    stk__checkpoint *c = NULL;
    char found[400];
    int step = 0;
    stk_error err;

    if (stk__checkpoint_newest(user, &(stk__newest_where){.runs = folder}, found, sizeof found,
                               &err) == STK_OK &&
        stk__checkpoint_open(user, found, &c, &err) == STK_OK) {
        step = atoi(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP));
        const stk_state_tensor *t = stk__checkpoint_find(c, "w");
        /* That a verified checkpoint is of other bytes is not to be, fsync or not. */
        for (int i = 0; i < WEIGHTS; i++)
            assert_true(((const float *)t->data)[i] == (float)(step * 1000 + i));
    }
    stk__checkpoint_close(&c);
    return step >= acked;
}

static void check_run(cut_lie lie, void (*run_it)(const char *root))
{
    stk_context *ctx = test_context();
    char root[256];

    test_folder(root);
    cut_begin(root);
    run_it(root);
    cut_end();
    cut_check(root, lie, 500, is_good, ctx);
    stk_context_destroy(&ctx);
}

static void check(cut_lie lie)
{
    check_run(lie, run);
}

static void check_parts(cut_lie lie)
{
    check_run(lie, run_in_parts);
}

static void checkpoints(void **state)
{
    check(CUT_HONEST);
}

static void checkpoints_in_parts(void **state)
{
    check_parts(CUT_HONEST);
}

/* ---- A whole training ---- */

enum { FIT_STEPS = 12 };

typedef struct training {
    stk_context *ctx;
    bool saves;         /* checkpoints, and metrics.csv; else an event file alone */
    char metrics[8192]; /* that it wrote */
    size_t length;
} training;

static size_t read_metrics(const char *root, char text[8192])
{
    char pattern[400];
    size_t n = 0;
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/lightning_logs/version_0/[em][ve]*s.*", root);
    if (glob(pattern, 0, NULL, &found) == 0) {
        FILE *f = fopen(found.gl_pathv[0], "r");
        assert_non_null(f);
        n = fread(text, 1, 8192, f);
        fclose(f);
        globfree(&found);
    }
    return n;
}

static void fit(stk_context *ctx, const char *root, bool saves)
{
    stk_dataset *dataset = NULL;
    stk_trainer *t = NULL;
    stk_loader_options loader;
    stk_trainer_options options;
    uint64_t room[64];
    tiny module;
    stk_error err;

    assert_ok(stk_dataset_open(ctx, "synthetic:?size=60&shape=2x2x1", &dataset, &err), &err);
    stk_loader_options_init(&loader);
    loader.batch_size = 5;
    loader.num_workers = 0;
    loader.memory_budget = 8 << 20;
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = dataset, .options = &loader};
    const stk_trainer_data data = {.struct_size = sizeof data, .train = &source};
    stk_trainer_options_init(&options);
    options.default_root_dir = root;
    options.max_epochs = 1;
    options.logger = saves ? "csv" : "tensorboard";
    options.log_every_n_steps = 1;
    options.enable_progress_bar = STK_SWITCH_FALSE;
    options.enable_checkpointing = saves ? STK_SWITCH_TRUE : STK_SWITCH_FALSE;
    assert_ok(stk_trainer_create(ctx, &options, &t, &err), &err);
    const stk_option_table *table = stk__callback_model_checkpoint.options;
    stk_options_init(table, room, sizeof room);
    assert_ok(stk_options_set(table, room, "every_n_train_steps", "4", &err), &err);
    if (saves)
        assert_ok(stk_trainer_add_callback(t, &stk__callback_model_checkpoint, room, NULL, &err),
                  &err);
    tiny_init(&module);
    assert_ok(stk_trainer_fit(t, &module.base, &data, NULL, &err), &err);
    cut_ack(FIT_STEPS);
    stk_trainer_destroy(&t);
    stk_dataset_close(&dataset);
}

static bool is_trained(void *user, const char *folder, int acked)
{
    const training *whole = user;
    stk__checkpoint *c = NULL;
    char found[400], metrics[8192];
    int step = 0;
    stk_error err;

    if (stk__checkpoint_newest(whole->ctx, &(stk__newest_where){.runs = folder}, found,
                               sizeof found, &err) == STK_OK &&
        stk__checkpoint_open(whole->ctx, found, &c, &err) == STK_OK)
        step = atoi(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP));
    stk__checkpoint_close(&c);
    if (!acked)
        return true;
    const size_t n = read_metrics(folder, metrics);
    return (!whole->saves || step == acked) && n == whole->length &&
           memcmp(metrics, whole->metrics, n) == 0;
}

static void train(bool saves)
{
    training whole = {.ctx = test_context(), .saves = saves};
    char root[256];

    test_folder(root);
    cut_begin(root);
    fit(whole.ctx, root, saves);
    cut_end();
    whole.length = read_metrics(root, whole.metrics);
    assert_true(whole.length > 100 && whole.length < sizeof whole.metrics);
    assert_true(is_trained(&whole, root, FIT_STEPS));
    cut_check(root, CUT_HONEST, 0, is_trained, &whole);
    stk_context_destroy(&whole.ctx);
}

static void a_training(void **state)
{
    train(true);
}

/* Nothing else makes its folders safe. */
static void a_training_that_saves_nothing(void **state)
{
    train(false);
}

/* The model sees what is missing. */
static void controls(void **state)
{
    cut_each_lie(check);
    cut_each_lie(check_parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints), cmocka_unit_test(checkpoints_in_parts),
        cmocka_unit_test(a_training), cmocka_unit_test(a_training_that_saves_nothing),
        cmocka_unit_test(controls)};

    cut_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
