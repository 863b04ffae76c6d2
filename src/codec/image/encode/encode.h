/* rows of RGB -> encoded picture */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Baseline JPEG [ITU-T T.81, JFIF 1.02, EXIF 2.3] through libjpeg-turbo's compressor: accurate
 * integer transform, Huffman tables made for the picture. The same pixels and options give the same
 * bytes, on every machine with the same libjpeg.
 *
 * Errors are a status and a reason, as in image.h. STK_ENOMEM no memory; STK_ELIMIT beyond a limit;
 * STK_EINVAL a size or option out of range; STK_EFORMAT, STK_ETRUNCATED, STK_EKIND of a JPEG
 * that is written again.
 */
#ifndef STK_SRC_CODEC_IMAGE_ENCODE_ENCODE_H
#define STK_SRC_CODEC_IMAGE_ENCODE_ENCODE_H

#include "codec/image/image.h"

#define STK__JPEG_MAX_SIDE 65500 /* of libjpeg */

typedef enum stk__subsampling { STK__JPEG_420 = 0, STK__JPEG_422, STK__JPEG_444 } stk__subsampling;

/* How a picture is written. */
typedef struct stk__encode {
    uint32_t quality; /* 1 to 100, libjpeg's scale */
    stk__subsampling subsampling;
    uint32_t restart_interval; /* MCUs between restart markers, at most 65535; 0: none */
    bool grey;                 /* keep the brightness alone; of R = G = B it is exact */
    const void *exif; /* data of an APP1 segment, "Exif\0\0" and what follows; NULL: none */
    uint32_t exif_length;
} stk__encode;

/* What markers say of a JPEG beyond stk__image_info. */
typedef struct stk__jpeg_markers {
    uint32_t frame;      /* its frame marker: 0xc0 baseline, 0xc1 extended, 0xc2 progressive, ... */
    const uint8_t *exif; /* data of the first APP1 segment that is EXIF; NULL: none */
    uint32_t exif_length;
} stk__jpeg_markers;

/* Read the markers up to the first scan of a JPEG that stk__image_peek() has taken. */
void stk__jpeg_read_markers(const void *data, uint64_t length, stk__jpeg_markers *markers);

/* Bytes of the smallest EXIF block that tells an orientation. */
#define STK__EXIF_BYTES 32
void stk__exif_make(uint32_t orientation, uint8_t out[STK__EXIF_BYTES]);

/* An encoder: made once for each worker, used for one picture after the other by one thread. */
typedef struct stk__image_encoder stk__image_encoder;

stk_status stk__image_encoder_create(stk_context *ctx, stk__image_encoder **out, stk_error *err);
/* Ends it and sets *encoder to NULL. Accepts NULL. */
void stk__image_encoder_destroy(stk__image_encoder **encoder);

/* Most bytes that encoding such a picture holds, what it gives included. */
uint64_t stk__image_encode_memory(uint32_t width, uint32_t height, const stk__encode *how);

/*
 * Encode `height` rows of `width` RGB pixels, `stride` bytes apart. *out is memory of the context,
 * the caller's to free with stk__free(), *size long, with STK_TAIL readable bytes behind.
 */
stk_status stk__image_encode(stk__image_encoder *encoder, const stk__encode *how, uint32_t width,
                             uint32_t height, const uint8_t *rows, size_t stride, uint8_t **out,
                             uint64_t *size, const char **reason);

/*
 * Write a JPEG of any kind that libjpeg reads as a baseline one with the same coefficients: no
 * pixel changes. All markers are kept. `info` is what stk__image_peek() said of it; `how` gives
 * restart_interval alone. Memory: info->memory, 2 x length, and the result.
 */
stk_status stk__image_to_baseline(stk__image_encoder *encoder, const stk__encode *how,
                                  const void *data, uint64_t length, const stk__image_info *info,
                                  const stk__image_limits *limits, uint8_t **out, uint64_t *size,
                                  const char **reason);

#endif
