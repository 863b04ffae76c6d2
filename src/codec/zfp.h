/* how arrays of numbers are compressed by zfp. Inside src/codec, where libzfp is built in. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_ZFP_H
#define STK_SRC_CODEC_ZFP_H

#include <zfp.h>

#include "codec/step.h"

/* Take over what a stream and a field say; false: their elements are not `count` of `size` bytes.
 */
bool stk__zfp_take(struct stk__zfp_step *z, const zfp_stream *stream, const zfp_field *field,
                   uint64_t count, uint32_t size);
/* Bytes behind which no decode of such a chunk reads, whatever its bits are; 0: too many. */
uint64_t stk__zfp_room(const struct stk__zfp_step *z);

#endif
