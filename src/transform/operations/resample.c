/* SPDX-License-Identifier: Apache-2.0 */
/* Resampling of pictures in memory, and how a plan says it. */
#include "transform/operations/resample.h"

stk__filter stk__filter_of_choice(int32_t choice)
{
    static const stk__filter filters[] = {STK__FILTER_BILINEAR, STK__FILTER_BICUBIC,
                                          STK__FILTER_AREA, STK__FILTER_NEAREST};

    return filters[choice];
}

void stk__resample_of_plan(const stk_transform_plan *plan, stk__resample *out)
{
    const int64_t *p = plan->params;

    *out = (stk__resample){.left = p[0],
                           .top = p[1],
                           .width = p[2],
                           .height = p[3],
                           .out_width = p[4],
                           .out_height = p[5],
                           .filter = (stk__filter)p[6]};
}

void stk__resample_resize(const stk__resample *what, uint32_t pixel_bytes, int64_t in_width,
                          int64_t in_height, stk__resize *out)
{
    *out = (stk__resize){.filter = what->filter,
                         .pixel_bytes = pixel_bytes,
                         .in_width = (uint32_t)in_width,
                         .in_height = (uint32_t)in_height,
                         .left = (double)what->left,
                         .top = (double)what->top,
                         .right = (double)(what->left + what->width),
                         .bottom = (double)(what->top + what->height),
                         .out_width = (uint32_t)what->out_width,
                         .out_height = (uint32_t)what->out_height,
                         .width = (uint32_t)what->out_width,
                         .height = (uint32_t)what->out_height};
}

static stk_status check_picture(const char *who, const stk_transform_header *in,
                                const stk__extent *extent, stk_error *err)
{
    char text[160];

    stk__header_text(in, text, sizeof text);
    if (in->dtype != STK_UINT8 || in->chw)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRANSFORM,
                         "%s: takes pictures of uint8 [height, width, channels], not %s: put it "
                         "before to_float, normalize and layout",
                         who, text);
    if (extent->channels < 1 || extent->channels > 4)
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRANSFORM,
                         "%s: takes pictures of 1 to 4 channels, not %s", who, text);
    if (extent->height > STK__MAX_RESIZED || extent->width > STK__MAX_RESIZED)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         "%s: the sides of %s are larger than %d", who, text, STK__MAX_RESIZED);
    return STK_OK;
}

stk_status stk__resample_plan(const char *who, const stk_transform_header *in,
                              const stk__resample *what, const stk__extent *out_extent,
                              stk_transform_plan *out, stk_error *err)
{
    stk__extent extent;
    stk__resize resize;

    STK_TRY(stk__picture_extent(in, who, &extent, err));
    STK_TRY(check_picture(who, in, &extent, err));
    *out = (stk_transform_plan){.out = *in};
    if (!what) {
        stk__picture_set_extent(&out->out, out_extent);
        return STK_OK;
    }
    const stk__resample taken = {.left = what->left,
                                 .top = what->top,
                                 .width = what->width,
                                 .height = what->height,
                                 .out_width = what->out_width,
                                 .out_height = what->out_height,
                                 .filter = in->mask ? STK__FILTER_NEAREST : what->filter};
    const int64_t params[] = {taken.left,      taken.top,        taken.width, taken.height,
                              taken.out_width, taken.out_height, taken.filter};
    memcpy(out->params, params, sizeof params);
    stk__resample_resize(&taken, (uint32_t)extent.channels, extent.width, extent.height, &resize);
    out->scratch = stk__resizer_bytes(&resize);
    if (out->scratch == UINT64_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRANSFORM,
                         "%s: %lld x %lld pixels cannot become %lld x %lld", who,
                         (long long)taken.height, (long long)taken.width,
                         (long long)taken.out_height, (long long)taken.out_width);
    extent.height = taken.out_height;
    extent.width = taken.out_width;
    stk__picture_set_extent(&out->out, &extent);
    out->cost_ns = 1000.0 + 0.25 * (double)(taken.width * taken.height) +
                   0.5 * (double)(taken.out_width * taken.out_height);
    return STK_OK;
}

void stk__resample_apply(const stk_transform *transform, const stk_transform_header *in,
                         const stk_transform_plan *plan, size_t n, const void *const *src,
                         void *const *dst, void *scratch)
{
    const size_t channels = (size_t)in->shape[2], stride = (size_t)in->shape[1] * channels;
    stk__resample what;
    stk__resize resize;

    stk__resample_of_plan(plan, &what);
    stk__resample_resize(&what, (uint32_t)channels, in->shape[1], in->shape[0], &resize);
    const size_t out_stride = (size_t)what.out_width * channels;
    for (size_t i = 0; i < n; i++) {
        stk__resizer *resizer = stk__resizer_init(transform->context, &resize, scratch);
        uint32_t at, end, columns[2];
        char *to = dst[i];

        stk__resizer_wants(resizer, &at, &end, &columns[0], &columns[1]);
        for (int64_t y = 0; y < what.out_height; y++) {
            const uint8_t *row;

            while (!(row = stk__resizer_pull(resizer)))
                at += stk__resizer_push(resizer, (const uint8_t *)src[i] + at * stride, stride,
                                        end - at);
            memcpy(to, row, out_stride);
            to += out_stride;
        }
    }
}
