/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a model that learn later: what is frozen stays, rates, runs that go on, what is refused.
 */
#include "train/callbacks/callback.h"
#include "unit/train/tiny.h"

enum { STEPS_OF_EPOCH = 4, EPOCHS = 4, MAX_STATE = 32 };

/* Options of a callback: names and values, a NULL at the end. */
typedef const char *const *words;

typedef struct run {
    bench b;
    stk_model_builder *builder;
    stk_model_options model;
    stk_optimizer_options optimizer;
    stk_schedule schedule;
    stk_model_module_options module_options;
    words finetuning[3]; /* callbacks */
    const stk_callback_ops *also;
    bool searches;        /* for the rate */
    char *end[MAX_STATE]; /* tensors at the end, and their names */
    char names[MAX_STATE][64];
    size_t sizes[MAX_STATE], count;
    double rates[3];
} run;

static stk_status labels_open(stk_context *ctx, stk_dataset **out, stk_error *err)
{
    return stk_dataset_open(ctx, "digits:?split=test&subset=0:32", out, err);
}

static void run_open(run *r)
{
    static const int64_t shape[] = {1, 28, 28};
    bench *b = &r->b;

    memset(r, 0, sizeof *r);
    bench_open(b);
    stk_dataset_close(&b->dataset);
    assert_ok(labels_open(b->ctx, &b->dataset, &b->err), &b->err);
    b->loader.batch_size = 8;
    b->loader.transforms = "random_crop(28, padding=2), layout(chw), to_float";
    b->train.dataset = b->dataset;
    b->data.num_val = 0;
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &r->builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(r->builder,
                                    "a=conv2d(3, 5, stride=3), na=batch_norm2d, relu, "
                                    "b=conv2d(3, 3), nb=batch_norm2d, relu, flatten, fc=linear(10)",
                                    &b->err),
              &b->err);
    stk_model_options_init(&r->model);
    stk_optimizer_options_init(&r->optimizer);
    r->optimizer.name = STK_ADAM;
    r->optimizer.lr = 0.01;
    stk_schedule_init(&r->schedule);
    stk_model_module_options_init(&r->module_options);
    b->options.max_epochs = EPOCHS;
    b->options.seed_everything = 1;
    b->options.precision = "64-true";
}

static void run_close(run *r)
{
    for (size_t i = 0; i < MAX_STATE; i++)
        free(r->end[i]);
    stk_model_builder_destroy(&r->builder);
    bench_close(&r->b);
}

static void add(bench *b, stk_trainer *t, words given)
{
    const stk_callback_ops *ops = &stk__callback_backbone_finetuning;
    uint64_t room[64];

    stk_options_init(ops->options, room, sizeof room);
    for (; *given; given += 2)
        assert_ok(stk_options_set(ops->options, room, given[0], given[1], &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, ops, room, NULL, &b->err), &b->err);
}

static stk_status add_search(stk_trainer *t, stk_error *err)
{
    const stk_option_table *table = stk__callback_lr_find.options;
    uint64_t room[64];

    stk_options_init(table, room, table->struct_size);
    STK_TRY(stk_options_set(table, room, "num_training", "20", err));
    STK_TRY(stk_options_set(table, room, "min_lr", "1e-5", err));
    return stk_trainer_add_callback(t, &stk__callback_lr_find, room, NULL, err);
}

static stk_status fit(run *r, int64_t max_steps, const char *from)
{
    bench *b = &r->b;
    const stk_model_parts parts = {.struct_size = sizeof parts,
                                   .builder = r->builder,
                                   .model = &r->model,
                                   .optimizer = &r->optimizer,
                                   .schedule = &r->schedule,
                                   .options = &r->module_options};
    stk_state_tensor tensor;
    stk_module *module;
    stk_trainer *t;

    b->options.max_steps = max_steps;
    assert_ok(stk_model_module_create(b->ctx, &parts, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    for (size_t i = 0; i < STK_COUNT(r->finetuning) && r->finetuning[i]; i++)
        add(b, t, r->finetuning[i]);
    if (r->searches)
        assert_ok(add_search(t, &b->err), &b->err);
    if (r->also)
        assert_ok(stk_trainer_add_callback(t, r->also, NULL, NULL, &b->err), &b->err);
    const stk_status status = stk_trainer_fit(t, module, &b->data, from, &b->err);
    r->count = 0;
    while (status == STK_OK &&
           stk_model_get_state(stk_model_module_model(module), r->count, &tensor, NULL) == STK_OK) {
        const size_t i = r->count++;
        assert_true(i < MAX_STATE);
        snprintf(r->names[i], sizeof r->names[i], "%s", tensor.name);
        r->sizes[i] = tensor.bytes;
        r->end[i] = realloc(r->end[i], tensor.bytes + 1);
        memcpy(r->end[i], tensor.data, tensor.bytes);
    }
    for (uint32_t g = 0; g < STK_COUNT(r->rates) && status == STK_OK; g++)
        if (!module->ops->get_option(module, g, "lr", &r->rates[g]))
            r->rates[g] = -1;
    stk_trainer_destroy(&t);
    stk_module_destroy(&module);
    return status;
}

/* Which tensors two runs end with alike: names that begin so are, the others are not. */
static void check_same(const run *a, const run *b, const char *const *same)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        bool wanted = false;
        for (const char *const *s = same; *s; s++)
            wanted |= strncmp(a->names[i], *s, strlen(*s)) == 0;
        if ((memcmp(a->end[i], b->end[i], a->sizes[i]) == 0) != wanted)
            fail_msg("'%s' %s", a->names[i], wanted ? "has changed" : "is as it was");
    }
}

static const char *const whole[] = {"pattern", "a.*, na.*, b.*, nb.*", "unfreeze_backbone_at_epoch",
                                    "2", NULL};
static const char *const never[] = {"pattern", "a.*, na.*, b.*, nb.*", "unfreeze_backbone_at_epoch",
                                    "100", NULL};

/* Frozen parameters and statistics are those that training began with. */
static void test_frozen(void **state)
{
    static const char *const backbone[] = {"a.", "na.", "b.", "nb.", NULL};
    static const char *const first[] = {"a.", "na.", NULL};
    static const char *const no_norms[] = {"na.", "nb.", NULL};
    static const char *const later[] = {
        "pattern", "a.*, na.*, b.*, nb.*", "unfreeze_backbone_at_epoch", "1", "train_bn", "false",
        NULL};
    static const char *const nothing[] = {NULL};
    run start, end;

    run_open(&start);
    run_open(&end);
    start.b.options.max_epochs = 0;
    assert_ok(fit(&start, -1, NULL), &start.b.err);
    end.finetuning[0] = never;
    assert_ok(fit(&end, -1, NULL), &end.b.err);
    check_same(&start, &end, backbone);
    assert_true(end.rates[0] == 0.01 && end.rates[1] == -1);
    /* By the model's own option. */
    end.finetuning[0] = NULL;
    end.model.freeze = "a.*, na.*";
    assert_ok(fit(&end, -1, NULL), &end.b.err);
    check_same(&start, &end, first);
    /* What that freezes learns never. */
    end.finetuning[0] = whole;
    assert_ok(fit(&end, -1, NULL), &end.b.err);
    check_same(&start, &end, first);
    end.model.freeze = NULL;
    assert_ok(fit(&end, -1, NULL), &end.b.err);
    check_same(&start, &end, nothing);
    end.finetuning[0] = later;
    assert_ok(fit(&end, -1, NULL), &end.b.err);
    check_same(&start, &end, no_norms);
    run_close(&start);
    run_close(&end);
}

/* Lightning's: a share of the model's rate, multiplied at each epoch, never above the model's. */
static void test_rates(void **state)
{
    static const char *const given[] = {"pattern",
                                        "a.*",
                                        "unfreeze_backbone_at_epoch",
                                        "1",
                                        "backbone_initial_lr",
                                        "0.003",
                                        "multiplier",
                                        "3",
                                        NULL};
    static const char *const above[] = {"pattern",
                                        "a.*",
                                        "unfreeze_backbone_at_epoch",
                                        "1",
                                        "backbone_initial_ratio_lr",
                                        "0.5",
                                        "should_align",
                                        "false",
                                        NULL};
    static const double shares[] = {-1, -1, 0.001, 0.002}, rates[] = {-1, 0.003, 0.009, 0.01},
                        free_rates[] = {-1, 0.005, 0.01, 0.02};
    run r;

    run_open(&r);
    for (int64_t epochs = 1; epochs <= EPOCHS; epochs++) {
        r.b.options.max_epochs = epochs;
        r.finetuning[0] = whole;
        assert_ok(fit(&r, -1, NULL), &r.b.err);
        assert_true(fabs(r.rates[1] - shares[epochs - 1]) < 1e-15);
        r.finetuning[0] = given;
        assert_ok(fit(&r, -1, NULL), &r.b.err);
        assert_true(fabs(r.rates[1] - rates[epochs - 1]) < 1e-15 && r.rates[0] == 0.01);
        r.finetuning[0] = above;
        assert_ok(fit(&r, -1, NULL), &r.b.err);
        assert_true(fabs(r.rates[1] - free_rates[epochs - 1]) < 1e-15);
    }
    run_close(&r);
}

static void check_ends(const run *a, const run *b, const char *what)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(a->end[i], b->end[i], a->sizes[i]))
            fail_msg("'%s' differs: %s", a->names[i], what);
    assert_memory_equal(a->rates, b->rates, sizeof a->rates);
}

/* Two parts, the later one first, with averages: stopped after each step it goes on bit for bit. */
static void test_goes_on(void **state)
{
    static const char *const late[] = {"pattern", "a.*, na.*", "unfreeze_backbone_at_epoch", "3",
                                       NULL};
    static const char *const early[] = {"pattern", "b.*, nb.*", "unfreeze_backbone_at_epoch", "1",
                                        NULL};
    static const stk_callback_ops *const also[] = {NULL, &stk__callback_ema};
    run straight, resumed;

    for (size_t k = 0; k < STK_COUNT(also); k++) {
        run_open(&straight);
        run_open(&resumed);
        straight.finetuning[0] = resumed.finetuning[0] = late;
        straight.finetuning[1] = resumed.finetuning[1] = early;
        straight.also = resumed.also = also[k];
        for (int32_t name = STK_SGD; name <= STK_ADAMW; name++) {
            straight.optimizer.name = resumed.optimizer.name = name;
            straight.optimizer.momentum = resumed.optimizer.momentum = name == STK_SGD ? 0.9 : 0;
            straight.schedule.name = resumed.schedule.name = STK_SCHEDULE_EXPONENTIAL;
            straight.schedule.gamma = resumed.schedule.gamma = 0.9;
            assert_ok(fit(&straight, -1, NULL), &straight.b.err);
            resumed.b.options.enable_checkpointing = STK_SWITCH_TRUE;
            for (int64_t steps = 1; steps < EPOCHS * STEPS_OF_EPOCH; steps++) {
                char root[300];
                snprintf(root, sizeof root, "%s/%d-%lld", resumed.b.folder, (int)name,
                         (long long)steps);
                resumed.b.options.default_root_dir = root;
                assert_ok(fit(&resumed, steps, NULL), &resumed.b.err);
                assert_ok(fit(&resumed, -1, "last"), &resumed.b.err);
                snprintf(root, sizeof root, "after %lld steps", (long long)steps);
                check_ends(&straight, &resumed, root);
            }
        }
        run_close(&straight);
        run_close(&resumed);
    }
}

static void refuse(run *r, words given, stk_status status, const char *part)
{
    r->finetuning[0] = given;
    assert_fails(fit(r, -1, NULL), status, &r->b.err, part);
}

/* ---- With a rate that is searched for -------------------------------------------------------- */

/* The head's rate is what is found, the backbone's a share of that; as in a training that is given
 * the rate, and so in one that goes on from where the backbone learns, or does not yet. */
static void test_searched(void **state)
{
    run searched, given, resumed;

    run_open(&searched);
    run_open(&given);
    run_open(&resumed);
    searched.finetuning[0] = given.finetuning[0] = resumed.finetuning[0] = whole;
    searched.searches = resumed.searches = true;
    assert_ok(fit(&searched, -1, NULL), &searched.b.err);
    assert_true(searched.rates[0] != given.optimizer.lr);
    given.optimizer.lr = searched.rates[0];
    assert_ok(fit(&given, -1, NULL), &given.b.err);
    check_ends(&given, &searched, "a searched rate");
    /* 0.1 of the model's at epoch 2, twice that at epoch 3. */
    assert_true(fabs(searched.rates[1] / searched.rates[0] - 0.2) < 1e-12);
    resumed.b.options.enable_checkpointing = STK_SWITCH_TRUE;
    for (int64_t steps = 1; steps < EPOCHS * STEPS_OF_EPOCH; steps += 3) {
        char root[300];
        snprintf(root, sizeof root, "%s/%lld", resumed.b.folder, (long long)steps);
        resumed.b.options.default_root_dir = root;
        assert_ok(fit(&resumed, steps, NULL), &resumed.b.err);
        assert_ok(fit(&resumed, -1, "last"), &resumed.b.err);
        check_ends(&searched, &resumed, "a searched rate that goes on");
    }
    run_close(&searched);
    run_close(&given);
    run_close(&resumed);
}

static void test_refused(void **state)
{
    static const char *const unknown[] = {"pattern", "a.*, layer5.*", NULL};
    static const char *const all[] = {"pattern", "*", NULL};
    static const char *const none[] = {NULL}, *const rate[] = {"pattern", "a.*",
                                                               "backbone_initial_lr", "-1", NULL};
    uint64_t room[64];
    stk_trainer *t;
    tiny module;
    run r;

    run_open(&r);
    bench *b = &r.b;
    refuse(&r, unknown, STK_EINVAL, "no parameter matches \"layer5.*\"");
    refuse(&r, all, STK_EINVAL, "no parameter of the model learns: all are frozen until");
    r.model.freeze = "*";
    refuse(&r, NULL, STK_EINVAL, "no parameter of the model learns: model.freeze has all");
    r.model.freeze = NULL;
    b->options.nan_policy = STK_NAN_REWIND;
    refuse(&r, whole, STK_EINVAL, "nan_policy rewind");
    b->options.nan_policy = STK_NAN_STOP;
    const stk_callback_ops *ops = &stk__callback_backbone_finetuning;
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    for (size_t i = 0; i < 2; i++) {
        stk_options_init(ops->options, room, sizeof room);
        for (words w = i ? rate : none; *w; w += 2)
            assert_ok(stk_options_set(ops->options, room, w[0], w[1], &b->err), &b->err);
        assert_fails(stk_trainer_add_callback(t, ops, room, NULL, &b->err), STK_EINVAL, &b->err,
                     i ? "backbone_initial_lr: it takes a rate" : "pattern: it has to be given");
    }
    /* A module of others that has no such thing. */
    b->options.precision = "32-true";
    stk_trainer_destroy(&t);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    tiny_init(&module);
    add(b, t, whole);
    assert_fails(stk_trainer_fit(t, &module.base, &b->data, NULL, &b->err), STK_EINVAL, &b->err,
                 "the module cannot freeze its parameters");
    stk_trainer_destroy(&t);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen),  cmocka_unit_test(test_rates),
        cmocka_unit_test(test_goes_on), cmocka_unit_test(test_searched),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
