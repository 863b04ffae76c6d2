/* thread -> decoders and memory, within bounds */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_TRANSFORM_PIPELINE_DECODING_H
#define STK_SRC_TRANSFORM_PIPELINE_DECODING_H

#include "codec/image/image.h"
#include "transform/transform.h"

#define STK__DECODED_BYTES 4 /* of a pixel as it is decoded: RGB and one that means nothing */

struct stk__decoding {
    stk_context *context;
    stk__decode_room *room;
    stk__image_decoder *colour, *mask; /* made when first wanted */
    stk__image_decoder *decoder;       /* the one at work, between begin and end */
    void *memory;
    uint64_t memory_bytes;
    uint64_t made_for;  /* most that a picture could hold when the decoders were made */
    uint64_t reserve;   /* bytes beyond `most` that the picture at hand may hold */
    uint64_t refused;   /* what the last picture wanted that was too large */
    bool holds_room;    /* a picture beyond `each` is being decoded */
    uint64_t waited_ns; /* for the room, so far: no work of this thread */
    stk__decode_times times;
};

/*
 * Take the decoder and `memory_bytes` of memory (self->memory) for a picture whose decoding holds
 * `decoder_bytes`. A picture that wants more than `each` waits for its turn, one at a time; one
 * that wants more than `most` and its reserve is refused with STK_EBUDGET. On failure nothing is
 * held.
 */
stk_status stk__decoding_begin(stk__decoding *self, bool mask, uint64_t decoder_bytes,
                               uint64_t memory_bytes, const char **reason);
void stk__decoding_end(stk__decoding *self);

#endif
