/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norms whose statistics are of the rows of all ranks: ranks as threads come to what one
 * process comes to with all rows, also where a batch has not a row for each; and gradients that go
 * from rank to rank in bfloat16, or while others are computed. */
#include "unit/train/ranks.h"

enum { GLOBAL = 12 /* of 37 rows: three batches, and one row */, STEPS = 8, KEPT = 4096 };

typedef struct one {
    rank self;
    uint64_t world;
    bool alone_norms; /* each rank takes its own statistics */
    int32_t compression;
    const char *precision;
    bench b;
    double values[KEPT]; /* all tensors of the model, in their order */
    size_t n;
    stk_status status;
} one;

static void keep(one *o, stk_model *model)
{
    stk_state_tensor tensor;

    for (size_t i = 0; stk_model_get_state(model, i, &tensor, NULL) == STK_OK; i++) {
        const size_t size = stk_dtype_size(tensor.dtype);
        for (uint64_t k = 0; k < tensor.bytes / size; k++) {
            assert_true(o->n < KEPT);
            o->values[o->n++] =
                stk__element_as_double((const char *)tensor.data + k * size, tensor.dtype);
        }
    }
}

static void train_one(one *o, const stk_model_parts *parts)
{
    o->self.home = pthread_self();
    const stk_strategy strategy = ranks_strategy(&o->self);
    bench *b = &o->b;
    stk_module *module;
    stk_trainer *t;

    assert_ok(stk_model_module_create(b->ctx, parts, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    if (o->world > 1)
        assert_ok(stk_trainer_set_strategy(t, &strategy, &b->err), &b->err);
    o->status = stk_trainer_fit(t, module, &b->data, NULL, &b->err);
    if (o->status == STK_OK)
        keep(o, stk_model_module_model(module));
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
}

static void *run_one(void *argument)
{
    static const int64_t shape[] = {1, 28, 28};
    one *o = argument;
    bench *b = &o->b;
    stk_model_builder *builder;
    stk_optimizer_options optimizer;

    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(stk_dataset_open(b->ctx, "digits:?split=test&subset=0:37", &b->dataset, &b->err),
              &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
    b->loader.batch_size = GLOBAL / o->world;
    b->loader.transforms = b->val_loader.transforms = "layout(chw), to_float";
    b->options.precision = o->precision;
    b->options.max_epochs = 2;
    b->options.logger = "false";
    b->options.enable_checkpointing = STK_SWITCH_FALSE;
    b->options.num_sanity_val_steps = 0;
    b->options.seed_everything = 3;
    b->options.sync_batchnorm = o->world > 1 && !o->alone_norms;
    b->options.gradient_compression = o->world > 1 ? o->compression : 0;
    stk_optimizer_options_init(&optimizer);
    optimizer.name = STK_SGD;
    optimizer.lr = 0.05;
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(builder,
                                    "conv2d(3, 5, stride=3), batch_norm2d, relu, conv2d(4, 3), "
                                    "batch_norm2d, relu, flatten, linear(10)",
                                    &b->err),
              &b->err);
    const stk_model_parts parts = {
        .struct_size = sizeof parts, .builder = builder, .optimizer = &optimizer};
    train_one(o, &parts);
    stk_model_builder_destroy(&builder);
    bench_close(b);
    return NULL;
}

static void run_world(one *all, uint64_t world, const one *like)
{
    pthread_t threads[MAX_RANKS];
    ranks shared;

    ranks_init(&shared, world);
    for (uint64_t r = 0; r < world; r++) {
        all[r] = *like;
        all[r].self.all = &shared;
        all[r].self.number = r;
        all[r].world = world;
        assert_int_equal(pthread_create(&threads[r], NULL, run_one, &all[r]), 0);
    }
    for (uint64_t r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
    for (uint64_t r = 0; r < world; r++) {
        assert_ok(all[r].status, &all[r].b.err);
        assert_int_equal(all[r].n, all[0].n);
        assert_true(all[r].n > 100);
        /* A step in which the model's gradients are not its ranks' alone waits for all of them. */
        const bool early = world > 1 && like->alone_norms && !like->self.one_thread;
        assert_int_equal(all[r].self.elsewhere, early ? STEPS - 1 : 0);
    }
    ranks_release(&shared);
}

/* The greatest difference of any weight or running statistic. */
static double distance(const one *a, const one *b)
{
    double most = 0;

    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        most = fmax(most, fabs(a->values[i] - b->values[i]) / (1 + fabs(a->values[i])));
    return most;
}

static one first[1], second[MAX_RANKS], third[MAX_RANKS];

static void all_rows_count(void **state)
{
    const one like = {.precision = "64-true"};

    run_world(first, 1, &like);
    for (uint64_t world = 2; world <= MAX_RANKS; world++) {
        run_world(second, world, &like);
        for (uint64_t r = 0; r < world; r++)
            assert_true(distance(first, &second[r]) < 1e-10);
        /* It is not for nothing. */
        run_world(third, world, &(one){.precision = "64-true", .alone_norms = true});
        assert_true(distance(first, &third[0]) > 1e-4);
    }
}

/* Rounded to 8 bits of fraction, on all ranks alike. */
static void short_gradients(void **state)
{
    const one like = {.precision = "32-true"};

    run_world(first, 1, &like);
    run_world(second, 2, &like);
    run_world(third, 2, &(one){.precision = "32-true", .compression = STK_GRADIENTS_BF16});
    assert_true(distance(first, &second[0]) < 2e-5);
    assert_true(distance(first, &third[0]) > 2e-5);
    assert_true(distance(first, &third[0]) < 2e-2);
    assert_true(distance(&third[0], &third[1]) == 0);
}

/* Gradients that are put together behind the passes, and after them. */
static void the_same_sums_earlier(void **state)
{
    one like = {.precision = "32-true", .alone_norms = true};

    for (int short_ones = 0; short_ones < 2; short_ones++) {
        like.compression = short_ones ? STK_GRADIENTS_BF16 : 0;
        like.self.one_thread = true;
        run_world(second, 2, &like);
        like.self.one_thread = false;
        run_world(third, 2, &like);
        for (int r = 0; r < 2; r++)
            assert_true(distance(&second[r], &third[r]) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_count),
        cmocka_unit_test(short_gradients),
        cmocka_unit_test(the_same_sums_earlier),
    };

    return cmocka_run_group_tests_name("train/sync_batchnorm", tests, NULL, NULL);
}
