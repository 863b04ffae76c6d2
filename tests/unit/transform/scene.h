/* A picture by a scene, and by the ordinary pipeline from all its pixels in memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRANSFORM_SCENE_H
#define STK_TESTS_UNIT_TRANSFORM_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "transform/pipeline/decode.h"
#include "transform/pipeline/decoding.h"

/* A picture as it lies in a file, and all its pixels: three bytes each, of a mask one. */
typedef struct picture {
    char name[300];
    unsigned char *file;
    size_t size;
    bool mask;
    uint32_t width, height;
    unsigned char *pixels;
} picture;

static inline size_t pixel_bytes(const picture *p)
{
    return p->mask ? 1 : 3;
}

/* Decode all at full size. */
static inline void fill_pixels(stk_context *ctx, picture *p)
{
    stk__image_decoder *decoder = NULL;
    stk__image_region region;
    stk__image_rows rows;
    const char *reason = NULL;
    stk_error err;
    const uint32_t bytes = (uint32_t)pixel_bytes(p);

    assert_ok(stk__image_decoder_create(ctx, NULL, bytes, &decoder, &err), &err);
    if (stk__image_decoder_begin(decoder, p->file, p->size, NULL, 1, &region, &reason) != STK_OK)
        fail_msg("%s: %s", p->name, reason);
    p->width = region.width;
    p->height = region.height;
    const size_t row = (size_t)p->width * bytes;
    p->pixels = malloc(row * p->height + STK_TAIL);
    assert_non_null(p->pixels);
    for (uint32_t y = 0; y < p->height; y += rows.count) {
        assert_int_equal(stk__image_decoder_rows(decoder, 0, &rows, &reason), STK_OK);
        for (uint32_t i = 0; i < rows.count; i++)
            memcpy(p->pixels + (y + i) * row, rows.data + i * rows.stride, row);
    }
    stk__image_decoder_destroy(&decoder);
}

static inline void unload(picture *p)
{
    free(p->file);
    free(p->pixels);
}

/* ---- The two ways ---- */

/* What came out; the bytes are the caller's. */
typedef struct result {
    stk_status status;
    uint64_t bytes, pixels_decoded;
    void *data;
} result;

static inline void *room_for(const stk__pipeline *pipeline, result *r)
{
    stk_transform_header out;

    stk__pipeline_header(pipeline, &out);
    assert_true(stk__header_bytes(&out, &r->bytes));
    r->data = calloc(1, r->bytes);
    void *scratch = aligned_alloc(64, stk__round_up(stk__pipeline_scratch(pipeline), 64) + 64);
    assert_non_null(r->data);
    assert_non_null(scratch);
    return scratch;
}

/* From the file, by a scene. */
static inline result by_scene(stk_context *ctx, const char *text, const picture *p,
                              uint64_t position)
{
    const stk_transform_header in = {.dtype = STK_UINT8,
                                     .rank = 3,
                                     .shape = {-1, -1, (int64_t)pixel_bytes(p)},
                                     .picture = true,
                                     .encoded = true,
                                     .mask = p->mask};
    const stk_slice slice = {.data = p->file, .size = p->size};
    const uint64_t epoch = 3;
    const char *reason = NULL;
    uint64_t wanted = 0;
    stk__pipeline *pipeline = NULL;
    stk__decoding *decoding = NULL;
    stk__decode_room room;
    result r = {0};
    stk_error err;

    assert_ok(stk__pipeline_create(ctx, text, &in, &pipeline, &err), &err);
    void *scratch = room_for(pipeline, &r);
    assert_int_equal(stk__decode_room_init(&room, 1 << 20, 256 << 20), STK_OK);
    assert_int_equal(stk__decoding_create(ctx, &room, &decoding), STK_OK);
    stk__pipeline_decode(pipeline, 11, 1, &epoch, &position, &slice, &r.data, &r.status, &reason,
                         &wanted, scratch, decoding);
    r.pixels_decoded = stk__decoding_times(decoding)->pixels;
    stk__decoding_destroy(&decoding);
    stk__decode_room_release(&room);
    stk__pipeline_destroy(&pipeline);
    free(scratch);
    return r;
}

/* From pixels in memory, by the ordinary pipeline. */
static inline result in_memory(stk_context *ctx, const char *text, const picture *p,
                               uint64_t position)
{
    const stk_transform_header in = {.dtype = STK_UINT8,
                                     .rank = 3,
                                     .shape = {p->height, p->width, (int64_t)pixel_bytes(p)},
                                     .picture = true,
                                     .mask = p->mask};
    const uint64_t epoch = 3;
    const void *src = p->pixels;
    stk__pipeline *pipeline = NULL;
    result r = {0};
    stk_error err;

    assert_ok(stk__pipeline_create(ctx, text, &in, &pipeline, &err), &err);
    void *scratch = room_for(pipeline, &r);
    stk__pipeline_run(pipeline, 11, 1, &epoch, &position, NULL, &src, &r.data, &r.status, scratch);
    stk__pipeline_destroy(&pipeline);
    free(scratch);
    return r;
}

static inline void check_same(const picture *p, const char *text, uint64_t position,
                              const result *got, const result *want)
{
    const unsigned char *a = got->data, *b = want->data;

    if (got->status != want->status)
        fail_msg("%s, %s, position %d: %s instead of %s", p->name, text, (int)position,
                 stk_status_name(got->status), stk_status_name(want->status));
    assert_int_equal(got->bytes, want->bytes);
    for (uint64_t i = 0; i < want->bytes; i++)
        if (a[i] != b[i])
            fail_msg("%s, %s, position %d: byte %d of %d is %d, in memory %d", p->name, text,
                     (int)position, (int)i, (int)want->bytes, a[i], b[i]);
}

/* Both ways, from `decode` on and from the pixels on. */
static inline void check_both(stk_context *ctx, const picture *p, const char *decode,
                              const char *text, uint64_t position)
{
    char whole[400];

    snprintf(whole, sizeof whole, "%s, %s", decode, text);
    result got = by_scene(ctx, whole, p, position), want = in_memory(ctx, text, p, position);
    check_same(p, whole, position, &got, &want);
    free(got.data);
    free(want.data);
}

#endif
