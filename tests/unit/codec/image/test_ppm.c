/* SPDX-License-Identifier: Apache-2.0 */
/* PPM as packed pictures have it: every box of it, and what is no such file. */
#include <string.h>

#include "codec/image/image.h"
#include "support/support.h"

#define WIDTH  5u
#define HEIGHT 4u
#define HEAD   "P6\n5 4\n255\n"
#define BYTES  (sizeof HEAD - 1 + WIDTH * HEIGHT * 3)

static void make(uint8_t file[BYTES])
{
    memcpy(file, HEAD, sizeof HEAD - 1);
    for (unsigned i = 0; i < WIDTH * HEIGHT * 3; i++)
        file[sizeof HEAD - 1 + i] = (uint8_t)(i * 11 + 3);
}

static void test_boxes(void **state)
{
    stk_context *ctx = *state;
    stk__image_region region;
    stk__image_rows rows;
    uint8_t file[BYTES];
    const char *reason;
    stk_error err;

    make(file);
    for (uint32_t pixel = 3; pixel <= 4; pixel++) {
        stk__image_decoder *decoder = NULL;
        assert_ok(stk__image_decoder_create(ctx, NULL, pixel, &decoder, &err), &err);
        for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
            for (uint32_t k = i; k < WIDTH * HEIGHT; k++) {
                const stk__image_box box = {i % WIDTH, i / WIDTH, k % WIDTH - i % WIDTH + 1,
                                            k / WIDTH - i / WIDTH + 1};
                uint32_t y = box.y;
                if (k % WIDTH < i % WIDTH)
                    continue;
                assert_int_equal(
                    stk__image_decoder_begin(decoder, file, sizeof file, &box, 8, &region, &reason),
                    STK_OK);
                assert_int_equal(region.scale, 1);
                while (stk__image_decoder_rows(decoder, 1 + k % 3, &rows, &reason) == STK_OK)
                    for (uint32_t r = 0; r < rows.count; r++, y++)
                        for (uint32_t x = 0; x < box.width; x++)
                            assert_memory_equal(
                                rows.data + r * rows.stride + x * pixel,
                                file + sizeof HEAD - 1 + 3 * (y * WIDTH + box.x + x), 3);
                assert_int_equal(y, box.y + box.height);
            }
        stk__image_decoder_destroy(&decoder);
    }
}

static void test_head(void **state)
{
    char head[STK__PPM_HEAD];

    assert_int_equal(stk__ppm_head(5, 4, head), sizeof HEAD - 1);
    assert_string_equal(head, HEAD);
    assert_int_equal(stk__ppm_head(UINT32_MAX, UINT32_MAX, head), 29);
}

static void test_refused(void **state)
{
    static const struct {
        const char *head;
        stk_status status;
    } heads[] = {
        {"P6\n", STK_ETRUNCATED},
        {"P6\n5 4", STK_ETRUNCATED},
        {"P6\n5 4\n255", STK_ETRUNCATED},
        {"P6\n05 4\n255\n", STK_EFORMAT},
        {"P6\n 4\n255\n", STK_EFORMAT},
        {"P6\n5 0\n255\n", STK_EFORMAT},
        {"P6\n5\t4\n255\n", STK_EFORMAT},
        {"P6\n# a\n5 4\n255\n", STK_EFORMAT},
        {"P6\n5 4\n65535\n", STK_EKIND},
        {"P6\n10000000 4\n255\n", STK_EFORMAT},
        {"P6\n9999999 7\n255\n", STK_ELIMIT},
        {"P5\n5 4\n255\n", STK_EFORMAT},
    };
    stk_context *ctx = *state;
    stk__image_decoder *decoder = NULL;
    stk__image_region region;
    stk__image_info info;
    uint8_t file[BYTES + 1] = {0};
    const char *reason;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(heads); i++)
        assert_int_equal(
            stk__image_peek(heads[i].head, strlen(heads[i].head), NULL, &info, &reason),
            heads[i].status);
    make(file);
    assert_ok(stk__image_decoder_create(ctx, NULL, 4, &decoder, &err), &err);
    assert_int_equal(stk__image_decoder_begin(decoder, file, BYTES - 1, NULL, 1, &region, &reason),
                     STK_ETRUNCATED);
    assert_int_equal(stk__image_decoder_begin(decoder, file, BYTES + 1, NULL, 1, &region, &reason),
                     STK_EFORMAT);
    assert_non_null(strstr(reason, "more bytes"));
    stk__image_decoder_destroy(&decoder);
    /* A mask has one value a pixel. */
    assert_ok(stk__image_decoder_create(ctx, NULL, 1, &decoder, &err), &err);
    assert_int_equal(stk__image_decoder_begin(decoder, file, BYTES, NULL, 1, &region, &reason),
                     STK_EKIND);
    stk__image_decoder_destroy(&decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, test_context_open, test_context_close);
}
