/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fine-tuning a ResNet-18 of torchvision's names under the trainer against PyTorch
 * (make_nn_golden.py): losses, what is frozen, weights at the end. Runs that go on:
 * unit/train/finetuning.
 */
#include <jansson.h>
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "train/callbacks/callback.h"
#include "unit/nn/models.h"
#include "unit/train/tiny.h"

enum { SAMPLES = 8, CLASSES = 5, STEPS = 8, STEPS_OF_EPOCH = 2, MAX_STATE = 200 };

static const int64_t picture[3] = {3, 32, 32};

/* ---- A callback that looks on ---- */

typedef struct look {
    stk_callback base;
} look;

static double losses[STEPS];
static size_t num_losses;
static char *begin[MAX_STATE]; /* tensors as they were when training began */
static uint64_t frozen_checks;

static stk_status look_create(stk_context *ctx, const void *options, stk_callback **out,
                              stk_error *err)
{
    look *self = calloc(1, sizeof *self);

    assert_non_null(self);
    self->base.context = ctx;
    *out = &self->base;
    return STK_OK;
}

static void look_destroy(stk_callback *callback)
{
    free(callback);
}

static bool is_backbone(const char *name)
{
    return strncmp(name, "fc.", 3) != 0;
}

static stk_status look_at_step(stk_callback *self, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    stk_model *model = stk_model_module_model(at->module);
    stk_state_tensor tensor;
    bool moved = false;

    assert_true(num_losses < STEPS);
    losses[num_losses++] = *(const double *)at->loss->value.data;
    for (size_t i = 0; stk_model_get_state(model, i, &tensor, NULL) == STK_OK; i++) {
        assert_true(i < MAX_STATE);
        if (!is_backbone(tensor.name))
            continue;
        const bool same = begin[i] && memcmp(begin[i], tensor.data, tensor.bytes) == 0;
        moved |= !same;
        /* Parameters and statistics alike. */
        if (at->epoch == 0 && !same)
            fail_msg("'%s' has changed while it was frozen", tensor.name);
        frozen_checks += at->epoch == 0;
    }
    assert_true(moved == (at->epoch > 0));
    return STK_OK;
}

static const stk_callback_ops look_ops = {
    .struct_size = sizeof look_ops,
    .name = "look",
    .create = look_create,
    .destroy = look_destroy,
    .on_train_batch_end = look_at_step,
};

/* ---- Files ---- */

static void write_npy(const char *path, const char *dtype, const char *shape, const void *data,
                      size_t bytes)
{
    char head[128];
    const int n =
        snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                 dtype, shape);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    memset(head + n, ' ', sizeof head - (size_t)n);
    head[117] = '\n';
    fwrite("\x93NUMPY\1\0\x76\0", 1, 10, f);
    fwrite(head, 1, 118, f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

/* Weights that are a hash of their place, under torchvision's names. */
static void write_weights(bench *b, const char *path)
{
    stk_model_options options;
    stk_state_tensor tensors[MAX_STATE];
    stk__checkpoint_writer *writer;
    size_t n = 0;

    stk_model_options_init(&options);
    options.precision = STK_PRECISION_64_TRUE;
    options.batch_size = 1;
    stk_model *model = model_make(b->ctx, "resnet18(5)", picture, 3, &options);
    model_set_weights(model);
    while (stk_model_get_state(model, n, &tensors[n], NULL) == STK_OK) {
        begin[n] = malloc(tensors[n].bytes + 1);
        memcpy(begin[n], tensors[n].data, tensors[n].bytes);
        n++;
    }
    assert_int_equal(n, 122);
    assert_ok(stk__checkpoint_writer_create(b->ctx, &writer, &b->err), &b->err);
    assert_ok(stk__checkpoint_save(writer, path, tensors, n, NULL, 0, NULL, 0, NULL, &b->err),
              &b->err);
    assert_ok(stk__checkpoint_flush(writer, &b->err), &b->err);
    stk__checkpoint_writer_destroy(&writer);
    stk_model_destroy(&model);
}

/* ---- Runs ---- */

static void add(bench *b, stk_trainer *t, const json_t *item)
{
    static const char *const names[] = {"unfreeze_backbone_at_epoch", "backbone_initial_ratio_lr",
                                        "multiplier", "pattern"};
    static const char *const keys[] = {"unfreeze", "ratio", "multiplier"};
    const stk_callback_ops *ops = &stk__callback_backbone_finetuning;
    char values[4][64] = {[3] = "conv1.*, bn1.*, layer*"}; /* live as long as the options */
    uint64_t room[64];

    stk_options_init(ops->options, room, sizeof room);
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        if (i < STK_COUNT(keys))
            snprintf(values[i], sizeof values[i], "%g",
                     json_number_value(json_object_get(item, keys[i])));
        assert_ok(stk_options_set(ops->options, room, names[i], values[i], &b->err), &b->err);
    }
    assert_ok(stk_trainer_add_callback(t, ops, room, NULL, &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, &look_ops, NULL, NULL, &b->err), &b->err);
}

/* From the weights of the file; the state at the end into `out`. */
static void run(bench *b, const json_t *item, const char *weights, char **out)
{
    const bool adam = strcmp(json_string_value(json_object_get(item, "name")), "adam") == 0;
    stk_model_builder *builder;
    stk_model_options model;
    stk_optimizer_options optimizer;
    stk_schedule schedule;
    stk_model_module_options options;
    stk_module *module;
    stk_trainer *t;
    stk_state_tensor tensor;

    stk_model_options_init(&model);
    stk_optimizer_options_init(&optimizer);
    optimizer.name = adam ? STK_ADAM : STK_SGD;
    optimizer.lr = json_number_value(json_object_get(item, "lr"));
    optimizer.momentum = json_number_value(json_object_get(item, "momentum"));
    if (adam)
        optimizer.weight_decay = json_number_value(json_object_get(item, "weight_decay"));
    stk_schedule_init(&schedule);
    schedule.name = STK_SCHEDULE_STEP;
    schedule.step_size = 1;
    schedule.gamma = json_number_value(json_object_get(item, "gamma"));
    stk_model_module_options_init(&options);
    options.interval = 1;
    options.weights = weights;
    assert_ok(stk_model_builder_create(b->ctx, picture, 3, &builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(builder, "resnet18(5)", &b->err), &b->err);
    const stk_model_parts parts = {.struct_size = sizeof parts,
                                   .builder = builder,
                                   .model = &model,
                                   .optimizer = &optimizer,
                                   .schedule = &schedule,
                                   .options = &options};
    assert_ok(stk_model_module_create(b->ctx, &parts, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    add(b, t, item);
    assert_ok(stk_trainer_fit(t, module, &b->data, NULL, &b->err), &b->err);
    for (size_t i = 0;
         stk_model_get_state(stk_model_module_model(module), i, &tensor, NULL) == STK_OK; i++) {
        out[i] = realloc(out[i], tensor.bytes + 1);
        memcpy(out[i], tensor.data, tensor.bytes);
    }
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    stk_model_builder_destroy(&builder);
}

/* The script's summary: sum, sum weighted by place, norm. */
static void check_weights(bench *b, const json_t *item, char **state)
{
    stk_model_options options;
    stk_state_tensor t;
    size_t seen = 0;

    stk_model_options_init(&options);
    options.precision = STK_PRECISION_64_TRUE;
    options.batch_size = 1;
    stk_model *model = model_make(b->ctx, "resnet18(5)", picture, 3, &options);
    for (size_t i = 0; stk_model_get_state(model, i, &t, NULL) == STK_OK; i++) {
        const json_t *wanted = json_object_get(json_object_get(item, "weights"), t.name);
        double sum = 0, weighted = 0, squares = 0;
        if (!wanted)
            continue;
        seen++;
        for (uint64_t k = 0; k < tensor_count(&t); k++) {
            const double v = t.dtype == STK_INT64 ? (double)((int64_t *)(void *)state[i])[k]
                                                  : ((double *)(void *)state[i])[k];
            sum += v;
            weighted += v * cos((double)k);
            squares += v * v;
        }
        const double norm = json_number_value(json_array_get(wanted, 2));
        const double is[] = {sum, weighted, sqrt(squares)};
        for (size_t k = 0; k < 3; k++) {
            const double should = json_number_value(json_array_get(wanted, k));
            if (!(fabs(is[k] - should) <= 1e-7 * (norm + 0.02) * 4))
                fail_msg("'%s' is %.12g, not %.12g", t.name, is[k], should);
        }
    }
    assert_int_equal(seen, json_object_size(json_object_get(item, "weights")));
    stk_model_destroy(&model);
}

static void check_case(bench *b, const json_t *item, const char *weights)
{
    static char *straight[MAX_STATE];
    const json_t *wanted = json_object_get(item, "losses");

    num_losses = 0;
    run(b, item, weights, straight);
    assert_int_equal(num_losses, STEPS);
    assert_int_equal(frozen_checks % 120, 0);
    assert_true(frozen_checks > 0);
    for (size_t i = 0; i < STEPS; i++) {
        const double should = json_number_value(json_array_get(wanted, i));
        if (!(fabs(losses[i] - should) <= 1e-9 * should))
            fail_msg("loss %zu is %.15g, not %.15g", i, losses[i], should);
    }
    check_weights(b, item, straight);
    for (size_t i = 0; i < MAX_STATE; i++) {
        free(straight[i]);
        straight[i] = NULL;
    }
}

static void test_resnet18(void **state)
{
    char path[400], dataset[900], file[400];
    json_error_t error;
    json_t *item;
    size_t i;
    bench b;

    json_t *golden = json_load_file(TESTS_DIR "/golden/nn/finetuning.json", 0, &error);
    assert_non_null(golden);
    bench_open(&b);
    float *x = make_data(SAMPLES * 3 * 32 * 32, 0);
    int64_t *y = make_labels(SAMPLES, CLASSES, 0);
    snprintf(path, sizeof path, "%s/x.npy", b.folder);
    write_npy(path, "<f4", "8, 3, 32, 32", x, SAMPLES * 3 * 32 * 32 * sizeof *x);
    snprintf(file, sizeof file, "%s/y.npy", b.folder);
    write_npy(file, "<i8", "8,", y, SAMPLES * sizeof *y);
    snprintf(dataset, sizeof dataset, "npy:%s?labels=%s", path, file);
    stk_dataset_close(&b.dataset);
    assert_ok(stk_dataset_open(b.ctx, dataset, &b.dataset, &b.err), &b.err);
    b.train.dataset = b.dataset;
    b.data.num_val = 0;
    b.loader.shuffle = STK_SHUFFLE_NONE;
    b.options.max_epochs = STEPS / STEPS_OF_EPOCH;
    b.options.precision = "64-true";
    snprintf(path, sizeof path, "%s/resnet18.safetensors", b.folder);
    write_weights(&b, path);
    json_array_foreach(golden, i, item) check_case(&b, item, path);
    assert_int_equal(i, 2);
    for (size_t k = 0; k < MAX_STATE; k++)
        free(begin[k]);
    free(x);
    free(y);
    bench_close(&b);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resnet18)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
