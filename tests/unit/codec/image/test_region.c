/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a box are those of a full decode by plain libjpeg, bit for bit, at every scale. */
#include "photographs.h"

#define BOXES 10000

static const recipe recipes[] = {
    {150, 131, .sampling = "1x1,1x1,1x1"},
    {150, 131, .sampling = "2x1,1x1,1x1"},
    {150, 131, .sampling = "2x2,1x1,1x1"},
    {150, 131, .sampling = "1x2,1x1,1x1"},
    {150, 131, .sampling = "4x1,1x1,1x1"},
    {150, 131, .sampling = "1x4,1x1,1x1"},
    {150, 131, .sampling = "2x2,2x1,2x1"},
    {150, 131, .sampling = "2x2,1x2,1x2"},
    {150, 131, .sampling = "3x1,1x1,1x1"},
    {150, 131, .sampling = "2x2,2x1,1x2"},
    {150, 131, .sampling = "1x1"},
    {150, 131, .sampling = "2x2"},
    {160, 128, .sampling = "2x2,1x1,1x1"},
    {161, 129, .sampling = "2x2,1x1,1x1"},
    {145, 113, .sampling = "2x2,1x1,1x1", .restart = 3},
    {150, 131, .sampling = "2x2,1x1,1x1", .quality = 100},
    {150, 131, .sampling = "2x2,1x1,1x1", .quality = 3},
    {150, 131, .sampling = "2x2,1x1,1x1", .progressive = true},
    {150, 131, .sampling = "1x1,1x1,1x1", .progressive = true, .restart = 5},
    {150, 131, .sampling = "2x1,1x1,1x1", .separate = true},
    {150, 131, .sampling = "2x2,1x1,1x1", .arithmetic = true},
    {150, 131, .sampling = "2x2,1x1,1x1", .arithmetic = true, .progressive = true},
    {150, 131, .sampling = "1x1,1x1,1x1", .rgb = true},
    {33, 300, .sampling = "2x2,1x1,1x1"},
    {300, 33, .sampling = "2x1,1x1,1x1"},
    {20, 20, .sampling = "2x2,1x1,1x1"},
    {3, 100, .sampling = "2x2,1x1,1x1"},
    {100, 3, .sampling = "2x2,1x1,1x1"},
    {5, 4, .sampling = "2x1,1x1,1x1"},
    {1, 1, .sampling = "2x2,1x1,1x1"},
};

/* `count` random boxes of one picture, in strips of random heights. */
static void check_boxes(stk__image_decoder *decoder, const bytes *jpeg, const char *name,
                        uint32_t scale, uint32_t count, uint64_t *seed)
{
    raster whole = plain_decode(jpeg, scale), part;
    stk__image_region region;
    stk__image_info info;
    const char *reason;

    assert_int_equal(stk__image_peek(jpeg->data, jpeg->size, NULL, &info, &reason), STK_OK);
    for (uint32_t i = 0; i < count; i++) {
        stk__image_box box = random_box(info.width, info.height, seed);
        uint32_t most = (uint32_t)(test_random(seed) % (STK__IMAGE_STRIP_ROWS + 1));
        stk_status status =
            decode_box(decoder, jpeg, &box, scale, most, 3, &region, &part, &reason);
        if (status != STK_OK)
            fail_msg("%s: %s: %s", name, stk_status_name(status), reason);
        assert_int_equal(region.picture_width, whole.width);
        assert_int_equal(region.picture_height, whole.height);
        if (!is_part(&part, &whole, region.x, region.y))
            fail_msg("%s: box %u,%u %ux%u at 1/%u differs", name, box.x, box.y, box.width,
                     box.height, scale);
        free(part.data);
    }
    free(whole.data);
}

static void check_made(uint32_t scale, uint32_t count)
{
    stk_context *ctx = test_context();
    stk__image_decoder *decoder = make_decoder(ctx, 3);
    uint64_t seed = 11 + scale;
    char name[64];

    for (size_t i = 0; i < STK_COUNT(recipes); i++) {
        bytes jpeg = make_jpeg(&recipes[i], i);
        snprintf(name, sizeof name, "recipe %zu (%s)", i, recipes[i].sampling);
        check_boxes(decoder, &jpeg, name, scale, count, &seed);
        free(jpeg.data);
    }
    stk__image_decoder_destroy(&decoder);
    stk_context_destroy(&ctx);
}

static void test_made_pictures(void **state)
{
    check_made(1, BOXES / (uint32_t)STK_COUNT(recipes) + 1);
}

static void test_scaled(void **state)
{
    for (uint32_t scale = 2; scale <= STK__IMAGE_MAX_SCALE; scale *= 2)
        check_made(scale, 40);
}

typedef struct photographs {
    stk__image_decoder *decoder;
    uint64_t seed;
} photographs;

static void check_photograph(void *user, const bytes *jpeg, const char *name)
{
    photographs *p = user;

    check_boxes(p->decoder, jpeg, name, 1, 40, &p->seed);
    check_boxes(p->decoder, jpeg, name, 2, 10, &p->seed);
}

static void test_photographs(void **state)
{
    stk_context *ctx = test_context();
    photographs p = {.decoder = make_decoder(ctx, 3), .seed = 5};

    assert_true(each_photograph(20, check_photograph, &p) >= 10);
    stk__image_decoder_destroy(&p.decoder);
    stk_context_destroy(&ctx);
}

/* A progressive picture whose refining scans are missing, but whose end is there, is smoothed. */
static void test_unfinished_progressive(void **state)
{
    recipe how = {150, 131, .sampling = "1x1,1x1,1x1", .progressive = true};
    stk_context *ctx = test_context();
    stk__image_decoder *decoder = make_decoder(ctx, 3);
    bytes jpeg = make_jpeg(&how, 3);
    uint64_t seed = 8;
    size_t scans = 0, cut = 0;

    for (size_t i = 0; i + 1 < jpeg.size && !cut; i++)
        if (jpeg.data[i] == 0xff && jpeg.data[i + 1] == 0xda && ++scans == 3)
            cut = i;
    /* What stands before the third scan is its table: the end marker may follow it. */
    assert_true(cut > 0);
    jpeg.data[cut + 1] = 0xd9;
    jpeg.size = cut + 2;
    check_boxes(decoder, &jpeg, "two scans of a progressive picture", 1, 300, &seed);
    free(jpeg.data);
    stk__image_decoder_destroy(&decoder);
    stk_context_destroy(&ctx);
}

/* What a region says of a box at each scale. */
static void test_geometry(void **state)
{
    recipe how = {101, 67, .sampling = "2x2,1x1,1x1"};
    stk_context *ctx = test_context();
    stk__image_decoder *decoder = make_decoder(ctx, 3);
    bytes jpeg = make_jpeg(&how, 1);
    stk__image_box box = {13, 9, 50, 31};
    stk__image_region r;
    const char *reason;

    assert_int_equal(stk__image_decoder_begin(decoder, jpeg.data, jpeg.size, &box, 4, &r, &reason),
                     STK_OK);
    assert_true(r.scale == 4 && r.picture_width == 26 && r.picture_height == 17);
    assert_true(r.x == 3 && r.y == 2 && r.width == 13 && r.height == 8);
    assert_true(r.left == 0.25 && r.top == 0.25 && r.right == 12.75 && r.bottom == 8.0);
    /* Another picture may be begun in the middle of one. */
    assert_int_equal(stk__image_decoder_begin(decoder, jpeg.data, jpeg.size, NULL, 1, &r, &reason),
                     STK_OK);
    assert_true(r.x == 0 && r.y == 0 && r.width == 101 && r.height == 67 && r.left == 0 &&
                r.right == 101);
    static const stk__image_box wrong[] = {{0, 0, 0, 5},     {0, 0, 5, 0},   {101, 0, 1, 1},
                                           {0, 67, 1, 1},    {100, 0, 2, 1}, {0, 1, 1, 67},
                                           {1, 1, ~0u, ~0u}, {~0u, 0, 2, 1}};
    stk__image_rows rows;
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        assert_int_equal(
            stk__image_decoder_begin(decoder, jpeg.data, jpeg.size, &wrong[i], 1, &r, &reason),
            STK_EINVAL);
        assert_non_null(strstr(reason, "within the picture"));
        assert_int_equal(stk__image_decoder_rows(decoder, 0, &rows, &reason), STK_EINVAL);
    }
    static const uint32_t scales[] = {0, 3, 16};
    for (size_t i = 0; i < STK_COUNT(scales); i++)
        assert_int_equal(
            stk__image_decoder_begin(decoder, jpeg.data, jpeg.size, NULL, scales[i], &r, &reason),
            STK_EINVAL);
    free(jpeg.data);
    stk__image_decoder_destroy(&decoder);
    stk_context_destroy(&ctx);
}

/* The time of entropy decoding is that of a part of the work, and leaves the decoder usable. */
static void test_entropy_time(void **state)
{
    recipe how = {150, 131, .sampling = "2x2,1x1,1x1"};
    stk_context *ctx = test_context();
    stk__image_decoder *decoder = make_decoder(ctx, 3);
    bytes jpeg = make_jpeg(&how, 1), png = load_golden("rgb_8.png");
    uint64_t ns = 0, seed = 4;
    const char *reason;

    assert_int_equal(stk__image_entropy_time(decoder, jpeg.data, jpeg.size, &ns, &reason), STK_OK);
    assert_true(ns > 0);
    assert_int_equal(stk__image_entropy_time(decoder, png.data, png.size, &ns, &reason), STK_EKIND);
    check_boxes(decoder, &jpeg, "after timing", 1, 5, &seed);
    assert_int_equal(stk__image_entropy_time(decoder, jpeg.data, jpeg.size - 2, &ns, &reason),
                     STK_ETRUNCATED);
    free(jpeg.data);
    free(png.data);
    stk__image_decoder_destroy(&decoder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_pictures),
        cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_photographs),
        cmocka_unit_test(test_geometry),
        cmocka_unit_test(test_unfinished_progressive),
        cmocka_unit_test(test_entropy_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
