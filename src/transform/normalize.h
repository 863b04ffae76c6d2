/* what a pass asks of a normalize transform */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_NORMALIZE_H
#define STK_SRC_TRANSFORM_NORMALIZE_H

#include "transform/kernels.h"
#include "transform/transform.h"

/* The affines of a transform made by stk__transform_normalize, for uint8 and for float32. */
const stk__affine *stk__normalize_of_u8(const stk_transform *transform);
const stk__affine *stk__normalize_of_f32(const stk_transform *transform);

#endif
