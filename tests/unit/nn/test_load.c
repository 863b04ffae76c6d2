/* SPDX-License-Identifier: Apache-2.0 */
/* Weights into a model, by name. */
#include "unit/nn/models.h"

static stk_context *ctx;
static stk_error err;

static const int64_t row[1] = {6}, colour[3] = {3, 32, 32};

static int setup(void **state)
{
    ctx = test_context();
    stk_error_init(&err);
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

static stk_model_options defaults(void)
{
    stk_model_options options;

    stk_model_options_init(&options);
    options.threads = 1;
    options.batch_size = 8;
    options.precision = have_float() ? STK_PRECISION_32_TRUE : STK_PRECISION_64_TRUE;
    return options;
}
static char told[4096];

static void tell(void *user, stk_message_level level, const char *message)
{
    if (level >= STK_MESSAGE_INFO && strlen(told) + strlen(message) + 2 < sizeof told)
        strcat(strcat(told, message), "\n");
}

/* What does not fit is left, and told with both shapes; a strict load changes nothing. */
static void test_load_what_fits(void **state)
{
    stk_model_options options = defaults();
    stk_context_options c;
    stk_context *loud;

    stk_context_options_init(&c);
    c.on_message = tell;
    assert_int_equal(stk_context_create(&c, &loud, &err), STK_OK);
    options.precision = STK_PRECISION_64_TRUE;
    stk_model *from = model_make(loud, "linear(5), relu, head=linear(7)", row, 1, &options);
    options.seed = 5;
    stk_model *to =
        model_make(loud, "linear(5), relu, head=linear(3), last=linear(2)", row, 1, &options);
    stk_state_tensor t[4], mine, before;
    double kept[15];
    size_t taken = 9;

    for (size_t i = 0; i < 4; i++)
        assert_true(stk_model_get_state(from, i, &t[i], NULL) == STK_OK);
    assert_true(stk_model_get_state(to, 0, &before, NULL) == STK_OK);
    const double first = tensor_get(&before, 0);
    assert_fails(stk__model_load(to, t, 4, true, &taken, &err), STK_EMISMATCH, &err,
                 "another model: 'head.weight' is [7, 5], but the model's is [3, 5]; 'head.bias' "
                 "is [7], but the model's is [3]; 'last.weight' [2, 3], which the model has, is "
                 "not there; 'last.bias' [2], which the model has, is not there; take");
    assert_true(taken == 9 && tensor_get(&before, 0) == first && told[0] == '\0');
    t[1].dtype = STK_INT32;
    assert_fails(stk__model_load(to, t, 4, true, NULL, &err), STK_EMISMATCH, &err,
                 "'0.bias' is of type int32, not float64; 'head.weight'");
    assert_non_null(strstr(err.text, "; and 1 more; take"));
    t[1].dtype = STK_FLOAT64;
    assert_true(stk_model_get_state(to, 2, &mine, NULL) == STK_OK);
    memcpy(kept, mine.data, sizeof kept);
    t[1].name = "0.offset";
    assert_ok(stk__model_load(to, t, 4, false, &taken, &err), &err);
    assert_int_equal(taken, 1);
    assert_string_equal(told,
                        "weights: '0.bias' [5], which the model has, is not there\n"
                        "weights: 'head.weight' is [7, 5], but the model's is [3, 5]\n"
                        "weights: 'head.bias' is [7], but the model's is [3]\n"
                        "weights: 'last.weight' [2, 3], which the model has, is not there\n"
                        "weights: 'last.bias' [2], which the model has, is not there\n"
                        "weights: '0.offset' [5] is not in the model\n"
                        "weights: 1 of the model's 6 tensors are taken, the others keep their "
                        "initial values\n");
    assert_true(tensor_get(&before, 0) == tensor_get(&t[0], 0));
    assert_memory_equal(mine.data, kept, sizeof kept);
    stk_model_destroy(&from);
    stk_model_destroy(&to);
    stk_context_destroy(&loud);
}

static stk_context *loud_context(void)
{
    stk_context_options c;
    stk_context *loud;

    stk_context_options_init(&c);
    c.on_message = tell;
    assert_int_equal(stk_context_create(&c, &loud, &err), STK_OK);
    *told = 0;
    return loud;
}

/* What all names begin with is taken off and told, where the model has none of them with it. */
static void test_load_of_an_attribute(void **state)
{
    static const char *const files[][5] = {
        {"model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias", "model."},
        {"net.model.0.weight", "net.model.0.bias", "net.model.2.weight", "net.model.2.bias",
         "net.model."},
        {"0.0.weight", "0.0.bias", "0.2.weight", "0.2.bias", "0."},
        /* Not all names, and no whole part of them. */
        {"model.0.weight", "model.0.bias", "net.2.weight", "net.2.bias", NULL},
        {"model0.weight", "model0.bias", "model2.weight", "model2.bias", NULL},
        /* Nine attributes deep. */
        {"a.b.c.d.e.f.g.h.i.0.weight", "a.b.c.d.e.f.g.h.i.0.bias", "a.b.c.d.e.f.g.h.i.2.weight",
         "a.b.c.d.e.f.g.h.i.2.bias", NULL},
    };
    stk_model_options options = defaults();
    stk_context *loud = loud_context();
    options.precision = STK_PRECISION_64_TRUE;
    stk_model *from = model_make(loud, "linear(5), relu, linear(3)", row, 1, &options);
    char line[128];

    for (size_t i = 0; i < STK_COUNT(files); i++) {
        stk_state_tensor t[4], mine;
        size_t taken = 0;
        options.seed = 7 + i;
        stk_model *to = model_make(loud, "linear(5), relu, linear(3)", row, 1, &options);
        for (size_t k = 0; k < 4; k++) {
            assert_true(stk_model_get_state(from, k, &t[k], NULL) == STK_OK);
            t[k].name = files[i][k];
        }
        *told = 0;
        const stk_status status = stk__model_load(to, t, 4, true, &taken, &err);
        assert_int_equal(status, files[i][4] ? STK_OK : STK_EMISMATCH);
        snprintf(line, sizeof line,
                 "weights: all names of the file begin with '%s', which is taken off\n",
                 files[i][4] ? files[i][4] : "");
        assert_string_equal(told, files[i][4] ? line : "");
        assert_int_equal(taken, files[i][4] ? 4 : 0);
        for (size_t k = 0; k < taken; k++) {
            assert_true(stk_model_get_state(to, k, &mine, NULL) == STK_OK);
            assert_memory_equal(mine.data, t[k].data, mine.bytes);
        }
        stk_model_destroy(&to);
    }
    /* What differs is named as the model has it; one name that fits keeps all as they are. */
    stk_state_tensor t[4];
    stk_model *to = model_make(loud, "linear(5), relu, linear(4)", row, 1, &options);
    for (size_t k = 0; k < 4; k++) {
        assert_true(stk_model_get_state(from, k, &t[k], NULL) == STK_OK);
        t[k].name = files[0][k];
    }
    assert_fails(stk__model_load(to, t, 4, true, NULL, &err), STK_EMISMATCH, &err,
                 "another model: '2.weight' is [3, 5], but the model's is [4, 5]");
    t[0].name = "0.weight";
    *told = 0;
    assert_fails(stk__model_load(to, t, 4, true, NULL, &err), STK_EMISMATCH, &err,
                 "'0.bias' [5], which the model has, is not there");
    assert_string_equal(told, "");
    stk_model_destroy(&to);
    /* A part of a model, whose names without their beginning are another part's. */
    to = model_make(loud, "linear(6), a.0=linear(5)", row, 1, &options);
    stk_state_tensor first, second;
    assert_true(stk_model_get_state(to, 0, &first, NULL) == STK_OK);
    assert_true(stk_model_get_state(to, 2, &second, NULL) == STK_OK);
    const double before = tensor_get(&first, 0);
    assert_true(stk_model_get_state(from, 0, &t[0], NULL) == STK_OK);
    t[0].name = "a.0.weight";
    assert_ok(stk__model_load(to, t, 1, false, NULL, &err), &err);
    assert_true(tensor_get(&first, 0) == before);
    assert_true(tensor_get(&second, 0) == tensor_get(&t[0], 0));
    stk_model_destroy(&to);
    stk_model_destroy(&from);
    stk_context_destroy(&loud);
}

/* The same of a checkpoint of Lightning, and of one whose module is the model itself. */
static void test_load_of_lightning(void **state)
{
    static const int64_t picture[3] = {3, 4, 4};
    stk_model_options options = defaults();
    stk_context *loud = loud_context();
    stk_model *models[2];

    options.precision = STK_PRECISION_64_TRUE;
    options.loss = STK_LOSS_MSE;
    for (int i = 0; i < 2; i++) {
        size_t taken = 0;
        options.seed = 1 + (uint64_t)i;
        models[i] = model_make(loud, "conv2d(4, 3), batch_norm2d, flatten, linear(2)", picture, 3,
                               &options);
        assert_ok(stk_model_load_file(loud, models[i],
                                      i ? TESTS_DIR "/golden/pth/attribute.pth"
                                        : TESTS_DIR "/golden/pth/checkpoint.pth",
                                      true, &taken, &err),
                  &err);
        assert_int_equal(taken, 9);
        assert_string_equal(told, i ? "weights: all names of the file begin with 'model.', which "
                                      "is taken off\n"
                                    : "");
    }
    for (size_t k = 0; k < 9; k++) {
        stk_state_tensor a, b;
        assert_true(stk_model_get_state(models[0], k, &a, NULL) == STK_OK);
        assert_true(stk_model_get_state(models[1], k, &b, NULL) == STK_OK);
        assert_memory_equal(a.data, b.data, a.bytes);
    }
    stk_model_destroy(&models[0]);
    stk_model_destroy(&models[1]);
    stk_context_destroy(&loud);
}

/* Files of PyTorch's first versions have no counts of batches. */
static void test_load_without_counts(void **state)
{
    stk_model_options options = defaults();
    options.precision = STK_PRECISION_64_TRUE;
    options.loss = STK_LOSS_MSE;
    stk_model *model = model_make(ctx, "conv2d(2, 3), batch_norm2d", colour, 3, &options);
    stk_state_tensor t[7];
    size_t taken = 0;

    for (size_t i = 0; i < 7; i++)
        assert_true(stk_model_get_state(model, i, &t[i], NULL) == STK_OK);
    assert_string_equal(t[6].name, "1.num_batches_tracked");
    assert_ok(stk__model_load(model, t, 6, true, &taken, &err), &err);
    assert_int_equal(taken, 6);
    stk_model_destroy(&model);
}

static void test_load(void **state)
{
    stk_model_options options = defaults();
    stk_model *from = model_make(ctx, "linear(5), relu, linear(3)", row, 1, &options);
    options.precision = STK_PRECISION_64_TRUE;
    stk_model *to = model_make(ctx, "linear(5), relu, linear(3)", row, 1, &options);
    stk_state_tensor t[5], mine;
    size_t taken = 0;

    for (size_t i = 0; i < 4; i++)
        assert_true(stk_model_get_state(from, i, &t[i], NULL) == STK_OK);
    assert_ok(stk__model_load(to, t, 4, true, &taken, &err), &err);
    assert_int_equal(taken, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(stk_model_get_state(to, i, &mine, NULL) == STK_OK);
        for (uint64_t k = 0; k < tensor_count(&mine); k++)
            assert_true(tensor_get(&mine, k) == tensor_get(&t[i], k));
    }
    assert_fails(stk__model_load(to, t, 3, true, NULL, &err), STK_EMISMATCH, &err,
                 "'2.bias' [3], which the model has, is not there; take those that fit with "
                 "weights_strict: false (--no-weights-strict)");
    assert_ok(stk__model_load(to, t, 3, false, &taken, &err), &err);
    assert_int_equal(taken, 3);
    t[4] = t[0];
    t[4].name = "head.weight";
    assert_fails(stk__model_load(to, t, 5, true, NULL, &err), STK_EMISMATCH, &err,
                 "'head.weight' [5, 6] is not in the model");
    assert_ok(stk__model_load(to, t, 5, false, &taken, &err), &err);
    uint16_t halves[15];
    for (int i = 0; i < 15; i++)
        halves[i] = (uint16_t)(0x3c00 + i * 64); /* 1 + i / 16 */
    stk_state_tensor half = t[2];
    half.dtype = STK_FLOAT16;
    half.data = halves;
    half.bytes = sizeof halves;
    assert_ok(stk__model_load(to, &half, 1, false, &taken, &err), &err);
    assert_true(stk_model_get_state(to, 2, &mine, NULL) == STK_OK);
    for (int i = 0; i < 15; i++)
        assert_true(tensor_get(&mine, (uint64_t)i) == 1 + i / 16.0);
    stk_model_destroy(&from);
    stk_model_destroy(&to);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_load), TEST(test_load_what_fits), TEST(test_load_without_counts),
        TEST(test_load_of_an_attribute), TEST(test_load_of_lightning)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
