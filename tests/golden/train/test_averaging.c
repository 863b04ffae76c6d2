/* SPDX-License-Identifier: Apache-2.0 */
/* Means of weights and running statistics are those of Lightning's WeightAveraging and
 * EMAWeightAveraging: what was validated, and what is left (make_averaging_golden.py). */
#include <jansson.h>
#include <math.h>

#include "unit/recipe/recipes.h"
#include "unit/train/ranks.h"

#define FOLDER TESTS_DIR "/golden/train/averaging/"

enum { CASES = 7, TENSORS = 8, BATCHES = 18, TEXT = 2048 };

static const double least = 1e-12;

/* A count has no mean: it is that of the latest update. Lightning cuts a mean off. */
static void check_batches(const char *callback, const stk_state_tensor *tensor)
{
    const int64_t is = *(const int64_t *)tensor->data;

    assert_string_equal(tensor->name, "1.num_batches_tracked");
    if (is != (strstr(callback, "_steps=4") ? 17 : strstr(callback, "at_step=3") ? 17 : BATCHES))
        fail_msg("%s: '%s' has %d", callback, tensor->name, (int)is);
}

static void check_state(const made *m, const char *callback, const json_t *state)
{
    stk_model *model = stk_model_module_model(m->parts.module);
    stk_state_tensor tensor;
    size_t k, n = 0;
    json_t *value;

    for (; stk_model_get_state(model, n, &tensor, NULL) == STK_OK; n++) {
        const json_t *should = json_object_get(state, tensor.name);
        const double *is = tensor.data;
        if (tensor.dtype == STK_INT64) {
            check_batches(callback, &tensor);
            continue;
        }
        assert_int_equal(tensor.dtype, STK_FLOAT64);
        assert_int_equal(json_array_size(should) * sizeof *is, tensor.bytes);
        json_array_foreach(should, k, value) if (!(fabs(is[k] - json_number_value(value)) <= least))
            fail_msg("%s: '%s' has %.17g, not %.17g", callback, tensor.name, is[k],
                     json_number_value(value));
    }
    assert_int_equal(n, TENSORS + 1);
    assert_int_equal(json_object_size(state), TENSORS);
}

static void check(stk_context *ctx, const json_t *item)
{
    const char *callback = json_string_value(json_object_get(item, "callback"));
    const double should = json_number_value(json_object_get(item, "val_loss"));
    char text[TEXT];
    double is = NAN;
    made m;

    snprintf(text, sizeof text,
             "data: {dataset: 'npy:" FOLDER "x.npy?labels=y.npy',\n"
             "       val: 'npy:" FOLDER "x.npy?labels=y.npy'}\n"
             "loader: {num_workers: 0, batch_size: 4}\n"
             "model: {layers: ['conv2d(3, 2)', batch_norm2d, 'relu, flatten', linear(1)],\n"
             "        loss: mse}\n"
             "module: {weights: '" FOLDER "weights.safetensors'}\n"
             "optimizer: {name: sgd, lr: 0.05, momentum: 0}\n"
             "trainer: {max_epochs: 3, precision: 64-true, logger: 'false',\n"
             "          num_sanity_val_steps: 0, enable_checkpointing: false,\n"
             "          enable_progress_bar: false, enable_model_summary: false,\n"
             "          accumulate_grad_batches: %d}\n"
             "callbacks: ['%s']\n",
             (int)json_integer_value(json_object_get(item, "accumulate")), callback);
    made_load(&m, ctx, text);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_loss", &is));
    if (!(fabs(is - should) <= least))
        fail_msg("%s: val_loss is %.17g, not %.17g", callback, is, should);
    check_state(&m, callback, json_object_get(item, "state"));
    made_release(&m);
}

static void test_lightning(void **state)
{
    stk_context *ctx = test_context();
    json_error_t error;
    json_t *golden = json_load_file(FOLDER "golden.json", 0, &error), *item;
    size_t i;

    assert_non_null(golden);
    json_array_foreach(golden, i, item) check(ctx, item);
    assert_int_equal(i, CASES);
    json_decref(golden);
    stk_context_destroy(&ctx);
}

/* ---- An epoch that is cut short ---------------------------------------------------------------
 */

enum { NUMBERS = 64 };

/* What the parameters are after so many steps of 6 an epoch. */
static size_t after(stk_context *ctx, int steps, const char *callback, double *out)
{
    stk_state_tensor tensor;
    char text[TEXT];
    size_t n = 0;
    made m;

    snprintf(text, sizeof text,
             "data: {dataset: 'npy:" FOLDER "x.npy?labels=y.npy'}\n"
             "loader: {num_workers: 0, batch_size: 4}\n"
             "model: {layers: ['conv2d(3, 2)', 'relu, flatten', linear(1)], loss: mse}\n"
             "optimizer: {name: sgd, lr: 0.05, momentum: 0}\n"
             "trainer: {max_steps: %d, precision: 64-true, logger: 'false', seed_everything: 1,\n"
             "          enable_checkpointing: false, enable_progress_bar: false,\n"
             "          enable_model_summary: false}\n"
             "callbacks: [%s]\n",
             steps, callback);
    made_load(&m, ctx, text);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    stk_model *model = stk_model_module_model(m.parts.module);
    for (size_t i = 0; stk_model_get_state(model, i, &tensor, NULL) == STK_OK; i++) {
        const size_t count = tensor.bytes / sizeof *out;
        assert_true(n + count <= NUMBERS);
        memcpy(out + n, tensor.data, tensor.bytes);
        n += count;
    }
    made_release(&m);
    return n;
}

/* What is left is the mean of the end of the first epoch and of where max_steps cut the second. */
static void test_cut_epoch(void **state)
{
    double first[NUMBERS], last[NUMBERS], mean[NUMBERS];
    stk_context *ctx = test_context();

    const size_t n = after(ctx, 6, "device_stats()", first);
    assert_int_equal(after(ctx, 10, "device_stats()", last), n);
    assert_int_equal(after(ctx, 10, "weight_averaging(interval=epoch)", mean), n);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(mean[i] - (first[i] + last[i]) / 2) <= least))
            fail_msg("%zu is %.17g, not the mean of %.17g and %.17g", i, mean[i], first[i],
                     last[i]);
    stk_context_destroy(&ctx);
}

/* ---- Several ranks --------------------------------------------------------------------------- */

typedef struct work {
    rank self;
    const char *root;
    stk_recipe_options options;
    char best[1024];
    double val_loss;
} work;

static stk_status join(void *user, stk_trainer *trainer, stk_error *err)
{
    const stk_strategy strategy = ranks_strategy(&((work *)user)->self);

    return stk_trainer_set_strategy(trainer, &strategy, err);
}

static const char shared[] =
    "data: {dataset: 'npy:" FOLDER "x.npy?labels=y.npy',\n"
    "       val: 'npy:" FOLDER "x.npy?labels=y.npy'}\n"
    "loader: {num_workers: 0, batch_size: 4}\n"
    "model: {layers: ['conv2d(3, 2)', batch_norm2d, 'relu, flatten', linear(1)], loss: mse}\n"
    "optimizer: {name: sgd, lr: 0.05}\n"
    "trainer: {max_epochs: 2, precision: 64-true, logger: 'false', num_sanity_val_steps: 0,\n"
    "          seed_everything: 1, enable_progress_bar: false, enable_model_summary: false}\n"
    "callbacks: ['ema(decay=0.5)', 'model_checkpoint(monitor=val_loss)']\n";

static void *run(void *argument)
{
    work *w = argument;
    stk_context *ctx = test_context();
    made m;

    made_load(&m, ctx, shared);
    made_set(&m, "trainer.default_root_dir", w->root);
    w->options = (stk_recipe_options){.struct_size = sizeof w->options, .prepare = join, .user = w};
    assert_ok(made_create(&m, &w->options), &m.err);
    assert_ok(stk_trainer_fit(m.parts.trainer, m.parts.module, m.parts.data, NULL, &m.err), &m.err);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_loss", &w->val_loss));
    if (w->self.number == 0)
        snprintf(w->best, sizeof w->best, "%s", stk_trainer_best_model_path(m.parts.trainer));
    made_release(&m);
    stk_context_destroy(&ctx);
    return NULL;
}

/* Each rank has means of statistics of its own rows. All validate with those of rank 0, which are
 * in the checkpoint. */
static void test_ranks(void **state)
{
    stk_context *ctx = test_context();
    pthread_t threads[2];
    work works[2];
    double alone = NAN;
    char root[256];
    ranks all;
    made m;

    ranks_init(&all, 2);
    test_folder(root);
    for (uint64_t r = 0; r < 2; r++) {
        works[r] = (work){.self = {&all, r}, .root = root};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &works[r]), 0);
    }
    for (uint64_t r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    made_load(&m, ctx, shared);
    made_set(&m, "trainer.default_root_dir", root);
    assert_ok(made_create(&m, NULL), &m.err);
    assert_ok(
        stk_trainer_validate(m.parts.trainer, m.parts.module, m.parts.data, works[0].best, &m.err),
        &m.err);
    assert_true(stk_trainer_metric(m.parts.trainer, "val_loss", &alone));
    if (!(fabs(alone - works[0].val_loss) <= least))
        fail_msg("two ranks validated %.17g, their checkpoint gives %.17g", works[0].val_loss,
                 alone);
    made_release(&m);
    test_folder_remove(root);
    ranks_release(&all);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lightning),
        cmocka_unit_test(test_cut_epoch),
        cmocka_unit_test(test_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
