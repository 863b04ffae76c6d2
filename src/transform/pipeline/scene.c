/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scene: one encoded picture, decoded only where it is wanted, resampled, moved, converted and
 * written to its place, a row at a time. What is held of it is the decoder's strip, the rows under
 * the filter, and one row of the result.
 *
 * Which pixels are wanted follows from the end: the rows and columns of the result that come from
 * the picture, then those that the filter needs for them. A picture that is turned upright is the
 * exception: it is resampled as it is stored, turned in memory, and goes on from there.
 */
#include "transform/pipeline/decode.h"
#include "transform/pipeline/decoding.h"

const char stk__decode_too_large[] = "decoding it needs more memory than memory_budget leaves for "
                                     "one picture: raise memory_budget, or re-pack the pictures";

/* The rows of a picture as they come: of the decoder, or behind the resizer. */
typedef struct rows {
    stk__scene *scene;
    stk__image_region region;
    stk__image_rows strip;
    uint32_t taken;        /* rows of the strip that are used up */
    stk__resizer *resizer; /* NULL: the decoder's own rows */
    uint32_t first, end;   /* rows the resizer wants, of the scaled picture */
    uint32_t pixel_bytes;
    size_t shift; /* bytes from the region's first column to column 0 of what is asked for */
} rows;

static const stk__decode *decode_of(const stk__scene *scene)
{
    return (const stk__decode *)scene->pipeline->steps[scene->group->first].transform;
}

static bool is_turned(const stk__scene *scene)
{
    return decode_of(scene)->upright && scene->info.orientation != 1;
}

static bool is_mask(const stk__scene *scene)
{
    return scene->pipeline->in.mask;
}

stk_status stk__scene_peek(stk__scene *scene, stk_transform_header *header)
{
    uint32_t width, height;

    STK_TRY(stk__image_peek(scene->encoded.data, scene->encoded.size, &decode_of(scene)->limits,
                            &scene->info, &scene->reason));
    width = scene->info.width;
    height = scene->info.height;
    if (decode_of(scene)->upright)
        stk__image_upright_size(&scene->info, &width, &height);
    *header = scene->pipeline->in;
    header->encoded = false;
    header->shape[0] = height;
    header->shape[1] = width;
    return STK_OK;
}

uint64_t stk__scene_scratch(const stk__pipeline *pipeline, const stk__group *group)
{
    const stk_transform_header *out = &pipeline->steps[group->first + group->count - 1].plan.out;
    const uint64_t row = (uint64_t)STK_MAX(out->shape[out->chw ? 2 : 1], 1) * 4 + STK_TAIL;

    return STK_MAX(stk__round_up(row, STK_CACHE_LINE), STK__PASS_SCRATCH);
}

/* ---- Rows ---- */

static stk_status decode_strip(rows *r)
{
    stk__decoding *decoding = r->scene->decoding;
    uint64_t start = stk__now_ns();
    stk_status status = stk__image_decoder_rows(decoding->decoder, 0, &r->strip, &r->scene->reason);

    decoding->times.decode_ns += stk__now_ns() - start;
    r->taken = 0;
    if (status == STK_EOS)
        return STK_EINTERNAL; /* more was asked for than was begun with */
    if (status == STK_OK)
        decoding->times.pixels += (uint64_t)r->strip.count * r->region.width;
    return status;
}

/* The largest scale at which the box is still as large as what becomes of it. */
static uint32_t choose_scale(const stk__scene *scene)
{
    const stk__resample *what = &scene->what;
    uint32_t scale = 1;

    if (!decode_of(scene)->dct_scaling || scene->info.format != STK__IMAGE_JPEG ||
        !scene->resamples || what->filter == STK__FILTER_NEAREST)
        return 1;
    while (scale < STK__IMAGE_MAX_SCALE && what->width >= 2 * (int64_t)scale * what->out_width &&
           what->height >= 2 * (int64_t)scale * what->out_height)
        scale *= 2;
    return scale;
}

/* What the resizer is to do at a scale, for a box as it is stored. */
static void resize_of(const stk__scene *scene, const stk__image_box *box, uint32_t scale,
                      uint32_t pixel_bytes, bool transposed, stk__resize *out)
{
    const double s = (double)scale;
    stk__resample what = scene->what;

    if (transposed) {
        what.out_width = scene->what.out_height;
        what.out_height = scene->what.out_width;
    }
    stk__resample_resize(&what, pixel_bytes, (scene->info.width + scale - 1) / scale,
                         (scene->info.height + scale - 1) / scale, out);
    out->left = (double)box->x / s;
    out->top = (double)box->y / s;
    out->right = (double)(box->x + box->width) / s;
    out->bottom = (double)(box->y + box->height) / s;
}

static stk_status begin_decode(rows *r, const stk__image_box *box, uint32_t scale)
{
    stk__scene *scene = r->scene;
    stk__decoding *decoding = scene->decoding;
    uint64_t start = stk__now_ns();
    stk_status status =
        stk__image_decoder_begin(decoding->decoder, scene->encoded.data, scene->encoded.size, box,
                                 scale, &r->region, &scene->reason);

    decoding->times.decode_ns += stk__now_ns() - start;
    return status;
}

/* Begin the picture without a resizer: the rows are those of the box. */
static stk_status begin_plain(rows *r, const stk__image_box *box)
{
    r->shift = 0;
    return begin_decode(r, box, 1);
}

/* Begin the picture for a resizer in `memory`. */
static stk_status begin_resized(rows *r, const stk__resize *resize, uint32_t scale, void *memory)
{
    const stk__image_info *info = &r->scene->info;
    uint32_t first_column, end_column;

    r->resizer = stk__resizer_init(r->scene->decoding->context, resize, memory);
    stk__resizer_wants(r->resizer, &r->first, &r->end, &first_column, &end_column);
    const stk__image_box box = {.x = first_column * scale,
                                .y = r->first * scale,
                                .width =
                                    STK_MIN(end_column * scale, info->width) - first_column * scale,
                                .height = STK_MIN(r->end * scale, info->height) - r->first * scale};
    STK_TRY(begin_decode(r, &box, scale));
    r->shift = (size_t)r->region.x * r->pixel_bytes;
    return STK_OK;
}

/* The next row: of the box, or of the resizer's result. */
static stk_status next_row(rows *r, const uint8_t **row)
{
    for (;;) {
        if (r->resizer && (*row = stk__resizer_pull(r->resizer)))
            return STK_OK;
        if (r->taken == r->strip.count)
            STK_TRY(decode_strip(r));
        const uint8_t *at = r->strip.data + r->taken * r->strip.stride;
        if (!r->resizer) {
            *row = at;
            r->taken++;
            return STK_OK;
        }
        /* Column 0 may lie before the strip; only the columns that were wanted are read. */
        at = (const uint8_t *)((uintptr_t)at - r->shift);
        uint32_t taken =
            stk__resizer_push(r->resizer, at, r->strip.stride, r->strip.count - r->taken);
        r->taken += taken;
        if (taken == 0 && !(*row = stk__resizer_pull(r->resizer)))
            return STK_EINTERNAL;
        if (taken == 0)
            return STK_OK;
    }
}

/* ---- Straight to its place ---- */

/* What of the resampled or decoded picture comes into the result. */
typedef struct window {
    int64_t x, y, width, height;
} window;

static window window_of(const stk__picture_path *path)
{
    window w = {.width = path->end_column - path->first_column,
                .height = path->end_row - path->first_row};

    w.x = path->flip ? path->column - path->end_column + 1 : path->column + path->first_column;
    w.y = path->flip_rows ? path->row - path->end_row + 1 : path->row + path->first_row;
    return w;
}

/* Write one row of the result: fill, pixels, fill; then values and layout. */
static void write_row(const stk__scene *scene, const uint8_t *pixels, int64_t y, void *dst)
{
    const stk__pass *pass = &scene->group->pass;
    const stk__picture_path *path = &scene->path;
    const size_t channels = (size_t)scene->pipeline->in.shape[2];
    const size_t width = (size_t)path->width, plane = width * (size_t)path->height;
    const bool direct = stk__pass_keeps_values(pass) && (!pass->out_chw || channels == 1);
    const size_t at = (size_t)y * width * (pass->out_chw ? 1 : channels) * pass->out_item;
    unsigned char *row = direct ? (unsigned char *)dst + at : scene->scratch;
    const size_t first = (size_t)path->first_column,
                 count = (size_t)(path->end_column - path->first_column);

    if (!pixels) {
        stk__fill_elements(row, width * channels, 1, path->fill);
    } else {
        stk__fill_elements(row, first * channels, 1, path->fill);
        if (channels == 3)
            pass->kernels->pack(pixels, row + 3 * first, count, path->flip);
        else if (path->flip)
            pass->kernels->reverse(pixels, row + first, count, 1);
        else
            memcpy(row + first, pixels, count);
        stk__fill_elements(row + (first + count) * channels, (width - first - count) * channels, 1,
                           path->fill);
    }
    if (!direct)
        stk__pass_convert(pass, row, (unsigned char *)dst + at, width, channels, width, plane);
}

static stk_status write_rows(rows *r, void *dst)
{
    const stk__picture_path *path = &r->scene->path;

    for (int64_t y = 0; y < path->height; y++)
        if (y < path->first_row || y >= path->end_row)
            write_row(r->scene, NULL, y, dst);
    for (int64_t i = path->first_row; i < path->end_row; i++) {
        const uint8_t *row;

        STK_TRY(next_row(r, &row));
        write_row(r->scene, row, path->flip_rows ? path->first_row + path->end_row - 1 - i : i,
                  dst);
    }
    return STK_OK;
}

/* Take decoder and memory, decode, give them back. */
static stk_status run_straight(stk__scene *scene, void *dst)
{
    rows r = {.scene = scene, .pixel_bytes = is_mask(scene) ? 1 : STK__DECODED_BYTES};
    const window w = window_of(&scene->path);
    stk__image_box box = {(uint32_t)w.x, (uint32_t)w.y, (uint32_t)w.width, (uint32_t)w.height};
    const uint32_t scale = choose_scale(scene);
    stk__resize resize;
    uint64_t bytes = 0;

    if (w.width <= 0 || w.height <= 0) { /* all of it is fill */
        for (int64_t y = 0; y < scene->path.height; y++)
            write_row(scene, NULL, y, dst);
        return STK_OK;
    }
    if (scene->resamples) {
        const stk__image_box whole = {(uint32_t)scene->what.left, (uint32_t)scene->what.top,
                                      (uint32_t)scene->what.width, (uint32_t)scene->what.height};

        resize_of(scene, &whole, scale, r.pixel_bytes, false, &resize);
        resize.x = box.x;
        resize.y = box.y;
        resize.width = box.width;
        resize.height = box.height;
        bytes = stk__resizer_bytes(&resize);
    }
    STK_TRY(stk__decoding_begin(scene->decoding, is_mask(scene), scene->info.memory, bytes,
                                &scene->reason));
    stk_status status = scene->resamples
                            ? begin_resized(&r, &resize, scale, scene->decoding->memory)
                            : begin_plain(&r, &box);
    if (status == STK_OK)
        status = write_rows(&r, dst);
    stk__decoding_end(scene->decoding);
    return status;
}

/* ---- Turned upright ---- */

/* Where the pixel (x, y) of a stored picture of width x height lies when it is turned upright [Exif
 * 2.32, 4.6.4, Orientation]. */
static size_t upright_place(uint32_t orientation, size_t x, size_t y, size_t width, size_t height)
{
    const size_t right = width - 1 - x, below = height - 1 - y;

    switch (orientation) {
    case 2:
        return y * width + right;
    case 3:
        return below * width + right;
    case 4:
        return below * width + x;
    case 5:
        return x * height + y;
    case 6:
        return x * height + below;
    case 7:
        return right * height + below;
    case 8:
        return right * height + y;
    default:
        return y * width + x;
    }
}

/* Put all rows into a picture of `channels` bytes a pixel, upright. */
static stk_status turn_rows(rows *r, size_t width, size_t height, size_t channels, uint8_t *out)
{
    for (size_t y = 0; y < height; y++) {
        const uint8_t *row;

        STK_TRY(next_row(r, &row));
        for (size_t x = 0; x < width; x++) {
            uint8_t *to =
                out + channels * upright_place(r->scene->info.orientation, x, y, width, height);

            for (size_t c = 0; c < channels; c++)
                to[c] = row[x * r->pixel_bytes + c];
        }
    }
    return STK_OK;
}

static stk_status run_turned(stk__scene *scene, void *dst)
{
    rows r = {.scene = scene, .pixel_bytes = is_mask(scene) ? 1 : STK__DECODED_BYTES};
    const bool transposed = scene->info.orientation >= 5;
    const size_t channels = (size_t)scene->pipeline->in.shape[2];
    const uint32_t scale = choose_scale(scene);
    stk_transform_header upright = scene->pipeline->in;
    stk__image_box asked = {0}, box;
    stk__resize resize;
    uint64_t picture, bytes = 0, all;

    stk__image_upright_size(&scene->info, &asked.width, &asked.height);
    if (scene->resamples)
        asked = (stk__image_box){(uint32_t)scene->what.left, (uint32_t)scene->what.top,
                                 (uint32_t)scene->what.width, (uint32_t)scene->what.height};
    stk__image_stored_box(&scene->info, &asked, &box);
    upright.encoded = false;
    upright.shape[0] = scene->resamples ? scene->what.out_height : asked.height;
    upright.shape[1] = scene->resamples ? scene->what.out_width : asked.width;
    if (scene->resamples) {
        resize_of(scene, &box, scale, r.pixel_bytes, transposed, &resize);
        bytes = stk__round_up(stk__resizer_bytes(&resize), STK_CACHE_LINE);
    }
    if (!stk__header_bytes(&upright, &picture) || picture > INT64_MAX / 2)
        return STK_ELIMIT;
    all = bytes + stk__round_up(picture + STK_TAIL, STK_CACHE_LINE);
    STK_TRY(stk__decoding_begin(scene->decoding, is_mask(scene), scene->info.memory, all,
                                &scene->reason));
    uint8_t *out = (uint8_t *)scene->decoding->memory + bytes;
    const size_t width = (size_t)upright.shape[transposed ? 0 : 1],
                 height = (size_t)upright.shape[transposed ? 1 : 0];
    stk_status status = scene->resamples
                            ? begin_resized(&r, &resize, scale, scene->decoding->memory)
                            : begin_plain(&r, &box);
    if (status == STK_OK)
        status = turn_rows(&r, width, height, channels, out);
    if (status == STK_OK)
        stk__pass_apply(&scene->group->pass, &upright, &scene->path, 1, &(const void *){out}, &dst,
                        scene->scratch);
    stk__decoding_end(scene->decoding);
    return status;
}

stk_status stk__scene_run(stk__scene *scene, void *dst)
{
    stk__decode_times *times = &scene->decoding->times;
    const uint64_t start = stk__now_ns(), before = times->decode_ns + scene->decoding->waited_ns;
    stk_status status = is_turned(scene) ? run_turned(scene, dst) : run_straight(scene, dst);

    times->rest_ns +=
        stk__now_ns() - start - (times->decode_ns + scene->decoding->waited_ns - before);
    times->pictures++;
    return status;
}
