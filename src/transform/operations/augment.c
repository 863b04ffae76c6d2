/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of rand_augment, and torchvision's table of their strengths. */
#include "transform/operations/augment.h"

#include <math.h>

/* Shares of the side of ImageNet's pictures as the paper's code had them. */
#define TRANSLATE_SHARE (150.0 / 331.0)

/* Element `i` of torch.linspace(first, last, steps) in float32: from both ends to the middle, with
 * a fused multiply-add, here done in double. */
static float linspace(double first, double last, int64_t i, int64_t steps)
{
    float from = (float)first, to = (float)last, step = (to - from) / (float)(steps - 1);

    if (i < steps / 2)
        return (float)((double)from + (double)step * (double)i);
    return (float)((double)to - (double)step * (double)(steps - i - 1));
}

double stk__augment_strength(stk__augment operation, int64_t magnitude, int64_t bins,
                             int64_t height, int64_t width, bool negative)
{
    double strength, sign = negative ? -1.0 : 1.0;

    switch (operation) {
    case STK__AUGMENT_SHEAR_X:
    case STK__AUGMENT_SHEAR_Y:
        return sign * (double)linspace(0.0, 0.3, magnitude, bins);
    case STK__AUGMENT_TRANSLATE_X:
    case STK__AUGMENT_TRANSLATE_Y:
        strength =
            TRANSLATE_SHARE * (double)(operation == STK__AUGMENT_TRANSLATE_X ? width : height);
        return sign * floor((double)linspace(0.0, strength, magnitude, bins));
    case STK__AUGMENT_ROTATE:
        return sign * (double)linspace(0.0, 30.0, magnitude, bins);
    case STK__AUGMENT_BRIGHTNESS:
    case STK__AUGMENT_COLOR:
    case STK__AUGMENT_CONTRAST:
    case STK__AUGMENT_SHARPNESS:
        return sign * (double)linspace(0.0, 0.9, magnitude, bins);
    case STK__AUGMENT_POSTERIZE:
        return (double)nearbyintf(8.0f - (float)magnitude / (float)((double)(bins - 1) / 4.0));
    case STK__AUGMENT_SOLARIZE:
        return (double)linspace(1.0, 0.0, magnitude, bins);
    case STK__AUGMENT_IDENTITY:
    case STK__AUGMENT_AUTOCONTRAST:
    case STK__AUGMENT_EQUALIZE:
    case STK__AUGMENT_COUNT:
        break;
    }
    return 0.0;
}

/* Values by a table made of one for each value. */
static void map_alike(const stk__canvas *canvas, const uint8_t *src, uint8_t *dst,
                      uint8_t table[][256])
{
    memcpy(table[1], table[0], 256);
    memcpy(table[2], table[0], 256);
    stk__map(src, dst, (size_t)(canvas->height * canvas->width), canvas->channels, table);
}

static void warp(stk__augment operation, double strength, const stk__canvas *canvas,
                 const uint8_t *src, uint8_t *dst)
{
    stk__warp to = {.m = {1, 0, 0, 0, 1, 0}};

    if (operation == STK__AUGMENT_SHEAR_X)
        to.m[1] = strength;
    else if (operation == STK__AUGMENT_SHEAR_Y)
        to.m[3] = strength;
    else if (operation == STK__AUGMENT_TRANSLATE_X)
        to.m[2] = -strength;
    else
        to.m[5] = -strength;
    stk__warp_apply(&to, STK__NEAREST, canvas, src, dst);
}

void stk__augment_apply(const stk__colour_kernels *kernels, stk__augment operation, double strength,
                        const stk__canvas *canvas, const uint8_t *src, uint8_t *dst)
{
    size_t pixels = (size_t)(canvas->height * canvas->width), bytes = pixels * canvas->channels;
    float factor = (float)(1.0 + strength);
    uint8_t table[3][256];

    switch (operation) {
    case STK__AUGMENT_SHEAR_X:
    case STK__AUGMENT_SHEAR_Y:
    case STK__AUGMENT_TRANSLATE_X:
    case STK__AUGMENT_TRANSLATE_Y:
        warp(operation, strength, canvas, src, dst);
        return;
    case STK__AUGMENT_ROTATE:
        stk__rotate(strength, STK__NEAREST, canvas, src, dst);
        return;
    case STK__AUGMENT_BRIGHTNESS:
        kernels->blend(src, dst, bytes, 0, factor);
        return;
    case STK__AUGMENT_COLOR:
        if (canvas->channels != 3)
            break;
        kernels->saturate(src, dst, pixels, factor);
        return;
    case STK__AUGMENT_CONTRAST:
        stk__contrast(kernels, src, dst, pixels, canvas->channels, factor);
        return;
    case STK__AUGMENT_SHARPNESS:
        stk__sharpness(kernels, src, dst, (size_t)canvas->height, (size_t)canvas->width,
                       canvas->channels, factor);
        return;
    case STK__AUGMENT_POSTERIZE:
        for (int i = 0; i < 256; i++)
            table[0][i] = (uint8_t)(i & ~((1 << (8 - (int)strength)) - 1));
        map_alike(canvas, src, dst, table);
        return;
    case STK__AUGMENT_SOLARIZE:
        for (int i = 0; i < 256; i++)
            table[0][i] = (uint8_t)((double)i < 255.0 * strength ? i : 255 - i);
        map_alike(canvas, src, dst, table);
        return;
    case STK__AUGMENT_AUTOCONTRAST:
        stk__autocontrast_table(src, pixels, canvas->channels, table);
        stk__map(src, dst, pixels, canvas->channels, table);
        return;
    case STK__AUGMENT_EQUALIZE:
        stk__equalize_table(src, pixels, canvas->channels, table);
        stk__map(src, dst, pixels, canvas->channels, table);
        return;
    case STK__AUGMENT_IDENTITY:
    case STK__AUGMENT_COUNT:
        break;
    }
    memcpy(dst, src, bytes);
}
