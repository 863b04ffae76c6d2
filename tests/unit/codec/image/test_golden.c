/* SPDX-License-Identifier: Apache-2.0 */
/* Small odd pictures against what Pillow made of them (scripts/make_image_golden.py). */
#include "pictures.h"

#include <zlib.h>

typedef struct golden {
    char name[64];
    uint32_t width, height, components, channels, bit_depth, progressive, orientation;
    uint32_t stored, upright; /* CRC-32 of the RGB bytes, as stored and turned upright */
    uint32_t mask;            /* CRC-32 of the values as stored; 0: no mask */
} golden;

static uint32_t sum_of(const raster *r)
{
    return (uint32_t)crc32(0, r->data, (uInt)((size_t)r->width * r->height * 3));
}

/* Run a check for each line of golden.txt. */
static void for_each(void (*check)(stk_context *ctx, const golden *g, const bytes *picture))
{
    stk_context *ctx = test_context();
    bytes list = load_golden("golden.txt");
    uint32_t lines = 0;
    golden g;

    list.data[list.size] = 0;
    for (char *line = (char *)list.data; *line; line = strchr(line, '\n') + 1, lines++) {
        assert_int_equal(sscanf(line, "%63s %u %u %u %u %u %u %u %x %x %x", g.name, &g.width,
                                &g.height, &g.components, &g.channels, &g.bit_depth, &g.progressive,
                                &g.orientation, &g.stored, &g.upright, &g.mask),
                         11);
        bytes picture = load_golden(g.name);
        check(ctx, &g, &picture);
        free(picture.data);
    }
    assert_true(lines >= 60);
    free(list.data);
    stk_context_destroy(&ctx);
}

static void check_header(stk_context *ctx, const golden *g, const bytes *picture)
{
    stk__image_info info;
    const char *reason;

    if (stk__image_peek(picture->data, picture->size, NULL, &info, &reason) != STK_OK)
        fail_msg("%s: %s", g->name, reason);
    bool png = strstr(g->name, ".png");
    if (info.format != (png ? STK__IMAGE_PNG : STK__IMAGE_JPEG) || info.width != g->width ||
        info.height != g->height || info.components != g->components ||
        info.channels != g->channels || info.bit_depth != g->bit_depth ||
        info.progressive != (bool)g->progressive || info.orientation != g->orientation)
        fail_msg("%s: the header is taken for another one", g->name);
    assert_true(info.cost_ns > 0 && info.memory > (uint64_t)g->width * 3);
    assert_true(!info.progressive || info.buffered);
}

static void test_headers(void **state)
{
    for_each(check_header);
}

static raster decode(stk_context *ctx, const char *name, const bytes *picture,
                     const stk__image_box *box, uint32_t most, uint32_t pixel_bytes)
{
    stk__image_decoder *decoder = make_decoder(ctx, pixel_bytes);
    stk__image_region region;
    const char *reason;
    raster r;

    if (decode_box(decoder, picture, box, 1, most, pixel_bytes, &region, &r, &reason) != STK_OK)
        fail_msg("%s: %s", name, reason);
    stk__image_decoder_destroy(&decoder);
    return r;
}

static void check_pixels(stk_context *ctx, const golden *g, const bytes *picture)
{
    for (uint32_t pixel_bytes = 3; pixel_bytes <= 4; pixel_bytes++)
        for (uint32_t most = 0; most <= 5; most += 5) {
            raster r = decode(ctx, g->name, picture, NULL, most, pixel_bytes);
            if (sum_of(&r) != g->stored)
                fail_msg("%s: other pixels than Pillow's", g->name);
            free(r.data);
        }
}

static void test_pixels(void **state)
{
    for_each(check_pixels);
}

/* libjpeg alone gives the same, and so do the kernels in C. */
static void check_other_ways(stk_context *ctx, const golden *g, const bytes *picture)
{
    stk_context_options options;
    stk_context *plain = NULL;
    stk__image_region region;
    const char *reason;
    stk_error err;

    stk_context_options_init(&options);
    options.instructions = STK_INSTRUCTIONS_PLAIN;
    assert_ok(stk_context_create(&options, &plain, &err), &err);
    for (int i = 0; i < 2; i++) {
        stk__image_decoder *decoder = make_decoder(i ? ctx : plain, 3);
        raster r;
        decoder->by = i ? STK__JPEG_BY_LIBRARY : STK__JPEG_BY_BASELINE;
        assert_int_equal(decode_box(decoder, picture, NULL, 1, 0, 3, &region, &r, &reason), STK_OK);
        if (sum_of(&r) != g->stored)
            fail_msg("%s: other pixels %s", g->name, i ? "through libjpeg" : "without vectors");
        free(r.data);
        stk__image_decoder_destroy(&decoder);
    }
    stk_context_destroy(&plain);
}

static void test_other_ways(void **state)
{
    for_each(check_other_ways);
}

/* Values as stored, whole and of boxes; what cannot be a mask is refused. */
static void check_mask(stk_context *ctx, const golden *g, const bytes *picture)
{
    stk__image_decoder *decoder = make_decoder(ctx, 1);
    stk__image_box box = {g->width / 3, g->height / 4, g->width - g->width / 3, 1};
    stk__image_region region;
    stk__image_rows rows;
    const char *reason;
    uint32_t sum = 0;

    box.height = g->height - box.y;
    stk_status status =
        stk__image_decoder_begin(decoder, picture->data, picture->size, NULL, 1, &region, &reason);
    if (!g->mask) {
        assert_int_equal(status, STK_EKIND);
        assert_true(strstr(reason, "mask") && strstr(reason, "save it as"));
        stk__image_decoder_destroy(&decoder);
        return;
    }
    assert_int_equal(status, STK_OK);
    uint8_t *whole = malloc((size_t)g->width * g->height);
    while ((status = stk__image_decoder_rows(decoder, 0, &rows, &reason)) == STK_OK)
        for (uint32_t y = 0; y < rows.count; y++) {
            const uint8_t *row = rows.data + y * rows.stride;
            memcpy(whole + (size_t)(rows.first + y) * g->width, row, g->width);
            sum = (uint32_t)crc32(sum, row, g->width);
        }
    assert_int_equal(status, STK_EOS);
    if (sum != g->mask)
        fail_msg("%s: other values than those stored", g->name);
    assert_int_equal(
        stk__image_decoder_begin(decoder, picture->data, picture->size, &box, 1, &region, &reason),
        STK_OK);
    while ((status = stk__image_decoder_rows(decoder, 3, &rows, &reason)) == STK_OK)
        for (uint32_t y = 0; y < rows.count; y++)
            assert_memory_equal(rows.data + y * rows.stride,
                                whole + (size_t)(box.y + rows.first + y) * g->width + box.x,
                                box.width);
    assert_int_equal(status, STK_EOS);
    free(whole);
    stk__image_decoder_destroy(&decoder);
}

static void test_masks(void **state)
{
    for_each(check_mask);
}

/* Boxes of PNG too are parts of the whole, interlaced or not, at whatever scale is asked for. */
static void check_boxes(stk_context *ctx, const golden *g, const bytes *picture)
{
    stk__image_decoder *decoder = make_decoder(ctx, 4);
    raster whole = decode(ctx, g->name, picture, NULL, 0, 3), part;
    stk__image_region region;
    uint64_t seed = 77;
    const char *reason;

    for (int i = 0; i < 25; i++) {
        stk__image_box box = random_box(g->width, g->height, &seed);
        uint32_t scale = strstr(g->name, ".png") ? 1u << i % 4 : 1;
        assert_int_equal(
            decode_box(decoder, picture, &box, scale, (uint32_t)i % 17, 4, &region, &part, &reason),
            STK_OK);
        assert_true(region.scale == 1 && region.x == box.x && region.y == box.y &&
                    region.width == box.width && region.height == box.height);
        if (!is_part(&part, &whole, box.x, box.y))
            fail_msg("%s: box %u,%u %ux%u differs", g->name, box.x, box.y, box.width, box.height);
        free(part.data);
    }
    free(whole.data);
    stk__image_decoder_destroy(&decoder);
}

static void test_boxes(void **state)
{
    for_each(check_boxes);
}

/* Turn upright by asking for each pixel as a box of one pixel: slow, and as plain as can be. */
static void check_upright(stk_context *ctx, const golden *g, const bytes *picture)
{
    raster stored = decode(ctx, g->name, picture, NULL, 0, 3), upright;
    stk__image_box one = {0, 0, 1, 1}, from;
    stk__image_info info;
    const char *reason;

    assert_int_equal(stk__image_peek(picture->data, picture->size, NULL, &info, &reason), STK_OK);
    stk__image_upright_size(&info, &upright.width, &upright.height);
    upright.data = malloc((size_t)upright.width * upright.height * 3);
    uint8_t *to = upright.data;
    for (one.y = 0; one.y < upright.height; one.y++)
        for (one.x = 0; one.x < upright.width; one.x++, to += 3) {
            stk__image_stored_box(&info, &one, &from);
            assert_true(from.width == 1 && from.height == 1 && from.x < info.width &&
                        from.y < info.height);
            memcpy(to, stored.data + ((size_t)from.y * stored.width + from.x) * 3, 3);
        }
    if (sum_of(&upright) != g->upright)
        fail_msg("%s: does not stand upright", g->name);
    /* A larger box is the hull of its pixels. */
    stk__image_box box = {0, 0, upright.width - upright.width / 3, upright.height / 2 + 1}, a, b;
    box.x = upright.width - box.width;
    stk__image_stored_box(&info, &box, &from);
    stk__image_stored_box(&info, &(stk__image_box){box.x, box.y, 1, 1}, &a);
    stk__image_stored_box(
        &info, &(stk__image_box){box.x + box.width - 1, box.y + box.height - 1, 1, 1}, &b);
    assert_int_equal(from.x, STK_MIN(a.x, b.x));
    assert_int_equal(from.y, STK_MIN(a.y, b.y));
    assert_int_equal(from.x + from.width - 1, STK_MAX(a.x, b.x));
    assert_int_equal(from.y + from.height - 1, STK_MAX(a.y, b.y));
    free(stored.data);
    free(upright.data);
}

static void test_upright(void **state)
{
    for_each(check_upright);
}

/* One decoder for all, one picture after the other, leaves nothing of one in the next. */
static stk__image_decoder *shared;

static void check_shared(stk_context *ctx, const golden *g, const bytes *picture)
{
    stk__image_region region;
    const char *reason;
    raster r;

    assert_int_equal(decode_box(shared, picture, NULL, 1, 0, 3, &region, &r, &reason), STK_OK);
    assert_int_equal(sum_of(&r), g->stored);
    free(r.data);
    /* Leave one in the middle, too. */
    stk__image_rows rows;
    assert_int_equal(
        stk__image_decoder_begin(shared, picture->data, picture->size, NULL, 1, &region, &reason),
        STK_OK);
    assert_int_equal(stk__image_decoder_rows(shared, 1, &rows, &reason), STK_OK);
}

static void test_shared_decoder(void **state)
{
    stk_context *ctx = test_context();

    shared = make_decoder(ctx, 3);
    for_each(check_shared);
    for_each(check_shared);
    stk__image_decoder_destroy(&shared);
    assert_null(shared);
    stk__image_decoder_destroy(&shared);
    stk_memory_stats stats = {.struct_size = sizeof stats};
    stk_context_memory(ctx, &stats);
    assert_int_equal(stats.bytes, 0);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),        cmocka_unit_test(test_pixels),
        cmocka_unit_test(test_boxes),          cmocka_unit_test(test_upright),
        cmocka_unit_test(test_shared_decoder), cmocka_unit_test(test_other_ways),
        cmocka_unit_test(test_masks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
