/* sequential JPEG, region -> rows of pixels */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of JPEG that nearly all photographs are, without libjpeg: 8-bit Huffman-coded
 * sequential files of one scan, grey, or three components of which the first may be sampled 2x1,
 * 1x2 or 2x2, at scale 1. stk__baseline_read() says whether a picture is one; what it does not
 * take, libjpeg does. Rows are the same, bit for bit.
 */
#ifndef STK_SRC_CODEC_IMAGE_BASELINE_H
#define STK_SRC_CODEC_IMAGE_BASELINE_H

#include "codec/image/huffman.h"
#include "codec/image/room.h"

#define STK__BASELINE_COMPONENTS 3
#define STK__BASELINE_TABLES     4

typedef struct stk__baseline_component {
    uint32_t id, h, v; /* sampling factors, 1 or 2 */
    uint32_t quantisers, dc, ac;
} stk__baseline_component;

/* The header of a picture that is taken. Tables point into its bytes. */
typedef struct stk__baseline_header {
    uint32_t width, height;
    uint32_t num_components;
    stk__baseline_component components[STK__BASELINE_COMPONENTS];
    bool rgb; /* the components are red, green and blue */
    uint32_t restart_interval;
    const uint8_t *quantisers[STK__BASELINE_TABLES]; /* 64 of them in zigzag order; NULL: none */
    bool wide[STK__BASELINE_TABLES];                 /* of two bytes each */
    stk__huffman_spec dc[STK__BASELINE_TABLES], ac[STK__BASELINE_TABLES];
} stk__baseline_header;

/* Read a header that stk__jpeg_peek() found sound. False: a picture of another kind, or one whose
 * tables libjpeg should judge. */
bool stk__baseline_read(const uint8_t *data, stk__baseline_header *header);

typedef struct stk__baseline stk__baseline;

stk_status stk__baseline_create(stk_context *ctx, uint32_t pixel_bytes, stk__baseline **out);
void stk__baseline_destroy(stk__baseline **baseline);

/* Begin a picture. *taken false: it is not one of these, and libjpeg's. */
stk_status stk__baseline_begin(stk__baseline *b, const uint8_t *data, uint64_t length,
                               uint64_t scan, const stk__image_region *region, bool *taken,
                               const char **reason);
/*
 * The next rows, at most `wanted`. STK_EAGAIN: something is in the file that is not quite right
 * and that libjpeg has to judge: it should go on with the next row.
 */
stk_status stk__baseline_rows(stk__baseline *b, uint32_t wanted, stk__image_rows *rows,
                              const char **reason);
/* Read all codes from the first row to the last and do nothing with them. STK_EAGAIN as above. */
stk_status stk__baseline_codes(stk__baseline *b, const char **reason);
void stk__baseline_end(stk__baseline *b);

#endif
