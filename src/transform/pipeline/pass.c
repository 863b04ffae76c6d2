/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over a sample. Where no pixel moves, one kernel reads the source and writes the result.
 * Otherwise strips of moved pixels are gathered row by row into a small buffer and converted from
 * there, so that the result is still written once.
 */
#include "transform/pipeline/pass.h"

void stk__pass_init(stk__pass *pass, const stk__kernels *kernels, const stk_transform_header *in)
{
    static const stk__value copies[] = {
        [1] = STK__COPY1, [2] = STK__COPY2, [4] = STK__COPY4, [8] = STK__COPY8};
    uint32_t item = (uint32_t)stk_dtype_size(in->dtype);

    *pass = (stk__pass){.kernels = kernels,
                        .value = item < STK_COUNT(copies) ? copies[item] : STK__COPY1,
                        .dtype = in->dtype,
                        .item = item,
                        .out_item = item,
                        .picture = in->picture,
                        .chw = in->chw,
                        .out_chw = in->chw};
}

bool stk__pass_add_unit(stk__pass *pass)
{
    if (pass->dtype == STK_FLOAT32)
        return true; /* it is float already */
    if (pass->dtype != STK_UINT8)
        return false;
    pass->value = STK__UNIT;
    pass->dtype = STK_FLOAT32;
    pass->out_item = sizeof(float);
    return true;
}

bool stk__pass_add_affine(stk__pass *pass, const stk_transform_affine *of_u8,
                          const stk_transform_affine *of_f32)
{
    if (pass->affine)
        return false;
    if (pass->dtype == STK_UINT8) {
        pass->value = STK__AFFINE_U8;
        pass->affine = of_u8;
    } else if (pass->dtype == STK_FLOAT32) {
        pass->value = pass->value == STK__UNIT ? STK__UNIT_AFFINE : STK__AFFINE_F32;
        pass->affine = of_f32;
    } else {
        return false;
    }
    pass->dtype = STK_FLOAT32;
    pass->out_item = sizeof(float);
    return true;
}

bool stk__pass_keeps_values(const stk__pass *pass)
{
    return pass->value <= STK__COPY8;
}

/* The affine of one channel alone. */
static const stk_transform_affine *of_channel(const stk__pass *pass, size_t channel,
                                              stk_transform_affine *room)
{
    if (!pass->affine || pass->affine->count == 1)
        return pass->affine;
    *room = (stk_transform_affine){
        .count = 1, .scale = pass->affine->scale + channel, .shift = pass->affine->shift + channel};
    return room;
}

void stk__pass_convert(const stk__pass *pass, const void *from, void *to, size_t pixels,
                       size_t channels, size_t from_plane, size_t to_plane)
{
    const stk__kernels *k = pass->kernels;
    const char *src = from;
    char *dst = to;

    if (channels > 1 && !pass->chw && pass->out_chw) {
        k->convert[STK__PLANAR][pass->value](src, dst, pixels, (uint32_t)channels, to_plane,
                                             pass->affine);
        return;
    }
    if (channels > 1 && pass->chw && !pass->out_chw) {
        k->convert[STK__INTERLEAVED][pass->value](src, dst, pixels, (uint32_t)channels, from_plane,
                                                  pass->affine);
        return;
    }
    if (!pass->chw || (from_plane == pixels && to_plane == pixels &&
                       (!pass->affine || pass->affine->count == 1))) {
        if (stk__pass_keeps_values(pass))
            memcpy(dst, src, pixels * channels * pass->item);
        else
            k->convert[STK__FLAT][pass->value](src, dst, pixels, (uint32_t)channels, 0,
                                               pass->affine);
        return;
    }
    for (size_t c = 0; c < channels; c++) {
        stk_transform_affine room;

        k->convert[STK__FLAT][pass->value](src + c * from_plane * pass->item,
                                           dst + c * to_plane * pass->out_item, pixels, 1, 0,
                                           of_channel(pass, c, &room));
    }
}

void stk__fill_elements(void *dst, size_t elements, uint32_t item, uint64_t bits)
{
    char *to = dst;

    if (bits == 0 || item == 1) {
        memset(to, (int)(uint8_t)bits, elements * item);
        return;
    }
    for (size_t i = 0; i < elements; i++)
        memcpy(to + i * item, &bits, item); /* little endian: the low bytes are the element */
}

/* Columns [x, end) of row `y` of the result, for pixels of `unit` bytes that are `elements`
 * elements. */
static void gather_row(const stk__pass *pass, const stk__picture_path *path, const char *src,
                       size_t stride, int64_t y, int64_t x, int64_t end, size_t elements, char *dst)
{
    size_t unit = elements * pass->item;
    int64_t first = STK_MAX(x, path->first_column), last = STK_MIN(end, path->end_column);

    if (y < path->first_row || y >= path->end_row || first >= last) {
        stk__fill_elements(dst, (size_t)(end - x) * elements, pass->item, path->fill);
        return;
    }
    if (first > x)
        stk__fill_elements(dst, (size_t)(first - x) * elements, pass->item, path->fill);
    int64_t from = path->flip_rows ? path->row - y : path->row + y;
    const char *row = src + (size_t)from * stride * unit;
    char *to = dst + (size_t)(first - x) * unit;
    size_t count = (size_t)(last - first);
    if (path->flip)
        pass->kernels->reverse(row + (size_t)(path->column - last + 1) * unit, to, count, unit);
    else
        memcpy(to, row + (size_t)(path->column + first) * unit, count * unit);
    if (last < end)
        stk__fill_elements(to + count * unit, (size_t)(end - last) * elements, pass->item,
                           path->fill);
}

/* Pixels [first, first + count) of the result, counted row by row. `stride` is the width of the
 * source. */
static void gather(const stk__pass *pass, const stk__picture_path *path, const char *src,
                   size_t stride, size_t first, size_t count, size_t elements, char *dst)
{
    int64_t y = (int64_t)(first / (size_t)path->width), x = (int64_t)(first % (size_t)path->width);

    while (count) {
        int64_t end = x + STK_MIN(path->width - x, (int64_t)count);

        gather_row(pass, path, src, stride, y, x, end, elements, dst);
        dst += (size_t)(end - x) * elements * pass->item;
        count -= (size_t)(end - x);
        y++;
        x = 0;
    }
}

/* Pixels move and values or layout change: strip by strip. */
static void apply_strips(const stk__pass *pass, const stk__extent *in,
                         const stk__picture_path *path, const char *src, char *dst, char *scratch)
{
    size_t pixels = (size_t)path->height * (size_t)path->width, channels = (size_t)in->channels;
    size_t strip = STK__STRIP_BYTES / (channels * pass->item), stride = (size_t)in->width;

    for (size_t p = 0; p < pixels; p += strip) {
        size_t count = STK_MIN(strip, pixels - p);
        char *to = dst + p * pass->out_item * (pass->out_chw ? 1 : channels);

        if (pass->chw)
            for (size_t c = 0; c < channels; c++)
                gather(pass, path, src + c * (size_t)in->height * stride * pass->item, stride, p,
                       count, 1, scratch + c * count * pass->item);
        else
            gather(pass, path, src, stride, p, count, channels, scratch);
        stk__pass_convert(pass, scratch, to, count, channels, count, pixels);
    }
}

/* What a pass goes over: the same for all samples of one size. */
typedef struct area {
    stk__extent extent; /* of a picture */
    size_t pixels, channels;
    bool moves; /* pixels change places */
} area;

static area measure(const stk__pass *pass, const stk_transform_header *in,
                    const stk__picture_path *path)
{
    area a = {.extent = {1, 1, 1}, .channels = 1};
    uint64_t elements;

    if (!pass->picture) {
        a.pixels = stk__header_elements(in, &elements) ? elements : 0;
        return a;
    }
    if (stk__picture_extent(in, "", &a.extent, NULL) != STK_OK)
        return a; /* its plan has been refused */
    a.pixels = (size_t)a.extent.height * (size_t)a.extent.width;
    a.channels = (size_t)a.extent.channels;
    a.moves = path && !stk__path_is_identity(path, a.extent.height, a.extent.width);
    return a;
}

/* Where pixels move and stay as they are. */
static void gather_planes(const stk__pass *pass, const area *a, const stk__picture_path *path,
                          const char *src, char *dst)
{
    const size_t planes = pass->chw ? a->channels : 1,
                 plane = (size_t)path->height * (size_t)path->width;

    for (size_t c = 0; c < planes; c++)
        gather(pass, path, src + c * a->pixels * pass->item, (size_t)a->extent.width, 0, plane,
               a->channels / planes, dst + c * plane * pass->item);
}

void stk__pass_apply(const stk__pass *pass, const stk_transform_header *in,
                     const stk__picture_path *path, size_t n, const void *const *src,
                     void *const *dst, void *scratch)
{
    const area a = measure(pass, in, path);
    const bool gathers = stk__pass_keeps_values(pass) && pass->chw == pass->out_chw;
    const size_t bytes = a.pixels * a.channels * pass->item;

    for (size_t i = 0; i < n; i++) {
        stk__prefetch(src, n, i, bytes);
        if (!src[i])
            continue;
        if (!a.moves)
            stk__pass_convert(pass, src[i], dst[i], a.pixels, a.channels, a.pixels, a.pixels);
        else if (gathers)
            gather_planes(pass, &a, path, src[i], dst[i]);
        else
            apply_strips(pass, &a.extent, path, src[i], dst[i], scratch);
    }
}
