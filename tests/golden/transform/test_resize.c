/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against what Pillow wrote (scripts/make_resize_golden.py): nearest equal, the others within one
 * level, and nearly everywhere equal; with and without AVX2.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/resize/resize.h"

enum { NOISE, EDGES, WAVES };

static FILE *golden(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/golden/transform/%s", TESTS_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    return file;
}

/* The formula of the script. */
static uint8_t value(int kind, uint32_t x, uint32_t y, uint32_t c)
{
    if (kind == EDGES)
        return (x / 5 + y / 3 + c) % 2 * 255;
    if (kind == WAVES) {
        uint32_t wave = (x * 11 + y * 7 + c * 150) % 510;

        return (uint8_t)(wave < 256 ? wave : 510 - wave);
    }
    uint32_t h = x * UINT32_C(374761393) + y * UINT32_C(668265263) + c * UINT32_C(2246822519);

    h = (h ^ (h >> 13)) * UINT32_C(1274126177);
    return (uint8_t)(h ^ (h >> 16));
}

static uint8_t *picture(int kind, const stk__resize *what)
{
    size_t bytes = (size_t)what->in_width * what->in_height * what->pixel_bytes;
    uint8_t *data = calloc(1, bytes + STK_TAIL), *at = data;

    assert_non_null(data);
    for (uint32_t y = 0; y < what->in_height; y++)
        for (uint32_t x = 0; x < what->in_width; x++)
            for (uint32_t c = 0; c < what->pixel_bytes; c++)
                *at++ = value(kind, x, y, c);
    return data;
}

/* How many bytes are not equal. */
static size_t check(stk_context *context, const stk__resize *what, const uint8_t *data,
                    const uint8_t *want, uint32_t line)
{
    const size_t row_bytes = (size_t)what->out_width * what->pixel_bytes;
    const size_t stride = (size_t)what->in_width * what->pixel_bytes;
    uint64_t bytes = stk__resizer_bytes(what);
    size_t differ = 0;
    uint32_t at, end, columns[2];

    assert_true(bytes < UINT64_MAX);
    void *memory = aligned_alloc(STK_CACHE_LINE, stk__round_up(bytes, STK_CACHE_LINE));
    assert_non_null(memory);
    stk__resizer *r = stk__resizer_init(context, what, memory);
    stk__resizer_wants(r, &at, &end, &columns[0], &columns[1]);
    for (uint32_t y = 0; y < what->out_height; y++) {
        const uint8_t *row;

        while (!(row = stk__resizer_pull(r))) {
            uint32_t taken = stk__resizer_push(r, data + at * stride, stride, end - at);

            assert_true(taken > 0);
            at += taken;
        }
        for (size_t i = 0; i < row_bytes; i++) {
            int difference = abs(row[i] - want[y * row_bytes + i]);

            differ += difference != 0;
            if (difference > (what->filter != STK__FILTER_NEAREST))
                fail_msg("line %u, row %u, byte %zu: %u, Pillow has %u", line, y, i, row[i],
                         want[y * row_bytes + i]);
        }
    }
    free(memory);
    return differ;
}

static void check_all(stk_instructions instructions)
{
    FILE *list = golden("resize.txt"), *results = golden("resize.u8");
    stk_context_options options;
    stk_context *context = NULL;
    stk__resize what;
    stk_error err;
    int filter, kind;
    uint32_t line = 0;
    size_t differ = 0, all = 0;

    stk_context_options_init(&options);
    options.instructions = instructions;
    assert_ok(stk_context_create(&options, &context, &err), &err);
    memset(&what, 0, sizeof what);
    while (fscanf(list, "%d %d %u %u %u %lf %lf %lf %lf %u %u", &filter, &kind, &what.pixel_bytes,
                  &what.in_width, &what.in_height, &what.left, &what.top, &what.right, &what.bottom,
                  &what.out_width, &what.out_height) == 11) {
        what.filter = (stk__filter)filter;
        what.width = what.out_width;
        what.height = what.out_height;
        size_t bytes = (size_t)what.out_width * what.out_height * what.pixel_bytes;
        uint8_t *want = malloc(bytes), *data = picture(kind, &what);

        assert_non_null(want);
        assert_int_equal(fread(want, 1, bytes, results), bytes);
        differ += check(context, &what, data, want, ++line);
        all += bytes;
        free(want);
        free(data);
    }
    assert_true(line > 50);
    assert_true(differ < all / 50);
    assert_true(feof(list));
    assert_int_equal(fgetc(results), EOF);
    fclose(list);
    fclose(results);
    stk_context_destroy(&context);
}

static void test_plain(void **state)
{
    check_all(STK_INSTRUCTIONS_PLAIN);
}

static void test_best(void **state)
{
    check_all(STK_INSTRUCTIONS_ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_best)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
