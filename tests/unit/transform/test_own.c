/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms of others: between the built-in ones, with draws and scratch memory, and refused where
 * unsound. */
#include "base/random.h"
#include "unit/transform/sample.h"

/* Adds a drawn number below 16 to each byte, by way of scratch memory; refuses draws of 15. */
typedef struct add_options {
    uint32_t struct_size;
    int64_t more;
} add_options;

static const stk_option add_rows[] = {{.name = "more",
                                       .type = STK_OPTION_INT,
                                       .offset = offsetof(add_options, more),
                                       .initial = "0",
                                       .doc = "More."}};
static const stk_option_table add_table = {.name = "add",
                                           .doc = "Add.",
                                           .struct_size = sizeof(add_options),
                                           .options = add_rows,
                                           .count = 1};

typedef struct add {
    stk_transform base;
    int64_t more;
} add;

static int alive;

static stk_status add_create(stk_context *ctx, const void *options, stk_transform **out,
                             stk_error *err)
{
    add *self = calloc(1, sizeof *self);

    self->more = ((const add_options *)options)->more;
    *out = &self->base;
    alive++;
    return STK_OK;
}

static void add_destroy(stk_transform *transform)
{
    alive--;
    free(transform);
}

static stk_status add_plan(const stk_transform *transform, const stk_transform_header *in,
                           const uint32_t *draws, stk_transform_plan *out, stk_error *err)
{
    *out = (stk_transform_plan){.out = *in, .scratch = 1000};
    out->params[0] = ((const add *)transform)->more + (draws ? draws[4] % 16 : 0);
    return draws && draws[4] % 16 == 15 ? STK_EFORMAT : STK_OK;
}

static void add_apply(const stk_transform *transform, const stk_transform_header *in,
                      const stk_transform_plan *plan, size_t n, const void *const *src,
                      void *const *dst, void *scratch)
{
    size_t bytes = bytes_of(in);

    assert_true(bytes <= plan->scratch);
    for (size_t i = 0; i < n; i++) {
        memcpy(scratch, src[i], bytes);
        for (size_t k = 0; k < bytes; k++)
            ((unsigned char *)dst[i])[k] =
                (unsigned char)(((unsigned char *)scratch)[k] + plan->params[0]);
    }
}

static stk_transform_ops add_ops = {.struct_size = sizeof(stk_transform_ops),
                                    .name = "add",
                                    .doc = "adds",
                                    .options = &add_table,
                                    .create = add_create,
                                    .destroy = add_destroy,
                                    .plan = add_plan,
                                    .apply = add_apply,
                                    .num_draws = 5};

static void test_own_transform(void **state)
{
    enum { SAMPLES = 200 };
    stk_context *own = test_context();
    const stk_transform_header in = {
        .dtype = STK_UINT8, .rank = 3, .shape = {5, 6, 2}, .picture = true};
    stk_error err;
    uint64_t random = 21, failed = 0;

    assert_ok(stk_driver_add(own, STK_DRIVER_TRANSFORM, &add_ops, &err), &err);
    stk__pipeline *p =
        make(own, "horizontal_flip(1), add(100), pad(1), add, layout(chw), to_float", &in);
    assert_int_equal(p->num_groups, 5);
    assert_int_equal(alive, 2);
    unsigned char *src = random_sample(&in, &random), *scratch = exact(stk__pipeline_scratch(p));
    float out[7 * 8 * 2];
    for (uint64_t position = 0; position < SAMPLES; position++) {
        uint32_t a[5], b[5];
        uint64_t epoch = 4;
        const void *from = src;
        void *to = out;
        stk_status status = STK_OK;

        stk__pipeline_run(p, 6, 1, &epoch, &position, NULL, &from, &to, &status, scratch);
        stk__draw(6, 4, position, STK_DRAW_TRANSFORM + 1, a, 5);
        stk__draw(6, 4, position, STK_DRAW_TRANSFORM + 3, b, 5);
        assert_int_equal(status, a[4] % 16 == 15 || b[4] % 16 == 15 ? STK_EFORMAT : STK_OK);
        failed += status != STK_OK;
        for (int c = 0; c < 2 && status == STK_OK; c++)
            for (int y = 0; y < 7; y++)
                for (int x = 0; x < 8; x++) {
                    bool inside = y > 0 && y < 6 && x > 0 && x < 7;
                    int pixel =
                        inside ? src[((y - 1) * 6 + (6 - x)) * 2 + c] + 100 + (int)(a[4] % 16) : 0;
                    float want = (float)(((inside ? pixel : 0) + (int)(b[4] % 16)) & 255) / 255.0f;

                    assert_true(out[(c * 7 + y) * 8 + x] == want);
                }
    }
    assert_in_range(failed, 5, 60);
    free(src);
    free(scratch);
    stk__pipeline_destroy(&p);
    assert_int_equal(alive, 0);
    stk_context_destroy(&own);
}

static void test_adding_transforms(void **state)
{
    stk_context *own = test_context();
    stk_transform_ops bad;
    stk_error err;
    size_t n = 0;

    while (((const stk_transform_ops *)stk_driver_at(own, STK_DRIVER_TRANSFORM, n)))
        n++;
    assert_true(n > 6);
    const size_t built_in = n;
    for (int k = 0; k < 8; k++) {
        bad = add_ops;
        if (k == 0)
            bad.struct_size = 8;
        else if (k == 1)
            bad.name = NULL;
        else if (k == 2)
            bad.name = "";
        else if (k == 3)
            bad.create = NULL;
        else if (k == 4)
            bad.plan = NULL;
        else if (k == 5)
            bad.apply = NULL;
        else if (k == 6)
            bad.name = "pad";
        else
            bad.num_draws = STK__MAX_DRAWS + 1;
        assert_fails(stk_driver_add(own, STK_DRIVER_TRANSFORM, &bad, &err),
                     k == 7 ? STK_ELIMIT : STK_EINVAL, &err, "transform");
    }
    assert_ok(stk_driver_add(own, STK_DRIVER_TRANSFORM, &add_ops, &err), &err);
    assert_fails(stk_driver_add(own, STK_DRIVER_TRANSFORM, &add_ops, &err), STK_EINVAL, &err,
                 "already");
    assert_ptr_equal(
        ((const stk_transform_ops *)stk_driver_at(own, STK_DRIVER_TRANSFORM, built_in)), &add_ops);
    assert_null(
        ((const stk_transform_ops *)stk_driver_at(own, STK_DRIVER_TRANSFORM, built_in + 1)));
    stk_context_destroy(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_transform),
        cmocka_unit_test(test_adding_transforms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
