/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the image room share. */
#ifndef STK_SRC_CODEC_IMAGE_ROOM_H
#define STK_SRC_CODEC_IMAGE_ROOM_H

#include "codec/image/image.h"

/* Set the reason and return the status. */
static inline stk_status stk__image_refuse(const char **reason, stk_status status, const char *text)
{
    *reason = text;
    return status;
}

static inline uint32_t stk__be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t stk__be32(const uint8_t *p)
{
    return stk__be16(p) << 16 | stk__be16(p + 2);
}

/* What both decoders of JPEG say. */
#define STK__JPEG_HIT_MARKER                                                                       \
    "corrupt JPEG data: a marker is where pixels should be; copy or download it again"
#define STK__JPEG_BAD_CODE                                                                         \
    "corrupt JPEG data: an impossible code among the pixels; copy or download it again"
#define STK__JPEG_RESYNC                                                                           \
    "corrupt JPEG data: restart markers are missing or out of order; copy or download it again"
#define STK__JPEG_MANY_SCANS                                                                       \
    "the JPEG has more scans than the 100 that are read; save it again as a baseline JPEG"
#define STK__JPEG_ENDS          "the JPEG ends in the middle of its data; copy or download it again"
#define STK__NO_MEMORY_FOR_ROWS "no memory for rows of the picture; free some"

/* ---- Headers -----------------------------------------------------------------------------------
 */

/* What only the decoder asks of a JPEG header. */
typedef struct stk__jpeg_header {
    uint64_t scan; /* offset behind the first scan header: where the pixels begin */
} stk__jpeg_header;

/* What only the decoder asks of a PNG header. */
typedef struct stk__png_header {
    uint32_t color_type;
} stk__png_header;

/* Of a PPM. */
typedef struct stk__ppm_header {
    uint64_t pixels; /* offset of the first */
} stk__ppm_header;

typedef union stk__image_header {
    stk__jpeg_header jpeg;
    stk__png_header png;
    stk__ppm_header ppm;
} stk__image_header;

/* stk__image_peek() with what the decoders want to know. */
stk_status stk__image_peek_header(const uint8_t *data, uint64_t length,
                                  const stk__image_limits *limits, stk__image_info *info,
                                  stk__image_header *header, const char **reason);

/* Format and structure; limits are held against the result by stk__image_check_limits(). */
stk_status stk__jpeg_peek(const uint8_t *data, uint64_t length, stk__image_info *info,
                          stk__jpeg_header *header, const char **reason);
stk_status stk__png_peek(const uint8_t *data, uint64_t length, stk__image_info *info,
                         stk__png_header *header, const char **reason);
stk_status stk__ppm_peek(const uint8_t *data, uint64_t length, stk__image_info *info,
                         stk__ppm_header *header, const char **reason);
/* Whether there is an end marker anywhere from `scan` on. */
bool stk__jpeg_has_end(const uint8_t *data, uint64_t length, uint64_t scan);

/* One chunk of a PNG: where its length field is, what it holds, where the next one begins. */
typedef struct stk__png_chunk {
    uint64_t at, next;
    uint32_t length;     /* of its data */
    const uint8_t *type; /* four letters, the data, the checksum */
} stk__png_chunk;

/* The row of chunks is sound up to IEND, and the checksums of the critical ones match. */
stk_status stk__png_check(const uint8_t *data, uint64_t length, const char **reason);
/* The critical chunk that comes at or behind chunk->next; false at the end. */
bool stk__png_chunk_next(const uint8_t *data, uint64_t length, stk__png_chunk *chunk);

/* The orientation in a TIFF block, as EXIF has it; 1 where there is none or it makes no sense. */
uint32_t stk__exif_orientation(const uint8_t *tiff, uint64_t length);

/* Rows of a strip whose rows take `stride` bytes: at least 1. */
uint32_t stk__image_strip_rows(uint64_t stride);

/* Who decodes a JPEG that the baseline decoder takes. It does so itself where it has vector
 * instructions; where not, libjpeg, which may have others, is the faster one. */
typedef enum stk__jpeg_by {
    STK__JPEG_BY_FASTER,
    STK__JPEG_BY_BASELINE,
    STK__JPEG_BY_LIBRARY
} stk__jpeg_by;

/* ---- Decoders, behind decoder.c
 * ------------------------------------------------------------------ */

/* A buffer that grows and is kept for the next picture. */
typedef struct stk__image_buffer {
    uint8_t *data;
    uint64_t size;
} stk__image_buffer;

/* At least `size` bytes in the buffer; what was in it is lost. */
bool stk__image_buffer_need(stk_context *ctx, stk__image_buffer *buffer, uint64_t size);
void stk__image_buffer_release(stk_context *ctx, stk__image_buffer *buffer);
/* Release one that is too large to be kept between pictures. */
void stk__image_buffer_trim(stk_context *ctx, stk__image_buffer *buffer);

typedef struct stk__jpeg stk__jpeg;
typedef struct stk__png stk__png;

/* A PPM whose rows are given. */
typedef struct stk__ppm {
    stk_context *context;
    uint32_t pixel_bytes;
    const uint8_t *next; /* of the region: its first pixel that was not given */
    size_t stride;       /* of the picture */
    uint32_t width, capacity;
    stk__image_buffer strip;
} stk__ppm;

struct stk__image_decoder {
    stk_context *context;
    stk__image_limits limits;
    uint32_t pixel_bytes;
    stk__jpeg_by by; /* from the next picture on; only tests say who */
    stk__jpeg *jpeg; /* made when the first picture of its kind comes */
    stk__png *png;
    stk__ppm ppm;
    stk__image_info info;
    stk__image_region region;
    uint32_t next; /* row of the region that comes next */
    enum { STK__DECODER_IDLE, STK__DECODER_ACTIVE, STK__DECODER_DONE } state;
};

stk_status stk__jpeg_create(stk_context *ctx, const stk__image_limits *limits, uint32_t pixel_bytes,
                            stk__jpeg **out);
void stk__jpeg_destroy(stk__jpeg **jpeg);
void stk__jpeg_set_by(stk__jpeg *jpeg, stk__jpeg_by by);
/* `info` and `header` are of the same bytes; `region` lies within the picture scaled by its scale.
 */
stk_status stk__jpeg_begin(stk__jpeg *jpeg, const uint8_t *data, uint64_t length,
                           const stk__image_info *info, const stk__jpeg_header *header,
                           const stk__image_region *region, const char **reason);
/* At most `wanted` rows, which is 1 to STK__IMAGE_STRIP_ROWS and no more than what is left of the
 * region. A failure leaves the picture to be ended. */
stk_status stk__jpeg_rows(stk__jpeg *jpeg, uint32_t wanted, stk__image_rows *rows,
                          const char **reason);
void stk__jpeg_end(stk__jpeg *jpeg);
stk_status stk__jpeg_entropy_time(stk__jpeg *jpeg, const uint8_t *data, uint64_t length,
                                  const stk__image_info *info, const stk__jpeg_header *header,
                                  uint64_t *ns, const char **reason);

stk_status stk__png_create(stk_context *ctx, uint32_t pixel_bytes, stk__png **out);
void stk__png_destroy(stk__png **png);
stk_status stk__png_begin(stk__png *png, const uint8_t *data, uint64_t length,
                          const stk__image_info *info, const stk__png_header *header,
                          const stk__image_region *region, const char **reason);
stk_status stk__png_rows(stk__png *png, uint32_t wanted, stk__image_rows *rows,
                         const char **reason);
void stk__png_end(stk__png *png);

stk_status stk__ppm_begin(stk__ppm *ppm, const uint8_t *data, uint64_t length,
                          const stk__image_info *info, const stk__ppm_header *header,
                          const stk__image_region *region, const char **reason);
void stk__ppm_rows(stk__ppm *ppm, uint32_t wanted, stk__image_rows *rows);
void stk__ppm_end(stk__ppm *ppm);

#endif
