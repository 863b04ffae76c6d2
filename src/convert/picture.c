/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/picture.h"

#include "transform/resize/resize.h"

#define PIXEL        3
#define SPARE_MEMORY (512u << 10) /* buffers and tables of the decoder and this file */
#define SUM_PIECE    32768        /* squares of bytes whose sum fits 32 bits */

/* ---- Deciding ------------------------------------------------------------------------------ */

/* Sides that fit max_side (0: no limit), as torchvision.transforms.Resize(None, max_size) has them:
 * the shorter one is rounded down. Nothing grows. */
static void picture_fit(uint32_t width, uint32_t height, uint64_t max_side, uint32_t *out_width,
                        uint32_t *out_height)
{
    uint64_t longer = STK_MAX(width, height), shorter = STK_MIN(width, height);

    *out_width = width;
    *out_height = height;
    if (!max_side || longer <= max_side)
        return;
    uint32_t side = (uint32_t)STK_MAX(max_side * shorter / longer, 1);
    *out_width = width >= height ? (uint32_t)max_side : side;
    *out_height = width >= height ? side : (uint32_t)max_side;
}

/* Whether a transparent colour is named before the pixels of a PNG. */
static bool has_transparency(const uint8_t *data, uint64_t length)
{
    for (uint64_t at = 8; at < length && length - at >= 12;) {
        uint64_t size =
            (uint64_t)data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3];
        if (memcmp(data + at + 4, "tRNS", 4) == 0)
            return true;
        if (memcmp(data + at + 4, "IDAT", 4) == 0 || size > length - at - 12)
            return false;
        at += 12 + size;
    }
    return false;
}

/* A PNG that JPEG cannot hold: palette (exact colours), alpha, 16 bits. */
static bool png_stays(const stk_convert_images_options *options, const stk__image_info *info,
                      const void *data, uint64_t length)
{
    bool palette = info->components == 1 && info->channels >= 3;

    return options->keep_png || palette || info->bit_depth == 16 || info->channels == 2 ||
           info->channels == 4 || has_transparency(data, length);
}

static stk__done_kind kind_of(const stk_convert_images_options *options, const stk__repack *plan,
                              const void *data, uint64_t length)
{
    const stk__image_info *info = &plan->info;

    if (info->format == STK__IMAGE_PNG)
        return png_stays(options, info, data, length) ? STK__DONE_KEPT_PNG : STK__DONE_ENCODED;
    bool fits = plan->width == info->width && plan->height == info->height;
    if (!fits || plan->orientation != 1 || info->components == 4)
        return STK__DONE_ENCODED;
    bool baseline = !info->progressive && !info->buffered &&
                    (plan->markers.frame == 0xc0 || plan->markers.frame == 0xc1);
    return baseline ? STK__DONE_COPIED : STK__DONE_REWRITTEN;
}

/* A JPEG may come smaller from the decoder where that is still twice what is wanted: then it is
 * the resampler that decides how the result looks. */
static uint32_t scale_of(const stk_convert_images_options *options, const stk__repack *plan)
{
    uint32_t scale = 1;

    while (plan->info.format == STK__IMAGE_JPEG && options->dct_scaling == 0 &&
           scale < STK__IMAGE_MAX_SCALE && plan->info.width / (2 * scale) >= 2 * plan->width &&
           plan->info.height / (2 * scale) >= 2 * plan->height)
        scale *= 2;
    return scale;
}

static void describe_resize(const stk__repack *plan, const stk__image_region *region,
                            stk__resize *what)
{
    *what = (stk__resize){.filter = STK__FILTER_BILINEAR,
                          .pixel_bytes = PIXEL,
                          .in_width = region->width,
                          .in_height = region->height,
                          .left = region->left,
                          .top = region->top,
                          .right = region->right,
                          .bottom = region->bottom,
                          .out_width = plan->width,
                          .out_height = plan->height,
                          .width = plan->width,
                          .height = plan->height};
}

/* The region that a decode of all at the plan's scale gives. */
static stk__image_region whole_region(const stk__repack *plan)
{
    uint32_t scale = plan->scale, width = (plan->info.width - 1) / scale + 1;
    uint32_t height = (plan->info.height - 1) / scale + 1;

    return (stk__image_region){.scale = scale,
                               .width = width,
                               .height = height,
                               .picture_width = width,
                               .picture_height = height,
                               .right = (double)plan->info.width / scale,
                               .bottom = (double)plan->info.height / scale};
}

static bool is_resized(const stk__repack *plan)
{
    return plan->width != plan->info.width || plan->height != plan->info.height;
}

static stk__encode encoding(const stk_convert_images_options *options, const stk__repack *plan)
{
    return (stk__encode){.quality = (uint32_t)options->quality,
                         .subsampling = (stk__subsampling)options->subsampling,
                         .restart_interval = (uint32_t)options->restart_interval,
                         .grey = plan->info.channels == 1};
}

static uint64_t memory_of(const stk_convert_images_options *options, const stk__repack *plan,
                          uint64_t length)
{
    uint64_t picture = (uint64_t)plan->width * plan->height * PIXEL, resizing = 0;
    uint64_t sum = SPARE_MEMORY + length + plan->info.memory;

    if (plan->kind == STK__DONE_COPIED || plan->kind == STK__DONE_KEPT_PNG)
        return sum;
    /* Rewriting may end in encoding, where libjpeg smooths what it decodes. */
    if (plan->kind == STK__DONE_REWRITTEN)
        sum += 2 * length + picture;
    if (is_resized(plan)) {
        stk__resize what;
        stk__image_region region = whole_region(plan);
        describe_resize(plan, &region, &what);
        resizing = stk__resizer_bytes(&what);
        if (resizing == UINT64_MAX)
            return UINT64_MAX;
    }
    stk__encode how = encoding(options, plan);
    if (plan->markers.exif)
        how.exif_length = plan->markers.exif_length;
    return sum + resizing + (plan->orientation == 1 ? 1 : 2) * picture +
           stk__image_encode_memory(plan->width, plan->height, &how);
}

/* Of the decoder: pixels and blocks have been held against the options by the plan. */
static stk__image_limits limits_for(uint64_t budget)
{
    stk__image_limits limits;

    stk__image_limits_init(&limits);
    limits.max_pixels = limits.max_blocks = UINT64_MAX;
    limits.max_memory = budget;
    return limits;
}

stk_status stk__picture_plan(const stk_convert_images_options *options,
                             const stk_convert_options *shared, const void *data, uint64_t length,
                             stk__repack *plan, const char **reason)
{
    stk__image_limits limits;

    stk__image_limits_init(&limits);
    limits.max_pixels = shared->max_pixels;
    limits.max_blocks = shared->max_blocks;
    limits.max_memory = UINT64_MAX; /* the plan's is held against the budget */
    *plan = (stk__repack){.orientation = 1};
    STK_TRY(stk__image_peek(data, length, &limits, &plan->info, reason));
    if (plan->info.format == STK__IMAGE_PPM) {
        *reason = "it is a PPM, which is not packed again; convert it to a PNG";
        return STK_EKIND;
    }
    if (plan->info.format == STK__IMAGE_JPEG)
        stk__jpeg_read_markers(data, length, &plan->markers);
    if (options->upright)
        plan->orientation = plan->info.orientation;
    picture_fit(plan->info.width, plan->info.height, options->max_side, &plan->width,
                &plan->height);
    plan->kind = kind_of(options, plan, data, length);
    plan->scale = scale_of(options, plan);
    plan->memory = memory_of(options, plan, length);
    return STK_OK;
}

/* ---- Turning ------------------------------------------------------------------------------- */

/* Turn a picture upright: `to` has the rows of one after the other. Its sides are those of the
 * original, swapped where the orientation (1 to 8) says so. */
static void picture_turn(const uint8_t *from, uint32_t width, uint32_t height, uint32_t orientation,
                         uint8_t *to)
{
    bool swap = orientation >= 5;
    /* Where the stored rows and columns are counted from their end. */
    bool flip_row = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    bool flip_column = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    uint32_t out_width = swap ? height : width, out_height = swap ? width : height;

    for (uint32_t y = 0; y < out_height; y++)
        for (uint32_t x = 0; x < out_width; x++, to += PIXEL) {
            uint32_t row = swap ? x : y, column = swap ? y : x;
            row = flip_row ? height - 1 - row : row;
            column = flip_column ? width - 1 - column : column;
            memcpy(to, from + ((size_t)row * width + column) * PIXEL, PIXEL);
        }
}

/* ---- Decoding ------------------------------------------------------------------------------ */

static uint64_t squares(const uint8_t *a, const uint8_t *b, size_t n)
{
    uint64_t sum = 0;

    for (size_t at = 0; at < n; at += SUM_PIECE) {
        size_t end = STK_MIN(n, at + SUM_PIECE);
        uint32_t part = 0;
        for (size_t i = at; i < end; i++) {
            int32_t d = (int32_t)a[i] - b[i];
            part += (uint32_t)(d * d);
        }
        sum += part;
    }
    return sum;
}

/* Decode all of a picture. `with` (NULL: none) is what it should be; *sse says how far it is. */
static stk_status decode_and_compare(stk__picture_worker *w, const void *data, uint64_t length,
                                     const uint8_t *with, uint64_t *sse, const char **reason)
{
    stk__image_region region;
    stk__image_rows rows;
    stk_status status;

    *sse = 0;
    STK_TRY(stk__image_decoder_begin(w->decoder, data, length, NULL, 1, &region, reason));
    size_t row = (size_t)region.width * PIXEL;
    while ((status = stk__image_decoder_rows(w->decoder, 0, &rows, reason)) == STK_OK)
        for (uint32_t i = 0; with && i < rows.count; i++)
            *sse += squares(rows.data + i * rows.stride, with + (rows.first + i) * row, row);
    return status == STK_EOS ? STK_OK : status;
}

/* Give strips of the decoder to the resampler and its rows to `out`. */
static stk_status resize_rows(stk__picture_worker *w, stk__resizer *resizer, uint32_t first,
                              uint8_t *out, size_t row, const char **reason)
{
    stk__image_rows rows;
    stk_status status;

    while ((status = stk__image_decoder_rows(w->decoder, 0, &rows, reason)) == STK_OK) {
        uint32_t done = first > rows.first ? STK_MIN(first - rows.first, rows.count) : 0;
        while (done < rows.count) {
            uint32_t taken = stk__resizer_push(resizer, rows.data + done * rows.stride, rows.stride,
                                               rows.count - done);
            const uint8_t *given;
            bool pulled = false;
            for (; (given = stk__resizer_pull(resizer)); out += row, pulled = true)
                memcpy(out, given, row);
            if (!taken && !pulled)
                break; /* behind the last row that is wanted */
            done += taken;
        }
    }
    return status == STK_EOS ? STK_OK : status;
}

static stk_status copy_rows(stk__picture_worker *w, uint8_t *out, size_t row, const char **reason)
{
    stk__image_rows rows;
    stk_status status;

    while ((status = stk__image_decoder_rows(w->decoder, 0, &rows, reason)) == STK_OK)
        for (uint32_t i = 0; i < rows.count; i++)
            memcpy(out + (rows.first + i) * row, rows.data + i * rows.stride, row);
    return status == STK_EOS ? STK_OK : status;
}

/* The picture in its new size, stored as the file has it. */
static stk_status decode_to(stk__picture_worker *w, const stk__repack *plan, const void *data,
                            uint64_t length, uint8_t *out, const char **reason)
{
    size_t row = (size_t)plan->width * PIXEL;
    stk__image_region region;
    stk__resize what;
    uint32_t first, end, left, right;

    STK_TRY(stk__image_decoder_begin(w->decoder, data, length, NULL, plan->scale, &region, reason));
    if (!is_resized(plan))
        return copy_rows(w, out, row, reason);
    describe_resize(plan, &region, &what);
    uint64_t bytes = stk__resizer_bytes(&what);
    void *memory = bytes == UINT64_MAX ? NULL : stk__alloc_buffer(w->context, bytes);
    if (!memory) {
        stk__image_decoder_end(w->decoder);
        *reason = "no memory to resize the picture; free some, or use fewer workers";
        return STK_ENOMEM;
    }
    stk__resizer *resizer = stk__resizer_init(w->context, &what, memory);
    stk__resizer_wants(resizer, &first, &end, &left, &right);
    stk_status status = resize_rows(w, resizer, first, out, row, reason);
    stk__free(w->context, memory);
    return status;
}

/* ---- Doing --------------------------------------------------------------------------------- */

/* Room for `pixels` pixels, readable beyond. */
static uint8_t *new_picture(stk__picture_worker *w, const stk__repack *plan, const char **reason)
{
    uint8_t *picture = stk__alloc_buffer(w->context, (uint64_t)plan->width * plan->height * PIXEL);

    if (!picture)
        *reason = "no memory for the picture; free some, or use fewer workers";
    return picture;
}

static stk_status encode_picture(stk__picture_worker *w, const stk__repack *plan,
                                 const uint8_t *picture, uint32_t width, uint32_t height,
                                 stk__repacked *out, const char **reason)
{
    stk__encode how = encoding(w->options, plan);
    uint8_t exif[STK__EXIF_BYTES];

    if (plan->info.orientation != 1 && !w->options->upright &&
        plan->info.format == STK__IMAGE_PNG) {
        stk__exif_make(plan->info.orientation, exif);
        how.exif = exif;
        how.exif_length = sizeof exif;
    } else if (plan->markers.exif && !w->options->upright) {
        how.exif = plan->markers.exif;
        how.exif_length = plan->markers.exif_length;
    }
    STK_TRY(stk__image_encode(w->encoder, &how, width, height, picture, (size_t)width * PIXEL,
                              &out->owned, &out->size, reason));
    out->data = out->owned;
    out->kind = STK__DONE_ENCODED;
    if (!w->verify)
        return STK_OK;
    stk_status status = decode_and_compare(w, out->data, out->size, picture, &out->sse, reason);
    out->samples = (uint64_t)width * height * PIXEL;
    if (status == STK_OK || status == STK_ENOMEM)
        return status;
    *reason = "what was encoded cannot be decoded: a defect in stoker";
    return STK_EINTERNAL;
}

static stk_status encode_anew(stk__picture_worker *w, const stk__repack *plan, const void *data,
                              uint64_t length, stk__repacked *out, const char **reason)
{
    uint32_t width = plan->width, height = plan->height;
    uint8_t *turned = NULL;
    stk_status status = STK_ENOMEM;

    uint8_t *picture = new_picture(w, plan, reason);
    if (!picture)
        return STK_ENOMEM;
    status = decode_to(w, plan, data, length, picture, reason);
    if (status == STK_OK && plan->orientation != 1) {
        turned = new_picture(w, plan, reason);
        status = turned ? STK_OK : STK_ENOMEM;
        if (turned)
            picture_turn(picture, width, height, plan->orientation, turned);
    }
    if (turned && plan->orientation >= 5) {
        width = plan->height;
        height = plan->width;
    }
    if (status == STK_OK)
        status = encode_picture(w, plan, turned ? turned : picture, width, height, out, reason);
    stk__free(w->context, turned);
    stk__free(w->context, picture);
    return status;
}

/* Whether two files have the same pixels. */
static stk_status same_pixels(stk__picture_worker *w, const stk__repack *plan, const void *data,
                              uint64_t length, const stk__repacked *out, bool *same,
                              const char **reason)
{
    uint64_t sse = 0;
    uint8_t *picture = new_picture(w, plan, reason);

    if (!picture)
        return STK_ENOMEM;
    stk_status status = decode_to(w, plan, data, length, picture, reason);
    if (status == STK_OK)
        status = decode_and_compare(w, out->data, out->size, picture, &sse, reason);
    *same = sse == 0;
    stk__free(w->context, picture);
    return status;
}

static stk_status rewrite(stk__picture_worker *w, const stk__repack *plan, const void *data,
                          uint64_t length, stk__repacked *out, const char **reason)
{
    stk__encode how = encoding(w->options, plan);
    stk__image_limits limits = limits_for(UINT64_MAX);
    bool same = true;

    STK_TRY(stk__image_to_baseline(w->encoder, &how, data, length, &plan->info, &limits,
                                   &out->owned, &out->size, reason));
    out->data = out->owned;
    out->kind = STK__DONE_REWRITTEN;
    if (!w->verify)
        return STK_OK;
    STK_TRY(same_pixels(w, plan, data, length, out, &same, reason));
    if (same)
        return STK_OK;
    /* Scans that refine the picture are missing, and libjpeg smooths such ones while it decodes. */
    stk__free(w->context, out->owned);
    out->owned = NULL;
    return encode_anew(w, plan, data, length, out, reason);
}

stk_status stk__picture_do(stk__picture_worker *worker, const stk__repack *plan, const void *data,
                           uint64_t length, stk__repacked *out, const char **reason)
{
    uint64_t ignored;
    stk_status status = STK_OK;

    *out = (stk__repacked){.kind = plan->kind, .data = data, .size = length};
    *reason = "";
    if (plan->kind == STK__DONE_ENCODED)
        status = encode_anew(worker, plan, data, length, out, reason);
    else if (plan->kind == STK__DONE_REWRITTEN)
        status = rewrite(worker, plan, data, length, out, reason);
    else if (worker->verify)
        status = decode_and_compare(worker, data, length, NULL, &ignored, reason);
    if (status != STK_OK) {
        stk__free(worker->context, out->owned);
        out->owned = NULL;
    }
    return status;
}

/* ---- Life ---------------------------------------------------------------------------------- */

stk_status stk__picture_worker_init(stk_context *ctx, const stk_convert_images_options *options,
                                    bool verify, uint64_t budget, stk__picture_worker *worker,
                                    stk_error *err)
{
    stk__image_limits limits = limits_for(budget);

    *worker = (stk__picture_worker){.context = ctx, .options = options, .verify = verify};
    STK_TRY(stk__image_decoder_create(ctx, &limits, PIXEL, &worker->decoder, err));
    stk_status status = stk__image_encoder_create(ctx, &worker->encoder, err);
    if (status != STK_OK)
        stk__picture_worker_release(worker);
    return status;
}

void stk__picture_worker_release(stk__picture_worker *worker)
{
    stk__image_decoder_destroy(&worker->decoder);
    stk__image_encoder_destroy(&worker->encoder);
}
