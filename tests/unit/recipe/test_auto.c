/* SPDX-License-Identifier: Apache-2.0 */
/* batch_size: auto: what it chooses, that it is exact, and that the number says the same. */
#include <stdlib.h>

#include "unit/recipe/recipes.h"

/* A training whose batch size memory decides, on every build. */
#define LARGE                                                                                      \
    "data: {dataset: 'digits:?size=65536', val: 'digits:?split=test&size=64',\n"                   \
    "       test: 'digits:?split=test&size=64'}\n"                                                 \
    "loader: {batch_size: auto, num_workers: 0, transforms: normalize(mnist),\n"                   \
    "         memory_budget: 64MiB}\n"                                                             \
    "model: {layers: [flatten, 'linear(16), relu', linear(10)]}\n"                                 \
    "trainer: {max_steps: 2, precision: 64-true, logger: 'false', seed_everything: 1,\n"           \
    "          num_sanity_val_steps: 0, limit_val_batches: 1, val_batch_size: 16,\n"               \
    "          enable_progress_bar: false, enable_model_summary: false}\n"

enum { CAP = 65536 / 32 };

typedef struct room {
    char said[4096];
    size_t largest; /* a block beyond it is refused; 0: none is */
} room;

static void hear(void *user, stk_message_level level, const char *message)
{
    room *r = user;
    const size_t used = strlen(r->said);

    (void)level;
    snprintf(r->said + used, sizeof r->said - used, "%s\n", message);
}

static void *take(void *user, size_t size, size_t align)
{
    const room *r = user;
    void *memory = NULL;

    if (r->largest && size > r->largest)
        return NULL;
    return posix_memalign(&memory, align < 16 ? 16 : align, size) == 0 ? memory : NULL;
}

static void give(void *user, void *memory, size_t size)
{
    (void)user, (void)size;
    free(memory);
}

static stk_context *context_of(room *r, uint64_t limit)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.memory_limit = limit;
    options.compute_threads = 1;
    options.on_message = hear;
    options.on_message_user = r;
    if (r->largest)
        options.allocator = (stk_allocator){take, give, r};
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    return ctx;
}

static uint64_t chosen_of(const made *m)
{
    return m->parts.data->train->options->batch_size;
}

/* What is chosen with so many bytes; 0: nothing. A key, or a text, is set on top. */
static uint64_t choose(room *r, uint64_t limit, const char *key, const char *text)
{
    stk_context *ctx = context_of(r, limit);
    uint64_t rows = 0;
    made m;

    *r->said = 0;
    made_load(&m, ctx, LARGE);
    if (key)
        made_set(&m, key, text);
    else if (text)
        assert_ok(stk_config_load_text(m.config, "more.yaml", text, strlen(text), &m.err), &m.err);
    if (made_create(&m, NULL) == STK_OK)
        rows = chosen_of(&m);
    else
        hear(r, STK_MESSAGE_ERROR, m.err.text);
    made_release(&m);
    stk_context_destroy(&ctx);
    return rows;
}

static void assert_said(const room *r, const char *words)
{
    if (!strstr(r->said, words))
        fail_msg("'%s' is not in '%s'", words, r->said);
}

/* ---- What is chosen -------------------------------------------------------------------------- */

static void test_powers(void **state)
{
    room r = {0};
    uint64_t last = 0;

    (void)state;
    for (uint64_t limit = 2 << 20; limit <= 64 << 20; limit *= 2) {
        const uint64_t rows = choose(&r, limit, NULL, NULL);
        assert_true(rows >= last && rows <= CAP);
        assert_int_equal(rows & (rows - 1), 0);
        if (rows && rows < CAP)
            assert_said(&r, " would need ");
        last = rows;
    }
    assert_int_equal(last, CAP);
    assert_said(&r, "batch_size: auto is 2048: more would leave fewer than 32 steps of an epoch of "
                    "65536 samples");
    assert_int_equal(choose(&r, 1 << 20, NULL, NULL), 0);
    assert_said(&r, "batch_size: auto: no batch of 1 can be trained: 1 would need ");
    assert_said(&r, " of ");
    /* Twice the same. */
    const uint64_t rows = choose(&r, 12 << 20, NULL, NULL);
    assert_int_equal(choose(&r, 12 << 20, NULL, NULL), rows);
    /* Of the loader's own budget. */
    assert_true(choose(&r, 64 << 20, "loader.memory_budget", "1MiB") < CAP);
    assert_said(&r, " of 1 MiB (loader.memory_budget)");
}

/* The most that the training takes is what it was said to, and a little less picks the half. */
static void test_exact(void **state)
{
    uint64_t low = 8 << 20, high = 40 << 20;
    stk_memory_stats held = {.struct_size = sizeof held};
    room r = {0};
    made m;

    (void)state;
    while (high - low > 4096) {
        const uint64_t middle = low + (high - low) / 2;
        if (choose(&r, middle, NULL, NULL) >= 1024)
            high = middle;
        else
            low = middle;
    }
    assert_int_equal(choose(&r, high, NULL, NULL), 1024);
    /* A test without validation takes room of its own. */
    assert_int_equal(choose(&r, high, NULL, "data: {val: }\ntrainer: {val_batch_size: 0}\n"), 512);
    assert_int_equal(choose(&r, low, NULL, NULL), 512);
    assert_said(&r, "batch_size: auto is 512: 1024 would need ");
    stk_context *ctx = context_of(&r, high);
    made_load(&m, ctx, LARGE);
    made_set(&m, "loader.batch_size", "1024");
    const char *folder = test_folder((char[256]){0});
    made_set(&m, "trainer.default_root_dir", folder);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    stk_context_memory(ctx, &held);
    const double share = (double)held.peak_bytes / (double)high;
    if (share > 1.02 || share < 0.95)
        fail_msg("%.4f of what it was to take", share);
    made_release(&m);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A model whose weights decide what is kept of them. */
#define HEAVY                                                                                      \
    "model: {layers: [flatten, 'linear(400), relu', linear(10)]}\noptimizer: {name: adam}\n"       \
    "loader: {memory_budget: 16MiB}\ntrainer: {max_steps: 4, val_check_interval: 2}\n"

/* What is chosen for it, with callbacks and one more option; with `share`, that of the limit that
 * the training has taken at most. */
static uint64_t choose_heavy(uint64_t limit, const char *callbacks, const char *more, double *share)
{
    stk_memory_stats held = {.struct_size = sizeof held};
    const char *folder = test_folder((char[256]){0});
    uint64_t rows = 0;
    room r = {0};
    made m;

    stk_context *ctx = context_of(&r, limit);
    made_load(&m, ctx, LARGE);
    assert_ok(stk_config_load_text(m.config, "heavy", HEAVY, strlen(HEAVY), &m.err), &m.err);
    assert_ok(stk_config_load_text(m.config, "more", more, strlen(more), &m.err), &m.err);
    made_set(&m, "callbacks", callbacks);
    made_set(&m, "trainer.default_root_dir", folder);
    if (made_create(&m, NULL) == STK_OK)
        rows = chosen_of(&m);
    if (share && stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err))
        fail_msg("%s %s: %s", callbacks, more, m.err.text);
    stk_context_memory(ctx, &held);
    if (share)
        *share = (double)held.peak_bytes / (double)limit;
    made_release(&m);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return rows;
}

/* The least that a size is chosen with is the most that its training takes, whatever copies of the
 * weights are kept. */
static void test_copies(void **state)
{
    static const struct {
        const char *callbacks, *more;
    } rows[] = {
        {"model_summary", "{}"},
        {"model_summary", "trainer: {nan_policy: rewind}"},
        {"model_summary", "trainer: {accumulate_grad_batches: 2, val_check_interval: 3}"},
        /* Saved between two steps, with what is added up of gradients. */
        {"GradientAccumulationScheduler(scheduling='0:2')", "trainer: {val_check_interval: 3}"},
        {"ema(0.9)", "{}"},
        {"WeightAveraging", "trainer: {enable_checkpointing: false}"},
        {"lr_find(num_training=20)", "trainer: {enable_checkpointing: false}"},
    };

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        uint64_t low = 1 << 20, high = 64 << 20;
        double share;
        while (high - low > 65536) {
            const uint64_t middle = low + (high - low) / 2;
            if (choose_heavy(middle, rows[i].callbacks, rows[i].more, NULL))
                high = middle;
            else
                low = middle;
        }
        assert_true(choose_heavy(high, rows[i].callbacks, rows[i].more, &share) > 0);
        if (share > 1 || share < 0.95)
            fail_msg("%s %s: %.4f of what it was to take", rows[i].callbacks, rows[i].more, share);
    }
}

/* Where the machine refuses what the plan has room for, half of it is taken. */
static void test_checked(void **state)
{
    room r = {.largest = 10 << 20};

    (void)state;
    const uint64_t rows = choose(&r, 256 << 20, NULL, NULL);
    assert_true(rows >= 256 && rows < CAP);
    char text[64];
    snprintf(text, sizeof text, "a step of %llu was refused: ", (unsigned long long)rows * 2);
    assert_said(&r, text);
}

/* ---- Lightning's callback -------------------------------------------------------------------- */

static void test_finder(void **state)
{
    static const struct {
        const char *list;
        uint64_t limit, rows;
    } rows[] = {
        {"BatchSizeFinder", 64 << 20, CAP},
        {"batch_size_finder(max_trials=3), lr_monitor", 64 << 20, 8},
        {"lr_monitor, BatchSizeFinder(mode=power, init_val=3)", 64 << 20, 1536},
        {"BatchSizeFinder(steps_per_trial=2, batch_arg_name=batch_size, init_val=4096)", 64 << 20,
         4096},
    };
    room r = {0};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(rows); i++)
        assert_int_equal(choose(&r, rows[i].limit, "callbacks", rows[i].list), rows[i].rows);
    const uint64_t power = choose(&r, 12 << 20, NULL, NULL);
    const uint64_t any = choose(&r, 12 << 20, "callbacks", "BatchSizeFinder(mode=binsearch)");
    assert_true(any > power && any < 2 * power);
    char text[64];
    snprintf(text, sizeof text, "batch_size: auto is %llu: %llu would need ",
             (unsigned long long)any, (unsigned long long)any + 1);
    assert_said(&r, text);
    assert_int_equal(choose(&r, 64 << 20, "callbacks", "BatchSizeFinder(max_trial=3)"), 0);
    assert_said(&r, "did you mean 'max_trials'?");
    assert_int_equal(choose(&r, 64 << 20, "callbacks", "BatchSizeFinder, ema(0.5"), 0);
    assert_said(&r, "callbacks: expected \")\"");
}

/* ---- The number says the same ---------------------------------------------------------------- */

static void keep_line(void *user, const char *line)
{
    char *to = user;

    snprintf(to + strlen(to), 8192 - strlen(to), "%s\n", line);
}

/* Weights after a training; what the configuration has become. */
static void train(const char *key, const char *text, const char *folder, const char *ckpt,
                  uint64_t limit, double weights[160], char config[8192], room *r)
{
    stk_state_tensor tensor;
    made m;

    *r->said = 0;
    stk_context *ctx = context_of(r, limit);
    made_load(&m, ctx, LARGE);
    made_set(&m, key, text);
    made_set(&m, "trainer.default_root_dir", folder);
    if (ckpt)
        made_set(&m, "ckpt_path", ckpt);
    if (ckpt)
        made_set(&m, "trainer.max_steps", "3");
    assert_ok(made_create(&m, NULL), &m.err);
    *config = 0;
    assert_ok(stk_config_write(m.config, keep_line, config, &m.err), &m.err);
    assert_ok(
        stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, m.parts.ckpt_path, &m.err),
        &m.err);
    assert_ok(stk_model_get_state(stk_model_module_model(m.parts.module), 2, &tensor, &m.err),
              &m.err);
    assert_int_equal(tensor.bytes, 160 * sizeof(double));
    memcpy(weights, tensor.data, tensor.bytes);
    made_release(&m);
    stk_context_destroy(&ctx);
}

static void test_same_bits(void **state)
{
    static double found[160], given[160], on[160], whole[160];
    static char config[8192], same[8192];
    const char *folder = test_folder((char[256]){0}), *other = test_folder((char[256]){0});
    room r = {0};

    (void)state;
    train("callbacks", "BatchSizeFinder, model_checkpoint(save_last=true)", folder, NULL, 12 << 20,
          found, config, &r);
    assert_non_null(strstr(config, "batch_size: 512\n"));
    assert_null(strstr(config, "auto"));
    assert_null(strstr(config, "inder"));
    train("loader.batch_size", "512", other, NULL, 12 << 20, given, same, &r);
    assert_memory_equal(found, given, sizeof found);
    assert_null(strstr(r.said, "auto"));
    train("loader.batch_size", "512", other, NULL, 64 << 20, given, same, &r);
    assert_memory_equal(found, given, sizeof found);
    /* It goes on with the number of its checkpoint, whatever memory there is now. */
    train("loader.batch_size", "auto", folder, "last", 64 << 20, on, same, &r);
    assert_said(&r, "batch_size: auto is 512, as in the checkpoint");
    assert_non_null(strstr(same, "batch_size: 512\n"));
    test_folder_remove(other);
    other = test_folder((char[256]){0});
    train("loader.batch_size", "512", other, "last", 64 << 20, whole, same, &r);
    assert_memory_equal(on, whole, sizeof on);
    test_folder_remove(other);
    test_folder_remove(folder);
}

/* ---- Refused --------------------------------------------------------------------------------- */

static stk_status reduce(void *state, void *buffer, uint64_t count, stk_dtype dtype, stk_combine op,
                         stk_stream *stream, stk_error *err)
{
    return STK_OK;
}

static stk_status broadcast(void *state, void *buffer, uint64_t bytes, stk_stream *stream,
                            stk_error *err)
{
    return STK_OK;
}

static stk_status barrier(void *state, stk_error *err)
{
    return STK_OK;
}

static stk_status join(void *user, stk_trainer *trainer, stk_error *err)
{
    const stk_strategy strategy = {.struct_size = sizeof strategy,
                                   .name = "two",
                                   .world_size = 2,
                                   .reduce = reduce,
                                   .broadcast = broadcast,
                                   .barrier = barrier};

    (void)user;
    return stk_trainer_set_strategy(trainer, &strategy, err);
}

/* A module whose memory nothing is known of. */
static void refuse_module(stk_context *ctx)
{
    static const stk_module_ops ops = {.struct_size = sizeof ops, .name = "own"};
    stk_module module = {&ops};
    const stk_recipe_options options = {.struct_size = sizeof options, .module = &module};
    made m;

    made_load(&m, ctx, "{data: {dataset: 'digits:?size=96'}, loader: {batch_size: auto}}\n");
    assert_fails(made_create(&m, &options), STK_EINVAL, &m.err,
                 "loader.batch_size: auto: it is found from the plan of a model of layers");
    made_release(&m);
}

static void test_refused(void **state)
{
    const stk_recipe_options model = {.struct_size = sizeof model, .tasks = STK_RECIPE_MODEL},
                             test = {.struct_size = sizeof test, .tasks = STK_RECIPE_TEST},
                             two = {.struct_size = sizeof two, .prepare = join};
    room r = {0};
    made m;

    (void)state;
    assert_int_equal(choose(&r, 64 << 20, "loader.global_batch_size", "64"), 0);
    assert_said(&r, "loader.global_batch_size: it is given, and loader.batch_size is to be found");
    assert_int_equal(choose(&r, 64 << 20, "trainer.fast_dev_run", "true"), 64);
    assert_said(&r, "Skipping batch size finder since `fast_dev_run` is enabled.");
    assert_int_equal(choose(&r, 64 << 20, "loader.batch_size", "autos"), 0);
    assert_said(&r, "auto or");
    stk_context *ctx = context_of(&r, 64 << 20);
    made_load(&m, ctx, LARGE);
    assert_fails(made_create(&m, &model), STK_EINVAL, &m.err,
                 "loader.batch_size: auto: it is found where a training begins");
    assert_fails(made_create(&m, &two), STK_ENOTSUP, &m.err,
                 "loader.batch_size: auto: it is found in one process, and several train together");
    refuse_module(ctx);
    /* An evaluation has the default where there is no checkpoint. */
    const char *folder = test_folder((char[256]){0});
    made_set(&m, "trainer.default_root_dir", folder);
    assert_ok(made_create(&m, &test), &m.err);
    assert_int_equal(m.parts.data->test->options->batch_size, 64);
    made_release(&m);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers),  cmocka_unit_test(test_exact),
        cmocka_unit_test(test_copies),  cmocka_unit_test(test_checked),
        cmocka_unit_test(test_finder),  cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("recipe/auto", tests, NULL, NULL);
}
