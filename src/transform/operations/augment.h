/* number of an operation, strength -> picture: what rand_augment chooses from */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_OPERATIONS_AUGMENT_H
#define STK_SRC_TRANSFORM_OPERATIONS_AUGMENT_H

#include "transform/kernels/affine.h"
#include "transform/kernels/colour.h"

/* In torchvision's order. */
typedef enum stk__augment {
    STK__AUGMENT_IDENTITY,
    STK__AUGMENT_SHEAR_X,
    STK__AUGMENT_SHEAR_Y,
    STK__AUGMENT_TRANSLATE_X,
    STK__AUGMENT_TRANSLATE_Y,
    STK__AUGMENT_ROTATE,
    STK__AUGMENT_BRIGHTNESS,
    STK__AUGMENT_COLOR,
    STK__AUGMENT_CONTRAST,
    STK__AUGMENT_SHARPNESS,
    STK__AUGMENT_POSTERIZE,
    STK__AUGMENT_SOLARIZE,
    STK__AUGMENT_AUTOCONTRAST,
    STK__AUGMENT_EQUALIZE,
    STK__AUGMENT_COUNT
} stk__augment;

/* Whether it moves pixels: the only ones that a mask takes part in. */
static inline bool stk__augment_warps(stk__augment operation)
{
    return operation >= STK__AUGMENT_SHEAR_X && operation <= STK__AUGMENT_ROTATE;
}

/*
 * torchvision's table: the strength of an operation at `magnitude` of `bins` (at least 2), for a
 * picture of this size. Shears as a tangent, translations in pixels, rotations in degrees, factors
 * less 1, bits, a threshold of 0 to 1. Where the sign is drawn, it is that of `negative`. Computed
 * in float32 as torch.linspace() does.
 */
double stk__augment_strength(stk__augment operation, int64_t magnitude, int64_t bins,
                             int64_t height, int64_t width, bool negative);

/* The bits that torchvision makes of a Pillow picture, by nearest pixels. `src` and `dst` do not
 * overlap. */
void stk__augment_apply(const stk__colour_kernels *kernels, stk__augment operation, double strength,
                        const stk__canvas *canvas, const uint8_t *src, uint8_t *dst);

#endif
