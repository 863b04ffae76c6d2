/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a box of a JPEG: through baseline.h where it takes the picture, else, and from where it
 * meets something odd, through libjpeg-turbo's libjpeg API (libjpeg.h).
 */
#include "codec/image/baseline.h"
#include "codec/image/libjpeg.h"

#include <limits.h>

#define BLOCK 8
/* Rows begin this far behind an aligned address. To aligned rows libjpeg-turbo writes past the
 * caches [jdcolext-*.asm], which costs a tenth of a decode and leaves the reader of the strip
 * without them. */
#define OFF_ALIGNMENT 8
/* iMCU columns decoded next to the box. One lets what is upsampled across be so from the same
 * neighbours at the box's edges as in a full decode; the smoothing of unfinished progressive
 * pictures looks at two blocks more. */
#define MARGIN          1
#define MARGIN_BUFFERED 3

struct stk__jpeg {
    stk__libjpeg calls;
    struct jpeg_decompress_struct library;
    void *(*alloc_small)(j_common_ptr, int, size_t); /* libjpeg's own */
    stk_context *context;
    stk__image_limits limits;
    uint32_t pixel_bytes;

    /* The picture being decoded. */
    const uint8_t *data;
    uint64_t length;
    stk__image_region region;
    bool buffered;
    bool to_bottom;    /* the region has the last row of the picture */
    bool cmyk;         /* rows come as CMYK */
    uint32_t margin;   /* columns decoded to the left of the region */
    uint32_t capacity; /* rows of the strip */
    size_t stride;
    stk__image_buffer strip;
    uint64_t ns;

    stk__baseline *baseline; /* made when the first picture comes */
    stk__jpeg_by by;
    bool own; /* the picture is the baseline decoder's */
};

/* ---- What libjpeg calls --------------------------------------------------------------------- */

/*
 * libjpeg keeps the tables of a picture for the next one, so that a picture without tables would be
 * decoded with those of another one. Given the life of a picture they go with it; forget_tables()
 * drops what points to them.
 */
static void *alloc_for_picture(j_common_ptr common, int pool, size_t size)
{
    stk__jpeg *jpeg = common->client_data;

    return jpeg->alloc_small(common, pool == JPOOL_PERMANENT ? JPOOL_IMAGE : pool, size);
}

static void forget_tables(j_decompress_ptr library)
{
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        library->quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        library->dc_huff_tbl_ptrs[i] = library->ac_huff_tbl_ptrs[i] = NULL;
}

/* ---- Life ---------------------------------------------------------------------------------- */

static stk_status create_library(void *user, void *arguments)
{
    stk__jpeg *jpeg = user;
    jpeg_create_decompress(&jpeg->library);
    return STK_OK;
}

stk_status stk__jpeg_create(stk_context *ctx, const stk__image_limits *limits, uint32_t pixel_bytes,
                            stk__jpeg **out)
{
    const char *reason;

    stk__jpeg *jpeg = stk__calloc(ctx, 1, sizeof *jpeg);
    *out = jpeg;
    if (!jpeg)
        return STK_ENOMEM;
    jpeg->context = ctx;
    jpeg->limits = *limits;
    jpeg->pixel_bytes = pixel_bytes;
    stk__libjpeg_init(&jpeg->calls, "decoding the JPEG needs more memory than allowed; store it as "
                                    "a baseline JPEG, or raise the limit");
    jpeg->calls.max_scans = limits->max_scans;
    jpeg->library.err = &jpeg->calls.errors;
    jpeg->library.client_data = jpeg;
    stk_status status = stk__libjpeg_guard(&jpeg->calls, create_library, NULL, &reason);
    if (status != STK_OK) {
        stk__jpeg_destroy(out);
        return status;
    }
    jpeg->library.src = &jpeg->calls.source;
    jpeg->library.progress = &jpeg->calls.progress;
    jpeg->library.mem->max_memory_to_use = (long)STK_MIN(limits->max_memory, (uint64_t)LONG_MAX);
    jpeg->alloc_small = jpeg->library.mem->alloc_small;
    jpeg->library.mem->alloc_small = alloc_for_picture;
    return STK_OK;
}

static void end_library(stk__jpeg *jpeg)
{
    jpeg_abort_decompress(&jpeg->library);
    forget_tables(&jpeg->library);
    stk__image_buffer_trim(jpeg->context, &jpeg->strip);
}

void stk__jpeg_end(stk__jpeg *jpeg)
{
    if (jpeg->own)
        stk__baseline_end(jpeg->baseline);
    else
        end_library(jpeg);
    jpeg->own = false;
}

void stk__jpeg_destroy(stk__jpeg **jpeg)
{
    stk__jpeg *j = *jpeg;

    if (!j)
        return;
    jpeg_destroy_decompress(&j->library);
    stk__baseline_destroy(&j->baseline);
    stk__image_buffer_release(j->context, &j->strip);
    stk__free(j->context, j);
    *jpeg = NULL;
}

/* ---- Beginning ----------------------------------------------------------------------------- */

static void read_header(stk__jpeg *jpeg)
{
    stk__libjpeg_offer(&jpeg->calls, jpeg->data, jpeg->length);
    jpeg_read_header(&jpeg->library, TRUE);
}

static uint32_t margin_of(const stk__jpeg *jpeg)
{
    const struct jpeg_decompress_struct *library = &jpeg->library;

    if (jpeg->buffered)
        return MARGIN_BUFFERED;
    for (int i = 0; i < library->num_components; i++) {
        const jpeg_component_info *c = &library->comp_info[i];
        if (c->h_samp_factor * c->DCT_scaled_size <
            library->max_h_samp_factor * library->min_DCT_scaled_size)
            return MARGIN;
    }
    return 0;
}

/* The columns to decode: those of the region and a margin of whole iMCUs. */
static void crop_columns(stk__jpeg *jpeg)
{
    j_decompress_ptr library = &jpeg->library;
    const stk__image_region *region = &jpeg->region;
    uint32_t step = (uint32_t)library->max_h_samp_factor * BLOCK / region->scale;
    uint32_t margin = margin_of(jpeg) * step;
    uint32_t left = region->x / step * step;
    /* Sides are at most 65500: nothing overflows. */
    uint32_t right = (region->x + region->width + step - 1) / step * step + margin;

    left = left > margin ? left - margin : 0;
    right = STK_MIN(right, library->output_width);
    if (left > 0 || right < library->output_width) {
        JDIMENSION offset = left, width = right - left;
        jpeg_crop_scanline(library, &offset, &width);
        left = offset;
    }
    jpeg->margin = region->x - left;
}

static stk_status begin(void *user, void *arguments)
{
    stk__jpeg *jpeg = user;
    j_decompress_ptr library = &jpeg->library;
    const stk__image_region *region = &jpeg->region;

    read_header(jpeg);
    library->scale_num = 1;
    library->scale_denom = region->scale;
    jpeg->cmyk = library->num_components == 4;
    library->out_color_space = jpeg->cmyk               ? JCS_CMYK
                               : jpeg->pixel_bytes == 1 ? JCS_GRAYSCALE
                               : jpeg->pixel_bytes == 4 ? JCS_EXT_RGBX
                                                        : JCS_EXT_RGB;
    library->dct_method = JDCT_ISLOW;
    library->do_fancy_upsampling = TRUE;
    jpeg_start_decompress(library);
    if (library->output_width != region->picture_width ||
        library->output_height != region->picture_height)
        stk__libjpeg_escape(&jpeg->calls, STK_EINTERNAL,
                            "libjpeg sees a JPEG of another size: a defect in stoker");
    crop_columns(jpeg);
    jpeg->stride = stk__round_up((uint64_t)library->output_width * library->output_components, 64);
    jpeg->capacity = stk__image_strip_rows(jpeg->stride);
    if (!stk__image_buffer_need(jpeg->context, &jpeg->strip,
                                OFF_ALIGNMENT + jpeg->capacity * jpeg->stride))
        stk__libjpeg_escape(&jpeg->calls, STK_ENOMEM, STK__NO_MEMORY_FOR_ROWS);
    jpeg->to_bottom = region->y + region->height == library->output_height;
    if (region->y)
        jpeg_skip_scanlines(library, region->y);
    return STK_OK;
}

void stk__jpeg_set_by(stk__jpeg *jpeg, stk__jpeg_by by)
{
    jpeg->by = by;
}

/* Take a picture up, and let the baseline decoder have it, if it takes it. */
static stk_status take(stk__jpeg *jpeg, const uint8_t *data, uint64_t length,
                       const stk__image_info *info, const stk__jpeg_header *header,
                       const stk__image_region *region, const char **reason)
{
    bool vectors = stk__cpu_has_avx2(jpeg->context);

    if (!stk__jpeg_has_end(data, length, header->scan))
        return stk__image_refuse(reason, STK_ETRUNCATED,
                                 "the JPEG has no end marker: it was cut; copy or download it "
                                 "again");
    jpeg->data = data;
    jpeg->length = length;
    jpeg->buffered = info->buffered;
    jpeg->region = *region;
    jpeg->own = false;
    if (jpeg->buffered || jpeg->by == STK__JPEG_BY_LIBRARY ||
        (jpeg->by == STK__JPEG_BY_FASTER && !vectors))
        return STK_OK;
    if (!jpeg->baseline && stk__baseline_create(jpeg->context, jpeg->pixel_bytes, &jpeg->baseline))
        return stk__image_refuse(reason, STK_ENOMEM, "no memory for a picture decoder; free some");
    return stk__baseline_begin(jpeg->baseline, jpeg->data, jpeg->length, header->scan,
                               &jpeg->region, &jpeg->own, reason);
}

static stk_status begin_library(stk__jpeg *jpeg, const char **reason)
{
    stk_status status = stk__libjpeg_guard(&jpeg->calls, begin, NULL, reason);

    if (status != STK_OK)
        end_library(jpeg);
    return status;
}

stk_status stk__jpeg_begin(stk__jpeg *jpeg, const uint8_t *data, uint64_t length,
                           const stk__image_info *info, const stk__jpeg_header *header,
                           const stk__image_region *region, const char **reason)
{
    STK_TRY(take(jpeg, data, length, info, header, region, reason));
    return jpeg->own ? STK_OK : begin_library(jpeg, reason);
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* a b / 255, rounded, of bytes. */
static uint32_t mul_255(uint32_t a, uint32_t b)
{
    uint32_t product = a * b + 128;

    return ((product >> 8) + product) >> 8;
}

/* Adobe's inverted CMYK -> RGB as Pillow has it, in place: no pixel grows. */
static void cmyk_to_rgb(uint8_t *row, uint32_t width, uint32_t pixel_bytes)
{
    const uint8_t *in = row;
    uint8_t *out = row;

    for (uint32_t i = 0; i < width; i++, in += 4, out += pixel_bytes) {
        uint32_t key = in[3], c = 255u - in[0], m = 255u - in[1], y = 255u - in[2];
        out[0] = (uint8_t)(key - mul_255(c, key));
        out[1] = (uint8_t)(key - mul_255(m, key));
        out[2] = (uint8_t)(key - mul_255(y, key));
    }
}

static stk_status read_rows(void *user, void *arguments)
{
    stk__jpeg *jpeg = user;
    j_decompress_ptr library = &jpeg->library;
    uint32_t wanted = *(const uint32_t *)arguments;
    JSAMPROW rows[STK__IMAGE_STRIP_ROWS];

    for (uint32_t i = 0; i < wanted; i++)
        rows[i] = jpeg->strip.data + OFF_ALIGNMENT + i * jpeg->stride;
    for (uint32_t got = 0; got < wanted;)
        got += jpeg_read_scanlines(library, rows + got, wanted - got);
    /* Behind the last row comes the end, and damage that shows itself there. */
    if (jpeg->to_bottom && library->output_scanline == library->output_height)
        jpeg_finish_decompress(library);
    return STK_OK;
}

static stk_status library_rows(stk__jpeg *jpeg, uint32_t wanted, stk__image_rows *rows,
                               const char **reason)
{
    uint32_t offset = jpeg->margin * (jpeg->cmyk ? 4 : jpeg->pixel_bytes);
    uint8_t *first = jpeg->strip.data + OFF_ALIGNMENT + offset;

    wanted = STK_MIN(wanted, jpeg->capacity);
    STK_TRY(stk__libjpeg_guard(&jpeg->calls, read_rows, &wanted, reason));
    for (uint32_t i = 0; jpeg->cmyk && i < wanted; i++)
        cmyk_to_rgb(first + i * jpeg->stride, jpeg->region.width, jpeg->pixel_bytes);
    rows->data = first;
    rows->stride = jpeg->stride;
    rows->count = wanted;
    return STK_OK;
}

stk_status stk__jpeg_rows(stk__jpeg *jpeg, uint32_t wanted, stk__image_rows *rows,
                          const char **reason)
{
    if (jpeg->own) {
        stk_status status = stk__baseline_rows(jpeg->baseline, wanted, rows, reason);
        if (status == STK_OK) {
            /* What is left of the region, should libjpeg have to go on with it. */
            jpeg->region.y += rows->count;
            jpeg->region.height -= rows->count;
        }
        if (status != STK_EAGAIN)
            return status;
        stk__baseline_destroy(&jpeg->baseline); /* with what it holds: libjpeg takes as much */
        jpeg->own = false;
        STK_TRY(begin_library(jpeg, reason));
    }
    return library_rows(jpeg, wanted, rows, reason);
}

/* ---- Entropy decoding alone ------------------------------------------------------------------ */

/* libjpeg: codes of a file with one scan are read and thrown away, up to the last row; what is
 * transformed there is one column of iMCUs. Those of other files must be kept, and so they are. */
static stk_status read_codes(void *user, void *arguments)
{
    stk__jpeg *jpeg = user;
    j_decompress_ptr library = &jpeg->library;
    JDIMENSION offset = 0, width = 1;

    read_header(jpeg);
    if (jpeg->buffered) {
        uint64_t start = stk__thread_cpu_ns();
        jpeg_read_coefficients(library);
        jpeg->ns = stk__thread_cpu_ns() - start;
        return STK_OK;
    }
    jpeg_start_decompress(library);
    jpeg_crop_scanline(library, &offset, &width);
    uint64_t start = stk__thread_cpu_ns();
    if (library->output_height > 1)
        jpeg_skip_scanlines(library, library->output_height - 1);
    jpeg->ns = stk__thread_cpu_ns() - start;
    return STK_OK;
}

static stk_status time_baseline(stk__jpeg *jpeg, const char **reason)
{
    uint64_t start = stk__thread_cpu_ns();
    stk_status status = stk__baseline_codes(jpeg->baseline, reason);

    jpeg->ns = stk__thread_cpu_ns() - start;
    return status;
}

stk_status stk__jpeg_entropy_time(stk__jpeg *jpeg, const uint8_t *data, uint64_t length,
                                  const stk__image_info *info, const stk__jpeg_header *header,
                                  uint64_t *ns, const char **reason)
{
    const stk__image_region region = {.scale = 1, .width = info->width, .height = 1};
    stk_status status = STK_EAGAIN;

    STK_TRY(take(jpeg, data, length, info, header, &region, reason));
    if (jpeg->own)
        status = time_baseline(jpeg, reason);
    if (status == STK_EAGAIN) {
        stk__jpeg_end(jpeg);
        status = stk__libjpeg_guard(&jpeg->calls, read_codes, NULL, reason);
    }
    stk__jpeg_end(jpeg);
    *ns = jpeg->ns;
    return status;
}
