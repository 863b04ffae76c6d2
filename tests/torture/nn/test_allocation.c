/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of a short training fails in turn: an error, no crash, nothing lost. */
#include "support/faults.h"
#include "unit/nn/models.h"

static stk_status train(stk_context *ctx, const char *layers, const int64_t *shape, uint32_t rank,
                        int32_t precision, stk_error *err)
{
    stk_model_builder *builder = NULL;
    stk_model *model = NULL;
    stk_optimizer *optimizer = NULL;
    stk_model_options options;
    float x[4 * 64];
    const int64_t labels[4] = {0, 1, 2, 1};
    stk_model_result result = {.struct_size = sizeof result};
    stk_state_tensor t;

    for (int i = 0; i < 256; i++)
        x[i] = (float)place_hash(3, (uint64_t)i);
    stk_model_options_init(&options);
    options.precision = precision;
    options.batch_size = 4;
    options.threads = 1;
    stk_status status = stk_model_builder_create(ctx, shape, rank, &builder, err);
    if (status == STK_OK)
        status = stk_model_builder_add(builder, layers, err);
    if (status == STK_OK)
        status = stk_model_create(builder, &options, &model, err);
    if (status == STK_OK)
        status = stk_optimizer_create(model, NULL, NULL, 0, &optimizer, err);
    for (uint32_t rows = 4; rows > 1 && status == STK_OK; rows -= 2) {
        stk_model_batch batch = {.struct_size = sizeof batch,
                                 .count = rows,
                                 .dtype = STK_FLOAT32,
                                 .input = x,
                                 .target = labels};
        status = stk_model_forward(model, &batch, true, &result, err);
        if (status == STK_OK)
            status = stk_model_backward(model, 1, err);
        if (status == STK_OK)
            status = stk_optimizer_step(optimizer, err);
        if (status == STK_OK)
            status = stk_model_forward(model, &batch, false, &result, err);
    }
    if (status == STK_OK)
        assert_true(stk_model_get_state(model, 0, &t, NULL) == STK_OK);
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
    stk_model_builder_destroy(&builder);
    return status;
}

static void torture(const char *layers, const int64_t *shape, uint32_t rank, int32_t precision)
{
    faults f = {.left = FAULTS_NONE};
    stk_context_options options;
    stk_context *ctx;
    stk_error err;

    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    for (int64_t n = 0;; n++) {
        int64_t held = f.held;
        f.left = n;
        stk_status status = train(ctx, layers, shape, rank, precision, &err);
        assert_int_equal(f.held, held);
        if (!fault_struck(&f)) {
            assert_int_equal(status, STK_OK);
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, STK_ENOMEM);
        assert_true(strlen(err.text) > 0);
    }
    f.left = FAULTS_NONE;
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
}

static void test_mlp(void **state)
{
    torture("mlp(9, 3)", (const int64_t[]){20}, 1, STK_PRECISION_64_TRUE);
}

static const char network[] =
    "a=conv2d(4, 3, padding=1), batch_norm2d, relu, conv2d(4, 1), add(a), dropout(0.2), "
    "max_pool2d(2), flatten, linear(3)";
static const int64_t picture[3] = {1, 6, 6};

static void test_network(void **state)
{
    torture(network, picture, 3, STK_PRECISION_64_TRUE);
}

static void test_network_float(void **state)
{
    if (!have_float())
        skip();
    torture(network, picture, 3, STK_PRECISION_32_TRUE);
    torture(network, picture, 3, STK_PRECISION_BF16_MIXED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_network_float),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
