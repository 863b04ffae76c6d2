/* SPDX-License-Identifier: Apache-2.0 */
/* Masks by scenes: class numbers that move with the pixels of their picture and are never mixed. */
#include "png.h"

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
