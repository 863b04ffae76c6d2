/* The bytes of one picture -> the bytes it becomes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CONVERT_PICTURE_H
#define STK_SRC_CONVERT_PICTURE_H

#include "codec/image/encode/encode.h"
#include "codec/image/image.h"
#include "convert/journal.h"

/* What is to become of a picture, decided from its header. */
typedef struct stk__repack {
    stk__image_info info;
    stk__jpeg_markers markers; /* of a JPEG */
    stk__done_kind kind;       /* COPIED, KEPT_PNG, REWRITTEN or ENCODED */
    uint32_t orientation;      /* to turn it by, 1: not */
    uint32_t width, height;    /* before it is turned */
    uint32_t scale;            /* of the decoder: 1, 2, 4 or 8 */
    uint64_t memory;           /* most bytes that doing it takes, the picture's file included */
} stk__repack;

/* Of one worker. */
typedef struct stk__picture_worker {
    stk_context *context;
    const stk_convert_images_options *options;
    bool verify;
    stk__image_decoder *decoder;
    stk__image_encoder *encoder;
} stk__picture_worker;

/* What a picture became. */
typedef struct stk__repacked {
    stk__done_kind kind;
    const uint8_t *data; /* `owned`, or the source's bytes */
    uint64_t size;
    uint8_t *owned; /* to be freed by the caller */
    uint64_t sse, samples;
} stk__repacked;

stk_status stk__picture_worker_init(stk_context *ctx, const stk_convert_images_options *options,
                                    bool verify, uint64_t budget, stk__picture_worker *worker,
                                    stk_error *err);
void stk__picture_worker_release(stk__picture_worker *worker);

/* Read the header, hold it against the limits of `shared`, and decide. That plan->memory is there
 * is for the caller to see to. */
stk_status stk__picture_plan(const stk_convert_images_options *options,
                             const stk_convert_options *shared, const void *data, uint64_t length,
                             stk__repack *plan, const char **reason);
/* Do it. With verify the result is decoded whole: what is copied is known to be sound, what is
 * rewritten to be equal, and what is encoded is compared with what went into the encoder. */
stk_status stk__picture_do(stk__picture_worker *worker, const stk__repack *plan, const void *data,
                           uint64_t length, stk__repacked *out, const char **reason);

#endif
