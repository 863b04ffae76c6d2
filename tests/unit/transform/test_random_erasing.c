/* SPDX-License-Identifier: Apache-2.0 */
/* random_erasing: boxes, values and noise, in every layout it takes. */
#include <math.h>

#include "base/random.h"
#include "transform/kernels/colour.h"
#include "transform/operations/erase.h"
#include "unit/transform/one.h"

#define OPS &stk__transform_random_erasing

enum { HEIGHT = 20, WIDTH = 31, PIXELS = HEIGHT * WIDTH, WORDS = 25 };

static stk_transform_header header_of(stk_dtype dtype, bool chw)
{
    stk_transform_header header = chw ? hwc(3, HEIGHT, WIDTH) : hwc(HEIGHT, WIDTH, 3);

    header.dtype = dtype;
    header.chw = chw;
    return header;
}

static void test_arguments_and_headers(void **state)
{
    stk_transform_header header = hwc(8, 8, 3);
    stk_transform_plan plan;
    stk_error err;

    refuses(OPS, "random_erasing(2)", "p");
    refuses(OPS, "random_erasing(scale=[0.5, 0.1])", "scale");
    refuses(OPS, "random_erasing(scale=[0, 1.5])", "scale");
    refuses(OPS, "random_erasing(ratio=[0, 1])", "ratio");
    refuses(OPS, "random_erasing(value=noise)", "value");
    stk_transform *t = make_one(OPS, "random_erasing(value=[0.5, 1, 2])");
    refuses_header(t, header, "0.5");
    header.dtype = STK_FLOAT32;
    assert_ok(t->ops->plan(t, &header, NULL, &plan, &err), &err);
    header.shape[2] = 4;
    refuses_header(t, header, "value has 3 numbers");
    header.dtype = STK_INT64;
    refuses_header(t, header, "put to_float before it");
    header.picture = false;
    refuses_header(t, header, "takes pictures");
    header = (stk_transform_header){
        .dtype = STK_UINT8, .rank = 3, .shape = {-1, -1, -1}, .picture = true, .chw = true};
    t->ops->destroy(t);
    t = make_one(OPS, "random_erasing(1)");
    assert_ok(t->ops->plan(t, &header, NULL, &plan, &err), &err);
    assert_true(stk__header_same(&header, &plan.out));
    assert_true(t->ops->colours);
    t->ops->destroy(t);
}

/* Area, shape and place of the boxes, over many positions of one seed. */
static void test_boxes(void **state)
{
    enum { SAMPLES = 8000, SIDE = 1000 };
    stk_transform *t = make_one(OPS, "random_erasing(0.5, [0.05, 0.25], [0.5, 2])");
    stk_transform_header header = hwc(SIDE, SIDE, 3);
    int erased = 0, areas[4] = {0}, shapes[4] = {0}, rows[4] = {0}, columns[4] = {0};
    stk_transform_plan plan;
    stk_error err;

    for (uint64_t position = 0; position < SAMPLES; position++) {
        uint32_t words[28];

        stk__draw(11, 0, position, STK_DRAW_TRANSFORM, words, WORDS);
        assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
        if (!plan.params[0])
            continue;
        const int64_t *p = plan.params; /* erases, top, left, height, width */
        double area = (double)(p[3] * p[4]) / (SIDE * SIDE);
        double shape = log2((double)p[3] / (double)p[4]);

        erased++;
        assert_true(area > 0.049 && area < 0.251 && fabs(shape) < 1.01);
        assert_true(p[1] >= 0 && p[1] + p[3] <= SIDE && p[2] >= 0 && p[2] + p[4] <= SIDE);
        areas[STK_MIN(STK_MAX((int)((area - 0.05) * 20), 0), 3)]++;
        shapes[STK_MIN(STK_MAX((int)((shape + 1) * 2), 0), 3)]++;
        rows[(int)(4 * p[1] / (SIDE - p[3] + 1))]++;
        columns[(int)(4 * p[2] / (SIDE - p[4] + 1))]++;
    }
    assert_in_range(erased, 3850, 4150);
    for (int i = 0; i < 4; i++) {
        assert_in_range(areas[i], 850, 1150);
        assert_in_range(shapes[i], 850, 1150);
        assert_in_range(rows[i], 850, 1150);
        assert_in_range(columns[i], 850, 1150);
    }
    t->ops->destroy(t);
}

/* A box that cannot fit leaves the picture alone after ten tries. */
static void test_no_box(void **state)
{
    stk_transform *t = make_one(OPS, "random_erasing(1, [1, 1])");
    stk_transform_header header = hwc(6, 6, 1);
    uint8_t src[36];
    uint32_t words[WORDS] = {0};

    memset(src, 3, sizeof src);
    uint8_t *out = run_words(t, &header, words, src);
    assert_memory_equal(out, src, sizeof src);
    free(out);
    t->ops->destroy(t);
}

static size_t place(const stk_transform_header *header, size_t y, size_t x, size_t c)
{
    return header->chw ? c * PIXELS + y * WIDTH + x : (y * WIDTH + x) * 3 + c;
}

/* What lies outside of the box stays; what lies in it is given to `check`. */
static void check_box(const char *text, stk_dtype dtype, bool chw, uint32_t seed,
                      void (*check)(const void *element, size_t channel, void *user), void *user)
{
    stk_transform *t = make_one(OPS, text);
    stk_transform_header header = header_of(dtype, chw);
    size_t item = stk_dtype_size(dtype), inside = 0;
    uint8_t src[PIXELS * 3 * 4];
    uint32_t words[28];
    uint64_t random = 6;
    stk_transform_plan plan;
    stk_error err;

    fill_random(src, sizeof src, &random);
    stk__draw(seed, 0, 0, STK_DRAW_TRANSFORM, words, WORDS);
    assert_ok(t->ops->plan(t, &header, words, &plan, &err), &err);
    assert_int_equal(plan.params[0], 1);
    uint8_t *out = run_words(t, &header, words, src);
    const int64_t *p = plan.params;
    for (size_t y = 0; y < HEIGHT; y++)
        for (size_t x = 0; x < WIDTH; x++) {
            bool in_box = y - (size_t)p[1] < (size_t)p[3] && x - (size_t)p[2] < (size_t)p[4];

            inside += in_box;
            for (size_t c = 0; c < 3; c++) {
                size_t at = item * place(&header, y, x, c);

                if (in_box)
                    check(out + at, c, user);
                else
                    assert_memory_equal(out + at, src + at, item);
            }
        }
    assert_int_equal(inside, p[3] * p[4]);
    free(out);
    t->ops->destroy(t);
}

static void is_u8(const void *element, size_t channel, void *user)
{
    assert_int_equal(*(const uint8_t *)element, ((const uint8_t *)user)[channel]);
}

static void is_f32(const void *element, size_t channel, void *user)
{
    float x;

    memcpy(&x, element, sizeof x);
    assert_true(x == ((const float *)user)[channel]);
}

static void test_values(void **state)
{
    for (uint32_t seed = 0; seed < 20; seed++)
        for (int chw = 0; chw < 2; chw++) {
            check_box("random_erasing(1)", STK_UINT8, chw, seed, is_u8, (uint8_t[3]){0});
            check_box("random_erasing(1, value=[1, 200, 3])", STK_UINT8, chw, seed, is_u8,
                      (uint8_t[]){1, 200, 3});
            check_box("random_erasing(1, value=-0.25)", STK_FLOAT32, chw, seed, is_f32,
                      (float[]){-0.25f, -0.25f, -0.25f});
            check_box("random_erasing(1, value=[0.5, -1, 2])", STK_FLOAT32, chw, seed, is_f32,
                      (float[]){0.5f, -1.0f, 2.0f});
        }
}

typedef struct moments {
    double sum, squares, count, least, most;
} moments;

static void add_moment(moments *m, double x)
{
    m->sum += x;
    m->squares += x * x;
    m->count++;
    m->least = STK_MIN(m->least, x);
    m->most = STK_MAX(m->most, x);
}

static void add_u8(const void *element, size_t channel, void *user)
{
    add_moment(user, *(const uint8_t *)element);
}

static void add_f32(const void *element, size_t channel, void *user)
{
    float x;

    memcpy(&x, element, sizeof x);
    add_moment(user, (double)x);
}

/* Noise is uniform or normal. */
static void test_noise(void **state)
{
    moments bytes = {.least = 300}, floats = {0};

    for (uint32_t seed = 0; seed < 60; seed++)
        for (int chw = 0; chw < 2; chw++) {
            check_box("random_erasing(1, value=random)", STK_UINT8, chw, seed, add_u8, &bytes);
            check_box("random_erasing(1, value=random)", STK_FLOAT32, chw, seed, add_f32, &floats);
        }
    assert_true(bytes.count > 20000 && bytes.least == 0 && bytes.most == 255);
    double mean = bytes.sum / bytes.count;
    assert_true(fabs(mean - 127.5) < 2);
    assert_true(fabs(sqrt(bytes.squares / bytes.count - mean * mean) - 73.9) < 1.5);
    mean = floats.sum / floats.count;
    assert_true(fabs(mean) < 0.03);
    assert_true(fabs(floats.squares / floats.count - 1) < 0.04);
    assert_true(floats.most > 3 && floats.most < 6.7 && floats.least < -3);
}

/* The same noise for the same words, whichever way the picture lies, and another for others. */
static void test_noise_and_layout(void **state)
{
    stk_transform *t = make_one(OPS, "random_erasing(1, value=random)");
    stk_transform_header flat = header_of(STK_FLOAT32, false),
                         planar = header_of(STK_FLOAT32, true);
    static float zeros[PIXELS * 3];
    uint32_t words[28];

    stk__draw(1, 2, 3, STK_DRAW_TRANSFORM, words, WORDS);
    float *a = (float *)run_words(t, &flat, words, zeros);
    float *b = (float *)run_words(t, &planar, words, zeros);
    words[24]++;
    float *other = (float *)run_words(t, &flat, words, zeros);
    for (size_t y = 0; y < HEIGHT; y++)
        for (size_t x = 0; x < WIDTH; x++)
            for (size_t c = 0; c < 3; c++)
                assert_true(a[place(&flat, y, x, c)] == b[place(&planar, y, x, c)]);
    assert_memory_not_equal(a, other, PIXELS * 3 * sizeof *a);
    free(a);
    free(b);
    free(other);
    t->ops->destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_and_headers),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_no_box),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_noise_and_layout),
    };

    return cmocka_run_group_tests(tests, context_open, context_close);
}
