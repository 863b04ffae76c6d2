/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resampler as a stream: what it refuses, how much memory it takes, which part of the input it
 * touches, and that windows, strips and instruction sets do not change a bit. The values are held
 * against the same resampling in doubles, written out once more here; those of Pillow are in
 * tests/golden.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/resize/resize.h"
#include "transform/resize/resize_taps.h"

static stk_context *plain, *best;

static int make_contexts(void **state)
{
    stk_context_options options;

    stk_context_options_init(&options);
    options.instructions = STK_INSTRUCTIONS_PLAIN;
    if (stk_context_create(&options, &plain, NULL) != STK_OK)
        return -1;
    return stk_context_create(NULL, &best, NULL) == STK_OK ? 0 : -1;
}

static int drop_contexts(void **state)
{
    stk_context_destroy(&plain);
    stk_context_destroy(&best);
    return 0;
}

static uint32_t below(uint64_t *random, uint32_t end)
{
    return (uint32_t)(test_random(random) % end);
}

/* The whole of a picture to the whole of another. */
static stk__resize whole(stk__filter filter, uint32_t pixel_bytes, uint32_t in_width,
                         uint32_t in_height, uint32_t out_width, uint32_t out_height)
{
    return (stk__resize){.filter = filter,
                         .pixel_bytes = pixel_bytes,
                         .in_width = in_width,
                         .in_height = in_height,
                         .right = in_width,
                         .bottom = in_height,
                         .out_width = out_width,
                         .out_height = out_height,
                         .width = out_width,
                         .height = out_height};
}

static uint8_t *noise(const stk__resize *what, uint64_t *random)
{
    size_t bytes = (size_t)what->in_width * what->in_height * what->pixel_bytes;
    uint8_t *data = malloc(bytes + STK_TAIL);

    assert_non_null(data);
    for (size_t i = 0; i < bytes + STK_TAIL; i++)
        data[i] = (uint8_t)(test_random(random) >> 24);
    return data;
}

/* Memory of exactly the size that was asked for, not zeroed: sanitizers see each byte beyond. */
static void *exact_memory(uint64_t bytes)
{
    void *memory = NULL;

    assert_true(bytes < UINT64_MAX);
    assert_int_equal(posix_memalign(&memory, STK_CACHE_LINE, bytes), 0);
    memset(memory, 0xdd, bytes);
    return memory;
}

/*
 * The wanted part, pushed in strips of up to `strip` rows (0: all there are), taken at once or
 * only when nothing more can be pushed.
 */
static uint8_t *run(stk_context *context, const stk__resize *what, const uint8_t *data,
                    uint32_t strip, bool late)
{
    const size_t stride = (size_t)what->in_width * what->pixel_bytes;
    const size_t row_bytes = (size_t)what->width * what->pixel_bytes;
    void *memory = exact_memory(stk__resizer_bytes(what));
    stk__resizer *r = stk__resizer_init(context, what, memory);
    uint8_t *out = malloc(row_bytes * what->height);
    uint32_t at, end, columns[2], y = 0;

    assert_non_null(out);
    stk__resizer_wants(r, &at, &end, &columns[0], &columns[1]);
    assert_true(at < end && end <= what->in_height);
    assert_true(columns[0] < columns[1] && columns[1] <= what->in_width);
    while (y < what->height) {
        const uint32_t count = strip && strip < end - at ? strip : end - at;
        const uint32_t taken = stk__resizer_push(r, data + at * stride, stride, count);
        const uint8_t *row;

        assert_true(taken <= count);
        at += taken;
        if (late && taken)
            continue;
        row = stk__resizer_pull(r);
        assert_true(row || taken);
        for (; row; row = stk__resizer_pull(r)) {
            assert_true(y < what->height);
            memcpy(out + y++ * row_bytes, row, row_bytes);
        }
    }
    assert_int_equal(stk__resizer_push(r, data, stride, 1), 0);
    assert_null(stk__resizer_pull(r));
    free(memory);
    return out;
}

static void test_refuses(void **state)
{
    const stk__resize good = whole(STK__FILTER_BILINEAR, 3, 40, 30, 20, 10);
    stk__resize bad[32];
    size_t n = 0;

    assert_true(stk__resizer_bytes(&good) < UINT64_MAX);
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        bad[i] = good;
    bad[n++].pixel_bytes = 0;
    bad[n++].pixel_bytes = 5;
    bad[n++].in_width = 0;
    bad[n++].in_height = 0;
    bad[n++].in_width = 65536;
    bad[n++].in_height = UINT32_MAX;
    bad[n++].out_width = 0;
    bad[n++].out_height = 0;
    bad[n++].out_width = 65536;
    bad[n++].out_height = UINT32_MAX;
    bad[n++].width = 0;
    bad[n++].height = 0;
    bad[n++].width = 21;
    bad[n++].height = UINT32_MAX;
    bad[n++].x = 1;
    bad[n++].y = UINT32_MAX;
    bad[n++].left = NAN;
    bad[n++].right = NAN;
    bad[n++].top = NAN;
    bad[n++].bottom = NAN;
    bad[n++].left = -0.5;
    bad[n++].top = -INFINITY;
    bad[n++].right = 40.25;
    bad[n++].bottom = INFINITY;
    bad[n++].left = 40;
    bad[n++].right = 0;
    bad[n++].top = 1e300;
    bad[n++].bottom = -3;
    bad[n++].filter = (stk__filter)17;
    for (size_t i = 0; i < n; i++)
        if (stk__resizer_bytes(&bad[i]) != UINT64_MAX)
            fail_msg("case %zu is taken", i);
}

/* Tall and wide pictures must not need memory for their rows. */
static void test_memory(void **state)
{
    for (int filter = 0; filter <= STK__FILTER_AREA; filter++) {
        stk__resize tall = whole((stk__filter)filter, 4, 500, 65535, 224, 224);
        stk__resize huge = whole((stk__filter)filter, 4, 65535, 65535, 224, 224);
        stk__resize few = whole((stk__filter)filter, 4, 500, 65535, 224, 8);
        stk__resize usual = whole((stk__filter)filter, 4, 330, 280, 224, 224);

        assert_true(stk__resizer_bytes(&tall) < 1 << 20);
        assert_true(stk__resizer_bytes(&huge) < 1 << 20);
        assert_true(stk__resizer_bytes(&few) < 1 << 20);
        assert_true(stk__resizer_bytes(&usual) < 32 << 10);
    }
}

/* The most hostile sizes that are taken: no sum overflows, and the weights stay a sum of one. */
static void check_axis(stk__filter filter, double from, double to, uint32_t in, uint32_t out,
                       uint32_t step)
{
    stk__axis axis;
    uint32_t before = 0, before_end = 0, first, end;

    assert_true(stk__axis_init(&axis, filter, from, to, in, out));
    int16_t *weights = malloc(axis.reach * sizeof *weights);
    assert_non_null(weights);
    for (uint32_t i = 0; i < out; i += step) {
        int64_t sum = 0, most = 0;

        stk__axis_range(&axis, i, &first, &end);
        assert_true(first < end && end - first <= axis.reach);
        assert_true(first >= floor(from) && end <= ceil(to));
        assert_true(first >= before && end >= before_end);
        before = first;
        before_end = end;
        stk__axis_weights(&axis, i, first, end, weights);
        for (uint32_t k = 0; k < end - first; k++) {
            sum += weights[k];
            most += weights[k] > 0 ? weights[k] : -weights[k];
        }
        assert_int_equal(sum, INT64_C(1) << axis.bits);
        assert_true(most * 255 + sum < INT32_MAX);
        /* A weight that did not fit would have come out with the other sign. */
        assert_true(most <= 2 * sum);
    }
    free(weights);
}

static void test_weights(void **state)
{
    static const uint32_t sides[] = {1, 2, 3, 7, 100, 4095, 65534, 65535};
    uint64_t random = 11;

    for (stk__filter filter = STK__FILTER_BILINEAR; filter <= STK__FILTER_AREA; filter++) {
        for (size_t i = 0; i < STK_COUNT(sides); i++)
            for (size_t o = 0; o < STK_COUNT(sides); o++)
                check_axis(filter, 0, sides[i], sides[i], sides[o],
                           sides[i] > 4000 && sides[o] > 4000 ? 997 : 1);
        check_axis(filter, 65534.5, 65535, 65535, 3, 1);
        check_axis(filter, 3.9999999, 4.0000001, 10, 50, 1);
        check_axis(filter, 0x1p-1060, 0x1p-1050, 2, 65535, 1000);
        check_axis(filter, nextafter(9, 0), 9, 9, 7, 1);
        for (int i = 0; i < 2000; i++) {
            uint32_t in = 1 + below(&random, 300), out = 1 + below(&random, 300);
            double a = (double)(test_random(&random) >> 11) * 0x1p-53 * in;
            double b = (double)(test_random(&random) >> 11) * 0x1p-53 * in;

            if (a != b)
                check_axis(filter, fmin(a, b), fmax(a, b), in, out, 1);
        }
    }
}

/* ---- The same in doubles ---- */

static double filter_of(stk__filter filter, double x)
{
    double a = fabs(x);

    if (filter == STK__FILTER_AREA)
        return x > -0.5 && x <= 0.5;
    if (filter == STK__FILTER_BILINEAR)
        return a < 1 ? 1 - a : 0;
    return a < 1   ? 1.5 * a * a * a - 2.5 * a * a + 1
           : a < 2 ? -0.5 * a * a * a + 2.5 * a * a - 4 * a + 2
                   : 0;
}

/* Pixel `i` of a line of bytes `step` apart. */
static uint8_t line_at(stk__filter filter, double from, double to, uint32_t out, uint32_t i,
                       const uint8_t *line, size_t step)
{
    double scale = (to - from) / out, stretch = fmax(scale, 1);
    double centre = from + (i + 0.5) * scale, sum = 0, weights = 0;

    for (uint32_t k = (uint32_t)floor(from); k < ceil(to); k++) {
        double weight = filter_of(filter, (k + 0.5 - centre) / stretch);

        sum += weight * line[k * step];
        weights += weight;
    }
    return (uint8_t)fmax(0, fmin(255, floor(sum / weights + 0.5)));
}

/* Within one level; the part of the bytes that are not equal. */
static double check_values(const stk__resize *what, const uint8_t *data, const uint8_t *out)
{
    const size_t bytes = what->pixel_bytes, stride = what->in_width * bytes;
    uint8_t *column = malloc(what->in_height);
    size_t worst = 0, differ = 0, all = 0;

    assert_non_null(column);
    for (uint32_t x = 0; x < what->out_width; x++) {
        for (size_t c = 0; c < bytes; c++) {
            for (uint32_t y = 0; y < what->in_height; y++)
                column[y] = line_at(what->filter, what->left, what->right, what->out_width, x,
                                    data + y * stride + c, bytes);
            for (uint32_t y = 0; y < what->out_height; y++) {
                int want =
                    line_at(what->filter, what->top, what->bottom, what->out_height, y, column, 1);
                int is = out[((size_t)y * what->out_width + x) * bytes + c];
                size_t difference = (size_t)abs(want - is);

                worst = STK_MAX(worst, difference);
                differ += difference != 0;
                all++;
            }
        }
    }
    free(column);
    if (worst > 1)
        fail_msg("filter %d, %u x %u [%g %g %g %g] to %u x %u: %zu levels", what->filter,
                 what->in_width, what->in_height, what->left, what->top, what->right, what->bottom,
                 what->out_width, what->out_height, worst);
    return (double)differ / (double)all;
}

/* Multiples of 1/64, so that no place falls otherwise by rounding. */
static void random_span(uint64_t *random, uint32_t in, double *from, double *to)
{
    uint32_t a = below(random, in * 64), b = a + 1 + below(random, in * 64 - a);

    *from = a / 64.0;
    *to = b / 64.0;
}

static stk__resize random_resize(uint64_t *random, uint32_t most)
{
    /* One by one: compilers draw arguments in orders of their own. */
    const uint32_t out_height = 1 + below(random, most), out_width = 1 + below(random, most);
    const uint32_t in_height = 1 + below(random, most), in_width = 1 + below(random, most);
    const uint32_t bytes = 1 + below(random, 4);
    stk__resize what =
        whole((stk__filter)below(random, 4), bytes, in_width, in_height, out_width, out_height);

    if (below(random, 3) > 0) {
        random_span(random, what.in_width, &what.left, &what.right);
        random_span(random, what.in_height, &what.top, &what.bottom);
    }
    return what;
}

static void test_values(void **state)
{
    uint64_t random = 5;
    double differ = 0;

    for (int i = 0; i < 200; i++) {
        stk__resize what = random_resize(&random, i % 2 ? 12 : 60);
        uint8_t *data = noise(&what, &random);

        if (what.filter == STK__FILTER_NEAREST)
            what.filter = STK__FILTER_BILINEAR;
        uint8_t *out = run(best, &what, data, 16, false);
        differ += check_values(&what, data, out);
        free(out);
        free(data);
    }
    /* Few: sums that end in one half or nearly. */
    assert_true(differ < 0.02 * 200);
}

/* Many rows under the filter: sums are kept instead of rows. */
static void test_tall(void **state)
{
    uint64_t random = 6;

    for (int i = 0; i < 6; i++) {
        stk__resize what =
            whole(1 + (stk__filter)i % 3, 1 + (uint32_t)i % 4, 3, 9000, 2, 1 + below(&random, 5));
        what.top = below(&random, 64 * 50) / 64.0;
        uint8_t *data = noise(&what, &random);
        uint8_t *one = run(plain, &what, data, 1 + below(&random, 9), i % 2);
        uint8_t *other = run(best, &what, data, 0, false);

        assert_memory_equal(one, other,
                            (size_t)what.out_width * what.out_height * what.pixel_bytes);
        check_values(&what, data, other);
        free(one);
        free(other);
        free(data);
    }
}

/* Any window is the same part of the whole; any strips, any instruction set. */
static void check_window(const stk__resize *what, const uint8_t *data, const uint8_t *all,
                         uint64_t *random)
{
    const size_t bytes = what->pixel_bytes;
    stk__resize part = *what;

    part.x = below(random, what->out_width);
    part.y = below(random, what->out_height);
    part.width = 1 + below(random, what->out_width - part.x);
    part.height = 1 + below(random, what->out_height - part.y);
    uint8_t *out =
        run(below(random, 2) ? plain : best, &part, data, below(random, 20), below(random, 2));

    for (uint32_t y = 0; y < part.height; y++)
        if (memcmp(out + y * part.width * bytes,
                   all + ((size_t)(part.y + y) * what->out_width + part.x) * bytes,
                   part.width * bytes) != 0)
            fail_msg("filter %d, %u x %u to %u x %u: window %u %u %u %u differs in row %u",
                     what->filter, what->in_width, what->in_height, what->out_width,
                     what->out_height, part.x, part.y, part.width, part.height, y);
    free(out);
}

static void test_windows(void **state)
{
    uint64_t random = 7;

    for (int i = 0; i < 400; i++) {
        stk__resize what = random_resize(&random, i % 2 ? 15 : 90);
        uint8_t *data = noise(&what, &random);
        uint8_t *all = run(plain, &what, data, 0, false);

        for (int k = 0; k < 4; k++)
            check_window(&what, data, all, &random);
        free(all);
        free(data);
    }
}

/* Only wanted rows and columns count, and none outside the pixels that the box touches. */
static void test_wants(void **state)
{
    uint64_t random = 8;

    for (int i = 0; i < 300; i++) {
        stk__resize what = random_resize(&random, 50);
        uint32_t first, end, columns[2];

        what.x = below(&random, what.out_width);
        what.y = below(&random, what.out_height);
        what.width = 1 + below(&random, what.out_width - what.x);
        what.height = 1 + below(&random, what.out_height - what.y);
        void *memory = exact_memory(stk__resizer_bytes(&what));
        stk__resizer_wants(stk__resizer_init(best, &what, memory), &first, &end, &columns[0],
                           &columns[1]);
        free(memory);
        assert_true(first >= floor(what.top) && end <= ceil(what.bottom));
        assert_true(columns[0] >= floor(what.left) && columns[1] <= ceil(what.right));

        uint8_t *one = noise(&what, &random), *other = noise(&what, &random);
        const size_t stride = (size_t)what.in_width * what.pixel_bytes;
        const size_t from = (size_t)columns[0] * what.pixel_bytes;

        for (uint32_t y = first; y < end; y++)
            memcpy(other + y * stride + from, one + y * stride + from,
                   (size_t)columns[1] * what.pixel_bytes - from);
        uint8_t *a = run(best, &what, one, 5, false), *b = run(best, &what, other, 7, false);
        assert_memory_equal(a, b, (size_t)what.width * what.height * what.pixel_bytes);
        free(one);
        free(other);
        free(a);
        free(b);
    }
}

/* A row of the result is there with the last row under its filter. */
static void test_early(void **state)
{
    const stk__resize what = whole(STK__FILTER_BILINEAR, 1, 8, 40, 5, 9);
    uint64_t random = 9;
    uint8_t *data = noise(&what, &random);
    void *memory = exact_memory(stk__resizer_bytes(&what));
    stk__resizer *r = stk__resizer_init(best, &what, memory);
    stk__axis axis;
    uint32_t out = 0, under, behind;

    assert_true(stk__axis_init(&axis, what.filter, 0, 40, 40, 9));
    stk__axis_range(&axis, out, &under, &behind);
    for (uint32_t y = 0; y < 40; y++) {
        assert_int_equal(stk__resizer_push(r, data + y * 8, 8, 1), 1);
        for (; out < 9 && behind <= y + 1; stk__axis_range(&axis, ++out, &under, &behind))
            assert_non_null(stk__resizer_pull(r));
        assert_null(stk__resizer_pull(r));
    }
    assert_int_equal(out, 9);
    free(memory);
    free(data);
}

static void test_flat(void **state)
{
    static const uint8_t levels[] = {0, 1, 77, 254, 255};
    uint64_t random = 10;

    for (int i = 0; i < 300; i++) {
        stk__resize what = random_resize(&random, i % 3 ? 40 : 300);
        uint8_t *data = noise(&what, &random), level = levels[below(&random, 5)];

        memset(data, level, (size_t)what.in_width * what.in_height * what.pixel_bytes);
        uint8_t *out = run(i % 2 ? plain : best, &what, data, 16, false);
        for (size_t k = 0; k < (size_t)what.width * what.height * what.pixel_bytes; k++)
            assert_int_equal(out[k], level);
        free(out);
        free(data);
    }
}

/* Every copy is a pixel of the place that it has in the result; whole factors have no ties. */
static void test_nearest(void **state)
{
    uint64_t random = 12;

    for (uint32_t bytes = 1; bytes <= 4; bytes++) {
        stk__resize what = whole(STK__FILTER_NEAREST, bytes, 12, 15, 36, 5);
        uint8_t *data = noise(&what, &random);
        uint8_t *out = run(best, &what, data, 4, false);

        for (uint32_t y = 0; y < 5; y++)
            for (uint32_t x = 0; x < 36; x++)
                assert_memory_equal(out + (y * 36 + x) * bytes,
                                    data + ((y * 3 + 1) * 12 + x / 3) * bytes, bytes);
        free(out);
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_weights), cmocka_unit_test(test_values),
        cmocka_unit_test(test_tall),    cmocka_unit_test(test_windows),
        cmocka_unit_test(test_wants),   cmocka_unit_test(test_early),
        cmocka_unit_test(test_flat),    cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests(tests, make_contexts, drop_contexts);
}
