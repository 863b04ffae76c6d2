/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of pictures, and the frames that crop, pad and flip lay over them. */
#include "transform/picture.h"

#include <math.h>
#include <stdio.h>

#include "transform/pipeline/pass.h"

static bool side_suits(int64_t side, int64_t max)
{
    return side == -1 || (side >= 1 && side <= max);
}

static stk_status refuse_picture(const stk_transform_header *header, const char *who,
                                 stk_error *err)
{
    char text[160];

    stk__header_text(header, text, sizeof text);
    if (!header->picture || header->rank != 3)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "%s: takes pictures [height, width, channels], not %s", who, text);
    if (stk_dtype_size(header->dtype) == 0 || stk_dtype_size(header->dtype) > 8)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRANSFORM, "%s: cannot move pixels of type %s",
                         who, stk_dtype_name(header->dtype));
    return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                     "%s: a picture %s is out of range: sides are 1..%lld, channels 1..%d", who,
                     text, (long long)STK__MAX_SIDE, STK__MAX_CHANNELS);
}

stk_status stk__picture_extent(const stk_transform_header *header, const char *who,
                               stk__extent *out, stk_error *err)
{
    const int64_t *shape = header->shape;
    size_t item = stk_dtype_size(header->dtype);

    if (header->chw)
        *out = (stk__extent){.height = shape[1], .width = shape[2], .channels = shape[0]};
    else
        *out = (stk__extent){.height = shape[0], .width = shape[1], .channels = shape[2]};
    if (!header->picture || header->encoded || header->rank != 3 || item == 0 || item > 8 ||
        !side_suits(out->height, STK__MAX_SIDE) || !side_suits(out->width, STK__MAX_SIDE) ||
        !side_suits(out->channels, STK__MAX_CHANNELS))
        return refuse_picture(header, who, err);
    return STK_OK;
}

void stk__picture_set_extent(stk_transform_header *header, const stk__extent *extent)
{
    header->shape[header->chw ? 1 : 0] = extent->height;
    header->shape[header->chw ? 2 : 1] = extent->width;
    header->shape[header->chw ? 0 : 2] = extent->channels;
}

bool stk__header_elements(const stk_transform_header *header, uint64_t *out)
{
    return header->rank <= STK_MAX_RANK && stk__shape_bytes(header->shape, header->rank, 1, out);
}

bool stk__header_bytes(const stk_transform_header *header, uint64_t *out)
{
    return header->rank <= STK_MAX_RANK &&
           stk__shape_bytes(header->shape, header->rank, stk_dtype_size(header->dtype), out);
}

bool stk__header_varies(const stk_transform_header *header)
{
    for (uint32_t i = 0; i < header->rank && i < STK_MAX_RANK; i++)
        if (header->shape[i] == -1)
            return true;
    return false;
}

bool stk__header_suits(const stk_transform_header *header, const stk_transform_header *declared)
{
    if (header->dtype != declared->dtype || header->rank != declared->rank ||
        header->picture != declared->picture || header->chw != declared->chw ||
        header->encoded != declared->encoded || header->mask != declared->mask)
        return false;
    for (uint32_t i = 0; i < header->rank && i < STK_MAX_RANK; i++)
        if (declared->shape[i] != -1 && header->shape[i] != declared->shape[i])
            return false;
    return true;
}

bool stk__header_same(const stk_transform_header *a, const stk_transform_header *b)
{
    return stk__header_suits(a, b) && stk__header_suits(b, a);
}

void stk__header_text(const stk_transform_header *header, char *text, size_t size)
{
    int at = snprintf(text, size, "%s[", stk_dtype_name(header->dtype));

    for (uint32_t i = 0; i < header->rank && i < STK_MAX_RANK && at >= 0 && (size_t)at < size; i++)
        at += snprintf(text + at, size - (size_t)at, "%s%lld", i ? ", " : "",
                       (long long)header->shape[i]);
    if (at >= 0 && (size_t)at < size)
        snprintf(text + at, size - (size_t)at, "]%s",
                 header->picture ? (header->chw ? " chw" : " hwc") : "");
}

/* ---- Frames ---- */

static void frame_to_plan(const stk__frame *frame, stk_transform_plan *plan)
{
    const int64_t params[] = {frame->top,  frame->left,      frame->height, frame->width,
                              frame->flip, frame->flip_rows, frame->fills,  (int64_t)frame->fill};

    memcpy(plan->params, params, sizeof params);
}

void stk__frame_of_plan(const stk_transform_plan *plan, stk__frame *out)
{
    const int64_t *p = plan->params;

    *out = (stk__frame){.top = p[0],
                        .left = p[1],
                        .height = p[2],
                        .width = p[3],
                        .flip = p[4] != 0,
                        .flip_rows = p[5] != 0,
                        .fills = p[6] != 0,
                        .fill = (uint64_t)p[7]};
}

stk_status stk__frame_plan(const char *who, const stk_transform_header *in,
                           const stk__extent *out_extent, const stk__frame *frame,
                           stk_transform_plan *out, stk_error *err)
{
    uint64_t bytes = 0;

    out->out = *in;
    stk__picture_set_extent(&out->out, out_extent);
    if (!stk__header_bytes(&out->out, &bytes) && !stk__header_varies(&out->out))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         "%s: a picture of %lld x %lld is too large", who,
                         (long long)out_extent->height, (long long)out_extent->width);
    out->scratch = 0;
    out->cost_ns = 50.0 + 0.25 * (double)bytes; /* a call, and about 4 bytes a nanosecond */
    frame_to_plan(frame, out);
    return STK_OK;
}

void stk__frame_apply(const stk_transform *transform, const stk_transform_header *in,
                      const stk_transform_plan *plan, size_t n, const void *const *src,
                      void *const *dst, void *scratch)
{
    stk__pass pass;
    stk__frame frame;
    stk__picture_path path;
    stk__extent extent;

    if (stk__picture_extent(in, transform->ops->name, &extent, NULL) != STK_OK)
        return; /* plan() has refused it */
    stk__pass_init(&pass, stk__kernels_of(transform->context), in);
    stk__frame_of_plan(plan, &frame);
    stk__path_init(&path, extent.height, extent.width);
    stk__path_add(&path, &frame);
    stk__pass_apply(&pass, in, &path, n, src, dst, scratch);
}

stk_status stk__fill_bits(double value, stk_dtype dtype, const char *who, uint64_t *out,
                          stk_error *err)
{
    *out = 0;
    if (dtype == STK_FLOAT32) {
        float x = (float)value;

        memcpy(out, &x, sizeof x);
    } else if (dtype == STK_UINT8) {
        if (!(value >= 0 && value <= 255) || floor(value) != value)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             "%s: fill %g is no value of uint8: give an integer of 0..255", who,
                             value);
        *out = (uint64_t)value;
    } else if (value != 0) {
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRANSFORM,
                         "%s: fill %g is for uint8 and float32 only, the picture is %s: leave it 0",
                         who, value, stk_dtype_name(dtype));
    }
    return STK_OK;
}

/* ---- Paths ---- */

void stk__path_init(stk__picture_path *path, int64_t height, int64_t width)
{
    *path = (stk__picture_path){
        .height = height, .width = width, .end_row = height, .end_column = width};
}

static int64_t clamp(int64_t value, int64_t max)
{
    return value < 0 ? 0 : value > max ? max : value;
}

/* One direction of stk__path_add(): the pixel `i` of the new frame, of `size` pixels from `start`
 * on, is pixel start + i, or start + size - 1 - i, of the result so far, whose pixel j comes from
 * origin + j or origin - j. */
static void add_side(int64_t start, int64_t size, bool mirror, int64_t *first, int64_t *end,
                     int64_t *origin, bool *flip)
{
    int64_t last = start + size - 1, from = *first - start, to = *end - start;

    if (mirror) {
        from = last - *end + 1;
        to = last - *first + 1;
        *origin += *flip ? -last : last;
        *flip = !*flip;
    } else {
        *origin += *flip ? -start : start;
    }
    *first = clamp(from, size);
    *end = clamp(to, size);
}

void stk__path_add(stk__picture_path *path, const stk__frame *frame)
{
    add_side(frame->top, frame->height, frame->flip_rows, &path->first_row, &path->end_row,
             &path->row, &path->flip_rows);
    add_side(frame->left, frame->width, frame->flip, &path->first_column, &path->end_column,
             &path->column, &path->flip);
    path->height = frame->height;
    path->width = frame->width;
    if (frame->fills)
        path->fill = frame->fill;
}

bool stk__path_is_identity(const stk__picture_path *path, int64_t height, int64_t width)
{
    return path->height == height && path->width == width && !path->flip && !path->flip_rows &&
           path->row == 0 && path->column == 0 && path->first_row == 0 && path->end_row == height &&
           path->first_column == 0 && path->end_column == width;
}
