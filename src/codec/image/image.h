/* encoded picture, box -> rows of RGB */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG [ITU-T T.81, JFIF 1.02, Adobe APP14], PNG [W3C PNG, 2nd edition], and the PPM that packed
 * pictures are [netpbm ppm(5)], recognised by content.
 * The header is read first and held against limits before anything large is allocated; then the
 * rows and columns of one box come out as strips. What nearly all photographs are, 8-bit Huffman-
 * coded sequential JPEG of one scan at scale 1 (grey, 4:4:4, 4:2:2, 4:4:0 or 4:2:0), is decoded
 * here where the processor has AVX2; all other JPEG through libjpeg-turbo's libjpeg API, with the
 * same pixels; PNG through libspng.
 *
 * Colours become 8-bit RGB as Pillow's convert("RGB") makes them, pixel for pixel:
 *   - grey is repeated three times; 1, 2 and 4-bit grey is stretched to 0..255;
 *   - 16-bit grey is clipped at 255 (Pillow's rule, which is not a shift); 16-bit colour, and grey
 *     with alpha, keep their upper byte;
 *   - alpha, and transparent colours, are dropped: the colour below stays as it is stored;
 *   - an index beyond a palette's end is black;
 *   - CMYK and YCCK are taken as inverted (Adobe's convention, with the marker or without), and
 *     become R = clip(K - round(K (255 - C) / 255)) and so on.
 * Gamma, colour profiles and EXIF orientation are not applied; the orientation is reported.
 *
 * Units: pixels of the picture as stored unless "scaled" is said. Scaled pixel (i, j) of a decode
 * at 1/d covers the stored pixels [d i, d i + d) x [d j, d j + d); the scaled picture is ceil(width
 * / d) wide and ceil(height / d) high.
 *
 * What is refused, by name: 12-bit and lossless JPEG, two-component JPEG, hierarchical JPEG.
 * Arithmetic coding is read where libjpeg was built with it.
 *
 * Damage. A JPEG must have its end marker (FF D9) somewhere behind its first scan header: bytes
 * after it (padding, other pictures, a camera's notes) are let be, and a file cut anywhere in its
 * pixels has none, whatever box is asked for. Every warning of libjpeg about corrupt data fails the
 * picture. A PNG must be a sound row of chunks up to IEND, and the checksums of all its critical
 * chunks are compared, whatever box is asked for; ancillary chunks are stepped over, never
 * inflated. What a region decode of a JPEG cannot see: damage below the last row of the box
 * (sequential files; of files with several scans all is read), damage in columns next to the box
 * that keeps the Huffman codes in step, and, as a full decode, damage that yields other valid
 * codes. Damage above the box is seen where it breaks the codes: one that does not exist, or more
 * or fewer bits than the blocks take. (libjpeg's fast path, for the files that it decodes, takes a
 * wrong Huffman code for a zero without a word; the loss of step that follows is usually, not
 * always, noticed at the next marker.) Coefficients far beyond what an encoder can make overflow
 * here in 16 bits, with vector instructions and without alike; libjpeg's pixels of such blocks may
 * be others, and depend on its build.
 *
 * Errors of this room are a status and a reason: a static text that is never freed, without the
 * name of the picture, ending in what to do. STK_EFORMAT damaged or not a picture; STK_ETRUNCATED
 * ends too early; STK_ECHECKSUM a PNG checksum does not match; STK_ELIMIT beyond a limit;
 * STK_EKIND a kind of picture that is not read; STK_EINVAL a box outside the picture; STK_ENOMEM
 * no memory.
 */
#ifndef STK_SRC_CODEC_IMAGE_IMAGE_H
#define STK_SRC_CODEC_IMAGE_IMAGE_H

#include "base/base.h"

#define STK__IMAGE_MAX_PIXELS (UINT64_C(64) << 20)
#define STK__IMAGE_MAX_SCANS  100
#define STK__IMAGE_MAX_BLOCKS (UINT64_C(1) << 25) /* about 2 s of a core */
#define STK__IMAGE_MAX_MEMORY (UINT64_C(1) << 30)
#define STK__IMAGE_MAX_SCALE  8
#define STK__IMAGE_STRIP_ROWS 16 /* no strip is higher */

typedef enum stk__image_format {
    STK__IMAGE_UNKNOWN = 0,
    STK__IMAGE_JPEG,
    STK__IMAGE_PNG,
    STK__IMAGE_PPM
} stk__image_format;

typedef struct stk__image_limits {
    uint64_t max_pixels; /* width x height as stored */
    uint64_t max_memory; /* bytes a decode may hold, by stk__image_info.memory */
    uint32_t max_scans;  /* of a JPEG */
    uint64_t max_blocks; /* of a JPEG, of all its scans: the work of decoding it */
} stk__image_limits;

/* What a header says. */
typedef struct stk__image_info {
    stk__image_format format;
    uint32_t width, height; /* as stored, both at least 1 */
    uint32_t components;    /* samples of a pixel in the file: 1 to 4 */
    uint32_t channels;  /* what they mean: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha */
    uint32_t bit_depth; /* bits of a sample: 8; PNG also 1, 2, 4, 16 */
    uint32_t orientation; /* EXIF, 1 to 8; 1 where it is absent or absurd */
    bool progressive;     /* JPEG: refined by several scans; PNG: interlaced */
    bool buffered; /* the whole picture is held while it is decoded (progressive, several scans) */
    uint64_t memory; /* most bytes that a decode holds, of any box at any scale, decoder included */
    uint32_t scans;  /* JPEG: those that the bytes given hold, where `buffered`; else 1 */
    uint64_t blocks; /* JPEG: of 8 x 8 coefficients, each counted in every scan that has it */
    uint64_t cost_ns; /* estimate of a full decode on one core, for scheduling */
} stk__image_info;

/* A box of the stored picture. */
typedef struct stk__image_box {
    uint32_t x, y, width, height;
} stk__image_box;

/*
 * What a begun decode gives: the smallest box of whole scaled pixels that holds the one asked for,
 * and where in it that one lies. At scale 1 the two are the same, and left = top = 0.
 */
typedef struct stk__image_region {
    uint32_t scale;                         /* one pixel for scale x scale: 1, 2, 4 or 8 */
    uint32_t x, y, width, height;           /* scaled pixels, of the scaled picture */
    uint32_t picture_width, picture_height; /* of the scaled picture */
    double left, top, right, bottom; /* the box asked for, in scaled pixels from (x, y) on; exact */
} stk__image_region;

/* Rows of a region. They stay the decoder's and are good until its next call. */
typedef struct stk__image_rows {
    const uint8_t *data; /* pixel (0, 0) of the strip; STK_TAIL readable bytes follow the last */
    size_t stride;       /* bytes from row to row; within a row a pixel takes pixel_bytes */
    uint32_t first;      /* number of the first row in the region */
    uint32_t count;      /* 1 to STK__IMAGE_STRIP_ROWS */
} stk__image_rows;

void stk__image_limits_init(stk__image_limits *limits);

/* The limits that are options wherever pictures are read: rows of the table of a struct that has
 * members of these names. */
#define STK__IMAGE_LIMIT_OPTIONS(owner)                                                            \
    {.name = "max_pixels",                                                                         \
     .type = STK_OPTION_UINT,                                                                      \
     .offset = offsetof(owner, max_pixels),                                                        \
     .initial = "67108864",                                                                        \
     .min = 1,                                                                                     \
     .max = 4294836225.0,                                                                          \
     .doc = "Larger pictures are bad samples."},                                                   \
    {                                                                                              \
        .name = "max_blocks", .type = STK_OPTION_UINT, .offset = offsetof(owner, max_blocks),      \
        .initial = "33554432", .min = 1, .max = 1e15,                                              \
        .doc = "Blocks of 8 x 8 of all scans of a JPEG, which is the work of decoding it: more "   \
               "are a bad sample."                                                                 \
    }

/* The format of some bytes by their first ones. No limit on what they may hold. */
stk__image_format stk__image_recognize(const void *data, uint64_t length);

/*
 * Read the header of the picture at `data`: allocates nothing, reads no pixels. The head of a file
 * is enough where it reaches the pixels (the first scan header of a JPEG, IDAT of a PNG); else
 * STK_ETRUNCATED. On STK_ELIMIT *info is filled as well. Any thread.
 */
stk_status stk__image_peek(const void *data, uint64_t length, const stk__image_limits *limits,
                           stk__image_info *info, const char **reason);

/* Width and height of a picture turned upright, and the stored box of a box in the upright one. */
void stk__image_upright_size(const stk__image_info *info, uint32_t *width, uint32_t *height);
void stk__image_stored_box(const stk__image_info *info, const stk__image_box *upright,
                           stk__image_box *stored);

/*
 * A decoder: made once for each worker and used for one picture after the other, by one thread at a
 * time. Its own memory comes from the context and is kept from picture to picture; libspng and its
 * zlib are given the context's allocator; libjpeg allocates by itself (it takes no allocator),
 * bounded by max_memory and freed at the end of each picture.
 */
typedef struct stk__image_decoder stk__image_decoder;

/*
 * `limits` NULL: the defaults. `pixel_bytes` 3: RGB; 4: RGB and a byte that means nothing; 1, for
 * masks: the values as stored, palette indices or grey of 1, 2, 4 or 8 bits, not stretched (colour,
 * alpha and 16 bits are refused with STK_EKIND by begin; a JPEG gives its grey, which is not
 * exact enough for classes).
 * Errors: STK_ENOMEM, STK_EINVAL (another pixel_bytes).
 */
stk_status stk__image_decoder_create(stk_context *ctx, const stk__image_limits *limits,
                                     uint32_t pixel_bytes, stk__image_decoder **out,
                                     stk_error *err);
/* Ends it, in the middle of a picture as well, and sets *decoder to NULL. Accepts NULL. */
void stk__image_decoder_destroy(stk__image_decoder **decoder);

/*
 * Begin to decode `box` (NULL: all) of the picture at `data`, which must stay until the end.
 * `scale` is 1, 2, 4 or 8: a JPEG is decoded at 1/scale by smaller inverse transforms; a PNG always
 * at 1, as region->scale says. At scale 1 the rows are bit for bit those of a full decode by
 * libjpeg (accurate integer transform, smooth upsampling) or libspng, with vector instructions or
 * without. Rows above the box are not transformed, columns next to it (but for a margin) neither.
 *
 * Ends the picture before. On failure nothing is begun, and region is not set.
 */
stk_status stk__image_decoder_begin(stk__image_decoder *decoder, const void *data, uint64_t length,
                                    const stk__image_box *box, uint32_t scale,
                                    stk__image_region *region, const char **reason);

/*
 * Give the next strip of at most `most` rows (0: as many as suit the decoder; it may give fewer in
 * any case). STK_OK with rows->count >= 1; STK_EOS behind the last row, where the picture has ended
 * by itself; a failure, after which the picture has ended and what came before must not be used.
 */
stk_status stk__image_decoder_rows(stk__image_decoder *decoder, uint32_t most,
                                   stk__image_rows *rows, const char **reason);
/* End the picture, wherever it is. Nothing to end is well. */
void stk__image_decoder_end(stk__image_decoder *decoder);

/*
 * Time the entropy decoding of a whole JPEG alone, for the cost table: *ns is the time of the
 * thread that it takes to read all codes. Those of a file with one scan are thrown away as they
 * come; those of other files are stored in memory, as their decoding asks. An estimate. STK_EKIND
 * for other formats; a picture of one row may give 0. Ends the picture before.
 */
stk_status stk__image_entropy_time(stk__image_decoder *decoder, const void *data, uint64_t length,
                                   uint64_t *ns, const char **reason);

#define STK__PPM_HEAD 32
/* What begins a PPM of such sides, with an end; returns its length. */
size_t stk__ppm_head(uint32_t width, uint32_t height, char out[STK__PPM_HEAD]);

/* Fill an error from a status and a reason of this room: "KEY: REASON". */
stk_status stk__image_fail(stk_error *err, stk_status status, const char *key, const char *reason);

#endif
