/* words -> a box of a picture, and what fills it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_OPERATIONS_ERASE_H
#define STK_SRC_TRANSFORM_OPERATIONS_ERASE_H

#include "transform/picture.h"

#define STK__ERASE_TRIES 10
/* Words of a box: area and shape of each try, then row and column. */
#define STK__ERASE_WORDS (2 * STK__ERASE_TRIES + 2)

typedef struct stk__erased_box {
    int64_t top, left, height, width;
} stk__erased_box;

/*
 * torchvision's box: at most ten tries of an area, `scale` of the picture, and a shape (height over
 * width), uniform in the logarithm between those of `ratio`; false where none fits. `log_ratio` is
 * made of stk__ln(). Python's round() and ours take halves to the even integer.
 */
bool stk__erase_box(int64_t height, int64_t width, const double scale[2], const double log_ratio[2],
                    const uint32_t words[STK__ERASE_WORDS], stk__erased_box *out);

/* Fill a box of a uint8 or float32 picture with the bits of one element, or of one for each
 * channel.
 */
void stk__erase_fill(const stk_transform_header *header, const stk__erased_box *box,
                     const uint32_t *elements, uint32_t count, void *picture);
/*
 * Fill it with noise from the Philox stream of `key`: uint8 from 0 to 255, uniform; float32 normal
 * with mean 0 and deviation 1. The noise of a pixel does not depend on the layout.
 */
void stk__erase_noise(const stk_transform_header *header, const stk__erased_box *box,
                      const uint32_t key[2], void *picture);

#endif
