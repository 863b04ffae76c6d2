/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of arrays without a dimension of which one element is taken. */
#include "unit/dataset/windows.h"

static const made field = {.dtype = STK_FLOAT32, .shape = {12, 8, 8}, .chunk = {4, 4, 4}};

static float element(int64_t t, int64_t y, int64_t x)
{
    return (float)((t * 8 + y) * 8 + x);
}

static void test_one_element(void **state)
{
    stk_context *ctx = test_context();
    stk_tensor data = {.struct_size = sizeof data};

    (void)state;
    make_array(ctx, "mem://w", &field);
    stk_dataset *d = open_windows(ctx, "array:mem://w?at=y:5&window=time:3,x:4&range=time:1:");
    assert_int_equal(d->size, 3 * 2);
    delivery b = first_batch(d, NULL);
    const float *values = field_of(&b, "data", &data);
    assert_int_equal(data.rank, 3);
    assert_int_equal(data.shape[1], 3);
    assert_int_equal(data.shape[2], 4);
    for (int64_t i = 0; i < data.shape[0]; i++) {
        int64_t start[STK__WINDOW_DIMS];
        stk__window_start((stk__window *)d, (uint64_t)i, start);
        for (int64_t t = 0; t < 3; t++)
            for (int64_t x = 0; x < 4; x++)
                assert_true(*values++ == element(start[0] + t, 5, start[2] + x));
    }
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

static void test_of_all_dimensions(void **state)
{
    stk_context *ctx = test_context();
    stk_tensor data = {.struct_size = sizeof data};

    (void)state;
    make_array(ctx, "mem://w", &field);
    stk_dataset *d = open_windows(ctx, "array:mem://w?at=2x3x4");
    delivery b = first_batch(d, NULL);
    const float *values = field_of(&b, "data", &data);
    assert_int_equal(data.rank, 1);
    assert_int_equal(data.shape[0], 1);
    assert_true(*values == element(2, 3, 4));
    close_batch(&b);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

static void test_refused(void **state)
{
    static const refused cases[] = {
        {"at=time:12", STK_EINVAL, "at: 12:12 of dimension 'time' holds nothing"},
        {"at=time:3&window=time:2", STK_EINVAL, "do not fit the 1"},
        {"at=time:3&input=2", STK_EINVAL, "do not fit the 1"},
        {"at=time:-1", STK_EINVAL, "write it as"},
        {"at=level:3", STK_EINVAL, "no dimension 'level'"},
    };
    stk_context *ctx = test_context();

    (void)state;
    make_array(ctx, "mem://w", &field);
    assert_refused(ctx, cases, STK_COUNT(cases));
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_element),
        cmocka_unit_test(test_of_all_dimensions),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
