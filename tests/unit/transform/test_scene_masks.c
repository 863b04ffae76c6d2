/* SPDX-License-Identifier: Apache-2.0 */
/* Masks by scenes: class numbers that move with the pixels of their picture and are never mixed. */
#include <zlib.h>

#include "scene.h"

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static void put_chunk(picture *p, const char *type, const void *data, uint32_t length)
{
    unsigned char *at = p->file + p->size;

    put_u32(at, length);
    memcpy(at + 4, type, 4);
    if (length)
        memcpy(at + 8, data, length);
    put_u32(at + 8 + length, (uint32_t)crc32(0, at + 4, length + 4));
    p->size += length + 12;
}

/* A PNG of pixels of 8 bits [W3C PNG, 5.2, 9]: `colour` is 0 grey, 2 RGB, 3 palette. */
static picture make_png(uint32_t width, uint32_t height, int colour, const unsigned char *pixels)
{
    const uint32_t row = width * (colour == 2 ? 3 : 1), bytes = (row + 1) * height;
    unsigned char head[13] = {0}, palette[3 * 256], *rows = calloc(1, bytes);
    uLongf length = compressBound(bytes);
    unsigned char *packed = malloc(length);
    picture p = {.mask = colour != 2, .file = calloc(1, length + 2048)};

    assert_non_null(rows);
    assert_non_null(packed);
    assert_non_null(p.file);
    snprintf(p.name, sizeof p.name, "a PNG of colour type %d", colour);
    for (uint32_t y = 0; y < height; y++)
        memcpy(rows + y * (row + 1) + 1, pixels + y * row, row);
    assert_int_equal(compress2(packed, &length, rows, bytes, 1), Z_OK);
    memcpy(p.file, "\x89PNG\r\n\x1a\n", 8);
    p.size = 8;
    put_u32(head, width);
    put_u32(head + 4, height);
    head[8] = 8;
    head[9] = (unsigned char)colour;
    put_chunk(&p, "IHDR", head, sizeof head);
    for (size_t i = 0; i < sizeof palette; i++)
        palette[i] = (unsigned char)(i * 37 + 11);
    if (colour == 3)
        put_chunk(&p, "PLTE", palette, sizeof palette);
    put_chunk(&p, "IDAT", packed, (uint32_t)length);
    put_chunk(&p, "IEND", NULL, 0);
    free(packed);
    free(rows);
    return p;
}

enum { WIDTH = 61, HEIGHT = 47, OUTSIDE = 255 };

static unsigned char class_at(uint32_t x, uint32_t y)
{
    return (unsigned char)((x * 5 + y * 11) % 251);
}

/* A picture whose pixels say where they lie, and its mask. */
static void make_pair(stk_context *ctx, int colour, picture *image, picture *mask)
{
    unsigned char places[WIDTH * HEIGHT * 3], classes[WIDTH * HEIGHT];

    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++) {
        places[3 * i] = (unsigned char)(i % WIDTH);
        places[3 * i + 1] = (unsigned char)(i / WIDTH);
        places[3 * i + 2] = 1;
        classes[i] = class_at(i % WIDTH, i / WIDTH);
    }
    *image = make_png(WIDTH, HEIGHT, 2, places);
    *mask = make_png(WIDTH, HEIGHT, colour, classes);
    fill_pixels(ctx, image);
    fill_pixels(ctx, mask);
    assert_memory_equal(image->pixels, places, sizeof places);
    assert_memory_equal(mask->pixels, classes, sizeof classes);
}

/* The colours of a mask are class numbers: its draws are the picture's, and no pixel is mixed. */
static void masks_follow_their_pictures(void **state)
{
    static const char *const texts[] = {
        "random_resized_crop(24, interpolation=nearest), horizontal_flip, vertical_flip",
        "random_resized_crop(70x90, scale=[0.05, 0.3], interpolation=nearest), "
        "random_grayscale(0), "
        "horizontal_flip",
        "resize(30, interpolation=nearest), center_crop(40, fill=255), vertical_flip",
        "random_crop(50x30, padding=20, fill=255), horizontal_flip",
    };
    stk_context *ctx = test_context();

    (void)state;
    for (int colour = 0; colour <= 3; colour += 3) {
        picture image, mask;

        make_pair(ctx, colour, &image, &mask);
        for (size_t t = 0; t < STK_COUNT(texts); t++)
            for (uint64_t at = 0; at < 20; at++) {
                result a = by_scene(ctx, texts[t], &image, at);
                result b = by_scene(ctx, texts[t], &mask, at);
                const uint8_t *place = a.data, *class = b.data;

                assert_int_equal(a.status, STK_OK);
                assert_int_equal(b.status, STK_OK);
                assert_int_equal(a.bytes, 3 * b.bytes);
                for (uint64_t i = 0; i < b.bytes; i++) {
                    const uint8_t *from = place + 3 * i;
                    assert_int_equal(class[i], from[2] == 1 ? class_at(from[0], from[1]) : OUTSIDE);
                }
                free(a.data);
                free(b.data);
                check_both(ctx, &mask, "decode", texts[t], at);
            }
        unload(&image);
        unload(&mask);
    }
    stk_context_destroy(&ctx);
}

/* Whatever filter the pictures are given, a mask takes the nearest pixel. */
static void masks_are_not_filtered(void **state)
{
    static const char *const filters[] = {"bilinear", "bicubic", "area"};
    stk_context *ctx = test_context();
    picture image, mask;
    char text[200];

    (void)state;
    make_pair(ctx, 3, &image, &mask);
    for (uint64_t at = 0; at < 20; at++) {
        result want = by_scene(
            ctx, "random_resized_crop(24, interpolation=nearest), horizontal_flip", &mask, at);

        for (size_t f = 0; f < STK_COUNT(filters); f++) {
            snprintf(text, sizeof text,
                     "random_resized_crop(24, interpolation=%s), horizontal_flip", filters[f]);
            result got = by_scene(ctx, text, &mask, at);
            check_same(&mask, text, at, &got, &want);
            free(got.data);
        }
        free(want.data);
    }
    unload(&image);
    unload(&mask);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_follow_their_pictures),
        cmocka_unit_test(masks_are_not_filtered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
